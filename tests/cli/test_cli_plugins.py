"""Formats and machines are entry points: those of other packages, and those of an installation that is too old."""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import numpy as np
import pytest

import tosaic as api
from tosaic.boards.catalogue import get_board
from tosaic.boards.machines import machine_of

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "plugins.md").read_text()


def program(language):
    (found,) = re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.S)
    return found


@pytest.fixture
def acme(here, monkeypatch):
    """A function acme({group: {name: value}}) that installs the package of docs/plugins.md with these entry points."""
    (here / "acme_formats").mkdir()
    (here / "acme_formats" / "dense.py").write_text(program("python"))

    def install(points):
        folder = here / "acme_formats-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-formats\nVersion: 1.0\n")
        lines = [
            line
            for group, named in points.items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in named.items()))
        ]
        (folder / "entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(here)
        for name in ("acme_formats", "acme_formats.dense"):
            monkeypatch.delitem(sys.modules, name, raising=False)

    return install


def documented():
    """The entry points of the page's pyproject.toml."""
    return tomllib.loads(program("toml"))["project"]["entry-points"]


def write_dense(path, *kinds):
    path.write_text(
        json.dumps({"layers": [{"kind": kind, "weights": [[1.0, -2.0], [3.0, 0.5]]} for kind in kinds]})
    )


def test_a_format_of_another_package(tosaic, here, acme):
    acme(documented())
    write_dense(here / "net.dense", "dense")
    outcome = tosaic("check", "net.dense")
    assert (outcome.code, outcome.err) == (0, "")
    assert "composite         dense layer 0 MATMUL, CLAMP\n" in outcome.out
    assert tosaic("import", "net.dense", "-o", "net.tosa").code == 0
    x = np.array([[1.0, 2.0]], np.float32)
    for model in ("net.dense", "net.tosa"):
        (y,) = api.run(model, {"x": x}, target="golden").values()
        assert y.tolist() == [[7.0, 0.0]]
    np.savez("calib.npz", x=x[None])
    assert tosaic("quantize", "net.dense", "-c", "calib.npz", "-o", "int8.tosa").code == 0
    assert tosaic("run", "int8.tosa", "--random", "1", "--on", "emulator", "--check").code == 0


def test_shapes_and_values_of_another_packages_format(here, acme):
    acme(documented())
    write_dense(here / "net.dense", "dense")
    session = api.Session("net.dense", target="golden", shapes={"x": [3, 2]})
    assert session.inputs[0].shape == (3, 2)
    session = api.Session("net.dense", target="golden", values={"x": [1.0, 2.0]})
    assert session.inputs == []
    assert next(iter(session.run({}).values())).tolist() == [[7.0, 0.0]]


def test_what_another_packages_format_refuses(tosaic, refused, here, acme):
    acme(documented())
    write_dense(here / "net.dense", "dense", "magic", "dense")
    said = "layer 1 is of kind 'magic', which has no TOSA form: use dense layers"
    assert refused("import", "net.dense", "-o", "net.tosa") == f"net.dense: {said}"
    outcome = tosaic("check", "net.dense")
    assert outcome.code == 1
    assert outcome.out.splitlines()[0] == "no: 1 of 3 operators of net.dense have no form in TOSA"
    (here / "net.dense").write_text("no JSON")
    assert refused("run", "net.dense", "--random", "1").startswith(
        "net.dense: cannot be read (JSONDecodeError: "
    )


def test_a_format_that_is_known_by_a_file_in_its_folder(tosaic, here, acme):
    (here / "acme_formats" / "folder.py").write_text(
        "from acme_formats.dense import Format, read_dense\n"
        "FOLDER = Format(lambda path, sizes, survey: read_dense(path / 'graph.dense', sizes, survey), folders=True)\n"
    )
    acme(
        {
            "tosaic.formats": {
                "graph.dense": "acme_formats.folder:FOLDER",
                ".dense": "acme_formats.dense:DENSE",
            }
        }
    )
    (here / "net").mkdir()
    write_dense(here / "net" / "graph.dense", "dense")
    assert tosaic("import", "net", "-o", "net.tosa").code == 0
    (here / "net.dense").mkdir()
    outcome = tosaic("import", "net.dense", "-o", "net.tosa")
    assert outcome.err == ("tosaic: error: net.dense: cannot be read: it is a directory; give a model file\n")


def test_integers_of_another_packages_format(here, acme):
    (here / "acme_formats" / "integers.py").write_text(
        "from tosaic.compiler.ir import DType, GraphBuilder\n"
        "from tosaic.compiler.quantizer import Encoding\n"
        "def integers(path, bound):\n"
        "    build = GraphBuilder('net')\n"
        "    x = build.input('x', (1, 2), DType.INT8)\n"
        "    build.output(build.add('IDENTITY', [x]))\n"
        "    graph = build.finish()\n"
        "    step = Encoding(DType.INT8, 0.5, 0)\n"
        "    return graph, {'x': step, graph.outputs[0]: step}\n"
    )
    acme(documented() | {"tosaic.integer_formats": {".dense": "acme_formats.integers:integers"}})
    write_dense(here / "net.dense", "dense")
    session = api.Session("net.dense", target="emulator", config="nano")
    assert session.inputs[0].encoding.scale == 0.5
    assert next(iter(session.run({"x": np.array([[1, 2]], np.int8)}).values())).tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("acme_formats.dense:NONE", "AttributeError: module 'acme_formats.dense' has no attribute 'NONE'"),
        ("acme_none:DENSE", "ModuleNotFoundError: No module named 'acme_none'"),
        (
            "acme_formats.dense:read_dense",
            "TypeError: it is no tosaic.compiler.importers.formats.Format",
        ),
    ],
)
def test_a_format_that_cannot_be_used(refused, tosaic, here, acme, value, said):
    acme({"tosaic.formats": {".dense": value}})
    write_dense(here / "net.dense", "dense")
    assert refused("check", "net.dense") == (
        "entry point .dense of acme-formats in the group tosaic.formats cannot be used: "
        f"{said}; update or uninstall that package"
    )
    assert tosaic("check", "tiny.tosa").code == 0


def test_a_format_whose_suffix_is_taken(tosaic, here, acme):
    acme({"tosaic.formats": {".onnx": "acme_formats.dense:DENSE"}})
    (here / "net.onnx").write_bytes(b"")
    outcome = tosaic("check", "net.onnx")
    warning, error = outcome.err.splitlines()
    assert warning == (
        "tosaic: warning: entry point .onnx of acme-formats in the group tosaic.formats: there is an entry point .onnx "
        "of tosaic in the group tosaic.formats already; it is left out"
    )
    assert (outcome.code, error[:23]) == (1, "tosaic: error: net.onnx")


def test_a_suffix_that_nobody_knows_tells_of_other_packages(refused, here, acme):
    acme(documented())
    (here / "m.xyz").write_bytes(bytes(100))
    assert ", .dense, " in refused("check", "m.xyz")


def test_a_machine_of_another_package(here, acme):
    (here / "acme_formats" / "machine.py").write_text(
        "from tosaic.boards.machines import Machine\n"
        "MACHINE = Machine(lambda board, pins: board.name, lambda board: {'m': 'module m;'}, lambda board: ('1.0',))\n"
    )
    acme({"tosaic.machines": {"acme": "acme_formats.machine:MACHINE"}})
    board = dataclasses.replace(get_board("icebreaker"), machine="acme")
    machine = machine_of(board)
    assert (machine.top(board, None), machine.sources(board), machine.versions(board)) == (
        "icebreaker",
        {"m": "module m;"},
        ("1.0",),
    )
    with pytest.raises(
        ValueError, match="^icebreaker: there is no machine 'none'; there are array, micro-coded"
    ):
        machine_of(dataclasses.replace(board, machine="none"))


def test_every_entry_point_of_the_package_is_installed_and_loads():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    for group in ("tosaic.formats", "tosaic.integer_formats", "tosaic.machines"):
        found = {point.name: point for point in importlib.metadata.entry_points(group=group)}
        assert {name: found[name].value for name in wanted[group]} == wanted[group]
        for name in wanted[group]:
            assert found[name].load() is not None


def test_an_installation_that_is_older_than_the_code(here):
    """Its metadata lists no formats: the message says how to install again, and what needs none still works."""
    (here / "old" / "tosaic-0.2.0.dist-info").mkdir(parents=True)
    (here / "old" / "tosaic-0.2.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tosaic\nVersion: 0.2.0\n"
    )
    (here / "net.onnx").write_bytes(b"")
    path = os.pathsep.join((str(here / "old"), str(ROOT)))
    command = [sys.executable, "-m", "tosaic", "check"]
    done = subprocess.run(
        [*command, "net.onnx"], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (
        1,
        "tosaic: error: Tosaic's installation is older than its code: it lists nothing in the group tosaic.formats; "
        f"install it again: pip install --force-reinstall --no-deps {ROOT}\n",
    )
    done = subprocess.run([*command, "tiny.tosa"], env=os.environ | {"PYTHONPATH": path}, capture_output=True)
    assert done.returncode == 0
