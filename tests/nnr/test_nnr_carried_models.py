"""ONNX and NNEF models whose own tensors are NNR-coded (annexes A.4 and B.4) are models like any other."""

import pathlib
import tarfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_nnr_cli import call, product

from tosaic.compiler.importers import import_model
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.compiler.ir import Graph
from tosaic.compiler.ir.errors import Error
from tosaic.nnr import NnrError, nnef_carriage, onnx_carriage
from tosaic.nnr.encoder import Settings

RNG = np.random.default_rng(4)
FILTER = RNG.normal(size=(3, 4)).astype(np.float32)
BIAS = RNG.normal(size=(1, 3)).astype(np.float32)
NNEF = (
    "version 1.0;\ngraph g( x ) -> ( y ) {\n x = external(shape=[1,4]);\n w = variable(shape=[3,4], label='fc/w');\n"
    " b = variable(shape=[1,3], label='b');\n p = matmul(x, w, transposeB=true);\n y = add(p, b);\n}\n"
)


def constants(graph: Graph) -> dict[str, np.ndarray]:
    return {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}


def same(first: Graph, second: Graph) -> None:
    assert first.operators == second.operators
    found, expected = constants(first), constants(second)
    assert found.keys() == expected.keys()
    for name, values in found.items():
        assert (values.dtype, values.tobytes()) == (expected[name].dtype, expected[name].tobytes())


@pytest.mark.parametrize("method", ["uniform", "dependent"])
def test_an_onnx_model_with_nnr_tensors_is_the_model_with_decoded_ones(
    method: str, tmp_path, monkeypatch
) -> None:
    onnx.save(product(), tmp_path / "m.onnx")
    options = ("--method", method, "--step", 0.001)
    assert call(monkeypatch, "nnr", "encode", tmp_path / "m.onnx", "-o", tmp_path / "c.onnx", *options) == 0
    assert onnx.load(tmp_path / "c.onnx").graph.initializer[0].data_type == onnx_carriage.ISO_IEC_15938_17
    assert call(monkeypatch, "nnr", "decode", tmp_path / "c.onnx", "-o", tmp_path / "d.onnx") == 0
    graph = import_model(tmp_path / "c.onnx")
    same(graph, import_model(tmp_path / "d.onnx"))
    same(graph, import_onnx(onnx.load(tmp_path / "c.onnx")))
    for number, command in enumerate((("run", "--random", 1, "--on", "golden"), ("import",))):
        out = ("-o", tmp_path / f"out{number}.tosa")
        assert call(monkeypatch, command[0], tmp_path / "c.onnx", *command[1:], *out) == 0


def test_external_data_of_both_kinds(tmp_path: pathlib.Path) -> None:
    """An NNR unit in one file, without its length, and plain values in another; damage names the file."""
    model = product()
    bias = numpy_helper.from_array(np.arange(16, dtype=np.float32), "b")
    model.graph.initializer.append(bias)
    model.graph.node.insert(1, helper.make_node("Add", ["p", "b"], ["s"], "sum"))
    model.graph.node[2].input[0] = "s"
    carried = onnx_carriage.carry(model, Settings("uniform"))
    weights, plain = carried.graph.initializer
    assert (weights.data_type, plain.data_type) == (onnx_carriage.ISO_IEC_15938_17, TensorProto.FLOAT)
    expected = import_onnx(carried)
    (tmp_path / "w.bin").write_bytes(b"xyz" + weights.raw_data + b"more")
    (tmp_path / "b.bin").write_bytes(plain.raw_data)
    for tensor, keys in ((weights, {"location": "w.bin", "offset": "3"}), (plain, {"location": "b.bin"})):
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in keys.items():
            tensor.external_data.add(key=key, value=value)
    path = tmp_path / "c.onnx"
    path.write_bytes(carried.SerializeToString())
    same(import_model(path), expected)
    (tmp_path / "w.bin").write_bytes(b"xyz\0\0")
    with pytest.raises(NnrError, match=rf"^{path}: "):
        import_model(path)
    with pytest.raises(NnrError, match="'w': external data 'w.bin' is refused"):
        import_onnx(carried)


@pytest.mark.parametrize("form", ["folder", "archive", "without header"])
@pytest.mark.parametrize("method", ["lossless", "uniform", "dependent", "codebook"])
def test_an_nnef_model_with_nnr_tensors_is_the_model_with_decoded_ones(
    method: str, form: str, tmp_path: pathlib.Path, recwarn: pytest.WarningsRecorder
) -> None:
    tensors = {"fc/w": FILTER, "b": BIAS}
    nnef_carriage.write_folder(tmp_path / "carried", NNEF, None, tensors, Settings(method, codebook_size=4))
    nnef_carriage.write_folder(tmp_path / "decoded", *nnef_carriage.read_model(tmp_path / "carried"))
    path = tmp_path / "carried"
    if form == "archive":
        path = tmp_path / "carried.nnef.tgz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(tmp_path / "carried", ".")
    if form == "without header":
        for file in path.rglob("*.dat"):
            file.write_bytes(file.read_bytes()[128:])
    graph = import_model(path)
    same(graph, import_model(tmp_path / "decoded"))
    if method == "lossless":
        nnef_carriage.write_folder(tmp_path / "plain", NNEF, None, tensors)
        same(graph, import_model(tmp_path / "plain"))
    assert [str(w.message) for w in recwarn] == []


def test_biases_and_scales_of_carried_models_are_exact(tmp_path: pathlib.Path) -> None:
    scale = np.float32(0.1234567)
    nnef_carriage.write_folder(
        tmp_path, NNEF, None, {"s": np.array(scale), "b": BIAS[0]}, Settings("uniform")
    )
    found = nnef_carriage.read_model(tmp_path)[2]
    assert found["s"] == scale
    assert np.array_equal(found["b"], BIAS[0])


def test_damaged_nnef_tensors_are_refused(tmp_path: pathlib.Path) -> None:
    nnef_carriage.write_folder(tmp_path, NNEF, None, {"fc/w": FILTER, "b": BIAS}, Settings("uniform"))
    good = (tmp_path / "b.dat").read_bytes()
    for data, message in (
        (good[:-1], r"b\.dat says rank 2 and \d+ bytes of data, but has \d+$"),
        (good[128:-1], r"b\.dat: "),
        (
            nnef_carriage.write_carried("b", BIAS.T, Settings("uniform")),
            r"extents \[3, 1\], the variable \[1, 3\]",
        ),
        (nnef_carriage.write_carried("b", BIAS.T, Settings("uniform"))[128:], r"b\.dat: .*3, 1"),
        (good[:128] + bytes(len(good) - 128), r"b\.dat: "),
    ):
        (tmp_path / "b.dat").write_bytes(data)
        with pytest.raises(Error, match=message) as told:
            import_model(tmp_path)
        assert "\n" not in str(told.value)
