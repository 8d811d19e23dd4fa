"""Payload coding (clauses 5.2 and 11): exact bytes, round trips, and every way a stream can be wrong."""

import json
import pathlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tosaic
from tosaic.hw.nnr_tables import RLPS, STATE_TRANSITION, TRANSITION
from tosaic.nnr import (
    NnrError,
    NnrWarning,
    decode_tensor,
    encode_codebook_tensor,
    encode_float_tensor,
    encode_raw_tensor,
    encode_tensor,
)
from tosaic.nnr import levels as coded

# Written by the reference family's encoder (nncodec 2.1.3 with its later "shift parameter ids" syntax removed).
REFERENCE = json.loads((pathlib.Path(__file__).parent / "reference_payloads.json").read_text())
INT32 = st.integers(-(2**31), 2**31 - 1)
LEVELS = st.lists(st.one_of(st.just(0), st.integers(-3, 3), st.integers(-200, 200), INT32), max_size=60)


def reachable(levels: list[int]) -> list[int]:
    """QuantParam values of dependent quantization whose coded levels are `levels` (11.1.2.4)."""
    state, values = 0, []
    for k in levels:
        values.append(2 * k - (state & 1) * (1 if k > 0 else -1) if k else 0)
        state = STATE_TRANSITION[state][k & 1]
    return values


@pytest.mark.parametrize("number", range(len(REFERENCE)))
def test_bytes_are_those_of_the_reference_codec(number: int) -> None:
    vector = REFERENCE[number]
    levels, length = np.array(vector["levels"]), vector["cabac_unary_length"]
    payload = bytes.fromhex(vector["payload"])
    if vector["kind"] == "int32":
        assert encode_tensor(levels, cabac_unary_length=length, dq=bool(vector["dq"])) == payload
        assert decode_tensor(payload, levels.shape, cabac_unary_length=length).tolist() == vector["levels"]
    elif vector["kind"] == "float32":
        assert (
            encode_float_tensor(levels, vector["qp"], cabac_unary_length=length, dq=bool(vector["dq"]))
            == payload
        )
        found = coded.decode(payload, levels.size, length, qp_bits=8)
        assert (found.levels.tolist(), found.qp, found.dq_flag) == (
            vector["levels"],
            vector["qp"],
            bool(vector["dq"]),
        )
    else:
        assert encode_codebook_tensor(levels, cabac_unary_length=length) == payload
        assert (
            coded.decode(payload, levels.size, length, has_dq_flag=False).levels.tolist() == vector["levels"]
        )


@settings(deadline=None)
@given(LEVELS, st.sampled_from([1, 2, 10, 11, 255]))
def test_int32_round_trip(levels: list[int], length: int) -> None:
    payload = encode_tensor(np.array(levels, np.int64), cabac_unary_length=length)
    found = decode_tensor(payload, (len(levels),), cabac_unary_length=length)
    assert found.dtype == np.int32
    assert found.tolist() == levels


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(-4, 4), st.integers(-(2**30), 2**30)), max_size=60), st.integers(1, 12))
def test_dependent_round_trip(levels: list[int], length: int) -> None:
    values = [min(v, 2**31 - 1) if v < 2**31 else 0 for v in reachable(levels)]
    if values != reachable(levels):
        values = reachable([0 for _ in levels])
    payload = encode_tensor(np.array(values, np.int64), cabac_unary_length=length, dq=True)
    assert decode_tensor(payload, (len(values),), cabac_unary_length=length).tolist() == values


def test_dependent_quantization_refuses_what_its_state_cannot_reach() -> None:
    # State 0 reaches even values only.
    with pytest.raises(NnrError, match="^NNR level 1 is 3, which dependent quantization cannot reach there"):
        encode_tensor(np.array([0, 3]), dq=True)


def test_unary_length_0_goes_straight_to_the_prefix() -> None:
    levels = np.array([1, -2, 0, 77, 2**31 - 1])
    assert decode_tensor(
        encode_tensor(levels, cabac_unary_length=0), (5,), cabac_unary_length=0
    ).tolist() == list(levels)
    with pytest.raises(NnrError, match="too large for this cabac_unary_length"):
        encode_tensor(np.array([-(2**31)]), cabac_unary_length=0)


def test_shapes_scalar_and_empty() -> None:
    assert decode_tensor(encode_tensor(np.array(5)), ()).shape == ()
    assert decode_tensor(encode_tensor(np.zeros((3, 0), int)), (3, 0)).shape == (3, 0)
    # low = 508 after dq_flag 0 (doubled range 510 - 2), its last bit set: 10 bits 01 1111 1101.
    assert encode_tensor(np.zeros((0, 4), int)).hex() == "7f40"


@pytest.mark.parametrize(
    ("qp", "density", "value"), [(0, 2, 1.0), (-1, 2, 0.875), (5, 2, 2.5), (-12, 2, 0.125), (7, 0, 128.0)]
)
def test_step_size_is_mul_times_a_power_of_two(qp: int, density: int, value: float) -> None:
    levels = np.array([1, -2, 0])
    payload = encode_float_tensor(levels, qp, qp_density=density)
    found = decode_tensor(payload, (3,), payload_type="float32", qp_density=density)
    assert found.dtype == np.float32
    assert found.tolist() == [value, -2 * value, 0.0]


def test_quantization_parameter_is_added_to_the_coded_qp() -> None:
    payload = encode_float_tensor(np.array([1]), 9, quantization_parameter=13)
    found = decode_tensor(payload, (1,), payload_type="float32", quantization_parameter=13)
    assert found.tolist() == [4.0 * 1.25]
    assert coded.decode(payload, 1, 10, qp_bits=8).qp == -4


def test_a_float_that_needs_rounding_is_rounded_once_and_reported() -> None:
    payload = encode_float_tensor(np.array([2**24 + 1, 2**31 - 1]), 0)
    with pytest.warns(NnrWarning, match="rounded to float32"):
        found = decode_tensor(payload, (2,), payload_type="float32")
    assert found.tolist() == [2.0**24, 2.0**31]


def test_subnormal_and_overflowing_steps() -> None:
    payload = encode_float_tensor(np.array([3]), -150, qp_density=7)
    assert decode_tensor(payload, (1,), payload_type="float32", qp_density=7).tolist() == [3 * 234 * 2.0**-9]
    with pytest.warns(NnrWarning):
        far = decode_tensor(
            encode_float_tensor(np.array([3]), 0, qp_density=0),
            (1,),
            payload_type="float32",
            qp_density=0,
            quantization_parameter=-151,
        )
    assert far.tolist() == [2.0**-149]  # 3 * 2**-151 = 0.75 ulp
    with pytest.warns(NnrWarning):
        big = decode_tensor(
            encode_float_tensor(np.array([3]), 0, qp_density=0),
            (1,),
            payload_type="float32",
            qp_density=0,
            quantization_parameter=4000,
        )
    assert np.isinf(big).all()


def test_codebook() -> None:
    codebook = [-1.5, 0.0, 0.25, 4.0]
    indices = np.array([[0, 1], [2, 3]])
    payload = encode_codebook_tensor(indices, codebook_zero_offset=1)
    found = decode_tensor(
        payload, (2, 2), payload_type="cb_float32", codebook=codebook, codebook_zero_offset=1
    )
    assert found.tolist() == [[-1.5, 0.0], [0.25, 4.0]]
    with pytest.raises(NnrError, match="^NNR level 3 selects entry 3 of a codebook of 3$"):
        decode_tensor(
            payload, (2, 2), payload_type="cb_float32", codebook=codebook[:3], codebook_zero_offset=1
        )
    with pytest.raises(NnrError, match="^NNR level 0 selects entry -1 of a codebook of 4$"):
        decode_tensor(payload, (2, 2), payload_type="cb_float32", codebook=codebook, codebook_zero_offset=0)
    with pytest.raises(NnrError, match="needs its codebook"):
        decode_tensor(payload, (2, 2), payload_type="cb_float32")


def test_raw_keeps_every_bit() -> None:
    bits = np.array([0x7FC01234, 0xFF800000, 0x80000000, 1], np.uint32)
    payload = encode_raw_tensor(bits.view(np.float32))
    assert payload == bits.astype("<u4").tobytes()
    assert np.array_equal(decode_tensor(payload, (4,), payload_type="raw_float32").view(np.uint32), bits)
    with pytest.raises(NnrError, match="must have 20"):
        decode_tensor(payload, (5,), payload_type="raw_float32")


def test_every_truncation_and_every_extra_byte_is_an_error() -> None:
    levels = np.random.default_rng(3).integers(-300, 300, 200)
    payload = encode_tensor(levels, cabac_unary_length=2)
    for length in range(len(payload)):
        with pytest.raises(NnrError):
            decode_tensor(payload[:length], (200,), cabac_unary_length=2)
    with pytest.raises(NnrError, match="trailing data$"):
        decode_tensor(payload + b"\0", (200,), cabac_unary_length=2)


def test_wrong_element_counts() -> None:
    payload = encode_tensor(np.arange(-50, 50))
    for count in (0, 1, 99, 101, 128 * 8 * len(payload)):
        with pytest.raises(NnrError):
            decode_tensor(payload, (count,))
    with pytest.raises(NnrError, match="is too short for 18446462598732840960"):
        decode_tensor(payload, (65535, 65536, 2**32))


def test_termination_is_checked_bit_by_bit() -> None:
    payload = bytearray(encode_tensor(np.array([1, 2, 3, 4, 5, 6])))
    stop = payload[-1] & -payload[-1]
    assert 1 < stop < 128, "the example has padding after its stop bit"
    with pytest.raises(NnrError, match="nesting_zero_bit"):
        decode_tensor(bytes(payload[:-1]) + bytes([payload[-1] | 1]), (6,))
    with pytest.raises(NnrError, match="stop bit 0|terminating_one_bit 0"):
        decode_tensor(bytes(payload[:-1]) + bytes([payload[-1] ^ stop]), (6,))


def test_first_offset() -> None:
    for start in (b"\xff\x00", b"\xff\x80"):
        with pytest.raises(NnrError, match="starts with ivlOffset 51[01]"):
            decode_tensor(start + bytes(8), (1,))


def ones_after(prefix: list[tuple[int, int]]) -> bytes:
    """A payload of one level with the bins of `prefix` (context, value), then anything."""
    from tosaic.nnr import cabac_encode, jit
    from tosaic.nnr.cabac_tables import STATES_OF_CONTEXT, context_count, tables

    states = jit.zeros(STATES_OF_CONTEXT * context_count(1))
    out = jit.octets(b"", 4096)
    low, interval, queue, length = 0, 510, 1, 0
    for context, value in prefix:
        low, interval, queue = cabac_encode.encode_decision(
            states, tables(), context, value, low, interval, queue
        )
        low, queue, length = cabac_encode.write_queue(low, queue, out, length)
    return coded._finish(out, jit.ints((low, interval, queue, length))) + bytes(16)


def test_31_ones() -> None:
    greater2 = 29
    bins = [(0, 1), (24, 0), (27, 1)] + [(greater2 + j, 1) for j in range(31)]
    with pytest.raises(NnrError, match="^NNR level 0 has 31 ones in its abs_level_greater_x2 prefix"):
        decode_tensor(ones_after(bins), (1,), cabac_unary_length=1)


@pytest.mark.parametrize(("data", "length"), [(bytes(5), 3), (bytes(2), 0), (b"\xa6\0\0\0\x7f\xff", 0)])
def test_a_level_that_reads_beyond_the_end_is_truncated_whatever_it_seems(data: bytes, length: int) -> None:
    """Bits beyond the end are taken for zeros, which make 31 ones of it, or a level outside int32."""
    with pytest.raises(NnrError, match="is truncated: it ends inside level 0 of 1$"):
        decode_tensor(data, (1,), cabac_unary_length=length)
    with pytest.raises(NnrError, match="has 31 ones|is outside int32"):
        decode_tensor(data + bytes(64), (1,), cabac_unary_length=length)


def test_levels_past_int32() -> None:
    # 2 + (2**30 - 1) + 2**30 - 1 = 2**31 as a positive number, and as -2**31, which int32 holds.
    for sign, fits in ((0, False), (1, True)):
        payload = coded_level(sign, 2**30 - 1)
        if fits:
            assert decode_tensor(payload, (1,), cabac_unary_length=1).tolist() == [-(2**31)]
        else:
            with pytest.raises(NnrError, match="^NNR level 0 is outside int32$"):
                decode_tensor(payload, (1,), cabac_unary_length=1)


def coded_level(sign: int, remainder: int) -> bytes:
    """One level of 30 prefix ones, cabac_unary_length 1, coded without the encoder's own range check."""
    from tosaic.nnr import cabac_encode, jit
    from tosaic.nnr.cabac_tables import STATES_OF_CONTEXT, context_count, tables

    states = jit.zeros(STATES_OF_CONTEXT * context_count(1))
    out = jit.octets(b"", 4096)
    low, interval, queue, length = 0, 510, 1, 0
    bins = [(0, 1), (24, sign), (27 + sign, 1)] + [(29 + j, 1) for j in range(30)] + [(59, 0)]
    for context, value in bins:
        low, interval, queue = cabac_encode.encode_decision(
            states, tables(), context, value, low, interval, queue
        )
        low, queue, length = cabac_encode.write_queue(low, queue, out, length)
    low = (low << 30) + interval * remainder
    low, queue, length = cabac_encode.write_queue(low, queue + 30, out, length)
    return coded._finish(out, jit.ints((low, interval, queue, length)))


def test_arguments_out_of_range() -> None:
    for call, message in (
        (lambda: encode_tensor(np.array([2**31])), "must fit int32"),
        (lambda: encode_tensor(np.array([0.5])), "must be integers, not float64"),
        (lambda: encode_tensor(np.array([0]), cabac_unary_length=256), "must be 0..255, not 256"),
        (lambda: decode_tensor(b"", (1,), cabac_unary_length=-1), "must be 0..255, not -1"),
        (lambda: decode_tensor(b"", (-1,)), "has a negative size"),
        (lambda: decode_tensor(b"", (1,), payload_type="int8"), "'int8' is not one of int32, float32"),
        (lambda: decode_tensor(b"", (1,), payload_type="float32", qp_density=8), "must be 0..7, not 8"),
        (lambda: encode_float_tensor(np.array([0]), 128), r"qp 128 does not fit iae\(8\)"),
    ):
        with pytest.raises(NnrError, match=message):
            call()


def test_the_error_is_one_of_tosaic() -> None:
    assert issubclass(tosaic.NnrError, tosaic.Error)
    assert tosaic.NnrError is NnrError


def test_the_tables_are_the_texts() -> None:
    # Sums of the numbers as printed in 11.2.4.3.2 and 11.2.4.3.2.2.
    assert (len(RLPS), RLPS[0], RLPS[255]) == (256, 128, 4)
    assert (len(TRANSITION), TRANSITION[0], TRANSITION[16], TRANSITION[31]) == (32, 2512, 64, 0)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_mutated_payloads_raise_nothing_but_nnr_error(data: st.DataObject) -> None:
    levels = data.draw(st.lists(st.integers(-300, 300), min_size=1, max_size=60))
    payload = bytearray(encode_tensor(np.array(levels), cabac_unary_length=3))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = coded.decode(bytes(payload), len(levels), 3)
    except NnrError:
        return
    # What decodes is the one stream of other levels: they encode to the same bytes.
    assert encode_tensor(found.levels, cabac_unary_length=3, dq=found.dq_flag) == bytes(payload)
