"""The checklist of the NNR text, annexes A and B: NNEF and ONNX. Names give clause and line."""

import pathlib
import warnings

import numpy as np
import onnx
import pytest
from nnr_examples import unit_bytes
from onnx import TensorProto, helper, numpy_helper

from tosaic.compiler.importers.nnef import nnr_carriage as nnef
from tosaic.nnr import NnrError, NnrWarning, read_bitstream, write_unit, write_units
from tosaic.nnr import onnx_carriage as carriage
from tosaic.nnr.encoder import Settings, encode_model
from tosaic.nnr.units import (
    DataUnit,
    ModelParameterSet,
    QuantizationUnit,
    StartUnit,
    StorageFormat,
    TopologyUnit,
)

GRAPH = "version 1.0;\ngraph g( x ) -> ( y ) { x = external(shape=[1,4]); y = relu(x); }\n"
QUANT = '"x": linear_quantize(min = -1.0, max = 1.0, bits = 8);\n'
FILTER = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)
BIAS = np.arange(-3, 3, dtype=np.int32).reshape(2, 3)


@pytest.fixture
def stream(tmp_path: pathlib.Path) -> bytes:
    nnef.write_folder(tmp_path / "m", GRAPH, QUANT, {"conv1/filter": FILTER, "bias": BIAS})
    return nnef.encode_nnef(tmp_path / "m", Settings())


def model() -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [
            numpy_helper.from_array(FILTER, "w"),
            numpy_helper.from_array(np.array([0.5], np.float32), "x_scale"),
        ],
    )
    note = graph.quantization_annotation.add(tensor_name="x")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x_scale")
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def initializer(proto: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(tensor for tensor in proto.graph.initializer if tensor.name == name)


def test_clause_a_3_line_103_nnef_topology(stream: bytes) -> None:
    """In NNR_TPL, before any NNR_NDU, as NNR_NNEF."""
    found = read_bitstream(stream)
    assert found.topology == TopologyUnit(StorageFormat.NNEF, GRAPH.encode(), found.topology.compression)
    kinds = [type(placed.unit) for placed in found.units]
    assert kinds.index(TopologyUnit) < kinds.index(DataUnit)
    parameters = found.units[1].unit
    assert isinstance(parameters, ModelParameterSet)
    assert parameters.topology_carriage_flag
    late = write_units(
        [StartUnit(), ModelParameterSet(True), DataUnit(0, ("a",), b"\x7f\x40", (0,)), found.topology]
    )
    with pytest.warns(NnrWarning, match="NNR_TPL after the first NNR_NDU"):
        read_bitstream(late)


def test_clause_a_3_line_104_nnef_quantization(stream: bytes, tmp_path: pathlib.Path) -> None:
    """In NNR_QNT, before any NNR_NDU, as NNR_NNEF; it comes back as graph.quant."""
    found = read_bitstream(stream)
    assert found.quantization is not None
    assert (found.quantization.storage_format, found.quantization.data) == (
        StorageFormat.NNEF,
        QUANT.encode(),
    )
    kinds = [type(placed.unit) for placed in found.units]
    assert kinds.index(QuantizationUnit) < kinds.index(DataUnit)
    nnef.decode_to_folder(stream, tmp_path / "back")
    assert (tmp_path / "back" / "graph.quant").read_text() == QUANT
    mixed = [StartUnit(), found.topology, QuantizationUnit(StorageFormat.ONNX, b"\xff")]
    with pytest.raises(NnrError, match="topology is NNEF, its quantization information is not"):
        nnef.decode_to_folder(write_units(mixed), tmp_path / "mixed")


def test_clause_a_3_line_105_ref_id_is_the_variable_label(stream: bytes, tmp_path: pathlib.Path) -> None:
    assert [tensor.name for tensor in read_bitstream(stream).tensors] == ["bias", "conv1/filter"]
    nnef.decode_to_folder(stream, tmp_path / "back")
    found = nnef.read_model(tmp_path / "back")[2]
    assert np.array_equal(found["conv1/filter"], FILTER)
    assert np.array_equal(found["bias"], BIAS)
    assert (tmp_path / "back" / "conv1" / "filter.dat").is_file()


def test_clause_a_4_line_106_bitstreams_in_dat_files() -> None:
    """With NNEF's header or without (E-46); no NNR_TPL and NNR_QNT; ref_id is the label."""
    data = nnef.write_carried("conv1/filter", FILTER, Settings())
    assert (data[:2], data[128:133]) == (b"\x4e\xef", write_unit(StartUnit()))
    units = [placed.unit for placed in read_bitstream_quietly(data[128:])]
    assert [type(unit) for unit in units] == [StartUnit, DataUnit]
    assert units[1].ref_ids == ("conv1/filter",)
    for form in (data, data[128:]):
        assert np.array_equal(nnef.read_dat(form, "conv1/filter"), FILTER)
    tensor = DataUnit(0, ("a",), b"\x7f\x40", (0,))
    for extra in (TopologyUnit(StorageFormat.NNEF, b"g"), QuantizationUnit(StorageFormat.NNEF, b"q")):
        wrong = write_units([StartUnit(), ModelParameterSet(True), extra, tensor])
        with pytest.raises(NnrError, match="NNR_TPL or NNR_QNT units, which A.4 forbids"):
            read_dat_quietly(wrong)


def read_bitstream_quietly(data: bytes) -> list:
    with pytest.warns(NnrWarning):
        return list(read_bitstream(data).units)


def read_dat_quietly(data: bytes) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NnrWarning)
        return nnef.read_dat(data, "a")


@pytest.mark.parametrize("method", ["lossless", "uniform", "dependent", "codebook"])
def test_clause_a_4_line_107_parameters_in_dat_files(method: str) -> None:
    """cabac_unary_length 10, qp_density 2 and quantization_parameter 0; dimensions as signalled."""
    data = nnef.write_carried("w", FILTER, Settings(method, relative_step=2**-9, codebook_size=12))
    with pytest.warns(NnrWarning, match="qp_density 2 and quantization_parameter 0 are inferred"):
        tensor = read_bitstream(data[128:]).tensors[0]
    assert (tensor.cabac_unary_length, tensor.qp_density, tensor.quantization_parameter) == (10, 2, 0)
    assert tensor.unit.tensor_dimensions == FILTER.shape
    assert np.abs(read_dat_quietly(data) - FILTER).max() < 2**-6 * np.abs(FILTER).max()


def test_clause_b_3_line_108_onnx_topology() -> None:
    """A protobuf in NNR_TPL, before any NNR_NDU, as NNR_ONNX, whatever bytes it ends with (E-31)."""
    data = carriage.encode_onnx(model(), Settings())
    found = read_bitstream(data)
    assert found.topology is not None
    assert found.topology.storage_format is StorageFormat.ONNX
    kinds = [type(placed.unit) for placed in found.units]
    assert kinds.index(TopologyUnit) < kinds.index(DataUnit)
    stored = onnx.ModelProto.FromString(found.topology.data)
    assert stored.graph.node == model().graph.node
    assert not any(tensor.raw_data for tensor in stored.graph.initializer)
    assert carriage.decode_onnx(data) == model()
    missing = write_units([StartUnit(), ModelParameterSet(True), found.topology])
    with pytest.raises(NnrError, match="no tensor 'w', an initializer"):
        carriage.decode_onnx(missing)


def test_clause_b_3_line_109_onnx_quantization_and_ref_id() -> None:
    """TensorAnnotations of the GraphProto in NNR_QNT, as NNR_ONNX; ref_id is the NodeProto's input."""
    found = read_bitstream(carriage.encode_onnx(model(), Settings()))
    assert found.quantization is not None
    assert found.quantization.storage_format is StorageFormat.ONNX
    told = onnx.GraphProto.FromString(found.quantization.data)
    assert told == onnx.GraphProto(quantization_annotation=model().graph.quantization_annotation)
    assert found.topology is not None
    assert not onnx.ModelProto.FromString(found.topology.data).graph.quantization_annotation
    assert [tensor.name for tensor in found.tensors] == ["w", "x_scale"]
    assert (
        carriage.carried_model(found).graph.quantization_annotation == model().graph.quantization_annotation
    )
    bare = model()
    bare.graph.ClearField("quantization_annotation")
    assert read_bitstream(carriage.encode_onnx(bare, Settings())).quantization is None
    tensors = {name: numpy_helper.to_array(initializer(model(), name)) for name in ("w", "x_scale")}
    for storage, data, message in (
        (StorageFormat.NNEF, b"x", "topology is ONNX, its quantization information is not"),
        (StorageFormat.ONNX, b"\xff\xff", "quantization information is not of ONNX"),
    ):
        wrong = encode_model(tensors, topology=found.topology, quantization=QuantizationUnit(storage, data))
        with pytest.raises(NnrError, match=message):
            carriage.decode_onnx(wrong)


def test_clause_b_4_line_110_unit_in_raw_data() -> None:
    """One NNR_NDU of NNR_PT_FLOAT32 without dimensions and unary length; dims come from the TensorProto."""
    carried = carriage.carry(model(), Settings("uniform", relative_step=2**-12))
    tensor = initializer(carried, "w")
    assert tensor.raw_data[2:8] == bytes.fromhex("050000") + b"\x08w\0"
    plain = numpy_helper.to_array(initializer(carriage.uncarry(carried), "w"))
    assert plain.shape == FILTER.shape
    assert np.abs(plain - FILTER).max() < 2**-11 * np.abs(FILTER).max()
    # input_parameters_present_flag 1 with both flags 0 says as little (E-47); NNR_STR may stand in front (E-29).
    payload = tensor.raw_data[9:]
    for form in (
        unit_bytes(5, b"\x09w\0\x20" + payload),
        write_unit(StartUnit()) + unit_bytes(5, b"\x08w\0\x80" + payload),
    ):
        tensor.raw_data = form
        again = numpy_helper.to_array(initializer(carriage.uncarry(carried), "w"))
        assert np.array_equal(again, plain)
    for unit, message in (
        (DataUnit(0, ("w",), b"\x7f\x40"), "payload type 0; B.4 allows NNR_PT_FLOAT32"),
        (DataUnit(1, ("w",), b"", (3, 4)), "signals input parameters"),
        (DataUnit(1, ("w",), b"", None, 10), "signals input parameters"),
    ):
        tensor.raw_data = write_unit(unit)
        with pytest.raises(NnrError, match=message):
            carriage.uncarry(carried)


def test_clause_b_4_line_111_data_type() -> None:
    """The draft gives ISO_IEC_15938_17 no number: 15938 here (E-47), of no type that ONNX has."""
    carried = carriage.carry(model(), Settings("dependent"))
    assert initializer(carried, "w").data_type == carriage.ISO_IEC_15938_17 == 15938
    assert 15938 not in TensorProto.DataType.values()
    assert initializer(carriage.uncarry(carried), "w").data_type == TensorProto.FLOAT


def test_clause_b_4_line_112_external_data(tmp_path: pathlib.Path) -> None:
    """location, offset and length; without a length the unit's own size; nothing outside the folder (E-48)."""
    carried = carriage.carry(model(), Settings("uniform"))
    expected = numpy_helper.to_array(initializer(carriage.uncarry(carried), "w"))
    tensor = initializer(carried, "w")
    (tmp_path / "w.bin").write_bytes(b"xyz" + tensor.raw_data + b"more")
    size = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for keys in ({"offset": "3"}, {"offset": "3", "length": str(size)}):
        del tensor.external_data[:]
        for key, value in {"location": "w.bin", **keys}.items():
            tensor.external_data.add(key=key, value=value)
        found = numpy_helper.to_array(initializer(carriage.uncarry(carried, tmp_path), "w"))
        assert np.array_equal(found, expected)
    for location in ("../w.bin", "/etc/passwd", ""):
        del tensor.external_data[:]
        tensor.external_data.add(key="location", value=location)
        with pytest.raises(NnrError, match="is refused"):
            carriage.uncarry(carried, tmp_path)
