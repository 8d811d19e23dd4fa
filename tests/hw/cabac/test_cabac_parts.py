"""The packer and the memory of contexts, against naive models; where weights of a block go."""

import random

import pytest
from amaranth.sim import Simulator
from cabac_models import code, config_of

from tosaic.hw.cabac.contexts import CLEAR_CYCLES, STORED_BITS, ContextMemory
from tosaic.hw.cabac.levels import WeightPacker
from tosaic.hw.dma.decode import BlockDecoder
from tosaic.hw.nnr_streams import DecodeError
from tosaic.hw.nnr_tables import STATE_TRANSITION


def simulate(dut, testbench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def parts_of(level, unary_length, dependent, odd):
    """The parts that the syntax leaves of a level."""
    size = (abs(level) + odd) // 2 if dependent else abs(level)
    above = size > unary_length
    return {
        "size": size - unary_length if above else size,
        "above_unary": above,
        "significant": level != 0,
        "negative": level < 0,
        "odd": odd,
    }


async def pack(ctx, dut, parts, rng, lanes, truncated_at=None):
    """(words, whether a level was too large, whether one was truncated) of a stream of level parts."""
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    words, left, index = [], list(parts), 0
    while True:
        ready = rng.random() < 0.7
        ctx.set(dut.words.ready, ready)
        offers = bool(left) and rng.random() < 0.8
        ctx.set(dut.valid, offers)
        if offers:
            ctx.set(dut.parts, left[0])
            ctx.set(dut.truncated, index == truncated_at)
        ctx.set(dut.flush, not left)
        if ctx.get(dut.words.valid) and ready:
            words.append(ctx.get(dut.words.payload).to_bytes(lanes, "little"))
        if ctx.get(dut.too_large) or ctx.get(dut.was_truncated):
            return words, ctx.get(dut.too_large), ctx.get(dut.was_truncated)
        if offers and ctx.get(dut.advance):
            left.pop(0)
            index += 1
        elif not offers and not left and not ctx.get(dut.busy):
            return words, 0, 0
        await ctx.tick()


@pytest.mark.parametrize("dependent", [0, 1])
def test_packer_against_clipping_in_python(dependent):
    config, rng = config_of(4), random.Random(7)
    dut = WeightPacker(config)
    levels = [rng.choice([0, 1, -1, 5, -8, 127, 128, -128, -129, 300, -(2**31)]) for _ in range(30)]
    odds = [int(dependent and level % 2 == 1) for level in levels]
    parts = [parts_of(level, 3, dependent, odd) for level, odd in zip(levels, odds, strict=True)]

    async def testbench(ctx):
        ctx.set(dut.settings.unary_length, 3)
        ctx.set(dut.settings.low, -8)
        ctx.set(dut.settings.high, 127)
        ctx.set(dut.dependent, dependent)
        words, *faults = await pack(ctx, dut, parts, rng, 4)
        clipped = [min(max(level, -8), 127) for level in levels]
        assert b"".join(words) == bytes(value & 255 for value in clipped) + bytes(-len(levels) % 4)
        assert faults == [0, 0]
        changed = sum(a != b for a, b in zip(levels, clipped, strict=True))
        assert ctx.get(dut.saturated) == changed

    simulate(dut, testbench)


@pytest.mark.parametrize(
    "bad, truncated_at, faults", [(2**31, None, [1, 0]), (-(2**31) - 1, None, [1, 0]), (1, 9, [0, 1])]
)
def test_packer_keeps_back_the_word_with_a_fault(bad, truncated_at, faults):
    dut, rng = WeightPacker(config_of(4)), random.Random(8)
    parts = [parts_of(level, 16, 0, 0) for level in [*range(9), bad, 10, 11]]

    async def testbench(ctx):
        ctx.set(dut.settings.unary_length, 16)
        ctx.set(dut.settings.low, -128)
        ctx.set(dut.settings.high, 127)
        words, *found = await pack(ctx, dut, parts, rng, 4, truncated_at)
        assert found == faults
        assert bytes(range(8)).startswith(b"".join(words))
        await ctx.tick()
        ctx.set(dut.valid, 0)
        ctx.set(dut.flush, 0)
        assert ctx.get(dut.pending) == 0

    simulate(dut, testbench)


def context(stored):
    """With the bits that follow from the others: whether the lowest ones of the two states are other than 0."""
    return stored | (stored & 0x7 != 0) << STORED_BITS | (stored >> 8 & 0x7F != 0) << STORED_BITS + 1


def test_contexts_against_a_dictionary():
    """Random places are written; every output shows what was written last at its place, or 0."""
    dut, rng, memory = ContextMemory(), random.Random(9), {}

    def key(kind, *where):
        return (kind, *where)

    def random_place():
        kind = rng.choice(["sig", "sign", "greater", "prefix"])
        place = {
            "sig": 0,
            "sign": 0,
            "greater": 0,
            "prefix": 0,
            "state": rng.randrange(8),
            "neighbour": rng.randrange(3),
            "negative": rng.randrange(2),
            "number": rng.randrange(31 if kind == "prefix" else 16),
        }
        return kind, place | {kind: 1}

    def key_of(kind, place):
        if kind == "sig":
            return key("sig", place["state"], place["neighbour"])
        if kind == "sign":
            return key("sign", place["neighbour"])
        if kind == "greater":
            return key("greater", place["number"], place["negative"])
        return key("prefix", place["number"])

    async def testbench(ctx):
        async def clear():
            ctx.set(dut.clear, 1)
            for row in range(CLEAR_CYCLES):
                ctx.set(dut.row, row)
                await ctx.tick()
            ctx.set(dut.clear, 0)
            memory.clear()

        for cycle in range(1500):
            if cycle % 500 == 0:
                await clear()
            kind, place = random_place()
            value, writes = context(rng.getrandbits(STORED_BITS)), rng.random() < 0.8
            parity, neighbour, dependent = rng.randrange(2), rng.randrange(3), rng.randrange(2)
            greater, prefix = rng.randrange(16), rng.randrange(31)
            ctx.set(dut.place, place)
            ctx.set(dut.written.as_value(), value)
            ctx.set(dut.write, writes)
            ctx.set(dut.next_parity, parity)
            ctx.set(dut.next_neighbour, neighbour)
            ctx.set(dut.dependent, dependent)
            ctx.set(dut.greater_number, greater)
            ctx.set(dut.prefix_number, prefix)
            for index in range(2):
                state = STATE_TRANSITION[place["state"]][parity ^ index] if dependent else place["state"]
                assert ctx.get(dut.next_states[index]) == state
                found = ctx.get(dut.sig[index].as_value())
                assert found == memory.get(key("sig", state, neighbour), 0), cycle
                found = ctx.get(dut.greater[index].as_value())
                assert found == memory.get(key("greater", greater, index), 0)
            assert ctx.get(dut.sign.as_value()) == memory.get(key("sign", place["neighbour"]), 0)
            assert ctx.get(dut.prefix.as_value()) == memory.get(key("prefix", prefix), 0)
            await ctx.tick()
            if writes:
                memory[key_of(kind, place)] = value

    simulate(dut, testbench)


def block_jobs(config, tensors, words):
    """Jobs of a BlockDecoder for tensors whose blocks have the given numbers of words."""
    return [
        {
            "tensor": {
                "settings": {"unary_length": tensor.unary_length, "dq_coded": 1, "low": -128, "high": 127},
                "tensor": tensor.number,
                "levels": tensor.count,
                "lengths": [len(tensor.payloads[0])],
            },
            "block_words": count,
            "to_wm": index % 2,
            "local_address": 64 * index,
        }
        for index, (tensor, count) in enumerate(zip(tensors, words, strict=True))
    ]


@pytest.mark.parametrize("fault", [None, "length", "payload"])
def test_blocks_are_decoded_in_order_until_one_is_wrong(fault):
    config, rng = config_of(4), random.Random(10)
    tensors = [code(range(n, n + 9), unary_length=2, number=50 + n) for n in range(3)]
    blocks = [tensor.block(4) for tensor in tensors]
    counts = [len(block) // 4 for block in blocks]
    if fault == "payload":
        blocks[1] = bytes(len(blocks[1]))
    jobs = block_jobs(config, tensors, [counts[0], counts[1] + (fault == "length"), counts[2]])
    dut, weights, starts, ended, faults = BlockDecoder(config), [], [], 0, []

    async def testbench(ctx):
        nonlocal ended
        data = b"".join(blocks)
        position = job = under_way = 0
        for _ in range(800):
            ctx.set(dut.jobs.valid, job < len(jobs))
            if job < len(jobs):
                ctx.set(dut.jobs.payload, jobs[job])
            asks = 1 if ctx.get(dut.room) and position + 4 * under_way < len(data) else 0
            ctx.set(dut.requested, asks)
            comes = under_way > 0 and rng.random() < 0.3 and job > 0
            ctx.set(dut.words.valid, comes)
            ctx.set(dut.words.payload, int.from_bytes(data[position : position + 4], "little"))
            ready = rng.random() < 0.6
            ctx.set(dut.weights.ready, ready)
            if ctx.get(dut.weights.valid) and ready:
                weights.append(ctx.get(dut.weights.payload).to_bytes(4, "little"))
            if ctx.get(dut.starts):
                starts.append((ctx.get(dut.to_wm), ctx.get(dut.local_address)))
            ended += ctx.get(dut.ended)
            for name, port in (("failed", dut.failed), ("illegal", dut.illegal)):
                if ctx.get(port):
                    report = (ctx.get(dut.report.code), ctx.get(dut.report.tensor))
                    faults.append((name, report if name == "failed" else None))
            if job < len(jobs) and ctx.get(dut.jobs.ready):
                job += 1
            under_way += asks - comes
            position += 4 * comes
            await ctx.tick()

    simulate(dut, testbench)
    expected = [tensor.expected(4)[0] for tensor in tensors]
    if fault is None:
        assert (b"".join(weights), ended, faults) == (b"".join(expected), 3, [])
        assert starts == [(0, 0), (1, 64), (0, 128)]
    else:
        wrong = (DecodeError.PREFIX, 51)
        assert faults == ([("illegal", None)] if fault == "length" else [("failed", wrong)])
        assert starts == [(0, 0), (1, 64)]
        assert b"".join(weights).startswith(expected[0])
