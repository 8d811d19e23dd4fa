"""The checklist of the NNR text, clauses 4 to 6: conventions, decoding, data types. Names give clause and line."""

import pathlib
import re
import warnings

import numpy as np
import pytest
from nnr_examples import FLOATS, LEVELS, PARAMETERS, START, TENSOR, little_floats, packed, read, unit_bytes
from nnr_text_decoder import STATE_TRANSITION, TextDecoder, decode_int32

import tosaic
from tosaic.hw.nnr_tables import STATE_TRANSITION as OUR_STATE_TRANSITION
from tosaic.nnr import (
    CodedTensor,
    NnrError,
    NnrWarning,
    decode_tensor,
    decode_units,
    encode_codebook_tensor,
    encode_float_tensor,
    encode_raw_tensor,
    encode_tensor,
    quantize_dependent,
    read_bitstream,
    read_units,
    write_unit,
    write_units,
)
from tosaic.nnr import levels as coded
from tosaic.nnr.bits import BitReader, BitWriter
from tosaic.nnr.payload import step_size
from tosaic.nnr.units import (
    DataUnit,
    ModelParameterSet,
    QuantizationUnit,
    StartUnit,
    StorageFormat,
    TopologyUnit,
)

NNR = pathlib.Path(tosaic.nnr.__file__).parent


def reader(data: bytes) -> BitReader:
    return BitReader(data, 0, len(data), "test")


def test_clause_all_line_1_numbers() -> None:
    """The numbers are rebuilt: our messages and comments cite clauses of 4 to 11 and annexes A and B only."""
    text = "".join(path.read_text() for path in NNR.glob("*.py"))
    cited = {int(number) for number in re.findall(r"\((\d+)\.\d+(?:\.\d+)*\)", text)}
    assert cited <= set(range(4, 12))


def test_clause_4_line_2_results_are_exact() -> None:
    """The product of a level and the step is formed without error and rounded once, to nearest even."""
    level, qp, density = 2**24 + 3, 7 * 4 + 1, 2
    payload = encode_float_tensor(np.array([level]), qp, qp_density=density)
    with pytest.warns(NnrWarning, match="rounded to float32"):
        found = decode_tensor(payload, (1,), payload_type="float32")
    assert found.tolist() == [float(np.float32(level * 5 * 2**5))]
    for edge in (2**31 - 1, -(2**31)):
        assert decode_tensor(encode_tensor(np.array([edge])), (1,)).tolist() == [edge]


def test_clause_4_line_3_operators_on_twos_complement() -> None:
    """>> is arithmetic and & is two's complement: qp below zero is the normal case."""
    for qp in range(-40, 40):
        for density in range(8):
            mul, exponent = step_size(qp, density)
            k = 2**density
            assert mul == k + qp % k
            assert exponent == qp // k - density


def test_clause_4_line_4_state_table_in_c_order() -> None:
    """StateTransTab[stateId][parity], whatever clause 4 says of indexing (E-15)."""
    assert [list(row) for row in OUR_STATE_TRANSITION] == STATE_TRANSITION
    weights = np.random.default_rng(0).normal(size=50)
    payload = encode_tensor(quantize_dependent(weights, -8), dq=True)
    assert decode_int32(payload, 50, 10)[1].tolist() == decode_tensor(payload, (50,)).tolist()


def test_clause_5_line_5_bitstream_in_tensors_and_data_out() -> None:
    topology = TopologyUnit(StorageFormat.NNEF, b"graph")
    quantization = QuantizationUnit(StorageFormat.NNEF, b"q")
    data = write_units([StartUnit(), ModelParameterSet(True), topology, quantization, TENSOR, FLOATS])
    found = read_bitstream(data)
    assert (found.topology, found.quantization) == (topology, quantization)
    assert [tensor.decode().dtype for tensor in found.tensors] == [np.int32, np.float32]


def test_clause_5_line_6_information_by_other_means() -> None:
    """Dimensions from the caller; the others are inferred (E-18, E-35)."""
    unit = DataUnit(0, ("a",), TENSOR.payload)
    tensor = read_bitstream(START + PARAMETERS + write_unit(unit)).tensors[0]
    assert tensor.decode((3, 2)).tolist() == LEVELS.reshape(3, 2).tolist()
    assert (tensor.cabac_unary_length, tensor.qp_density, tensor.quantization_parameter) == (10, 2, 0)
    with pytest.raises(NnrError, match="they must be given"):
        tensor.decode()


@pytest.mark.filterwarnings("ignore::tosaic.nnr.NnrWarning")
def test_clause_5_line_7_start_unit_resets_the_decoder() -> None:
    payload = encode_float_tensor(np.array([1]), 0, qp_density=0)
    scaled = DataUnit(1, ("f",), payload, (1,))
    first = [StartUnit(), ModelParameterSet(qp_density=0, quantization_parameter=3), scaled]
    found = read_bitstream(write_units([*first, StartUnit(), FLOATS])).tensors
    assert found[0].decode().tolist() == [8.0]
    assert (found[1].qp_density, found[1].quantization_parameter, found[1].layer) == (2, 0, None)
    with pytest.raises(NnrError, match="does not start with an NNR_STR unit"):
        read(write_unit(TENSOR))


def test_clause_5_line_8_each_structure_as_soon_as_complete() -> None:
    """Delivered before damage that comes later is seen."""
    outputs = decode_units(read_units(START + PARAMETERS + write_unit(TENSOR) + b"\x00\x01damaged"))
    assert isinstance(next(outputs), ModelParameterSet)
    found = next(outputs)
    assert isinstance(found, CodedTensor)
    assert found.decode().tolist() == LEVELS.tolist()
    with pytest.raises(NnrError, match="nnr_unit_size 1"):
        next(outputs)


def test_clause_5_1_line_9_decompressed_data_formats() -> None:
    """Table 2: TENSOR_INT32 0, TENSOR_FLOAT32 1."""
    for unit, value, dtype in ((TENSOR, 0, np.int32), (FLOATS, 1, np.float32)):
        flagged = DataUnit(
            unit.payload_type, unit.ref_ids, unit.payload, (2, 3), decompressed_data_format=value
        )
        tensor = read_bitstream(START + PARAMETERS + write_unit(flagged)).tensors[0]
        assert tensor.unit.decompressed_data_format == value
        assert tensor.decode().dtype == dtype
    for kind, wrong in ((0, 1), (1, 0), (2, 0), (3, 0), (0, 2), (3, 127)):
        body = packed((5, kind), (1, 0), (1, 1), (1, 0)) + b"a\0"
        body += bytes([0]) + bytes(2) if kind == 2 else b""
        with pytest.raises(NnrError, match=f"nnr_decompressed_data_format {wrong} contradicts"):
            read(START + unit_bytes(5, body + packed((7, wrong), (1, 1)) + b"x"))


def test_clause_5_2_line_10_payload_types() -> None:
    """Table 3."""
    book = (-1.0, 0.0, 1.0, 2.0, 3.0, 4.0)
    units = [
        TENSOR,
        FLOATS,
        DataUnit(2, ("c",), encode_codebook_tensor(LEVELS + 3), (2, 3), None, book),
        DataUnit(3, ("r",), encode_raw_tensor(LEVELS), (2, 3)),
    ]
    found = read_bitstream(START + PARAMETERS + b"".join(map(write_unit, units))).tensors
    step = 2.0**-3 * 1.75
    assert found[0].decode().tolist() == LEVELS.tolist()
    assert found[1].decode().tolist() == (LEVELS * step).tolist()
    assert found[2].decode().tolist() == np.array(book).reshape(2, 3).tolist()
    assert found[3].decode().tolist() == LEVELS.tolist()
    for kind in range(4, 32):
        reserved = read_bitstream(START + PARAMETERS + write_unit(DataUnit(kind, ("x",), b""))).tensors[0]
        with pytest.raises(NnrError, match=f"reserved payload type {kind}"):
            reserved.decode()


@pytest.mark.parametrize("dq", [False, True])
def test_clause_5_2_1_line_11_int32(dq: bool) -> None:
    """Initialization, dq_flag, quant_tensor_term; RecParam = QuantParam within int32."""
    values = (
        quantize_dependent(np.random.default_rng(1).laplace(0, 30, 200), 0) if dq else np.arange(-100, 100)
    )
    payload = encode_tensor(values, cabac_unary_length=3, dq=dq)
    assert decode_int32(payload, 200, 3) == (int(dq), pytest.approx(values))
    assert np.array_equal(decode_tensor(payload, (8, 25), cabac_unary_length=3), values.reshape(8, 25))


@pytest.mark.parametrize("dq", [False, True])
def test_clause_5_2_2_line_12_float32_order(dq: bool) -> None:
    """quant_param, then dq_flag, then the levels, in one codeword (E-12, E-16)."""
    values = quantize_dependent(np.random.default_rng(2).laplace(0, 9, 60), 0) if dq else np.arange(-30, 30)
    decoder = TextDecoder(encode_float_tensor(values, -77, qp_density=3, dq=dq))
    assert decoder.iae(6 + 3) == -77
    assert decoder.uae(1) == int(dq)
    assert decoder.quant_tensor(60, 10, int(dq)) == values.tolist()
    decoder.finish()


@pytest.mark.parametrize("density", range(8))
def test_clause_5_2_2_line_13_step_size(density: int) -> None:
    """(2**d + (qp & (2**d - 1))) * 2**((qp >> d) - d) with qp = decoded qp + quantization_parameter (E-17)."""
    for coded_qp, parameter in ((0, 0), (3, 0), (-1, 0), (-20, 5), (17, -40), (-31, -7)):
        qp = coded_qp + parameter
        expected = (2**density + qp % 2**density) * 2.0 ** (qp // 2**density - density)
        payload = encode_float_tensor(
            np.array([1, -3, 0]), qp, qp_density=density, quantization_parameter=parameter
        )
        found = decode_tensor(
            payload, (3,), payload_type="float32", qp_density=density, quantization_parameter=parameter
        )
        assert found.tolist() == [expected, -3 * expected, 0.0]


def test_clause_5_2_3_line_14_codebook() -> None:
    """codebook[QuantParam + codebook_zero_offset]; no dq_flag in the payload (E-14), no index outside (E-19)."""
    book = np.array([4.0, -0.5, np.pi, 1e-40], np.float32)
    indices = np.array([3, 0, 1, 2, 1])
    payload = encode_codebook_tensor(indices, codebook_zero_offset=1)
    decoder = TextDecoder(payload)
    assert decoder.quant_tensor(5, 10, 0) == [2, -1, 0, 1, 0]
    decoder.finish()
    arguments = {"payload_type": "cb_float32", "codebook_zero_offset": 1}
    found = decode_tensor(payload, (5,), codebook=book, **arguments)
    assert np.array_equal(found, book[indices])
    with pytest.raises(NnrError, match="level 0 selects entry 3 of a codebook of 3"):
        decode_tensor(payload, (5,), codebook=book[:3], **arguments)
    empty = encode_codebook_tensor(np.zeros(0, int))
    assert decode_tensor(empty, (0,), payload_type="cb_float32", codebook=[]).shape == (0,)


def test_clause_5_2_4_line_15_raw_float32() -> None:
    bits = np.array([0x7FC01234, 0xFF800000, 0x80000000, 0x00000001, 0x3F800000], np.uint32)
    found = decode_tensor(bits.astype("<u4").tobytes(), (5,), payload_type="raw_float32")
    assert np.array_equal(found.view(np.uint32), bits)
    for wrong in (b"", bytes(19), bytes(21)):
        with pytest.raises(NnrError, match="must have 20"):
            decode_tensor(wrong, (5,), payload_type="raw_float32")


@pytest.mark.parametrize("part_bytes", [1, 3, 100])
def test_clause_5_2_x_line_16_units_decompressed_together(part_bytes: int) -> None:
    """Payload bytes of the parts are put together and decoded once (E-27)."""
    levels = np.random.default_rng(3).integers(-9, 9, 100)
    unit = DataUnit(0, ("a",), encode_tensor(levels), (100,))
    data = START + PARAMETERS + write_unit(unit, part_bytes=part_bytes)
    assert read_bitstream(data).tensors[0].decode().tolist() == levels.tolist()


def test_clause_6_2_line_17_most_significant_bit_first() -> None:
    bits = reader(bytes([0b10110001, 0b01000000]))
    assert [bits.u(1, "x"), bits.u(3, "x"), bits.u(6, "x")] == [1, 0b011, 0b000101]
    writer = BitWriter()
    for count, value in ((1, 1), (3, 3), (6, 5), (6, 0)):
        writer.u(count, value, "x")
    assert writer.octets() == bytes([0b10110001, 0b01000000])


def test_clause_6_3_line_18_byte_aligned_and_read_bits() -> None:
    bits = reader(bytes([0xA5, 0x3C, 0xFF]))
    assert bits.byte_aligned
    assert bits.u(4, "x") == 0xA
    assert not bits.byte_aligned
    assert bits.u(12, "x") == 0x53C
    assert (bits.byte_aligned, bits.position) == (True, 2)
    with pytest.raises(NnrError, match="the unit ends inside x"):
        bits.u(9, "x")


def test_clause_6_3_line_19_size_prod_and_tensor_index() -> None:
    """Row-major: the first dimension is outermost. The product of no dimensions is 1, a scalar (E-37)."""
    values = np.arange(24)
    payload = encode_tensor(values)
    for shape in ((24,), (2, 3, 4), (4, 3, 2), (1, 24, 1)):
        assert np.array_equal(decode_tensor(payload, shape), values.reshape(shape))
    scalar = decode_tensor(encode_tensor(np.array(-7)), ())
    assert (scalar.shape, int(scalar)) == ((), -7)
    assert decode_tensor(encode_tensor(np.zeros((3, 0), int)), (3, 0)).shape == (3, 0)


def test_clause_6_3_line_20_ae() -> None:
    """ae(v): context-coded bins; ae(t): the terminating bin. Bins of one kind of level use their contexts alone."""
    decoder = TextDecoder(encode_tensor(np.array([0, 0, 5, -1])))
    assert decoder.uae(1) == 0
    assert decoder.quant_tensor(4, 10, 0) == [0, 0, 5, -1]
    assert decoder.terminate() == 1
    used = {element for element, _ in decoder.contexts}
    assert used == {"sig_flag", "sign_flag", "abs_level_greater_x"}


def test_clause_6_3_line_21_iae_and_uae() -> None:
    """Bypass bins, most significant first; iae is two's complement."""
    for qp in (-128, -1, 0, 1, 127):
        payload = encode_float_tensor(np.zeros(3, int), qp)
        assert coded.decode(payload, 3, 10, qp_bits=8).qp == qp
        assert TextDecoder(payload).uae(8) == qp & 255
    assert TextDecoder(payload).uae(0) == 0
    with pytest.raises(NnrError, match=r"qp 128 does not fit iae\(8\)"):
        encode_float_tensor(np.zeros(3, int), 128)


def test_clause_6_3_line_22_f_i_u() -> None:
    data = packed((13, -4096), (3, 5), (13, 4095), (3, 0))
    bits = reader(data)
    assert [bits.i(13, "x"), bits.u(3, "x"), bits.i(13, "x"), bits.u(3, "x")] == [-4096, 5, 4095, 0]
    writer = BitWriter()
    writer.i(13, -4096, "x")
    writer.u(3, 5, "x")
    writer.i(13, 4095, "x")
    writer.u(3, 0, "x")
    assert writer.octets() == data
    for call in (lambda: BitWriter().i(13, 4096, "x"), lambda: BitWriter().u(3, 8, "x")):
        with pytest.raises(NnrError, match="does not fit"):
            call()


def test_clause_6_3_line_23_flt_is_little_endian() -> None:
    values = (1.0, -0.5, float("inf"), 2.0**-149)
    bits = reader(little_floats(values))
    assert bits.flt32("x") == 1.0
    assert bits.flt32_list(3, "x") == values[1:]
    assert reader(b"\x00\x00\x80\x3f").flt32("x") == 1.0


def test_clause_6_3_line_24_st() -> None:
    """UTF-8 from a byte boundary up to 0x00."""
    text = reader("gé/ω".encode() + b"\0\0rest")
    assert (text.st("x"), text.st("x")) == ("gé/ω", "")
    for data, message in ((b"abc", "no terminating 0x00"), (b"\xff\0", "not UTF-8")):
        with pytest.raises(NnrError, match=message):
            reader(data).st("x")
    with pytest.raises(NnrError, match="holds a 0x00"):
        BitWriter().st("a\0b", "x")


def test_clause_6_3_line_25_more_data_is_never_asked() -> None:
    """No syntax table uses more_data_in_nnr_unit: a unit ends where nnr_unit_size says, and all of it is used."""
    for kind, body in ((0, b"\0"), (1, b"\x00\x00\x00"), (2, b"\x00\x00")):
        with pytest.raises(NnrError, match="has 1 bytes after its payload"):
            read(START + unit_bytes(kind, body))
    assert not any("more_data" in path.read_text() for path in NNR.glob("*.py"))


def test_clause_6_4_line_26_reserved_bits() -> None:
    """Written as 0, ignored when read: in unit headers, parameter sets and aggregates."""
    assert read(START + bytes.fromhex("000500007f")) == [StartUnit(), StartUnit()]
    assert read(START + unit_bytes(1, b"\x3c\x7f"))[1] == ModelParameterSet(quantization_method_flags=0)
    members = write_unit(TENSOR) * 2
    for reserved in (0, 0x7F):
        found = read(START + unit_bytes(6, bytes([0, reserved, 0, 0]) + members))
        assert found[1].units == (TENSOR, TENSOR)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert write_unit(ModelParameterSet())[-1] == 0
