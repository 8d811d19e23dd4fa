"""The checklist of the NNR text, clauses 7.1 to 7.3.4: units, sizes, headers. Names give clause and line."""

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

from tosaic.nnr import NnrError, NnrWarning, encode_codebook_tensor, read_bitstream, read_units, write_unit
from tosaic.nnr.units import (
    AggregateType,
    AggregateUnit,
    Compression,
    DataUnit,
    LayerParameterSet,
    ModelParameterSet,
    QuantizationUnit,
    StartUnit,
    StorageFormat,
    TopologyUnit,
)

# The data unit's first byte: payload type, then its three flags.
SEVERAL, FORMAT, PARAMETERS_PRESENT = 4, 2, 1


def ndu(first: int, *rest: bytes) -> bytes:
    """NNR_STR and an NNR_NDU whose header is spelled out."""
    return START + unit_bytes(5, bytes([first]) + b"".join(rest))


def test_clause_7_1_1_line_27_size_header_payload() -> None:
    assert START == bytes.fromhex("0005 00 00 00")
    assert write_unit(ModelParameterSet()) == bytes.fromhex("0009 01 00 00") + bytes.fromhex("01 4000 00")
    assert write_unit(DataUnit(0, ("a",), b"\x55")) == bytes.fromhex("000a 05 00 00 00 6100 80 55")


def test_clause_7_1_2_line_28_aggregate_unit() -> None:
    members = write_unit(TENSOR) + write_unit(FLOATS)
    data = write_unit(AggregateUnit((TENSOR, FLOATS)))
    assert data == unit_bytes(6, bytes([0, 0, 0, 0]) + members)
    placed = list(read_units(START + data))
    assert [p.depth for p in placed] == [0, 0, 1, 1]
    assert [t.name for t in read_bitstream(START + PARAMETERS + data).tensors] == ["a", "f"]


def test_clause_7_3_1_line_29_sequence_of_units() -> None:
    assert read(START + PARAMETERS + write_unit(TENSOR)) == [StartUnit(), ModelParameterSet(), TENSOR]
    for data, message in ((b"", "has no unit"), (PARAMETERS, "does not start with an NNR_STR unit")):
        with pytest.raises(NnrError, match=message):
            read(data)
    assert [p.unit for p in read_units(write_unit(TENSOR), start_required=False)] == [TENSOR]


def test_clause_7_3_2_line_30_unit_fills_its_size() -> None:
    """numBytesInNNRUnit is nnr_unit_size (E-28)."""
    for size, message in ((4, "smaller than its header"), (10, "but only 9 bytes follow")):
        with pytest.raises(
            NnrError, match=f"nnr_unit_size {size}, .*{message}|nnr_unit_size {size}, {message}"
        ):
            read(START + size.to_bytes(2, "big") + PARAMETERS[2:])
    with pytest.raises(NnrError, match="ends inside nnr_reserved_zero_7bits|ends inside"):
        read(START + b"\x00\x08" + PARAMETERS[2:-1])
    with pytest.raises(NnrError, match="1 bytes after its payload"):
        read(START + b"\x00\x0a" + PARAMETERS[2:] + b"\0")


def test_clause_7_3_3_line_31_unit_size() -> None:
    """15 bits, or 31 when the flag is set; the long form is accepted for small units."""
    assert read(START + bytes.fromhex("80000007 00 00 00")) == [StartUnit(), StartUnit()]
    empty = len(write_unit(DataUnit(0, ("a",), b"")))
    for payload_bytes, long_form in ((32767 - empty, False), (32768 - empty, True)):
        unit = DataUnit(0, ("a",), bytes(payload_bytes))
        data = write_unit(unit)
        assert data[0] >> 7 == long_form
        size = int.from_bytes(data[: 4 if long_form else 2], "big") & (0x7FFFFFFF if long_form else 0x7FFF)
        assert size == len(data)
        assert reread(unit) == unit
    for data, message in (
        (b"\x00", "ends inside nnr_unit_size"),
        (b"\x80\x00\x00", "ends inside nnr_unit_size"),
        (bytes.fromhex("80000006000000"), "nnr_unit_size 6, smaller than its header"),
    ):
        with pytest.raises(NnrError, match=message):
            read(START + data)


def test_clause_7_3_4_line_32_unit_header() -> None:
    """Type, partial_data_counter, independently_decodable_flag, reserved."""
    placed = list(read_units(START + b"\x00\x05\x00\x00\xff"))
    assert [p.not_independent for p in placed] == [False, True]
    parts = write_unit(TENSOR, part_bytes=len(TENSOR.payload) - 1)
    size = int.from_bytes(parts[:2], "big")
    assert (parts[2], parts[3], parts[size + 2], parts[size + 3]) == (5, 1, 5, 0)


def test_clause_7_3_4_1_line_33_start_unit_header_is_empty() -> None:
    assert write_unit(StartUnit()) == unit_bytes(0, b"")


def test_clause_7_3_4_2_line_34_model_parameter_set_header_is_empty() -> None:
    """The payload follows the common header: quantization_method_flags 1, qp_density 2."""
    assert write_unit(ModelParameterSet())[5:] == packed((2, 0), (6, 1), (3, 2), (13, 0), (8, 0))


def test_clause_7_3_4_3_line_35_layer_parameter_set_header_is_empty() -> None:
    assert write_unit(LayerParameterSet()) == unit_bytes(2, b"\x00")
    assert read(START + unit_bytes(2, b"\x80"))[1] == LayerParameterSet(1)


def test_clause_7_3_4_4_line_36_topology_unit_header() -> None:
    """0x40 uncompressed, 0x81 deflated, 0x80 accepted, other formats refused (E-32)."""
    raw = TopologyUnit(StorageFormat.NNEF, b"g")
    assert write_unit(raw) == unit_bytes(3, b"\x00\x40g\0")
    deflated = TopologyUnit(StorageFormat.ONNX, b"g", Compression.DFL)
    assert write_unit(deflated)[5:7] == b"\x01\x81"
    assert (reread(raw), reread(deflated)) == (raw, deflated)
    assert read(START + unit_bytes(3, b"\x00\x80g\0"))[1] == raw
    for byte in (0x00, 0x41, 0x60):
        with pytest.raises(NnrError, match=r"byte_alignment\(\) is not a 1 followed by zeros"):
            read(START + unit_bytes(3, bytes([0, byte]) + b"g\0"))
    for byte in (0x82, 0xFF):
        with pytest.raises(NnrError, match=f"compression_format {byte & 127} is reserved"):
            read(START + unit_bytes(3, bytes([0, byte]) + b"g\0"))


def test_clause_7_3_4_5_line_37_quantization_unit_header() -> None:
    for unit in (
        QuantizationUnit(StorageFormat.NNEF, b'"x": linear();'),
        QuantizationUnit(StorageFormat.ONNX, b"\x00\x01", Compression.DFL),
    ):
        header = bytes([unit.storage_format, 0x81 if unit.compression else 0x40])
        assert write_unit(unit)[5:7] == header
        assert reread(unit) == unit


def test_clause_7_3_4_6_line_38_payload_type_and_three_flags() -> None:
    for kind in (0, 1, 3, 17, 31):
        unit = DataUnit(kind, ("a",), b"x")
        assert write_unit(unit)[5] == kind << 3
        assert reread(unit) == unit
    every = DataUnit(0, ("a", "b"), b"x", (3,), 1, decompressed_data_format=0)
    assert write_unit(every)[5] == SEVERAL | FORMAT | PARAMETERS_PRESENT
    assert reread(every) == every


def test_clause_7_3_4_6_line_39_ref_id_or_list() -> None:
    assert read(ndu(0, b"conv/w\0", b"\x80"))[1] == DataUnit(0, ("conv/w",), b"")
    assert read(ndu(SEVERAL, b"\x02", b"a\0b\0", b"\x80"))[1] == DataUnit(0, ("a", "b"), b"")
    for data, message in (
        (ndu(0, b"abc"), "ref_id has no terminating 0x00"),
        (ndu(0, b"\xff\0\x80"), "ref_id is not UTF-8"),
        (ndu(SEVERAL, b"\x03a\0b\0\x80"), "ref_id has no terminating 0x00"),
    ):
        with pytest.raises(NnrError, match=message):
            read(data)


def test_clause_7_3_4_6_line_40_codebook() -> None:
    book = (-1.5, 0.0, 2.25)
    unit = DataUnit(2, ("a",), encode_codebook_tensor(np.array([0, 2])), (2,), None, book, 1)
    assert write_unit(unit)[8:23] == b"\x01\x00\x03" + little_floats(book)
    assert reread(unit) == unit
    assert reread(DataUnit(2, ("a",), b"\x7f\x40", (0,))).codebook == ()
    with pytest.raises(NnrError, match="ends inside codebook"):
        read(ndu(2 << 3, b"a\0", b"\x00\x00\x02", bytes(7)))
    with pytest.raises(NnrError, match="codebook_size 65536 does not fit 16 bits"):
        write_unit(DataUnit(2, ("a",), b"", (0,), None, (0.0,) * 65536))


def test_clause_7_3_4_6_line_41_decompressed_data_format() -> None:
    """u(7), only when flagged; then byte_alignment()."""
    unit = DataUnit(1, ("a",), b"x", decompressed_data_format=1)
    assert write_unit(unit)[5:] == bytes([1 << 3 | FORMAT]) + b"a\0" + packed((7, 1), (1, 1)) + b"x"
    assert reread(unit) == unit
    # Of a reserved payload type nothing is implied.
    assert read(ndu(9 << 3 | FORMAT, b"a\0", packed((7, 1), (1, 1))))[1].decompressed_data_format == 1


def test_clause_7_3_4_6_line_42_flags_of_dimensions_and_unary_length() -> None:
    for dimensions in (None, (), (7,)):
        for length in (None, 0, 255):
            unit = DataUnit(0, ("a",), b"x", dimensions, length)
            assert reread(unit) == unit
            present = dimensions is not None or length is not None
            assert write_unit(unit)[5] & 1 == present
    # input_parameters_present_flag 1 with both flags 0 says nothing.
    assert read(ndu(1, b"a\0", packed((2, 0), (6, 0b100000)), b"x"))[1] == DataUnit(0, ("a",), b"x")


def test_clause_7_3_4_6_line_43_byte_alignment_always() -> None:
    """An aligned header ends with 0x80 (E-33)."""
    assert write_unit(DataUnit(0, ("a",), b"x"))[5:] == b"\x00a\0\x80x"
    for byte in (0x00, 0x81, 0x40, 0xC0):
        with pytest.raises(NnrError, match=r"byte_alignment\(\) is not a 1 followed by zeros"):
            read(ndu(0, b"a\0", bytes([byte])))


def test_clause_7_3_4_6_line_44_tensor_dimensions() -> None:
    """count u(8), each u(16), not aligned to bytes (E-34)."""
    unit = DataUnit(0, ("a",), b"", (2, 65535, 0))
    body = packed((2, 0b10), (8, 3), (16, 2), (16, 65535), (16, 0), (6, 0b100000))
    assert write_unit(unit)[5:] == b"\x01a\0" + body
    assert reread(unit) == unit
    longest = DataUnit(0, ("a",), b"", (1,) * 255)
    assert reread(longest) == longest
    with pytest.raises(NnrError, match="tensor_dimensions 65536 does not fit 16 bits"):
        write_unit(DataUnit(0, ("a",), b"", (65536,)))
    with pytest.raises(NnrError, match="ends inside tensor_dimensions"):
        read(ndu(1, b"a\0", packed((2, 0b10), (8, 9), (16, 1))))


def test_clause_7_3_4_6_line_45_topology_elements_ids_list() -> None:
    """One tensor with several names (E-38); a count of 0 is an error."""
    unit = DataUnit(0, ("a", "b", "c"), TENSOR.payload, (2, 3))
    found = read_bitstream(START + PARAMETERS + write_unit(unit)).tensors
    assert [t.unit.ref_ids for t in found] == [("a", "b", "c")]
    assert found[0].decode().tolist() == LEVELS.tolist()
    with pytest.raises(NnrError, match="count_topology_elements is 0"):
        read(ndu(SEVERAL, b"\x00\x80"))
    with pytest.raises(NnrError, match="count_topology_elements 256 does not fit 8 bits"):
        write_unit(DataUnit(0, ("a",) * 256, b""))


def test_clause_7_3_4_7_line_46_aggregate_unit_header() -> None:
    """Type, entry_points_present_flag, reserved, num_of_nnr_units_minus2."""
    data = write_unit(AggregateUnit((TENSOR,) * 5, entry_points=True))
    assert data[5:9] == bytes([0, 0x80, 0, 3])
    for count, message in ((1, "at least 2 units, not 1"), (0, "at least 2 units, not 0")):
        with pytest.raises(NnrError, match=message):
            write_unit(AggregateUnit((TENSOR,) * count))
    with pytest.raises(NnrError, match="65537 units do not fit 0 bytes"):
        read(START + unit_bytes(6, b"\0\0\xff\xff"))
    with pytest.warns(NnrWarning, match="reserved type 3; skipped"):
        read(START + unit_bytes(6, b"\x03\0\0\0"))


def test_clause_7_3_4_7_line_47_entry_points() -> None:
    """Type and offset from the aggregate's first byte; hints that must agree with the sizes (E-39)."""
    unit = AggregateUnit((TENSOR, ModelParameterSet()), entry_points=True)
    data = write_unit(unit)
    first = 5 + 4 + 2 * 3
    second = first + len(write_unit(TENSOR))
    assert data[9:15] == bytes([5]) + first.to_bytes(2, "big") + bytes([1]) + second.to_bytes(2, "big")
    assert read(START + data)[1] == unit
    for position, message in ((9, "entry point 0 says type 4"), (14, "entry point 1 says type 1 at offset")):
        wrong = bytearray(data)
        wrong[position] -= 1
        with pytest.raises(NnrError, match=message):
            read(START + bytes(wrong))
    # Beyond u(16) a writer leaves them out.
    big = AggregateUnit((DataUnit(0, ("big",), bytes(70000)), TENSOR), entry_points=True)
    assert reread(big).entry_points is False


def test_clause_7_3_4_7_line_48_placeholder_aggregates() -> None:
    """quant_bitdepth, and ctu_scan_order only where the last NNR_MPS has ctu_partition_flag (E-40)."""
    plain = AggregateUnit((TENSOR, TENSOR), AggregateType.XYZ_1, False, (4, 31), (0, 0))
    assert write_unit(plain)[9:11] == packed((5, 4), (3, 0), (5, 31), (3, 0))
    assert reread(plain) == plain
    scanned = AggregateUnit((TENSOR, TENSOR), AggregateType.XYZ_2, True, (4, 31), (1, 0))
    partitioned = write_unit(ModelParameterSet(ctu_partition_flag=True))
    assert read(START + partitioned + write_unit(scanned))[2] == scanned
    assert read(START + write_unit(scanned))[1].ctu_scan_orders == (0, 0)
    for data in (START + PARAMETERS + write_unit(plain), START + partitioned + write_unit(TENSOR)):
        with pytest.raises(NnrError, match="scanned in CTU blocks, which the text does not define"):
            read_bitstream(data).tensors[0].decode()


def test_clause_7_3_4_4_line_36_deflated_means_zlib() -> None:
    """RFC 1950, as the text says, not RFC 1951 (E-31)."""
    assert read(START + unit_bytes(3, b"\x00\x81" + zlib.compress(b"g")))[1].data == b"g"
    bare = zlib.compressobj(wbits=-15)
    with pytest.raises(NnrError, match="not a zlib stream"):
        read(START + unit_bytes(3, b"\x00\x81" + bare.compress(b"g") + bare.flush()))
