"""Units (7.3, 7.4): written and read back, exact bytes where the text fixes them, and every kind of damage."""

import struct
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tosaic.nnr import (
    NnrError,
    NnrWarning,
    encode_codebook_tensor,
    encode_float_tensor,
    encode_raw_tensor,
    encode_tensor,
    read_bitstream,
    read_units,
    write_unit,
    write_units,
)
from tosaic.nnr.deflate import inflate
from tosaic.nnr.units import (
    NNR_QCB,
    NNR_QSU,
    AggregateType,
    AggregateUnit,
    Compression,
    DataUnit,
    LayerParameterSet,
    ModelParameterSet,
    QuantizationMap,
    QuantizationUnit,
    SkippedUnit,
    SparsificationPoint,
    StartUnit,
    StorageFormat,
    TopologyUnit,
)

LEVELS = np.arange(6).reshape(2, 3) - 3
TENSOR = DataUnit(0, ("a",), encode_tensor(LEVELS), (2, 3), 10)
START = write_unit(StartUnit())
POINTS = (SparsificationPoint(0.5, 0.25, 0.125, (1.0, 2.0)), SparsificationPoint(1.0, 0.5, 0.75))


def unit_bytes(kind: int, body: bytes, counter: int = 0) -> bytes:
    """nnr_unit() with the 15-bit size, spelled out."""
    return struct.pack(">HBBB", 5 + len(body), kind, counter, 0) + body


def read(data: bytes) -> list:
    return [placed.unit for placed in read_units(data)]


@pytest.mark.parametrize(
    "unit",
    [
        ModelParameterSet(),
        ModelParameterSet(True, NNR_QSU | NNR_QCB, 7, -4096, POINTS),
        ModelParameterSet(
            quantization_method_flags=0, sparsification=(), ctu_partition_flag=True, max_ctu_dim_flag=3
        ),
        LayerParameterSet(),
        LayerParameterSet(1, NNR_QSU, 255, None, POINTS),
        LayerParameterSet(0, NNR_QCB, 0, QuantizationMap(((7, 0.5), (255, -1.0)))),
        LayerParameterSet(0, NNR_QCB, 0, QuantizationMap(((70000, 0.5),), 32, True)),
        LayerParameterSet(0, NNR_QCB, 0, QuantizationMap(((700, 0.5),), 16, False)),
        TopologyUnit(StorageFormat.NNEF, "graph g\u00e9".encode()),
        TopologyUnit(StorageFormat.NNEF, b"graph", Compression.DFL),
        TopologyUnit(StorageFormat.ONNX, b"\x08\x00", Compression.RAW),
        TopologyUnit(StorageFormat.ONNX, b"\x08\x00\x10\x00", Compression.DFL),
        QuantizationUnit(StorageFormat.NNEF, b'"x": linear();'),
        QuantizationUnit(StorageFormat.ONNX, b"\x00", Compression.DFL),
        TENSOR,
        DataUnit(0, ("a", "b", "c"), encode_tensor(LEVELS)),
        DataUnit(1, ("a",), encode_float_tensor(LEVELS, -9), (2, 3), decompressed_data_format=1),
        DataUnit(2, ("a",), encode_codebook_tensor(LEVELS + 3), None, 1, (0.5,) * 6, 0),
        DataUnit(3, ("",), encode_raw_tensor(np.ones(2)), (2,)),
        DataUnit(0, ("scalar",), encode_tensor(np.array(4)), ()),
        DataUnit(0, ("big",), bytes(70000), (65535,)),
    ],
)
def test_round_trip(unit) -> None:
    assert read(START + write_unit(unit))[1] == unit


def test_bytes_of_the_smallest_units() -> None:
    assert START.hex() == "0005000000"
    # QSU, qp_density 2, quantization_parameter 0, no CTU.
    assert write_unit(ModelParameterSet()).hex() == "0009010000" + "01" + "4000" + "00"
    assert write_unit(TopologyUnit(StorageFormat.NNEF, b"g")).hex() == "0009030000" + "0040" + "6700"
    compressed = write_unit(TopologyUnit(StorageFormat.NNEF, b"g", Compression.DFL))
    assert compressed[5:7] == b"\x00\x81"
    assert zlib.decompress(compressed[7:]) == b"g\0"
    # Type 0, no flags; the aligned header ends with a byte 0x80.
    assert write_unit(DataUnit(0, ("a",), b"\x55")).hex() == "000a050000" + "00" + "6100" + "80" + "55"


def test_long_size_from_32768_bytes_on_and_accepted_below() -> None:
    body = bytes(32768 - 6 - 6)
    short = write_unit(DataUnit(0, ("a",), body[:-1] + b"x"))
    assert short[0] >> 7 == (len(short) >= 32768)
    long = write_unit(DataUnit(0, ("a",), bytes(40000)))
    assert (long[0] >> 7, int.from_bytes(long[:4], "big") & 0x7FFFFFFF) == (1, len(long))
    assert read(START + bytes.fromhex("80000007000000")) == [StartUnit(), StartUnit()]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "has no unit"),
        (write_unit(TENSOR), r"does not start with an NNR_STR unit \(7.3.1\)"),
        (START + b"\x00", "ends inside nnr_unit_size"),
        (START + bytes.fromhex("0004000000"), "nnr_unit_size 4, smaller than its header"),
        (START + bytes.fromhex("80000006000000"), "nnr_unit_size 6, smaller than its header"),
        (START + bytes.fromhex("0009010000"), "nnr_unit_size 9, but only 5 bytes follow"),
        (START + unit_bytes(0, b"\0"), "has 1 bytes after its payload"),
        (START + unit_bytes(1, bytes.fromhex("0140000000")), "has 1 bytes after its payload"),
        (START + unit_bytes(1, b""), "ends inside topology_carriage_flag"),
        (START + unit_bytes(3, b"\x00\x40abc"), "no terminating 0x00"),
        (START + unit_bytes(3, b"\x00\x40abc\0d"), "1 bytes follow the NNEF text"),
        (START + unit_bytes(3, b"\x00\x40\xff\0"), "not UTF-8"),
        (START + unit_bytes(3, b"\x00\x41abc\0"), r"byte_alignment\(\) is not a 1 followed by zeros"),
        (START + unit_bytes(3, b"\x00\x82abc\0"), "compression_format 2 is reserved"),
        (START + unit_bytes(3, b"\x00\x81abc\0"), "not a zlib stream"),
        (START + unit_bytes(3, b"\x00\x81" + zlib.compress(b"a")[:-3]), "is truncated"),
        (START + unit_bytes(3, b"\x00\x81" + zlib.compress(b"a") + b"xx"), "2 bytes follow the zlib stream"),
        (START + unit_bytes(3, b"\x00\x81" + zlib.compress(b"a\0b")), "holds a 0x00"),
        (START + unit_bytes(5, b"\x04\x00"), "count_topology_elements is 0"),
        (START + unit_bytes(5, b"\x00a"), "ref_id has no terminating 0x00"),
        (START + unit_bytes(5, b"\x00\xff\0\x80"), "ref_id is not UTF-8"),
        (START + unit_bytes(5, b"\x00a\0\x81"), r"byte_alignment\(\) is not"),
        (START + unit_bytes(5, b"\x02a\0\x03"), "nnr_decompressed_data_format 1 contradicts payload type 0"),
        (START + unit_bytes(5, b"\x0aa\0\x01"), "nnr_decompressed_data_format 0 contradicts payload type 1"),
        (START + unit_bytes(5, b"\x0aa\0\x05"), "nnr_decompressed_data_format 2 contradicts payload type 1"),
        (START + unit_bytes(5, b"\x10a\0\x00\xff\xff"), "ends inside codebook"),
        (START + unit_bytes(2, b"\x02\x40\x03\0\0\0\0"), "index_precision 3 is reserved"),
        (START + unit_bytes(2, b"\x02\x40\x00\0\0\0\x03abc"), "3 bytes is no row of 8-bit indices"),
        (START + unit_bytes(2, b"\x02\x40\x00\x7f\0\0\0abc"), "ends inside quantization_map_data"),
    ],
)
def test_damaged_units(data: bytes, message: str) -> None:
    with pytest.raises(NnrError, match=message):
        read(data)


def test_what_readers_shall_accept() -> None:
    # E-32: flag 1 with format 0; E-31: zeros after the text; reserved bits ignored.
    assert read(START + unit_bytes(3, b"\x00\x80abc\0"))[1] == TopologyUnit(StorageFormat.NNEF, b"abc")
    assert read(START + unit_bytes(3, b"\x00\x40abc\0\0"))[1].data == b"abc"
    assert (
        read(START + unit_bytes(4, b"\x01\x81" + zlib.compress(b"\x08\x01") + b"\0"))[1].data == b"\x08\x01"
    )
    assert read(START + bytes.fromhex("00050000ff"))[1] == StartUnit()
    # Methods' reserved bits, and the seven reserved bits at the end of an MPS.
    assert read(START + unit_bytes(1, b"\x3c\x7f"))[1] == ModelParameterSet(quantization_method_flags=0)


def test_independently_decodable_flag_is_reported_only() -> None:
    placed = list(read_units(START + b"\x00\x05\x00\x00\x80"))
    assert [p.not_independent for p in placed] == [False, True]


@pytest.mark.filterwarnings("ignore::tosaic.nnr.NnrWarning")
def test_reserved_units_are_skipped_with_a_warning() -> None:
    data = (
        START
        + unit_bytes(7, b"abc")
        + unit_bytes(200, b"")
        + write_unit(ModelParameterSet())
        + write_unit(TENSOR)
    )
    with pytest.warns(NnrWarning, match=r"\(type 7\) is reserved or unspecified; skipped"):
        found = read_bitstream(data)
    assert [p.unit for p in found.units[1:3]] == [SkippedUnit(7, b"abc"), SkippedUnit(200, b"")]
    assert found.tensors[0].decode().tolist() == LEVELS.tolist()
    with pytest.warns(NnrWarning, match="reserved storage format 2; skipped"):
        assert isinstance(read(START + unit_bytes(3, b"\x02\x40a\0"))[1], SkippedUnit)


def test_partial_data() -> None:
    for unit in (
        TENSOR,
        TopologyUnit(StorageFormat.NNEF, b"graph" * 9, Compression.DFL),
        ModelParameterSet(),
    ):
        split = write_unit(unit, part_bytes=1)
        placed = list(read_units(START + split))[1]
        assert placed.unit == unit
        assert placed.parts > 1
        assert placed.size_bytes == len(split)


def test_partial_data_errors() -> None:
    parts = [unit_bytes(5, b"\x00a\0\x80" + bytes([n]), n) for n in (3, 2, 1, 0)]
    assert read(START + b"".join(parts))[1].payload == b"\x03\x02\x01\x00"
    for wrong, message in (
        (parts[:3], "the data ends before partial_data_counter 0"),
        ([parts[0], parts[2], parts[3]], "has partial_data_counter 1, but part 2 of the NNR unit at byte 5"),
        (
            parts[:3] + [unit_bytes(5, b"\x00b\0\x80x")],
            r"does not repeat the header \(ref_id\) of its first part",
        ),
        (parts[:2] + [unit_bytes(4, b"\x00\x40x\0", 1)], "part 1 of the"),
    ):
        with pytest.raises(NnrError, match=message):
            read(START + b"".join(wrong))
    with pytest.raises(NnrError, match="partial_data_counter counts 256"):
        write_unit(DataUnit(0, ("a",), bytes(257)), part_bytes=1)


@pytest.mark.filterwarnings("ignore:.*no NNR_MPS")
def test_reserved_units_between_parts_are_skipped_too() -> None:
    """E-26: a decoder does as if they were not there; entry points and counts know them."""
    parts = [unit_bytes(5, b"\x00a\0\x80" + bytes([n]), n) for n in (2, 1, 0)]
    between = [parts[0], unit_bytes(99, b"?", 7), parts[1], unit_bytes(200, b""), parts[2]]
    aggregate = unit_bytes(6, b"\0\0\0\3" + b"".join(between))
    for data in (b"".join(between), aggregate):
        with pytest.warns(NnrWarning, match=r"type (99|200)\) is reserved or unspecified; skipped"):
            found = read_bitstream(START + data)
        assert [tensor.unit.payload for tensor in found.tensors] == [b"\2\1\0"]
        assert [p.unit.unit_type for p in found.units if isinstance(p.unit, SkippedUnit)] == [99, 200]


def test_tensors_deep_in_a_placeholder_aggregate_are_not_decoded() -> None:
    """E-40: also where a generic aggregate is between."""
    generic = AggregateUnit((TENSOR, TENSOR))
    for kind, decodes in ((AggregateType.GEN, True), (AggregateType.XYZ_1, False)):
        depths = () if kind is AggregateType.GEN else (1, 2)
        outer = AggregateUnit((generic, TENSOR), kind, False, depths)
        found = read_bitstream(
            START + write_unit(ModelParameterSet()) + write_unit(outer) + write_unit(TENSOR)
        )
        assert [tensor.block_scan for tensor in found.tensors] == [not decodes] * 3 + [False]


def test_a_start_unit_forgets_everything() -> None:
    data = (
        START
        + write_unit(ModelParameterSet(qp_density=0, quantization_parameter=3))
        + unit_bytes(5, b"\x00a\0\x80x", 2)
    )
    scaled = DataUnit(1, ("f",), encode_float_tensor(np.array([1]), 0), (1,))
    with pytest.warns(NnrWarning, match="drops a unit that is incomplete|has no NNR_MPS"):
        found = read_bitstream(data + START + write_unit(scaled))
    assert (found.tensors[0].qp_density, found.tensors[0].quantization_parameter) == (2, 0)


def test_aggregates() -> None:
    inner = AggregateUnit((TENSOR, ModelParameterSet()), entry_points=True)
    outer = AggregateUnit((inner, TENSOR))
    placed = list(read_units(START + write_unit(outer)))
    assert [p.depth for p in placed] == [0, 0, 1, 2, 2, 1]
    assert placed[1].unit == outer
    data = write_unit(inner)
    # Entry points count from the first byte of the aggregate's size.
    assert (data[9], int.from_bytes(data[10:12], "big")) == (5, 5 + 4 + 6)
    placeholder = AggregateUnit((TENSOR, TENSOR), AggregateType.XYZ_1, False, (4, 31), (0, 0))
    assert read(START + write_unit(placeholder))[1] == placeholder
    scanned = AggregateUnit((TENSOR, TENSOR), AggregateType.XYZ_2, True, (4, 31), (1, 0))
    mps = write_unit(ModelParameterSet(ctu_partition_flag=True))
    assert read(START + mps + write_unit(scanned))[2] == scanned


def test_aggregate_errors() -> None:
    good = write_unit(AggregateUnit((TENSOR, TENSOR), entry_points=True))
    wrong_type = good[:9] + b"\x01" + good[10:]
    wrong_offset = good[:11] + bytes([good[11] + 1]) + good[12:]
    wrong_count = good[:8] + b"\x01" + good[9:]
    deep = TENSOR
    for _ in range(5):
        deep = AggregateUnit((deep, StartUnit()))
    for data, message in (
        (wrong_type, "entry point 0 says type 1 at offset 15, but type 5 is at 15"),
        (wrong_offset, "entry point 0 says type 5 at offset 16, but type 5 is at 15"),
        (wrong_count, "entry point|units|unit at byte"),
        (write_unit(deep), "nested deeper than 4"),
        (unit_bytes(6, b"\0\0\xff\xff"), "65537 units do not fit 0 bytes"),
        (unit_bytes(6, b"\0\0\0\0" + START * 3), "holds 3 units, but its header says 2"),
        (unit_bytes(6, b"\0\0\0\0" + START * 2, 1), "parts of aggregates are not supported"),
    ):
        with pytest.raises(NnrError, match=message):
            read(START + data)
    with pytest.raises(NnrError, match="at least 2 units, not 1"):
        write_unit(AggregateUnit((TENSOR,)))
    with pytest.warns(NnrWarning, match="reserved type 3; skipped"):
        read(START + unit_bytes(6, b"\x03\0\0\0"))


def test_entry_points_beyond_64_kib_are_left_out() -> None:
    big = DataUnit(0, ("big",), bytes(70000))
    unit = AggregateUnit((big, TENSOR), entry_points=True)
    found = read(START + write_unit(unit))[1]
    assert (found.entry_points, found.units) == (False, unit.units)


def test_parameter_sets_govern_the_units_after_them() -> None:
    coded = encode_float_tensor(np.array([1, 2]), 0, qp_density=0)
    unit = DataUnit(1, ("w",), coded, (2,))
    layer = LayerParameterSet(quantization_step_size=3, quantization_method_flags=NNR_QSU)
    found = read_bitstream(
        write_units(
            [StartUnit(), ModelParameterSet(False, NNR_QSU, 0, 4), layer, unit, ModelParameterSet(), TENSOR]
        )
    )
    assert found.tensors[0].decode().tolist() == [16.0, 32.0]
    assert found.tensors[0].layer == layer
    assert found.tensors[1].qp_density == 2


def test_warnings_about_order_and_presence() -> None:
    topology = TopologyUnit(StorageFormat.NNEF, b"g")
    for units, message in (
        ([TENSOR], "has no NNR_MPS"),
        ([ModelParameterSet(True), TENSOR], "topology_carriage_flag is 1"),
        ([ModelParameterSet(), topology], "topology_carriage_flag is 0"),
        ([ModelParameterSet(True), TENSOR, topology], "NNR_TPL after the first NNR_NDU"),
    ):
        with pytest.warns(NnrWarning, match=message):
            read_bitstream(write_units([StartUnit(), *units]))
    with pytest.raises(NnrError, match="a second NNR_TPL without partial_data_counter"):
        read_bitstream(write_units([StartUnit(), topology, topology]))


def test_a_tensor_that_cannot_be_decoded_does_not_stop_the_others() -> None:
    units = [
        StartUnit(),
        ModelParameterSet(),
        DataUnit(4, ("reserved",), b""),
        DataUnit(0, ("shapeless",), TENSOR.payload),
        DataUnit(0, ("cut",), TENSOR.payload[:1], (2, 3)),
        AggregateUnit((TENSOR, TENSOR), AggregateType.XYZ_1, quant_bitdepths=(8, 8)),
        TENSOR,
    ]
    tensors = read_bitstream(write_units(units)).tensors
    for tensor, message in zip(
        tensors,
        (
            "^NNR tensor 'reserved' has the reserved payload type 4$",
            "^NNR tensor 'shapeless' signals no tensor_dimensions",
            "^NNR tensor 'cut': NNR payload of 1 bytes is t",
            "^NNR tensor 'a' is scanned in CTU blocks",
            "^NNR tensor 'a' is scanned in CTU blocks",
        ),
        strict=False,
    ):
        with pytest.raises(NnrError, match=message):
            tensor.decode()
    assert tensors[1].decode((6,)).tolist() == LEVELS.reshape(-1).tolist()
    assert tensors[-1].decode().tolist() == LEVELS.tolist()


def test_one_bare_unit() -> None:
    for data in (write_unit(TENSOR), START + write_unit(TENSOR)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NnrWarning)
            assert read_bitstream(data, start_required=False).tensors[0].unit == TENSOR


def test_a_deflate_bomb_stops_at_the_limit() -> None:
    bomb = zlib.compress(bytes(1 << 20), 9)
    assert len(inflate(bomb, "x", 1 << 20)) == 1 << 20
    with pytest.raises(NnrError, match="^x: inflates to more than 1048575 bytes$"):
        inflate(bomb, "x", (1 << 20) - 1)


def test_writers_refuse_what_does_not_fit() -> None:
    for unit, message in (
        (DataUnit(0, (), b""), "needs a ref_id"),
        (DataUnit(0, ("a\0b",), b""), "holds a 0x00"),
        (DataUnit(0, ("a",), b"", (65536,)), "tensor_dimensions 65536 does not fit 16 bits"),
        (DataUnit(0, ("a",), b"", cabac_unary_length=256), "cabac_unary_length 256 does not fit 8 bits"),
        (DataUnit(2, ("a",), b"", codebook_zero_offset=-1), "codebook_zero_offset -1 does not fit 8 bits"),
        (ModelParameterSet(quantization_parameter=4096), "quantization_parameter 4096 does not fit 13 bits"),
        (TopologyUnit(StorageFormat.NNEF, b"a\0"), "holds a 0x00"),
        (
            LayerParameterSet(quantization_method_flags=NNR_QCB, quantization_map=QuantizationMap((), 4)),
            "8, 16 or 32",
        ),
        (AggregateUnit((TENSOR, TENSOR), AggregateType.XYZ_1), "needs a quant_bitdepth per unit"),
    ):
        with pytest.raises(NnrError, match=message):
            write_unit(unit)


CODEBOOK_TENSOR = DataUnit(2, ("a", "b"), encode_codebook_tensor(LEVELS + 3), (6,), 1, (0.5,) * 6)
WHOLE = write_units(
    [
        StartUnit(),
        ModelParameterSet(True, NNR_QSU | NNR_QCB, 2, 0, POINTS),
        TopologyUnit(StorageFormat.NNEF, b"graph" * 9, Compression.DFL),
        LayerParameterSet(0, NNR_QCB, 0, QuantizationMap(((7, 0.5),), 8, True), POINTS),
        AggregateUnit((TENSOR, CODEBOOK_TENSOR), entry_points=True),
        DataUnit(1, ("f",), encode_float_tensor(LEVELS, -9), (2, 3)),
    ]
)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_mutated_bitstreams_raise_nothing_but_nnr_error(data: st.DataObject) -> None:
    stream = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 3))):
        stream[data.draw(st.integers(5, len(stream) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(stream))) if data.draw(st.booleans()) else len(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NnrWarning)
        try:
            found = read_bitstream(bytes(stream[:cut]))
        except NnrError:
            return
        for tensor in found.tensors:
            try:
                tensor.decode((6,) if tensor.unit.tensor_dimensions is None else None)
            except NnrError:
                pass
