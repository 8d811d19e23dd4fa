"""The CABAC decoder in Amaranth's simulator, cycle by cycle: words, results, start-up and rate."""

import numpy as np
import pytest
from cabac_models import Bench, Tensor, check, code, config_of

from tosaic.hw.cabac import UNARY_MAX, DecodeError
from tosaic.nnr import quantize_dependent


def levels_of(seed, count, largest=100, zeros=0.0):
    rng = np.random.default_rng(seed)
    values = rng.integers(-largest, largest + 1, count)
    return np.where(rng.random(count) < zeros, 0, values)


@pytest.mark.parametrize("unary_length", [0, 1, 10, UNARY_MAX])
def test_unary_lengths(unary_length):
    tensor = code(levels_of(1, 24, 30), unary_length=unary_length, number=1234)
    check(config_of(8), [tensor])


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_tensors_follow_each_other(stall):
    """Different settings, nothing left over from the tensor before; partial words; no levels at all."""
    dependent = quantize_dependent(np.random.default_rng(2).normal(0, 3, 27), 0)
    check(
        config_of(4),
        [
            code(levels_of(3, 30, 5, zeros=0.5), unary_length=3, number=1),
            code(dependent, dq=True, unary_length=1, number=2),
            code(levels_of(4, 1), unary_length=2, number=3, offset=3),
            code([], number=4),
            code(levels_of(5, 13), unary_length=1, qp_bits=8, number=5, offset=1),
            code(levels_of(6, 8), unary_length=1, qp_bits=13, number=6),
            code(levels_of(7, 6, 3), unary_length=1, dq_coded=False, number=7),
        ],
        stall=stall,
    )


@pytest.mark.parametrize("engines", [2, 4])
def test_engines_side_by_side(engines):
    """Jobs may use fewer streams than there are engines; streams of unequal length, and empty ones."""
    config = config_of(4, engines)
    tensors = [
        code(levels_of(10 + count, count, 9, zeros=0.3), streams=streams, unary_length=2, number=count)
        for count, streams in ((21, engines), (5, engines), (17, 2), (9, 1), (32, engines))
    ]
    check(config, tensors, stall=0.3)


def test_int4_bounds_and_extreme_levels_saturate():
    values = [-9, -8, -7, 7, 8, 0, 2**31 - 1, -(2**31), 300, -300, 128, -129]
    int4 = code(values, unary_length=1, low=-8, high=7)
    int8 = code(values, unary_length=4)
    bench = check(config_of(4), [int4, int8])
    assert [result["saturated"] for result in bench.results] == [8, 6]


def test_start_up_takes_at_most_40_cycles():
    """A tensor of one zero, less what follows its bin: eight cycles of checks and the rest of its word."""
    for columns, offset in ((4, 0), (4, 3), (32, 31)):
        one = Bench(config_of(columns), [code([0], offset=offset)]).run()
        many = Bench(config_of(columns), [code([0] * 65, offset=offset)]).run()
        start_up = one.result_cycles[0] - one.job_cycles[0]
        # A zero costs one cycle; 64 more of them are whole words.
        assert many.result_cycles[0] - many.job_cycles[0] == start_up + 64
        first_bin = start_up - 8 - (columns - 1)
        assert first_bin == (23 if offset < 14 else offset + 9)
        assert first_bin <= 40


def test_a_context_coded_bin_or_three_bypass_bins_per_cycle():
    """Cycles of a level, from tensors that differ in one more of it."""

    def cycles(values):
        bench = Bench(config_of(32), [code(values, unary_length=1)], limit=2000).run()
        return bench.result_cycles[0] - bench.job_cycles[0]

    # Level, bins with context, bypass bins (cabac_unary_length 1). 32 more of each fill a word.
    for level, context, bypass in (
        (0, 1, 0),
        (1, 3, 0),
        (2, 4, 0),
        (-3, 5, 1),
        (7, 6, 2),
        (-16, 7, 3),
        (31, 8, 4),
    ):
        assert cycles([level] * 64) - cycles([level] * 32) == 32 * (context + -(-bypass // 3))


@pytest.mark.parametrize(
    ("payload", "count", "error"),
    [
        (b"\xff\x80\x00\x00", 3, DecodeError.START),
        (b"\xff\x00\x00\x00", 3, DecodeError.START),
        (b"", 2, DecodeError.TRUNCATED),
        (b"\x10", 2, DecodeError.TRUNCATED),
        (b"\x7f\x11", 20, DecodeError.TRUNCATED),
        (bytes(64), 4, DecodeError.PREFIX),
        # Zeros beyond the end look like 31 ones, but are none.
        (bytes(6), 1, DecodeError.PREFIX),
        (bytes(5), 1, DecodeError.TRUNCATED),
    ],
)
def test_broken_streams(payload, count, error):
    tensor = Tensor([payload], count, unary_length=3, number=77)
    assert tensor.expected(4)[2] == [error]
    bench = check(config_of(4), [tensor, code(levels_of(8, 9, 4), unary_length=1, number=78)])
    assert bench.results[0]["error"] == error


def test_a_large_level_that_reads_beyond_the_end_is_truncated():
    """With the bits that are missing it may be outside int32 or not."""
    payload = b"\xa6\0\0\0\x7f\xff"
    tensors = [Tensor([payload + bytes(zeros)], 1, unary_length=0) for zeros in (0, 9)]
    bench = check(config_of(4), tensors)
    assert [result["error"] for result in bench.results] == [DecodeError.TRUNCATED, DecodeError.LEVEL]


def test_every_end_is_checked():
    good = code(levels_of(9, 12, 20), unary_length=1)
    payload = good.payloads[0]
    last_one = payload[-1] & -payload[-1]
    broken = [
        (payload + b"\x00", DecodeError.TRAILING),
        (payload[:-1] + bytes([payload[-1] ^ last_one]), None),
        (payload[:-1], None),
    ]
    if last_one > 1:
        broken.append((payload[:-1] + bytes([payload[-1] | last_one >> 1]), DecodeError.PADDING))
    tensors = [Tensor([data], 12, unary_length=1, number=index) for index, (data, _) in enumerate(broken)]
    bench = check(config_of(4), tensors)
    for result, (_, error) in zip(bench.results, broken, strict=True):
        assert result["error"] != DecodeError.NONE
        assert error is None or result["error"] == error


def test_an_error_tells_tensor_stream_and_position():
    config = config_of(4, engines=2)
    tensor = code(levels_of(11, 40, 20), streams=2, unary_length=1, number=4711)
    tensor.payloads[1] = tensor.payloads[1][:9]
    bench = check(config, [tensor])
    result = bench.results[0]
    assert (result["tensor"], result["stream"], result["error"]) == (4711, 1, DecodeError.TRUNCATED)
    assert 72 < result["position"] <= 72 + 7


def test_unary_length_beyond_the_hardware_is_refused():
    good = code(levels_of(12, 5), unary_length=UNARY_MAX + 1)
    bench = Bench(config_of(4), [good]).run()
    assert bench.results[0]["error"] == DecodeError.UNARY_LENGTH and bench.words == [b""]
