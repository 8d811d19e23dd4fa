"""Files of torch.export.save that hold code: none is run, and what is refused is refused in one line."""

import io
import json
import os
import pathlib
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from shared_files import ABSENT, SHARED

from tosaic import Session
from tosaic.driver.evaluate import evaluate
from tosaic.errors import Error

CASES = SHARED / "cases/files"
MARK = "PWNED"
CODE = f"__import__('os').mkdir({MARK!r})"
"""Python code that leaves a folder in the current one."""


class Marker:
    """Unpickled, it leaves a folder."""

    def __reduce__(self):
        return os.mkdir, (MARK,)


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """The members of a good file, without their folder."""
    path = tmp_path_factory.mktemp("good") / "net.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(4, 3), (torch.zeros(1, 4),)), path)
    with zipfile.ZipFile(path) as archive:
        return {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}


def write(name, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(name, "w", compression) as archive:
        for member, data in members.items():
            archive.writestr(f"net/{member}", data)


def saved(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def edit(member):
    """Makes a change of a member's JSON a change of the members."""

    def of(change):
        def changed(members):
            tree = json.loads(members[member])
            change(tree)
            return members | {member: json.dumps(tree).encode()}

        return changed

    return of


WEIGHTS, CONSTANTS = "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"
KINDS = {}


def kind(message, member="models/model.json"):
    """Registers a change of a member's tree of JSON with the message that refuses it."""

    def register(change):
        KINDS[change.__name__] = (message, edit(member)(change))
        return change

    return register


def graph(tree):
    return tree["graph_module"]["graph"]


@kind("weight '[^']*' is a Python object, which may run code", WEIGHTS)
def pickled_weight(tree):
    next(iter(tree["config"].values()))["use_pickle"] = True


@kind("constant 'x' is a Python object, which may run code", CONSTANTS)
def opaque_constant(tree):
    tree["config"]["x"] = {
        "path_name": "opaque_obj_0",
        "is_param": False,
        "use_pickle": True,
        "tensor_meta": None,
    }


@kind(r"a size of the program is the expression .*PWNED.*which is more than arithmetic")
def expression_of_code(tree):
    first = next(iter(graph(tree)["tensor_values"].values()))
    first["sizes"][0] = {"as_expr": {"expr_str": CODE, "hint": None}}


@kind(r"a size of the program is the expression \"Symbol\('s0', integer=__import__")
def expression_of_a_symbol_with_code(tree):
    text = f"Symbol('s0', integer={CODE})"
    graph(tree)["sym_int_values"]["n"] = {"as_expr": {"expr_str": text, "hint": None}}


@kind(r"a size of the program is the expression '9\*\*9\*\*9\*\*9'")
def expression_without_end(tree):
    graph(tree)["sym_int_values"]["n"] = {"as_expr": {"expr_str": "9**9**9**9", "hint": None}}


@kind("the program has the name .*PWNED.* which is no identifier")
def code_as_a_node(tree):
    for node in graph(tree)["nodes"][:1]:
        node["name"] = node["outputs"][0]["as_tensor"]["name"] = f"x = {CODE}; y"


@kind("the program has the name .*PWNED.* which is no identifier")
def code_as_an_argument(tree):
    tree["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = [f"x={CODE}"]


@kind("calls 'torch.os.mkdir', which is not an operator of PyTorch that computes tensors only")
def function_of_a_module(tree):
    graph(tree)["nodes"][0] |= {
        "target": "torch.os.mkdir",
        "inputs": [{"name": "", "arg": {"as_string": MARK}, "kind": 1}],
    }


@kind("calls 'torch.ops.load_library', which is not an operator")
def loads_a_library(tree):
    graph(tree)["nodes"][0]["target"] = "torch.ops.load_library"


@kind(
    "calls 'torch.ops.aten.from_file.default', which is not an operator of PyTorch that computes tensors only"
)
def reads_a_file(tree):
    graph(tree)["nodes"][0]["target"] = "torch.ops.aten.from_file.default"


@kind("takes or returns a structure of type 'collections.defaultdict'; use tuples and dictionaries")
def structure_of_an_imported_class(tree):
    context = {
        "default_factory_module": "pwned_module",
        "default_factory_name": "x",
        "dict_context": [],
    }
    spec = [1, {"type": "collections.defaultdict", "context": context, "children_spec": []}]
    tree["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = json.dumps(spec)


@kind("takes or returns a structure of type 'builtins.dict'")
def key_of_an_imported_enumeration(tree):
    context = json.dumps([{"__enum__": True, "fqn": "pwned_module:x", "name": "x"}])
    spec = [1, {"type": "builtins.dict", "context": context, "children_spec": []}]
    tree["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = json.dumps(spec)


@kind("the program holds an object of class 'a.B'")
def custom_object(tree):
    graph(tree)["custom_obj_values"]["x"] = {"name": "x", "class_fqn": "a.B"}


@kind(r"of sizes \[1099511627776\] takes 4398046511104 bytes, its member has \d+", WEIGHTS)
def weight_of_four_tebibytes(tree):
    meta = next(iter(tree["config"].values()))["tensor_meta"]
    meta["sizes"], meta["strides"] = [{"as_int": 1 << 40}], [{"as_int": 0}]


KINDS["pickle_of_old_weights"] = (
    "member 'net/data/weights/model.pt' is a pickle, which may run code",
    lambda members: members | {"data/weights/model.pt": saved(Marker())},
)
KINDS["opaque_member"] = (
    "member 'net/data/constants/opaque_obj_0' is a Python object, which may run code",
    lambda members: members | {"data/constants/opaque_obj_0": pickle.dumps(Marker())},
)
KINDS["compiled_code"] = (
    "member 'net/data/aotinductor/model/a.so' is not one that torch.export.save writes",
    lambda members: members | {"data/aotinductor/model/a.so": b"\x7fELF"},
)


@pytest.mark.parametrize("name", KINDS)
def test_code_is_refused_by_name(name, members, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    pathlib.Path("pwned_module.py").write_text(CODE)
    message, change = KINDS[name]
    write("net.pt2", change(dict(members)))
    with pytest.raises(Error, match=rf"net\.pt2: .*{message}") as refused:
        Session("net.pt2", "golden")
    assert "\n" not in str(refused.value)
    assert not pathlib.Path(MARK).exists()


def test_inputs_notes_and_guards_are_left_out(members, tmp_path, monkeypatch):
    """What a program does not need to run is never read, so the file opens; PyTorch writes code of guards."""
    monkeypatch.chdir(tmp_path)
    tree = json.loads(members["models/model.json"])
    tree["guards_code"] = [CODE]
    tree["range_constraints"] = {"u99999999999": {"min_val": 0, "max_val": 9}}  # it counts up to the number
    for node in graph(tree)["nodes"]:
        node["metadata"]["custom"] = node["metadata"]["source_fn_stack"] = "{[" + CODE
    hostile = {"models/model.json": json.dumps(tree).encode(), "data/sample_inputs/model.pt": saved(Marker())}
    write("net.pt2", members | hostile)
    samples = np.random.default_rng(1).normal(size=(16, 1, 4)).astype(np.float32)
    found = evaluate("net.pt2", {"input": samples}, against="net.pt2", target="golden")
    assert (found.samples, found.outputs[0].sqnr_db > 100) == (16, True)
    assert not pathlib.Path(MARK).exists()


def test_open_dimensions_are_told_as_before(tmp_path):
    """Sizes of symbols are arithmetic: what PyTorch writes for open dimensions is read, and told by the input."""
    shapes = ({0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO},)
    module = torch.nn.Conv2d(1, 2, 3, stride=2)
    program = torch.export.export(module, (torch.zeros(2, 1, 9, 9),), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "net.pt2")
    with pytest.raises(
        Error, match=r"input 'input' has open dimensions \[.*\]; export without dynamic_shapes"
    ):
        Session(tmp_path / "net.pt2", "golden")


def test_a_small_file_of_large_weights(members, tmp_path):
    """A few kilobytes that unpack to 1.5 GB are refused before they are unpacked."""
    code = f"""
import pathlib, resource, sys
import tosaic
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
from tosaic.errors import Error
from tosaic.compiler.importers.torch_models.packages import load_torch
load_torch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    tosaic.Session({str(tmp_path / "net.pt2")!r}, "golden")
except Error as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
    with zipfile.ZipFile(tmp_path / "net.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(f"net/{member}", data)
        with archive.open("net/data/weights/weight_99", "w", force_zip64=True) as large:
            for _ in range(96):
                large.write(bytes(16 << 20))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said, grown_mib = done.stdout.splitlines()
    assert "its members take 1536 MiB, of which the file of" in said
    assert int(grown_mib) <= 256


def test_damage_is_told_in_one_line(members, tmp_path):
    """The line has nothing of PyTorch's own machinery, from which a user learns nothing: no address, no place in its
    sources."""
    path = tmp_path / "net.pt2"
    for member in ("archive_format", "archive_version", "models/model.json", WEIGHTS):
        for changed in ({}, {member: members[member][:-1]}, {member: b"{}"}):
            write(path, {name: data for name, data in members.items() if name != member} | changed)
            with pytest.raises(Error, match=r"net\.pt2: ") as refused:
                Session(path, "golden")
            assert not any(word in str(refused.value) for word in ("\n", "0x", ".cc", "frame #", "Traceback"))


def test_the_cases_that_ran_their_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("weights.pt2", "opaque.pt2"):
        if not (CASES / name).exists():
            pytest.skip(ABSENT)
        with pytest.raises(Error, match="is a Python object, which may run code"):
            Session(CASES / name, "golden")
    assert not list(tmp_path.iterdir())
