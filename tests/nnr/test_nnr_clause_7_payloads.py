"""The checklist of the NNR text, clauses 7.3.5 to 7.4: payloads and semantics. Names give clause and line."""

import zlib

import numpy as np
import pytest
from nnr_examples import (
    FLOATS,
    LEVELS,
    PARAMETERS,
    START,
    TENSOR,
    little_floats,
    packed,
    read,
    reread,
    unit_bytes,
)

from tosaic.nnr import (
    NnrError,
    NnrWarning,
    encode_float_tensor,
    encode_raw_tensor,
    encode_tensor,
    read_bitstream,
    read_units,
    write_unit,
    write_units,
)
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

POINTS = (SparsificationPoint(0.5, 0.25, 0.125, (1.0, 2.0)), SparsificationPoint(1.0, 0.5, 0.75))
# count_thresholds and count_classes are one more than the entries (E-42).
POINT_BYTES = (
    b"\x03"
    + little_floats((0.5, 0.25, 0.125))
    + b"\x03"
    + little_floats((1, 2))
    + little_floats((1.0, 0.5, 0.75))
    + b"\x01"
)


def test_clause_7_3_5_line_49_payload_dispatch() -> None:
    units = [
        ModelParameterSet(),
        LayerParameterSet(),
        TopologyUnit(StorageFormat.NNEF, b"g"),
        QuantizationUnit(StorageFormat.NNEF, b"q"),
        TENSOR,
        AggregateUnit((TENSOR, FLOATS)),
    ]
    data = write_units([StartUnit(), *units])
    assert [p.unit for p in read_units(data) if p.depth == 0] == [StartUnit(), *units]


def test_clause_7_3_5_1_line_50_start_unit_payload_is_empty() -> None:
    assert read(START) == [StartUnit()]
    with pytest.raises(NnrError, match=r"\(NNR_STR\) has 1 bytes after its payload"):
        read(START + unit_bytes(0, b"\0"))


def test_clause_7_3_5_2_line_51_model_parameter_set_flags() -> None:
    for carriage in (False, True):
        for methods in range(4):
            for points in (None, ()):
                unit = ModelParameterSet(carriage, methods, 2, 0, points)
                data = write_unit(unit)
                assert data[5] == carriage << 7 | (points is not None) << 6 | methods
                assert reread(unit) == unit


def test_clause_7_3_5_2_line_52_qp_density_and_quantization_parameter() -> None:
    """u(3) and i(13), with NNR_QSU only; otherwise 2 and 0 are inferred (E-18)."""
    for density, parameter in ((0, -4096), (7, 4095), (5, -1)):
        unit = ModelParameterSet(False, NNR_QSU, density, parameter)
        assert write_unit(unit)[6:8] == packed((3, density), (13, parameter))
        assert reread(unit) == unit
    absent = ModelParameterSet(False, NNR_QCB, 7, 99)
    assert write_unit(absent)[5:] == bytes([NNR_QCB, 0])
    assert reread(absent) == ModelParameterSet(False, NNR_QCB, 2, 0)
    with pytest.raises(NnrError, match="quantization_parameter 4096 does not fit 13 bits"):
        write_unit(ModelParameterSet(quantization_parameter=4096))


def test_clause_7_3_5_2_line_53_sparsification_performance_map_when_flagged() -> None:
    unit = ModelParameterSet(True, 0, sparsification=POINTS)
    assert write_unit(unit)[5:] == b"\xc0" + POINT_BYTES + b"\x00"
    assert reread(unit) == unit


def test_clause_7_3_5_2_line_54_ctu_partition() -> None:
    """ctu_partition_flag, then max_ctu_dim_flag and 5 reserved bits, or 7 reserved bits."""
    for size in range(4):
        unit = ModelParameterSet(quantization_method_flags=0, ctu_partition_flag=True, max_ctu_dim_flag=size)
        assert write_unit(unit)[5:] == b"\x00" + packed((1, 1), (2, size), (5, 0))
        assert reread(unit) == unit
    assert read(START + unit_bytes(1, b"\x00\x7f"))[1] == ModelParameterSet(quantization_method_flags=0)


def test_clause_7_3_5_2_line_55_sparsification_performance_map() -> None:
    """The counts are one more than the entries; 0 reads nothing (E-42)."""
    for count in (0, 1):
        found = read(START + unit_bytes(1, b"\x40" + bytes([count, 0])))[1]
        assert found.sparsification == ()
    for classes in (0, 1):
        body = b"\x40\x02" + little_floats((1, 2, 3)) + bytes([classes, 0])
        assert read(START + unit_bytes(1, body))[1].sparsification == (SparsificationPoint(1, 2, 3),)
    full = ModelParameterSet(sparsification=(SparsificationPoint(1, 2, 3, (0.5,) * 254),) * 254)
    assert reread(full) == full
    with pytest.raises(NnrError, match="ends inside non_zero_ratio"):
        read(START + unit_bytes(1, b"\x40\x02" + bytes(7)))


def test_clause_7_3_5_3_line_56_layer_parameter_set_flags() -> None:
    for flag in (0, 1):
        for methods in range(4):
            unit = LayerParameterSet(flag, methods, 0, QuantizationMap(()) if methods & NNR_QCB else None)
            assert write_unit(unit)[5] == flag << 7 | methods
            assert reread(unit) == unit


def test_clause_7_3_5_3_line_57_quantization_step_size() -> None:
    """u(8) with NNR_QSU; metadata (E-44)."""
    unit = LayerParameterSet(0, NNR_QSU, 255)
    assert write_unit(unit)[5:] == bytes([NNR_QSU, 255])
    found = read_bitstream(START + PARAMETERS + write_unit(unit) + write_unit(FLOATS)).tensors[0]
    alone = read_bitstream(START + PARAMETERS + write_unit(FLOATS)).tensors[0]
    assert found.layer == unit
    assert np.array_equal(found.decode(), alone.decode())


def test_clause_7_3_5_3_line_58_quantization_map_when_flagged() -> None:
    """In this project's syntax (E-45)."""
    table = QuantizationMap(((7, 0.5), (255, -1.0)))
    unit = LayerParameterSet(0, NNR_QCB, 0, table)
    pairs = b"\x07" + little_floats((0.5,)) + b"\xff" + little_floats((-1.0,))
    assert write_unit(unit)[5:] == bytes([NNR_QCB, 0x40, 0, 0, 0, 0, 10]) + pairs
    assert reread(unit) == unit


def test_clause_7_3_5_3_line_59_sparsification_performance_map_when_flagged() -> None:
    unit = LayerParameterSet(0, NNR_QSU, 3, None, POINTS)
    assert write_unit(unit)[5:] == bytes([0x40 | NNR_QSU, 3]) + POINT_BYTES
    assert reread(unit) == unit


def test_clause_7_3_5_4_line_60_topology_data_str() -> None:
    """st(v) for raw NNEF text; else to the end of the unit, less one 0x00 (E-31)."""
    assert read(START + unit_bytes(3, b"\x00\x40text\0"))[1].data == b"text"
    assert read(START + unit_bytes(3, b"\x01\x40\x08\x00\x10\x05"))[1].data == b"\x08\x00\x10\x05"
    assert read(START + unit_bytes(3, b"\x01\x40\x08\x00\x00"))[1].data == b"\x08\x00"
    for tail in (b"", b"\0"):
        deflated = unit_bytes(3, b"\x00\x81" + zlib.compress(b"text" + tail) + tail)
        assert read(START + deflated)[1] == TopologyUnit(StorageFormat.NNEF, b"text", Compression.DFL)
    for body, message in (
        (b"\x00\x40abc", "no terminating 0x00"),
        (b"\x00\x40abc\0d", "1 bytes follow the NNEF text"),
        (b"\x00\x40\xff\0", "not UTF-8"),
        (b"\x00\x81abc\0", "not a zlib stream"),
        (b"\x00\x81" + zlib.compress(b"a")[:-3], "is truncated"),
        (b"\x00\x81" + zlib.compress(b"a") + b"xx", "2 bytes follow the zlib stream"),
        (b"\x00\x81" + zlib.compress(b"a\0b"), "holds a 0x00"),
        (b"\x00\x81" + zlib.compress(bytes(65 << 20)), "inflates to more than 16[0-9]{6} bytes"),
    ):
        data = unit_bytes(3, body) if len(body) < 30000 else _long_unit(3, body)
        with pytest.raises(NnrError, match=message):
            read(START + data)


def _long_unit(kind: int, body: bytes) -> bytes:
    return (0x80000007 + len(body)).to_bytes(4, "big") + bytes([kind, 0, 0]) + body


def test_clause_7_3_5_5_line_61_quantization_data_str() -> None:
    for unit in (
        QuantizationUnit(StorageFormat.NNEF, "é: linear();".encode()),
        QuantizationUnit(StorageFormat.NNEF, b"q" * 999, Compression.DFL),
        QuantizationUnit(StorageFormat.ONNX, b"\x00"),
        QuantizationUnit(StorageFormat.ONNX, b"\x00\x00", Compression.DFL),
    ):
        assert reread(unit) == unit


def test_clause_7_3_5_6_line_62_compressed_data_unit_payload() -> None:
    """raw_float32_parameter, or what clause 5.2 decodes."""
    values = np.array([1.5, -2.0, 1e-40], np.float32)
    raw = DataUnit(3, ("r",), encode_raw_tensor(values), (3,))
    assert write_unit(raw).endswith(little_floats(values.tolist()))
    found = read_bitstream(START + PARAMETERS + write_unit(raw) + write_unit(TENSOR)).tensors
    assert np.array_equal(found[0].decode(), values)
    assert found[1].decode().tolist() == LEVELS.tolist()


def test_clause_7_3_5_7_line_63_aggregate_unit_payload() -> None:
    """As many units as the header says; nested to depth 4 (E-39)."""
    for count, units in ((0, 3), (2, 3)):
        with pytest.raises(NnrError, match=f"holds {units} units, but its header says {count + 2}"):
            read(START + unit_bytes(6, bytes([0, 0, 0, count]) + PARAMETERS * units))
    unit = TENSOR
    for _ in range(4):
        unit = AggregateUnit((unit, FLOATS))
    assert reread(unit) == unit
    with pytest.raises(NnrError, match="nested deeper than 4"):
        reread(AggregateUnit((unit, FLOATS)))
    with pytest.raises(NnrError, match="parts of aggregates are not supported"):
        read(START + unit_bytes(6, b"\0\0\0\0" + START * 2, 1))


def test_clause_7_3_6_line_64_byte_alignment() -> None:
    """A 1 and zeros: 8 bits when aligned already, 7 behind one flag."""
    assert write_unit(DataUnit(0, ("a",), b""))[-1] == 0x80
    assert write_unit(TopologyUnit(StorageFormat.NNEF, b""))[6] == 0x40
    # Behind what a header may have before it: two flags of parameters, a count of 8 bits, a length of 8, a format of 7.
    for dimensions, length, data_format, last in (
        (None, None, None, 0b10000000),
        (None, None, 0, 0b00000001),
        ((), None, None, 0b00100000),
        (None, 9, None, 0b01100000),
        (None, 9, 0, 0b11000000),
    ):
        unit = DataUnit(0, ("a",), b"", dimensions, length, (), 0, data_format)
        assert reread(unit) == unit
        written = write_unit(unit)
        assert written[-1] == last
        # Not a 1 and zeros: refused wherever the padding begins.
        with pytest.raises(NnrError, match=r"byte_alignment\(\) is not a 1 followed by zeros"):
            read(START + written[:-1] + bytes([written[-1] & (written[-1] - 1)]))


def test_clause_7_4_2_2_line_65_unit_size_counts_itself() -> None:
    for unit in (StartUnit(), ModelParameterSet(), TENSOR, AggregateUnit((TENSOR, TENSOR))):
        data = write_unit(unit)
        assert int.from_bytes(data[:2], "big") == len(data)
    # The largest size there is, of data that is not there, costs nothing.
    with pytest.raises(NnrError, match="nnr_unit_size 2147483647, but only 7 bytes follow"):
        read(START + bytes.fromhex("ffffffff050000"))


def test_clause_7_4_2_3_line_66_unit_types() -> None:
    """Table 6; reserved and unspecified ones are skipped by their size, with a warning (E-26)."""
    kinds = {
        0: StartUnit(),
        1: ModelParameterSet(),
        2: LayerParameterSet(),
        3: TopologyUnit(StorageFormat.NNEF, b""),
        4: QuantizationUnit(StorageFormat.NNEF, b""),
        5: TENSOR,
        6: AggregateUnit((TENSOR, TENSOR)),
    }
    for number, unit in kinds.items():
        assert write_unit(unit)[2] == number
    for number in (7, 127, 128, 255):
        with pytest.warns(NnrWarning, match=rf"\(type {number}\) is reserved or unspecified; skipped"):
            found = read(START + unit_bytes(number, b"abc") + write_unit(TENSOR))
        assert found[1:] == [SkippedUnit(number, b"abc"), TENSOR]


def test_clause_7_4_2_3_line_67_partial_data_counter() -> None:
    """N-1 down to 0, one header, one type, in order (E-27)."""
    parts = [unit_bytes(5, b"\x00a\0\x80" + bytes([n]), n) for n in (3, 2, 1, 0)]
    assert read(START + b"".join(parts))[1].payload == b"\x03\x02\x01\x00"
    other = unit_bytes(5, b"\x00b\0\x80x", 0)
    for wrong, message in (
        (parts[:3], "the data ends before partial_data_counter 0"),
        ([parts[0], *parts[2:]], "has partial_data_counter 1, but part 2 of the NNR unit at byte 5"),
        ([*parts[:3], other], r"does not repeat the header \(ref_id\) of its first part"),
        ([*parts[:2], unit_bytes(4, b"\x00\x40x\0", 1)], "part 1 of the"),
        ([*parts[:2], parts[1]], "has partial_data_counter 2, but part 1"),
    ):
        with pytest.raises(NnrError, match=message):
            read(START + b"".join(wrong))
    whole = DataUnit(0, ("a",), bytes(256))
    split = write_unit(whole, part_bytes=1)
    assert split[3] == 255
    assert read(START + split)[1] == whole
    with pytest.raises(NnrError, match="partial_data_counter counts 256"):
        write_unit(DataUnit(0, ("a",), bytes(257)), part_bytes=1)


def test_clause_7_4_2_3_line_68_independently_decodable_flag() -> None:
    """0 means independent; it is reported and nothing else (E-25)."""
    for flags, expected in ((0x00, False), (0x80, True)):
        data = START + PARAMETERS + unit_bytes(5, write_unit(TENSOR)[5:], 0, flags)
        assert [p.not_independent for p in read_units(data)][2] is expected
        assert read_bitstream(data).tensors[0].decode().tolist() == LEVELS.tolist()
    assert write_unit(TENSOR)[4] == 0


def test_clause_7_4_2_3_4_line_69_topology_storage_format() -> None:
    for number, storage in ((0, StorageFormat.NNEF), (1, StorageFormat.ONNX)):
        assert read(START + unit_bytes(3, bytes([number, 0x40]) + b"a\0"))[1] == TopologyUnit(storage, b"a")
    for number in (2, 255):
        with pytest.warns(NnrWarning, match=f"reserved storage format {number}; skipped"):
            assert isinstance(read(START + unit_bytes(3, bytes([number, 0x40]) + b"a\0"))[1], SkippedUnit)


def test_clause_7_4_2_3_4_line_70_compression_format() -> None:
    assert (Compression.RAW, Compression.DFL) == (0, 1)
    text = b"graph" * 200
    raw, deflated = (write_unit(TopologyUnit(StorageFormat.NNEF, text, how)) for how in Compression)
    assert len(deflated) < len(raw) / 10
    assert read(START + raw)[1].data == read(START + deflated)[1].data == text


def test_clause_7_4_2_3_5_line_71_quantization_storage_format() -> None:
    for storage in StorageFormat:
        for compression in Compression:
            unit = QuantizationUnit(storage, b"q", compression)
            assert reread(unit) == unit
    with pytest.warns(NnrWarning, match=r"\(NNR_QNT\) has the reserved storage format 7; skipped"):
        read(START + unit_bytes(4, b"\x07\x40a\0"))


@pytest.mark.parametrize("length", [0, 1, 2, 10, 11, 255])
def test_clause_7_4_2_3_6_line_72_cabac_unary_length(length: int) -> None:
    """Number of abs_level_greater_x flags (E-05); 10 when it is not signalled (E-35)."""
    levels = np.array([0, 1, -9, 10, -11, 12, 300])
    unit = DataUnit(0, ("a",), encode_tensor(levels, cabac_unary_length=length), (7,), length)
    tensor = read_bitstream(START + PARAMETERS + write_unit(unit)).tensors[0]
    assert tensor.cabac_unary_length == length
    assert tensor.decode().tolist() == levels.tolist()
    silent = DataUnit(0, ("a",), encode_tensor(levels), (7,))
    assert read_bitstream(START + PARAMETERS + write_unit(silent)).tensors[0].cabac_unary_length == 10


def test_clause_7_4_2_3_7_line_73_aggregate_types() -> None:
    assert [kind.value for kind in AggregateType] == [0, 1, 2]
    for kind, depths in (
        (AggregateType.GEN, ()),
        (AggregateType.XYZ_1, (8, 8)),
        (AggregateType.XYZ_2, (8, 8)),
    ):
        unit = AggregateUnit((TENSOR, FLOATS), kind, True, depths, (0,) * len(depths))
        assert reread(unit) == unit
        assert write_unit(unit)[5] == kind


def test_clause_7_4_2_4_2_line_74_model_parameter_set() -> None:
    """A later one holds for what follows (E-53); flags are combined by OR, others ignored (E-41)."""
    unit = DataUnit(1, ("w",), encode_float_tensor(np.array([1, 2]), 0, qp_density=0), (2,))
    second = ModelParameterSet(False, NNR_QSU, 0, 1)
    data = write_units([StartUnit(), ModelParameterSet(False, NNR_QSU | NNR_QCB, 0, 4), unit, second, unit])
    assert [t.decode().tolist() for t in read_bitstream(data).tensors] == [[16.0, 32.0], [2.0, 4.0]]
    assert read(START + unit_bytes(1, b"\x3c\x00"))[1].quantization_method_flags == 0
    for units, message in (
        ([TENSOR], "has no NNR_MPS"),
        ([ModelParameterSet(True), TENSOR], "topology_carriage_flag is 1"),
        ([ModelParameterSet(), TopologyUnit(StorageFormat.NNEF, b"g")], "topology_carriage_flag is 0"),
    ):
        with pytest.warns(NnrWarning, match=message):
            read_bitstream(write_units([StartUnit(), *units]))


def test_clause_7_4_2_4_2_line_75_sparsification_is_metadata() -> None:
    """The decoder reports thresholds and accuracies, and never applies them."""
    data = START + write_unit(ModelParameterSet(sparsification=POINTS)) + write_unit(FLOATS)
    assert read(data)[1].sparsification == POINTS
    plain = read_bitstream(START + PARAMETERS + write_unit(FLOATS)).tensors[0].decode()
    assert np.array_equal(read_bitstream(data).tensors[0].decode(), plain)


def test_clause_7_4_2_4_2_line_76_ctu_sizes_are_reported_not_guessed() -> None:
    """64 >> max_ctu_dim_flag has no scan in the text: such tensors are unsupported (E-40)."""
    partitioned = write_unit(ModelParameterSet(ctu_partition_flag=True, max_ctu_dim_flag=2))
    found = read_bitstream(START + partitioned + write_unit(TENSOR) + PARAMETERS + write_unit(TENSOR))
    assert found.units[1].unit.max_ctu_dim_flag == 2
    with pytest.raises(NnrError, match="tensor 'a' is scanned in CTU blocks"):
        found.tensors[0].decode()
    assert found.tensors[1].decode().tolist() == LEVELS.tolist()


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("compressed", [False, True])
def test_clause_7_4_2_4_3_line_77_quantization_map(bits: int, compressed: bool) -> None:
    """Indices of three widths, zlib or not (E-45); metadata of the tensors that follow (E-43)."""
    entries = tuple((i % (1 << bits), i / 4) for i in range(300))
    table = QuantizationMap(entries, bits, compressed)
    unit = LayerParameterSet(0, NNR_QCB, 0, table)
    found = read_bitstream(START + PARAMETERS + write_unit(unit) + write_unit(TENSOR))
    assert found.tensors[0].layer == unit
    for body, message in (
        (b"\x02\x40\x03\0\0\0\0", "index_precision 3 is reserved"),
        (b"\x02\x40\x00\0\0\0\x03abc", "3 bytes is no row of 8-bit indices"),
        (b"\x02\x40\x00\x7f\0\0\0abc", "ends inside quantization_map_data"),
    ):
        with pytest.raises(NnrError, match=message):
            read(START + unit_bytes(2, body))


def test_quantization_maps_are_bounded() -> None:
    """A few bytes of zlib must not make millions of entries."""
    many = zlib.compress(bytes(5 * 70_000))
    body = b"\x02\x81\x00" + len(many).to_bytes(4, "big") + many
    with pytest.raises(NnrError, match="quantization_map_data: inflates to more than 327680 bytes"):
        read(START + unit_bytes(2, body))
    most = zlib.compress(bytes(5 * 65_536))
    body = b"\x02\x81\x00" + len(most).to_bytes(4, "big") + most
    with pytest.raises(NnrError, match="quantization maps have more than 131072 entries"):
        read(START + unit_bytes(2, body) * 17)
