"""Files beside the model that are damaged: whatever is in them, one line that names the file and exit code 1."""

import json
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from shared_files import ABSENT, SHARED

from tosaic.errors import Error, InputError, ModelError, reading

CASES = SHARED / "cases/files"


def npy(header: bytes, data: bytes = bytes(64)) -> bytes:
    """An .npy file of version 1.0 with any header."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


HEADERS = {
    "open bracket": b"{'descr': '|i1', 'fortran_order': False, 'shape': (1, 8, 8, 1, \n",
    "open string": b"{'descr': '|i1', 'fortran_order': False, 'shape': '(1, }\n",
    "brackets without end": b"(" * 9000,
    "signs without end": b"-" * 9000 + b"1",
    "a shape of reals": b"{'descr': '|i1', 'fortran_order': False, 'shape': (1.5, 2)}",
    "a large shape": b"{'descr': '|i1', 'fortran_order': False, 'shape': (" + b"9" * 40 + b",)}",
    "a shape that wraps": b"{'descr': '|i1', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
    "objects": b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
    "no text": b"\xff\xfe\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("name", HEADERS)
def test_an_array(refused, here, name):
    (here / "bad.npy").write_bytes(npy(HEADERS[name]))
    assert refused("run", "tiny.tosa", "-i", "image=bad.npy", "--on", "golden") == (
        "input 'image': bad.npy is not a whole .npy file of numbers: write it with numpy.save"
    )


@pytest.mark.parametrize("name", HEADERS)
def test_an_archive_of_arrays(refused, here, name):
    with zipfile.ZipFile("bad.npz", "w") as archive:
        archive.writestr("image.npy", npy(HEADERS[name]))
    assert refused("evaluate", "tiny.tosa", "--data", "bad.npz").startswith("bad.npz: cannot be read as ")
    assert refused("nnr", "encode", "bad.npz", "-o", "x.nnr").startswith("cannot read bad.npz: ")


@pytest.mark.parametrize("command", [("nnr", "encode"), ("evaluate", "tiny.tosa", "--data")])
def test_a_member_that_is_no_array(refused, here, command):
    with zipfile.ZipFile("bad.npz", "w") as archive:
        archive.writestr("image", b"text")
    more = ("-o", "x.nnr") if command[0] == "nnr" else ()
    assert "bad.npz" in refused(*command, "bad.npz", *more)
    assert "its member 'image' is no array" in refused(*command, "bad.npz", *more)


@pytest.mark.parametrize(
    "text", ["rows = " + "[" * 20_000, "rows = " + "{a=" * 5000, "a." * 20_000 + "b = 1", "rows = nan"]
)
def test_a_configuration(refused, here, text):
    (here / "c.toml").write_text(text)
    assert refused("compile", "tiny.tosa", "--config", "c.toml", "-o", "x.tsc").startswith("c.toml")


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"zero_point": float("inf")}, "the zero point inf is no number of int8"),
        ({"zero_point": float("nan")}, "the zero point nan is no number of int8"),
        ({"zero_point": 128}, "the zero point 128 is no number of int8"),
        ({"zero_point": "3"}, "the zero point '3' is no number of int8"),
        ({"zero_point": 0.5}, "the zero point 0.5 is no number of int8"),
        ({"scale": float("inf")}, "the scale inf is no positive number"),
        ({"scale": float("nan")}, "the scale nan is no positive number"),
        ({"scale": 0}, "the scale 0 is no positive number"),
        ({"scale": -0.5}, "the scale -0.5 is no positive number"),
        ({"scale": True}, "the scale True is no positive number"),
        ({"scale": "0.5"}, "the scale '0.5' is no positive number"),
        ({"dtype": "fp32"}, "fp32 is not a type of activations"),
        ({"dtype": "int9"}, "KeyError: 'INT9'"),
    ],
)
def test_encodings(refused, here, changed, said):
    image = {"dtype": "int8", "scale": 0.5, "zero_point": 0} | changed
    (here / "tiny.quant.json").write_text(json.dumps({"inputs": {"image": image}, "outputs": {}}))
    line = refused("run", "tiny.tosa", "--random", "1", "--on", "golden")
    assert line.startswith("tiny.quant.json: is no file of encodings (") and said in line
    assert line.endswith("); write it again by tosaic quantize")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"inputs": [], "outputs": {}}', '{"inputs": {"image": 3}}', "3"]
)
def test_other_files_of_encodings(refused, here, text):
    (here / "tiny.quant.json").write_text(text)
    line = refused("run", "tiny.tosa", "--random", "1", "--on", "golden")
    assert line.startswith("tiny.quant.json: is no file of encodings (")


@pytest.fixture
def stats(tosaic, here):
    """The statistics of a run."""
    done = tosaic(
        "run", "tiny.tosa", "--random", "1", "--on", "emulator", "--config", "nano", "--stats", "s.json"
    )
    assert done.code == 0
    return json.loads((here / "s.json").read_text())


def leaves(tree, path=()):
    """The paths of all numbers."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield (*path, key)


def test_statistics(tosaic, here, stats):
    """Every number that a page shows, replaced by each of these: a page, or a line that names the place."""
    for path in leaves(stats):
        for value in ("7", -1, [], {}, None, 1e400, float("nan"), 1 << 70):
            changed = json.loads(json.dumps(stats))
            place = changed
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = value
            (here / "bad.json").write_text(json.dumps(changed))
            done = tosaic("report", "bad.json", "-o", "page.html")
            if done.code == 0:
                assert "Traceback" not in done.err
                continue
            assert done.code == 1 and done.err.startswith("tosaic: error: bad.json "), (path, value)
            assert done.err.count("\n") == 1
    (here / "bad.json").write_text(json.dumps(stats | {"counters": stats["counters"] | {"load_busy": "3"}}))
    assert tosaic("report", "bad.json").err == (
        "tosaic: error: bad.json is no file of statistics: counters.load_busy is '3'; write one with "
        "`tosaic run --stats`\n"
    )


def test_weights_that_are_no_numbers(refused, here):
    weights = np.ones((3, 4), np.float32)
    weights[1, 2] = np.nan
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "nan.onnx")
    np.savez("calib.npz", x=np.ones((4, 2, 3), np.float32))
    line = refused("quantize", "nan.onnx", "-c", "calib.npz", "-o", "x.tosa")
    assert "the constant holds NaN, which is no number; give the model other weights" in line


@pytest.mark.parametrize("name", ["float.tflite", "float.onnx"])
def test_a_float_model_to_compare_with(refused, here, name):
    """What a framework raises over a damaged file."""
    np.savez("data.npz", image=np.zeros((2, 8, 8, 1), np.int8))
    (here / name).write_bytes(b"\x1c\0\0\0TFL3" + bytes(40))
    line = refused("evaluate", "tiny.tosa", "--data", "data.npz", "--against", name)
    assert line.startswith(f"{name}: ")


def test_the_cases(tosaic, here):
    """Each ended in a traceback."""
    commands = {
        "unclosed_header.npy": ("run", "tiny.tosa", "--on", "golden", "-i", "image=FILE"),
        "member_no_array.npz": ("nnr", "encode", "FILE", "-o", "x.nnr"),
        "deep.toml": ("compile", "tiny.tosa", "--config", "FILE", "-o", "x.tsc"),
        "nan_scale.mlmodel": ("check", "FILE"),
    }
    for name, command in commands.items():
        if not (CASES / name).exists():
            pytest.skip(ABSENT)
        done = tosaic(*(part.replace("FILE", str(CASES / name)) for part in command))
        assert done.code == 1 and "Traceback" not in done.err
        assert done.err.count("\n") == (0 if command[0] == "check" else 1)


def test_the_last_resort():
    """What nobody expected of a reader is one line; what is meant, and what the system says, passes as it is."""
    with pytest.raises(ModelError) as refused, reading("net.x", "export it again"):
        raise IndexError("first\nsecond, at module.cc:12")
    assert str(refused.value) == ("net.x: cannot be read (IndexError: first); it is damaged: export it again")
    assert isinstance(refused.value.__cause__, IndexError)
    with pytest.raises(InputError, match=r"^a\.npy: cannot be read \(KeyError\); it is damaged: write it"):
        with reading("a.npy", "write it again", InputError):
            raise KeyError
    for passed in (Error("as it is"), OSError("no room"), MemoryError()):
        with pytest.raises(type(passed)) as told, reading("net.x", "export it again"):
            raise passed
        assert told.value is passed
