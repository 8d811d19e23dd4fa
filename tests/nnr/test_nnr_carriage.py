"""Annexes A and B: NNEF and ONNX models in bitstreams, and bitstreams in their tensor files."""

import dataclasses
import pathlib
import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tosaic.compiler.importers.nnef import nnr_carriage as nnef
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.nnr import NnrError, encode_raw_tensor, encode_tensor, read_bitstream, write_unit, write_units
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

GRAPH = "version 1.0;\ngraph g( x ) -> ( y ) { x = external(shape=[1,4]); }\n"
RNG = np.random.default_rng(2)
FILTER = RNG.normal(size=(3, 4)).astype(np.float32)
BIAS = np.arange(-3, 3, dtype=np.int32).reshape(2, 3)
pytestmark = pytest.mark.filterwarnings("ignore::tosaic.nnr.NnrWarning")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "model"
    nnef.write_folder(path, GRAPH, '"x": linear();\n', {"conv/filter": FILTER, "bias": BIAS})
    return path


def test_nnef_folder_through_a_bitstream(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    data = nnef.encode_nnef(folder, Settings())
    found = read_bitstream(data)
    assert isinstance(found.topology, TopologyUnit)
    assert (found.topology.storage_format, found.topology.data) == (StorageFormat.NNEF, GRAPH.encode())
    assert isinstance(found.quantization, QuantizationUnit)
    assert [t.name for t in found.tensors] == ["bias", "conv/filter"]
    kinds = [type(p.unit).__name__ for p in found.units]
    assert kinds.index("TopologyUnit") < kinds.index("QuantizationUnit") < kinds.index("DataUnit")
    nnef.decode_to_folder(data, tmp_path / "back")
    graph, quantization, tensors = nnef.read_model(tmp_path / "back")
    assert (graph, quantization) == (GRAPH, '"x": linear();\n')
    assert np.array_equal(tensors["conv/filter"], FILTER)
    assert np.array_equal(tensors["bias"], BIAS)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "i8"])
def test_plain_dat_files(dtype: str) -> None:
    values = np.array([[1, 2, 100]], dtype)
    data = nnef.write_dat(values)
    assert (data[:4], len(data)) == (b"\x4e\xef\x01\x00", 128 + values.nbytes)
    found = nnef.read_dat(data, "x")
    assert found.dtype == values.dtype
    assert np.array_equal(found, values)


def test_bitstreams_in_dat_files(tmp_path: pathlib.Path) -> None:
    settings = Settings("uniform", relative_step=2**-20)
    nnef.write_folder(tmp_path, GRAPH, None, {"w": FILTER, "b": BIAS}, settings)
    data = (tmp_path / "w.dat").read_bytes()
    assert (data[:2], data[128:133].hex()) == (b"\x4e\xef", "0005000000")
    graph, quantization, tensors = nnef.read_model(tmp_path)
    assert quantization is None
    assert np.abs(tensors["w"] - FILTER).max() < 2**-18
    assert np.array_equal(tensors["b"], BIAS)
    # As long as the plain items would be, and still told apart; and without NNEF's header (E-46).
    assert len((tmp_path / "b.dat").read_bytes()) == len(nnef.write_dat(BIAS))
    unmarked = data[:48] + b"\0\0" + data[50:]
    assert data[48:50] == (15938).to_bytes(2, "little")
    assert np.array_equal(nnef.read_dat(unmarked, "w"), tensors["w"])
    assert np.array_equal(nnef.read_dat(data[128:], "w"), tensors["w"])


def test_dat_errors() -> None:
    good = nnef.write_dat(FILTER)
    topology = TopologyUnit(StorageFormat.NNEF, b"g")
    tensor = DataUnit(0, ("a",), b"\x7f\x40", (0,))
    for data, message in (
        (good[:100], "x.dat: 100 bytes are no header"),
        (good[:-1], "x.dat: the header says 48 bytes of data, 47 follow it"),
        (
            nnef.write_carried("x", FILTER, Settings())[:-1],
            "x.dat: its header says rank 2 and 67 bytes of data, but it has 66",
        ),
        (good[:44] + b"\x05" + good[45:], "x.dat: FLOAT items of 5 bits"),
        (write_units([StartUnit(), topology, tensor]), "NNR_TPL or NNR_QNT units, which A.4 forbids"),
        (write_units([StartUnit(), tensor, tensor]), "holds 2 NNR tensors; it must hold one"),
        (b"", "has no unit"),
    ):
        with pytest.raises(NnrError, match=message):
            nnef.read_dat(data, "x")


@pytest.mark.parametrize("label", ["../out", "/etc/x", "a/../../b", "", "a\\b"])
def test_labels_stay_in_the_folder(label: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(NnrError, match="leads out of the model's folder"):
        nnef.write_folder(tmp_path / "m", GRAPH, None, {label: FILTER})


def test_nnef_missing(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NnrError, match="is no NNEF model: there is no graph.nnef in it"):
        nnef.read_model(tmp_path)
    with pytest.raises(NnrError, match="carries no NNEF topology"):
        nnef.decode_to_folder(encode_model({"w": FILTER}), tmp_path)


def model() -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [
            numpy_helper.from_array(FILTER, "w"),
            numpy_helper.from_array(np.arange(-4, 4, dtype=np.int8), "q"),
            numpy_helper.from_array(np.array([2**40], np.int64), "shape"),
            helper.make_tensor("listed", TensorProto.FLOAT, [2], [1.5, -2.5]),
        ],
    )
    return helper.make_model(graph)


def values(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {i.name: numpy_helper.to_array(i) for i in proto.graph.initializer}


def test_onnx_model_through_a_bitstream() -> None:
    data = carriage.encode_onnx(model(), Settings())
    found = read_bitstream(data)
    assert found.topology is not None
    assert found.topology.storage_format is StorageFormat.ONNX
    assert [t.name for t in found.tensors] == ["w", "q", "listed"]
    back = carriage.decode_onnx(data)
    assert back.graph.node == model().graph.node
    for name, expected in values(model()).items():
        assert values(back)[name].dtype == expected.dtype
        assert np.array_equal(values(back)[name], expected)


def test_onnx_errors(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NnrError, match="carries no ONNX topology"):
        carriage.decode_onnx(encode_model({"w": FILTER}))
    topology = TopologyUnit(StorageFormat.ONNX, model().SerializeToString())
    for tensors, message in (
        ({"other": FILTER}, "'other' is no initializer"),
        ({"w": FILTER.T.copy()}, r"has shape \(4, 3\), ONNX says \(3, 4\)"),
        ({"q": np.arange(-4, 4, dtype=np.int32) * 99}, "values outside int8"),
    ):
        with pytest.raises(NnrError, match=message):
            carriage.decode_onnx(encode_model(tensors, topology=topology))
    broken = TopologyUnit(StorageFormat.ONNX, b"\xff\xff\xff")
    with pytest.raises(NnrError, match="topology is not an ONNX model"):
        carriage.decode_onnx(encode_model({}, topology=broken))
    (tmp_path / "bad.onnx").write_bytes(b"\xff\xff\xff")
    with pytest.raises(NnrError, match="is not an ONNX model"):
        carriage.load(tmp_path / "bad.onnx")
    with pytest.raises(NnrError, match="cannot read"):
        carriage.load(tmp_path / "none.onnx")


@pytest.mark.parametrize("data_type", [0, 8, 14, 22, 99, 15938])
def test_onnx_initializers_of_types_that_no_tensor_has(data_type: int) -> None:
    """Undefined, STRING, COMPLEX64, INT4, and numbers that ONNX does not know."""
    proto = model()
    tensor = next(i for i in proto.graph.initializer if i.name == "w")
    tensor.ClearField("raw_data")
    tensor.data_type = data_type
    topology = TopologyUnit(StorageFormat.ONNX, proto.SerializeToString())
    with pytest.raises(NnrError, match=f"^NNR tensor 'w' cannot have ONNX's data_type {data_type}$"):
        carriage.decode_onnx(encode_model({"w": FILTER}, topology=topology))


@pytest.mark.parametrize("stated", ["unit", "input", "value_info"])
def test_tensors_may_be_only_named_as_inputs_of_nodes(stated: str) -> None:
    """B.3: ref_id is a NodeProto's input; a topology need not list initializers."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    )
    info = helper.make_tensor_value_info("w", TensorProto.FLOAT, [3, 4])
    if stated == "input":
        graph.input.append(info)
    if stated == "value_info":
        graph.value_info.append(info)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    topology = TopologyUnit(StorageFormat.ONNX, proto.SerializeToString())
    units = [StartUnit(), ModelParameterSet(True), topology]
    unit = DataUnit(3, ("w",), encode_raw_tensor(FILTER), (3, 4) if stated == "unit" else None)
    found = carriage.decode_onnx(write_units([*units, unit]))
    assert np.array_equal(values(found)["w"], FILTER)
    graph = import_onnx(found)
    assert list(graph.inputs) == ["x"]
    levels = DataUnit(0, ("w",), encode_tensor(FILTER.astype(np.int32)), (3, 4))
    if stated == "unit":
        assert values(carriage.decode_onnx(write_units([*units, levels])))["w"].dtype == np.int32
    for wrong, message in (
        (dataclasses.replace(unit, ref_ids=("p",)), "'p' is no initializer of the ONNX topology, and no"),
        (dataclasses.replace(unit, ref_ids=("v",)), "'v' is no initializer of the ONNX topology, and no"),
    ):
        with pytest.raises(NnrError, match=message):
            carriage.decode_onnx(write_units([*units, wrong]))
    if stated == "unit":
        silent = dataclasses.replace(unit, tensor_dimensions=None)
        with pytest.raises(
            NnrError, match="'w': neither its unit nor the ONNX topology states its dimensions"
        ):
            carriage.decode_onnx(write_units([*units, silent]))


def test_units_in_onnx_tensors() -> None:
    carried = carriage.carry(model(), Settings("dependent", relative_step=2**-12))
    stored = {i.name: i for i in carried.graph.initializer}
    assert stored["w"].data_type == 15938
    # One bare NDU of type FLOAT32 without input parameters: no NNR_STR in front.
    assert stored["w"].raw_data[2:8].hex() == "050000" + "08" + b"w\0".hex()
    assert stored["q"].data_type == TensorProto.INT8
    # Biases and scales stay exact.
    assert numpy_helper.to_array(stored["listed"]).tolist() == [1.5, -2.5]
    plain = values(carriage.uncarry(carried))
    assert np.abs(plain["w"] - FILTER).max() < 2**-9
    assert plain["q"].tolist() == list(range(-4, 4))
    for settings in (Settings("lossless"), Settings("uniform", 1)):
        with pytest.raises(NnrError, match="use uniform or dependent"):
            carriage.carry(model(), settings)


def test_external_units(tmp_path: pathlib.Path) -> None:
    carried = carriage.carry(model(), Settings("uniform"))
    expected = values(carriage.uncarry(carried))["w"]
    tensor = next(i for i in carried.graph.initializer if i.name == "w")
    unit = tensor.raw_data
    (tmp_path / "w.bin").write_bytes(b"xyz" + unit + b"more")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL

    def point(**keys: str) -> onnx.ModelProto:
        del tensor.external_data[:]
        for key, value in keys.items():
            tensor.external_data.add(key=key, value=value)
        return carried

    size = str(len(unit))
    for proto in (point(location="w.bin", offset="3"), point(location="w.bin", offset="3", length=size)):
        assert np.array_equal(values(carriage.uncarry(proto, tmp_path))["w"], expected)
    for keys, message in (
        ({"location": "../w.bin"}, "'../w.bin' is refused"),
        ({"location": "/w.bin"}, "'/w.bin' is refused"),
        ({"location": "w.bin", "offset": "x"}, "cannot be read"),
        ({"location": "no.bin"}, "cannot be read"),
        ({"location": "w.bin", "offset": "999"}, "lies outside 'w.bin'"),
    ):
        with pytest.raises(NnrError, match=message):
            carriage.uncarry(point(**keys), tmp_path)
    with pytest.raises(NnrError, match="is refused"):
        carriage.uncarry(point(location="w.bin", offset="3"))


def test_onnx_tensors_hold_what_b4_allows() -> None:
    for unit, message in (
        (DataUnit(0, ("w",), b"\x7f\x40"), "payload type 0; B.4 allows NNR_PT_FLOAT32"),
        (DataUnit(1, ("w",), b"", (3, 4)), "signals input parameters"),
    ):
        proto = model()
        tensor = next(i for i in proto.graph.initializer if i.name == "w")
        tensor.data_type, tensor.raw_data = 15938, write_unit(unit)
        with pytest.raises(NnrError, match=message):
            carriage.uncarry(proto)
        tensor.raw_data = write_unit(unit) * 2
        with pytest.raises(NnrError, match="must hold one NNR_NDU unit"):
            carriage.uncarry(proto)


def test_a_stream_in_a_dat_file_needs_no_parameter_set() -> None:
    """A.4: qp_density and quantization_parameter are inferred; nothing is unusual about it."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        nnef.read_dat(nnef.write_carried("b", BIAS, Settings())[128:], "b")
    assert found == []


def test_dimensions_that_the_unit_cannot_signal_come_from_the_topology() -> None:
    """u(16) ends at 65535 (E-34): an embedding of more rows has its shape in the ONNX topology."""
    rows = np.arange(140_000, dtype=np.int8).reshape(70_000, 2)
    proto = model()
    proto.graph.initializer.append(numpy_helper.from_array(rows, "rows"))
    data = carriage.encode_onnx(proto, Settings())
    tensor = next(tensor for tensor in read_bitstream(data).tensors if tensor.name == "rows")
    assert tensor.unit.tensor_dimensions is None
    assert np.array_equal(values(carriage.decode_onnx(data))["rows"], rows)
    with pytest.raises(NnrError, match=r"int8\[70000, 2\] does not fit an NNR data unit"):
        encode_model({"rows": rows})


def test_a_topology_beyond_the_limit_of_inflation_is_stored_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tosaic.nnr.unit_writer.MAX_INFLATED_BYTES", 100)
    data = carriage.encode_onnx(model(), Settings())
    found = read_bitstream(data)
    assert found.topology is not None
    assert found.topology.compression == 0
    assert carriage.decode_onnx(data).graph.node == model().graph.node
