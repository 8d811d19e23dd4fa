"""`tosaic nnr encode`, `decode`, `inspect`: through the entry point, with its exit codes."""

import json
import pathlib
import tarfile
import zlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from shared_files import SHARED, found

from tosaic.cli import app
from tosaic.compiler.importers.nnef import nnr_carriage
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.ir.tosa_file import read_tosa
from tosaic.compiler.quantizer import Encoding
from tosaic.driver.encodings import sidecar, write_encodings
from tosaic.driver.models import open_with_encodings
from tosaic.driver.session import Session
from tosaic.nnr import read_bitstream, write_units
from tosaic.nnr.units import DataUnit, StartUnit, StorageFormat, TopologyUnit

MODELS = sorted(SHARED.glob("models/*/model.tosa"))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    return call(monkeypatch, "nnr", *arguments)


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["tosaic", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        app.main()
    return int(stop.value.code or 0)


def test_npz_round_trip(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    weights = {
        "a": np.arange(-50, 50, dtype=np.int8).reshape(4, 25),
        "f": np.linspace(-1, 1, 9, dtype=np.float32),
    }
    np.savez(tmp_path / "w.npz", **weights)
    assert (
        run(monkeypatch, "encode", tmp_path / "w.npz", "-o", tmp_path / "w.nnr", "--cabac-unary-length", 1)
        == 0
    )
    assert "2 tensors" in capsys.readouterr().out
    assert run(monkeypatch, "inspect", tmp_path / "w.nnr") == 0
    listed = capsys.readouterr().out
    assert "NNR_NDU" in listed
    assert "a [4, 25]" in listed
    assert run(monkeypatch, "decode", tmp_path / "w.nnr", "-o", tmp_path / "v.npz") == 0
    with np.load(tmp_path / "v.npz") as found:
        assert np.array_equal(found["a"], weights["a"])
        assert np.array_equal(found["f"], weights["f"])


def test_errors_are_one_line(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    np.savez(tmp_path / "w.npz", a=np.zeros(3, np.int8))
    (tmp_path / "w.txt").write_bytes(b"abc")
    (tmp_path / "bad.nnr").write_bytes(b"abc")
    (tmp_path / "cut.nnr").write_bytes(write_units([StartUnit(), DataUnit(0, ("w",), b"\x01", (9,))]))
    for arguments, message in (
        (
            ("encode", tmp_path / "w.txt", "-o", tmp_path / "x.nnr"),
            "not a model (.tosa, .bz2, ",
        ),
        (
            ("encode", tmp_path / "w.npz", "-o", tmp_path / "x.nnr", "--method", "best"),
            "is not one of lossless",
        ),
        (("encode", tmp_path / "no.npz", "-o", tmp_path / "x.nnr"), "cannot read"),
        (("inspect", tmp_path / "bad.nnr"), "NNR unit at byte 0"),
        (("inspect", tmp_path / "cut.nnr"), "1 of 1 tensors: NNR tensor 'w'"),
        (("inspect", tmp_path / "no.nnr"), "cannot read"),
        (("decode", tmp_path / "cut.nnr", "-o", tmp_path / "folder"), "carries no NNEF topology"),
    ):
        assert run(monkeypatch, *arguments) == 1
        errors = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
        assert len(errors) == 1
        assert message in errors[0]


GRAPH = "version 1.0;\ngraph g( x ) -> ( y ) { x = external(shape=[1,4]); y = relu(x); }\n"


def product() -> onnx.ModelProto:
    """y = relu(x @ w) with float32 weights of rank 2, an int8 tensor beside them, and a quantization annotation."""
    rng = np.random.default_rng(5)
    weights = (rng.normal(size=(16, 2)) @ rng.normal(size=(2, 16))).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"], "product"), helper.make_node("Relu", ["p"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16])],
        [numpy_helper.from_array(weights, "w")],
    )
    note = graph.quantization_annotation.add(tensor_name="x")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_an_onnx_model_runs_from_its_bitstream(tmp_path, monkeypatch, capsys) -> None:
    """encode, then run, check and import take the .nnr file where they take the .onnx file."""
    model, stream = tmp_path / "m.onnx", tmp_path / "m.nnr"
    onnx.save(product(), model)
    assert run(monkeypatch, "encode", model, "-o", stream) == 0
    np.save(tmp_path / "x.npy", np.linspace(-1, 1, 16, dtype=np.float32)[None])
    results = []
    for source in (model, stream):
        out = tmp_path / source.suffix[1:]
        command = ("run", source, "-i", f"x={tmp_path / 'x.npy'}", "--on", "golden", "-o", out)
        assert call(monkeypatch, *command) == 0
        results.append(np.load(out / "y.npy"))
        assert call(monkeypatch, "import", source, "-o", out / "m.tosa") == 0
    assert np.array_equal(*results)
    assert (tmp_path / "onnx" / "m.tosa").read_bytes() == (tmp_path / "nnr" / "m.tosa").read_bytes()
    capsys.readouterr()
    assert call(monkeypatch, "check", stream) == 0
    assert "direct            MatMul" in capsys.readouterr().out
    assert list(Session(stream, "golden").run({"x": np.ones((1, 16), np.float32)})) == ["y"]


def test_an_nnef_model_runs_from_its_bitstream(tmp_path, monkeypatch, capsys) -> None:
    weights = np.random.default_rng(6).normal(size=(3, 4)).astype(np.float32)
    graph = (
        "version 1.0;\ngraph g( x ) -> ( y ) { x = external(shape=[1,4]); "
        "w = variable(shape=[3,4], label='fc/w'); p = matmul(x, w, transposeB=true); y = relu(p); }\n"
    )
    nnr_carriage.write_folder(tmp_path / "model", graph, None, {"fc/w": weights})
    assert run(monkeypatch, "encode", tmp_path / "model", "-o", tmp_path / "m.nnr") == 0
    x = np.linspace(-1, 1, 4, dtype=np.float32)[None]
    found = Session(tmp_path / "m.nnr", "golden").run({"x": x})
    assert np.array_equal(found["y"], Session(tmp_path / "model", "golden").run({"x": x})["y"])
    assert np.allclose(found["y"], np.maximum(x @ weights.T, 0), rtol=1e-5)
    wrong = write_units([StartUnit(), TopologyUnit(StorageFormat.NNEF, graph.encode())])
    (tmp_path / "wrong.nnr").write_bytes(wrong)
    assert call(monkeypatch, "check", tmp_path / "wrong.nnr") == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert errors[0].startswith(f"tosaic: error: {tmp_path / 'wrong.nnr'}")
    assert "'fc/w'" in errors[0]


def test_what_a_bitstream_needs_to_run(tmp_path, monkeypatch, capsys) -> None:
    stream = tmp_path / "w.nnr"
    np.savez(tmp_path / "w.npz", w=np.zeros((2, 2), np.int8))
    assert run(monkeypatch, "encode", tmp_path / "w.npz", "-o", stream) == 0
    onnx.save(product(), tmp_path / "m.onnx")
    assert run(monkeypatch, "encode", tmp_path / "m.onnx", "-o", tmp_path / "m.nnr") == 0
    cut = (tmp_path / "m.nnr").read_bytes()[:-40]
    (tmp_path / "cut.nnr").write_bytes(cut)
    for file, message in (
        ("w.nnr", "holds 1 tensors and no network; encode the model instead of its tensors"),
        ("cut.nnr", "has nnr_unit_size"),
        ("none.nnr", "there is no such file"),
    ):
        capsys.readouterr()
        assert call(monkeypatch, "run", tmp_path / file, "--random", 1, "--on", "golden") == 1
        errors = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
        assert len(errors) == 1
        assert errors[0].startswith(f"tosaic: error: {tmp_path / file}: ")
        assert message in errors[0]


def test_quantization_annotations_travel_in_their_own_unit(tmp_path, monkeypatch, capsys) -> None:
    onnx.save(product(), tmp_path / "m.onnx")
    assert run(monkeypatch, "encode", tmp_path / "m.onnx", "-o", tmp_path / "m.nnr") == 0
    found = read_bitstream((tmp_path / "m.nnr").read_bytes())
    assert found.quantization is not None
    assert b"SCALE_TENSOR" in found.quantization.data
    assert b"SCALE_TENSOR" not in found.topology.data
    capsys.readouterr()
    assert run(monkeypatch, "inspect", tmp_path / "m.nnr") == 0
    listed = capsys.readouterr().out
    assert "NNR_QNT  ONNX, " in listed
    assert "256 weights in 1 tensors" in listed
    assert run(monkeypatch, "decode", tmp_path / "m.nnr", "-o", tmp_path / "back.onnx") == 0
    assert onnx.load(tmp_path / "back.onnx") == product()


def test_low_rank_from_the_command_line(tmp_path, monkeypatch, capsys) -> None:
    onnx.save(product(), tmp_path / "m.onnx")
    options = ("--low-rank", 0.9999, "--sparsity", 0.5, "--method", "dependent", "--step", 0.01)
    assert run(monkeypatch, "encode", tmp_path / "m.onnx", "-o", tmp_path / "m.nnr", *options) == 0
    assert "1 layers factored: w" in capsys.readouterr().out
    tensors = {
        tensor.name: tensor.decode() for tensor in read_bitstream((tmp_path / "m.nnr").read_bytes()).tensors
    }
    assert {name: values.shape for name, values in tensors.items()} == {
        "w/rank_2/left": (16, 2),
        "w/rank_2/right": (2, 16),
    }
    assert all(np.mean(values == 0) >= 0.5 for values in tensors.values())
    np.savez(tmp_path / "w.npz", w=np.zeros(3, np.int8))
    assert run(monkeypatch, "encode", tmp_path / "w.npz", "-o", tmp_path / "w.nnr", "--low-rank", 0.9) == 1
    assert "done to .onnx models only" in capsys.readouterr().err


def test_tensors_as_nnr_inside_an_onnx_model(tmp_path, monkeypatch, capsys) -> None:
    """B.4: encode to .onnx and back."""
    onnx.save(product(), tmp_path / "m.onnx")
    options = ("--method", "uniform", "--step", 1e-5)
    assert run(monkeypatch, "encode", tmp_path / "m.onnx", "-o", tmp_path / "c.onnx", *options) == 0
    assert onnx.load(tmp_path / "c.onnx").graph.initializer[0].data_type == 15938
    assert run(monkeypatch, "decode", tmp_path / "c.onnx", "-o", tmp_path / "d.onnx") == 0
    first, second = (
        numpy_helper.to_array(onnx.load(tmp_path / name).graph.initializer[0])
        for name in ("m.onnx", "d.onnx")
    )
    assert np.abs(first - second).max() < 2e-5 * np.abs(first).max()
    assert run(monkeypatch, "encode", tmp_path / "m.onnx", "-o", tmp_path / "e.onnx") == 1
    assert "use uniform or dependent" in capsys.readouterr().err


def test_nnef_folders_and_archives(tmp_path, monkeypatch, capsys) -> None:
    """A.3 from a folder, its graph.nnef and an archive; A.4: to a folder of bitstreams and back."""
    folder = tmp_path / "model"
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    nnr_carriage.write_folder(folder, GRAPH, None, {"conv/filter": weights})
    with tarfile.open(tmp_path / "model.nnef.tgz", "w:gz") as archive:
        for path in sorted(folder.rglob("*.*")):
            archive.add(path, path.relative_to(folder))
    streams = []
    for number, source in enumerate((folder, folder / "graph.nnef", tmp_path / "model.nnef.tgz")):
        assert run(monkeypatch, "encode", source, "-o", tmp_path / f"{number}.nnr") == 0
        streams.append((tmp_path / f"{number}.nnr").read_bytes())
    assert len(set(streams)) == 1
    assert run(monkeypatch, "decode", tmp_path / "0.nnr", "-o", tmp_path / "back") == 0
    assert run(monkeypatch, "encode", folder, "-o", tmp_path / "carried", "--cabac-unary-length", 1) == 0
    assert (tmp_path / "carried" / "conv" / "filter.dat").read_bytes()[128:133].hex() == "0005000000"
    assert run(monkeypatch, "decode", tmp_path / "carried", "-o", tmp_path / "plain") == 0
    for name in ("back", "plain"):
        assert (tmp_path / name / "graph.nnef").read_text() == GRAPH
        assert (tmp_path / name / "conv" / "filter.dat").read_bytes() == (
            folder / "conv" / "filter.dat"
        ).read_bytes()


def test_a_tosa_network_runs_from_its_bitstream(tmp_path, monkeypatch, capsys) -> None:
    model = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"
    stream = tmp_path / "m.nnr"
    assert run(monkeypatch, "encode", model, "-o", stream, "--cabac-unary-length", 1) == 0
    graph = read_tosa(model)
    tensors = read_bitstream(stream.read_bytes()).tensors
    assert len(tensors) > 2
    for tensor in tensors:
        assert np.array_equal(tensor.decode(), graph.tensors[tensor.name].data)
    assert stream.stat().st_size < model.stat().st_size
    assert run(monkeypatch, "decode", stream, "-o", tmp_path / "back.tosa") == 0
    same_constants(read_tosa(tmp_path / "back.tosa"), graph)
    capsys.readouterr()
    printed = []
    for source in (model, stream):
        assert call(monkeypatch, "run", source, "--random", 3, "--on", "golden") == 0
        printed.append(capsys.readouterr().out.partition("next: ")[0])
    assert printed[0] == printed[1]


def same_constants(found: Graph, expected: Graph) -> None:
    assert found.inputs == expected.inputs
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].dtype is tensor.dtype
        assert (tensor.data is None) == (found.tensors[name].data is None)
        assert tensor.data is None or np.array_equal(found.tensors[name].data, tensor.data)


def test_scales_go_with_a_quantized_network(tmp_path, monkeypatch) -> None:
    """What `tosaic quantize` writes beside its .tosa file is in the bitstream, and comes out of it."""
    model = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"
    graph, source, stream = read_tosa(model), tmp_path / "m.tosa", tmp_path / "m.nnr"
    source.write_bytes(model.read_bytes())
    inputs, outputs = (
        {name: Encoding(DType.INT8, scale, -3) for name in names}
        for names, scale in ((graph.inputs, 0.25), (graph.outputs, 0.5))
    )
    write_encodings(sidecar(source), inputs, outputs)
    assert run(monkeypatch, "encode", source, "-o", stream) == 0
    assert run(monkeypatch, "decode", stream, "-o", tmp_path / "back.tosa") == 0
    assert json.loads((tmp_path / "back.quant.json").read_text()) == json.loads(sidecar(source).read_text())
    assert open_with_encodings(stream)[1] == inputs | outputs
    values = {name: np.full(graph.tensors[name].shape, 7, np.int8) for name in graph.inputs}
    for name, result in Session(source, "golden").run(values).items():
        assert np.array_equal(Session(stream, "golden").run(values)[name], result)


@pytest.mark.parametrize("model", found(MODELS[:2]), ids=lambda path: path.parent.name)
def test_shared_models(model: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The constants of a real network come back exactly, in no more bytes than zlib needs and a tenth."""
    assert run(monkeypatch, "encode", model, "-o", tmp_path / "m.nnr", "--cabac-unary-length", 1) == 0
    graph = read_tosa(model)
    raw, coded = b"", 0
    for tensor in read_bitstream((tmp_path / "m.nnr").read_bytes()).tensors:
        expected = graph.tensors[tensor.name].data
        assert expected is not None
        assert np.array_equal(tensor.decode(), expected)
        raw += expected.tobytes()
        coded += len(tensor.unit.payload)
    assert coded < 1.1 * len(zlib.compress(raw, 9))
