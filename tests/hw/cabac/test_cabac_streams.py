"""Long, sparse, extreme and damaged streams through the Verilated CABAC decoder, with and without stalls."""

import functools
import random

import numpy as np
import pytest
from cabac_models import Tensor, code, config_of
from rest_nightly import first_of

from tosaic.hw.cabac import UNARY_MAX, DecodeError
from tosaic.hw.cabac_timing import count_bins, decode_cycles
from tosaic.hw.nnr_tables import STATE_TRANSITION
from tosaic.nnr import levels, quantize_dependent
from tosaic.sim.rtl.cabac import CabacSimulator, CabacTensor

# Both files build a simulator at their first use: one worker of xdist does it.
pytestmark = pytest.mark.xdist_group("cabac_simulator")
COLUMNS = 8


@functools.cache
def simulator(engines):
    return CabacSimulator(config_of(COLUMNS, engines))


def run(tensor, engines=1, stall=0.0, seed=1):
    """What the decoder makes of the tensor; a hang breaks its contract."""
    coded = CabacTensor(
        tensor.block(COLUMNS),
        [len(payload) for payload in tensor.payloads],
        tensor.count,
        unary_length=tensor.unary_length,
        header_bins=tensor.qp_bits,
        dq_coded=tensor.dq_coded,
        low=tensor.low,
        high=tensor.high,
        offset=tensor.offset,
    )
    return simulator(engines).run(coded, stall=stall, seed=seed, limit_cycles=2_000_000)


def check(tensor, **settings):
    found = run(tensor, **settings)
    words, saturated, errors = tensor.expected(COLUMNS)
    if not any(errors):
        assert (found.error, found.saturated) == (DecodeError.NONE, saturated)
        assert found.weights == words
        return found
    assert found.error in errors and errors[found.stream] == found.error
    if len(tensor.payloads) == 1:
        assert len(found.weights) <= len(words)
    return found


def weights(seed, count, zeros=0.0, scale=30.0):
    rng = np.random.default_rng(seed)
    values = np.clip(np.rint(rng.laplace(0, scale, count)), -128, 127).astype(np.int64)
    return np.where(rng.random(count) < zeros, 0, values)


@pytest.mark.parametrize("zeros", first_of([0.0, 0.8, 0.5, 0.95], 2))
@pytest.mark.parametrize("engines", [1, 4])
def test_dense_and_sparse_tensors(zeros, engines):
    for unary_length in (1, 10):
        tensor = code(weights(1, 5000, zeros), engines, COLUMNS, unary_length=unary_length)
        for stall in (0.0, 0.4):
            check(tensor, engines=engines, stall=stall)


def test_dependent_quantization():
    for seed, scale in enumerate((0.4, 3.0, 40.0)):
        values = quantize_dependent(np.random.default_rng(seed).normal(0, scale, 3000), 0)
        for unary_length in (0, 1, 10):
            check(code(values, dq=True, unary_length=unary_length), stall=0.2 * seed)


def test_dependent_quantization_by_the_job():
    """The flag in the stream dropped as a header bin, and given by the job instead."""
    tensor = code(quantize_dependent(np.random.default_rng(9).normal(0, 5, 500), 0), dq=True, unary_length=2)
    block, lengths = tensor.block(COLUMNS), [len(tensor.payloads[0])]
    settings = {"unary_length": 2, "header_bins": 1, "dq_coded": False}
    found = simulator(1).run(CabacTensor(block, lengths, 500, dq=True, **settings))
    assert found.error == DecodeError.NONE and found.weights == tensor.expected(COLUMNS)[0]
    other = simulator(1).run(CabacTensor(block, lengths, 500, dq=False, **settings))
    assert other.weights != found.weights


@pytest.mark.parametrize("unary_length", [0, 1, 2, 7, UNARY_MAX])
def test_levels_of_every_size(unary_length):
    rng = random.Random(unary_length)
    # With no flags of the first kind a prefix of 31 ones would be needed for the largest.
    top = 2**31 - 1 if unary_length else 2**31 - 3
    sizes = [size for bit in range(31) for size in (2**bit - 1, 2**bit, 2**bit + unary_length)] + [top]
    values = [rng.choice((-1, 1)) * min(size, top) for size in sizes for _ in range(2)]
    rng.shuffle(values)
    check(code(values, unary_length=unary_length, low=-8, high=7), stall=0.1)


def test_long_runs():
    """Contexts at the ends of their ranges, and the bursts of shifts when a run breaks."""
    for value in (0, 1, -1, 127, -128):
        values = np.full(3000, value)
        values[[1000, 1001, 2500]] = 64
        check(code(values, unary_length=UNARY_MAX))


def damaged(rng, payload):
    data = bytearray(payload)
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(data[: rng.randrange(len(data))])
    if kind == 1:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(data)
    if kind == 2:
        return bytes(data) + rng.randbytes(rng.randrange(1, 20))
    start = rng.randrange(len(data))
    data[start:] = rng.randbytes(len(data) - start)
    return bytes(data)


def test_damaged_streams_end_as_in_software():
    """The same verdict as the software's, level by level; sound ones among them."""
    rng = random.Random(5)
    seen = set()
    for seed in range(300):
        unary_length = rng.choice((0, 1, 2, 10))
        values = weights(seed, rng.randrange(1, 120), rng.random(), rng.choice((0.5, 5, 40)))
        dq = rng.random() < 0.3
        if dq:
            values = quantize_dependent(values.astype(float), 0)
        tensor = code(values, dq=dq, unary_length=unary_length)
        tensor.payloads = [damaged(rng, tensor.payloads[0])]
        seen.add(check(tensor, stall=rng.choice((0.0, 0.3)), seed=seed).error)
    assert seen >= {DecodeError.NONE, DecodeError.TRUNCATED, DecodeError.TERMINATE}
    assert seen >= {DecodeError.STOP, DecodeError.PADDING, DecodeError.TRAILING}


def test_noise_ends():
    """Any bytes end in a result, in time."""
    rng = random.Random(6)
    seen = set()
    for seed in range(200):
        payload = bytes(
            rng.choice((0x00, 0xFE, 0x7F, rng.randrange(256))) for _ in range(rng.randrange(1, 90))
        )
        tensor = Tensor([payload], rng.randrange(1, 200), unary_length=rng.choice((0, 1, 4)))
        seen.add(check(tensor, seed=seed).error)
    assert seen >= {DecodeError.START, DecodeError.TRUNCATED, DecodeError.LEVEL}
    assert check(Tensor([bytes(64)], 4, unary_length=3)).error == DecodeError.PREFIX


def test_levels_outside_int32_are_refused():
    """Bins of a level too large, by an encoder that writes any: 2**31 with a plus, and with dq_flag twice 2**30 + 1."""
    for values, dq, error in (
        ([5, 2**31 - 1, 5], False, DecodeError.NONE),
        ([5, -(2**31), 5], False, DecodeError.NONE),
        ([5, 2**31, 5], False, DecodeError.LEVEL),
        ([5, -(2**31) - 1, 5], False, DecodeError.LEVEL),
        ([2, 2**31 - 2], True, DecodeError.NONE),
        ([2, 2**31], True, DecodeError.LEVEL),
        ([2, -(2**31)], True, DecodeError.NONE),
        ([2, -(2**31) - 2, 1], True, DecodeError.LEVEL),
    ):
        tensor = Tensor([encoded(values, 10, dq)], len(values))
        assert tensor.expected(COLUMNS)[2] == [error]
        check(tensor)


def encoded(values, unary_length, dq):
    """A payload of levels that the encoder's front door refuses."""
    return levels.encode_any(np.array(values, np.int64), unary_length, dq)


def test_damage_to_one_of_four_streams_is_reported():
    rng = random.Random(8)
    for seed in range(60):
        tensor = code(weights(seed, rng.randrange(40, 400), 0.5), 4, COLUMNS, unary_length=1)
        victim = rng.randrange(4)
        tensor.payloads[victim] = damaged(rng, tensor.payloads[victim])
        found = check(tensor, engines=4, stall=rng.choice((0.0, 0.3)), seed=seed)
        assert found.error == DecodeError.NONE or found.stream == victim


def test_four_engines_are_at_least_3_5_times_as_fast_as_one():
    for zeros in (0.0, 0.8):
        values = weights(3, 16384, zeros)
        one = check(code(values, unary_length=1))
        four = check(code(values, 4, COLUMNS, unary_length=1), engines=4)
        assert one.cycles >= 3.5 * four.cycles


@pytest.mark.parametrize("count", [1, 7, 8, 9, 4096, 5003])
def test_cycles_are_predicted(count):
    for unary_length, zeros in ((0, 0.0), (1, 0.5), (10, 0.8)):
        values = weights(count, count, zeros)
        found = check(code(values, unary_length=unary_length))
        assert found.cycles == decode_cycles(values, unary_length, COLUMNS)


def test_cycles_of_dependent_quantization_are_predicted():
    values = quantize_dependent(np.random.default_rng(10).normal(0, 40, 1000), 0)
    coded, state = [], 0
    for value in values:
        coded.append((abs(int(value)) + (state & 1 if value else 0)) >> 1)
        state = STATE_TRANSITION[state][coded[-1] & 1]
    found = check(code(values, dq=True, unary_length=1))
    assert found.cycles == decode_cycles(np.array(coded), 1, COLUMNS, dependent=True)


def test_dense_weights_take_a_cycle_per_1_15_bins():
    values = weights(4, 8192)
    bins = count_bins(values, 1)
    assert bins.context_coded + bins.bypass >= 1.15 * check(code(values, unary_length=1)).cycles
