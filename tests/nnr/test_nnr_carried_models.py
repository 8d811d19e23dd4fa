"""ONNX and NNEF models whose own tensors are NNR-coded (annexes A.4 and B.4) are models like any other."""

import dataclasses
import pathlib
import tarfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_nnr_cli import call, product

from tosaic.compiler.importers import import_model
from tosaic.compiler.importers.nnef import nnr_carriage
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.compiler.ir import Graph
from tosaic.errors import Error
from tosaic.nnr import (
    NnrError,
    NnrWarning,
    onnx_carriage,
    read_bitstream,
    write_unit,
    write_units,
)
from tosaic.nnr.encoder import Settings
from tosaic.nnr.units import DataUnit, StartUnit, TopologyUnit

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


def test_every_command_takes_carried_models(tmp_path, monkeypatch, capsys) -> None:
    """check, compile and quantize do with them what they do with the decoded model; decode and inspect know them."""
    inputs = {"x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 1, 16)}
    np.savez(tmp_path / "16.npz", **inputs)
    np.savez(tmp_path / "4.npz", x=inputs["x"][..., :4])
    onnx.save(product(), tmp_path / "m.onnx")
    nnr_carriage.write_folder(tmp_path / "m", NNEF, None, {"fc/w": FILTER, "b": BIAS})
    for source, carried, decoded, samples in (
        ("m.onnx", "c.onnx", "d.onnx", "16.npz"),
        ("m", "c", "d", "4.npz"),
        ("m", "c/graph.nnef", "d", "4.npz"),
        ("m", "c.nnef.tgz", "d", "4.npz"),
    ):
        base = "c" if carried.startswith("c.nnef") else carried.removesuffix("/graph.nnef")
        options = ("--method", "dependent", "--step", 0.01)
        assert call(monkeypatch, "nnr", "encode", tmp_path / source, "-o", tmp_path / base, *options) == 0
        if carried.endswith("tgz"):
            with tarfile.open(tmp_path / carried, "w:gz") as archive:
                archive.add(tmp_path / base, ".")
        for output in (decoded, "tensors.npz"):
            assert call(monkeypatch, "nnr", "decode", tmp_path / carried, "-o", tmp_path / output) == 0
        plain = import_model(tmp_path / decoded)
        with np.load(tmp_path / "tensors.npz") as archive:
            # The importer may transpose and reshape.
            found = {tuple(sorted(values.ravel())) for values in archive.values()}
        assert found <= {tuple(sorted(values.ravel())) for values in constants(plain).values()}
        capsys.readouterr()
        assert call(monkeypatch, "nnr", "inspect", tmp_path / carried) == 0
        listed = capsys.readouterr().out
        assert ("w [16, 16]" if source == "m.onnx" else "fc/w [3, 4]") in listed
        assert call(monkeypatch, "nnr", "inspect", tmp_path / decoded) == 1
        assert "none of its tensors is NNR-coded" in capsys.readouterr().err
        told = []
        for model in (carried, decoded):
            codes = [
                call(monkeypatch, "check", tmp_path / model),
                call(monkeypatch, "compile", tmp_path / model, "-o", tmp_path / "p.tsc"),
                call(
                    monkeypatch,
                    *("quantize", tmp_path / model, "-c", tmp_path / samples, "-o", tmp_path / "q.tosa"),
                ),
                call(monkeypatch, "compile", tmp_path / "q.tosa", "-o", tmp_path / "p.tsc"),
            ]
            # Floats are for the quantizer; its integers compile.
            assert codes == [0, 1, 0, 0]
            told.append(((tmp_path / "q.tosa").read_bytes(), (tmp_path / "p.tsc").read_bytes()))
            assert "quantize the model to int8 first" in capsys.readouterr().err
        assert told[0] == told[1]


def test_decode_writes_what_the_source_is(tmp_path, monkeypatch, capsys) -> None:
    onnx.save(product(), tmp_path / "m.onnx")
    nnr_carriage.write_folder(tmp_path / "m", NNEF, None, {"fc/w": FILTER, "b": BIAS})
    for source, output, message in (
        ("m.onnx", "folder", "is an ONNX model: name an .onnx file, or .npz for its tensors"),
        ("m", "m2.onnx", "is an NNEF model: name a folder, or a .npz file for its tensors"),
    ):
        assert call(monkeypatch, "nnr", "decode", tmp_path / source, "-o", tmp_path / output) == 1
        assert message in capsys.readouterr().err
        assert not (tmp_path / output).exists()


def test_a_quantized_model_with_nnr_filters_compiles_as_the_decoded_one(tmp_path, monkeypatch) -> None:
    """Filters on their grid, as floats in NNR, under QuantizeLinear and DequantizeLinear."""
    filters = (np.random.default_rng(1).integers(-127, 128, (4, 3, 3, 3)) / 64).astype(np.float32)
    filters[0, 0, 0, 0] = 127 / 64
    initializers, nodes = [numpy_helper.from_array(filters, "w")], []
    for source, name, scale, zero in (("x", "a", 2**-5, 3), ("w", "b", 2**-6, 0), ("r", "y", 2**-2, -128)):
        if name == "y":
            nodes.append(helper.make_node("Conv", ["a", "b"], ["r"]))
        initializers += [
            numpy_helper.from_array(np.float32(scale), name + "_scale"),
            numpy_helper.from_array(np.int8(zero), name + "_zero"),
        ]
        grid = [name + "_scale", name + "_zero"]
        nodes.append(helper.make_node("QuantizeLinear", [source, *grid], [name + "_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [name + "_q", *grid], [name]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 4, 4])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    carried = onnx_carriage.carry(model, Settings("uniform"))
    assert carried.graph.initializer[0].data_type == onnx_carriage.ISO_IEC_15938_17
    onnx.save(carried, tmp_path / "c.onnx")
    for name in ("m", "c"):
        assert call(monkeypatch, "check", tmp_path / f"{name}.onnx") == 0
        output = ("-o", tmp_path / f"{name}.tsc")
        assert call(monkeypatch, "compile", tmp_path / f"{name}.onnx", *output) == 0
    assert (tmp_path / "m.tsc").read_bytes() == (tmp_path / "c.tsc").read_bytes()


@pytest.mark.parametrize("kind", ["onnx", "nnef"])
def test_dimensions_may_come_from_the_topology_alone(kind: str, tmp_path, monkeypatch, capsys) -> None:
    """Units without tensor_dimensions (E-35): run, decode and inspect take the shapes that the topology states."""
    if kind == "onnx":
        onnx.save(product(), tmp_path / "m.onnx")
        names, source, back = ["w"], tmp_path / "m.onnx", "back.onnx"
    else:
        nnr_carriage.write_folder(tmp_path / "m", NNEF, None, {"fc/w": FILTER, "b": BIAS})
        names, source, back = ["b", "fc/w"], tmp_path / "m", "back"
    assert call(monkeypatch, "nnr", "encode", source, "-o", tmp_path / "all.nnr") == 0
    units = [placed.unit for placed in read_bitstream((tmp_path / "all.nnr").read_bytes()).units]
    silent = [
        dataclasses.replace(unit, tensor_dimensions=None) if isinstance(unit, DataUnit) else unit
        for unit in units
    ]
    (tmp_path / "m.nnr").write_bytes(write_units(silent))
    capsys.readouterr()
    assert call(monkeypatch, "nnr", "inspect", tmp_path / "m.nnr") == 0
    listed = capsys.readouterr().out
    assert ("w [16, 16]" if kind == "onnx" else "fc/w [3, 4]") in listed
    for output in (back, "back.npz"):
        assert call(monkeypatch, "nnr", "decode", tmp_path / "m.nnr", "-o", tmp_path / output) == 0
    with np.load(tmp_path / "back.npz") as archive:
        assert sorted(archive) == names
    plain = import_model(source)
    same(import_model(tmp_path / "m.nnr"), plain)
    same(import_model(tmp_path / back), plain)
    broken = [
        dataclasses.replace(unit, data=b"nothing") if isinstance(unit, TopologyUnit) else unit
        for unit in silent
    ]
    (tmp_path / "broken.nnr").write_bytes(write_units(broken))
    capsys.readouterr()
    assert call(monkeypatch, "nnr", "inspect", tmp_path / "broken.nnr") == 1
    told = capsys.readouterr()
    assert "cannot be decoded" in told.out
    assert "signals no tensor_dimensions: they must be given" in told.err


def test_other_ref_ids_are_told(tmp_path: pathlib.Path) -> None:
    """The place names the tensor; ref_id should say the same (A.4, E-47)."""
    carried = onnx_carriage.carry(product(), Settings("uniform"))
    expected = onnx_carriage.uncarry(carried)
    tensor = carried.graph.initializer[0]
    for other in ("", "v"):
        unit = read_bitstream(tensor.raw_data, start_required=False).tensors[0].unit
        tensor.raw_data = write_unit(dataclasses.replace(unit, ref_ids=(other,)))
        with pytest.warns(NnrWarning, match=f"ONNX initializer 'w' holds the NNR tensor '{other}'"):
            assert onnx_carriage.uncarry(carried) == expected
    data = nnr_carriage.write_carried("conv/w", FILTER, Settings())
    with pytest.warns(NnrWarning, match=r"conv/v\.dat holds the NNR tensor 'conv/w'"):
        assert np.array_equal(nnr_carriage.read_dat(data, "conv/v"), FILTER)


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
    coded = weights.raw_data
    (tmp_path / "w.bin").write_bytes(b"xyz" + coded + b"more")
    (tmp_path / "b.bin").write_bytes(plain.raw_data)
    for tensor, keys in ((weights, {"location": "w.bin", "offset": "3"}), (plain, {"location": "b.bin"})):
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in keys.items():
            tensor.external_data.add(key=key, value=value)
    path = tmp_path / "c.onnx"
    path.write_bytes(carried.SerializeToString())
    same(import_model(path), expected)
    # NNR_STR may stand in front of the unit (E-29).
    (tmp_path / "w.bin").write_bytes(b"xyz" + write_unit(StartUnit()) + coded + b"more")
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
    nnr_carriage.write_folder(tmp_path / "carried", NNEF, None, tensors, Settings(method, codebook_size=4))
    nnr_carriage.write_folder(tmp_path / "decoded", *nnr_carriage.read_model(tmp_path / "carried"))
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
        nnr_carriage.write_folder(tmp_path / "plain", NNEF, None, tensors)
        same(graph, import_model(tmp_path / "plain"))
    assert [str(w.message) for w in recwarn if issubclass(w.category, UserWarning)] == []


def test_biases_and_scales_of_carried_models_are_exact(tmp_path: pathlib.Path) -> None:
    scale = np.float32(0.1234567)
    nnr_carriage.write_folder(tmp_path, NNEF, None, {"s": np.array(scale), "b": BIAS[0]}, Settings("uniform"))
    found = nnr_carriage.read_model(tmp_path)[2]
    assert found["s"] == scale
    assert np.array_equal(found["b"], BIAS[0])


def test_damaged_nnef_tensors_are_refused(tmp_path: pathlib.Path) -> None:
    nnr_carriage.write_folder(tmp_path, NNEF, None, {"fc/w": FILTER, "b": BIAS}, Settings("uniform"))
    good = (tmp_path / "b.dat").read_bytes()
    for data, message in (
        (good[:-1], r"b\.dat: its header says rank 2 and \d+ bytes of data, but it has \d+$"),
        (good[128:-1], r"b\.dat: "),
        (
            nnr_carriage.write_carried("b", BIAS.T, Settings("uniform")),
            r"extents \[3, 1\], the variable \[1, 3\]",
        ),
        (nnr_carriage.write_carried("b", BIAS.T, Settings("uniform"))[128:], r"b\.dat: .*3, 1"),
        (good[:128] + bytes(len(good) - 128), r"b\.dat: "),
    ):
        (tmp_path / "b.dat").write_bytes(data)
        with pytest.raises(Error, match=message) as told:
            import_model(tmp_path)
        assert "\n" not in str(told.value)
