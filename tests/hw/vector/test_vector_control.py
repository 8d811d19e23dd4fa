"""VECTOR's loops, issue, fetches and store against what isa.py says of them."""

import itertools
import random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator
from job_bench import JobBench
from vector_programs import TINY

from tosaic.hw.config import Config
from tosaic.hw.constants import VECTOR_LATENCY_CYCLES
from tosaic.hw.interfaces import VECTOR_READ_LATENCY
from tosaic.hw.isa import Element, Opcode, encode, make
from tosaic.hw.vector.beats import LOG2_BYTES, Beats, Group, members
from tosaic.hw.vector.issue import Issuer
from tosaic.hw.vector.loop_counter import LoopCounter
from tosaic.hw.vector.next_params import NextParams
from tosaic.hw.vector.parameter_fetch import ParameterFetch
from tosaic.hw.vector.store import Store

WIDE = Config("wide", rows=2, columns=8, am_bytes=1 << 13, am_banks=4, wm_bytes=1 << 10, line_pixels=16)


def go(vectors: int, slots: int, repeats: int, body: tuple[int, int], uops: int, next_params: int = 0) -> int:
    """The word of a VECTOR_GO."""
    fields = dict(
        vectors=vectors, slots=slots, repeats=repeats, body_start=body[0], body_end=body[1], uops=uops
    )
    instruction = make(Opcode.VECTOR_GO, **fields, lanes=4, tail_lanes=3, next_params=next_params)
    return int.from_bytes(encode(instruction), "little")


def places(vectors: int, slots: int, repeats: int, body: tuple[int, int], uops: int) -> list[tuple]:
    """(index, slot, count, iteration), batch by batch; at most one empty body."""
    order = [(index, 0) for index in range(body[0])]
    order += [(i, turn) for turn in range(repeats if body[0] < body[1] else 1) for i in range(*body)]
    order += [(index, 0) for index in range(body[1], uops)]
    found = []
    for first in range(0, vectors, slots):
        count = min(slots, vectors - first)
        found += [(index, slot, count, turn) for index, turn in order for slot in range(count)]
    return found


@pytest.mark.parametrize("next_params", [0, 1])
@pytest.mark.parametrize(
    "loops", [(1, 1, 1, (0, 1), 1), (7, 3, 2, (1, 3), 4), (5, 16, 3, (0, 2), 2), (9, 4, 5, (2, 2), 3)]
)
def test_loops_of_a_go(loops, next_params):
    dut, dice = LoopCounter(TINY), random.Random(loops[0])

    async def job(ctx):
        ctx.set(dut.go.as_value(), go(*loops, next_params))
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        seen, pauses, wait = [], 0, 0
        while ctx.get(dut.running) or ctx.get(dut.paused):
            assert not (ctx.get(dut.running) and ctx.get(dut.paused)) and not ctx.get(dut.idle)
            advance = bool(ctx.get(dut.running)) and dice.random() < 0.7
            if advance:
                seen.append(
                    tuple(ctx.get(dut.place[name]) for name in ("index", "slot", "count", "iteration"))
                )
            resume = bool(ctx.get(dut.paused)) and wait == 3
            pauses += resume
            wait = wait + 1 if ctx.get(dut.paused) and not resume else 0
            ctx.set(dut.resume, resume)
            ctx.set(dut.advance, advance)
            await ctx.tick()
        assert ctx.get(dut.idle)
        return seen, pauses

    batches = -(-loops[0] // loops[1])
    assert JobBench(dut).run(job) == (places(*loops), (batches - 1) * next_params)


def test_issue_waits_for_registers_and_for_the_array():
    """A slot that reads a register begins at least VECTOR_LATENCY_CYCLES after its last beat of the micro-op before."""
    dut, dice = Issuer(TINY), random.Random(5)
    slots = 3

    async def job(ctx):
        stalls, issued, number, beat = 0, [], 0, 0
        for cycle in range(400):
            index, slot = divmod(number, slots)
            ctx.set(dut.running, 1)
            ctx.set(dut.next_place.index, index % TINY.vector_uops)
            ctx.set(dut.next_place.slot, slot)
            ctx.set(dut.next_place.count, slots)
            place = ctx.get(dut.place.index)
            ctx.set(dut.fields.registers, place % 2)
            ctx.set(dut.fields.array, place % 3 == 0)
            there = dice.random() < 0.5
            ctx.set(dut.array_valid, there)
            beats = 1 + place % 5 // 2
            ctx.set(dut.first, beat == 0)
            ctx.set(dut.more, beat < beats - 1)
            assert ctx.get(dut.array_ready) == (ctx.get(dut.issue) and place % 3 == 0 and beat == 0)
            stalls += ctx.get(dut.stall_array)
            assert not (ctx.get(dut.stall_array) and (there or ctx.get(dut.issue)))
            if ctx.get(dut.issue):
                assert there or place % 3 or beat
                before = [when for when, where in issued if where == (place - 1, ctx.get(dut.place.slot))]
                if place % 2 and before and beat == 0:
                    assert cycle - before[-1] >= VECTOR_LATENCY_CYCLES
                issued.append((cycle, (place, ctx.get(dut.place.slot))))
                beat = (beat + 1) % beats
            number += ctx.get(dut.advance)
            await ctx.tick()
        slots_issued = [where for where, _ in itertools.groupby(where for _, where in issued)]
        assert slots_issued == [(i // slots % TINY.vector_uops, i % slots) for i in range(len(slots_issued))]
        return stalls > 10 and len(issued) > 60

    assert JobBench(dut).run(job)


START = {
    "params": ["bias"] * 4 + ["multiplier"] * 4 + ["shift"],
    "bias": ["bias"] * 4,
    "scale": ["multiplier"] * 4 + ["shift"],
    "table": ["table"] * 128,
    "offsets": ["offsets"] * 3,
    "test": ["test"],
}


@pytest.mark.parametrize("kind", START)
def test_fetches(kind):
    """Consecutive words, each with its kind and number VECTOR_READ_LATENCY cycles after its read."""
    dut = ParameterFetch(WIDE)

    async def job(ctx):
        ctx.set(dut.block.address, 100)
        ctx.set(dut.block.bias, kind in ("params", "bias"))
        ctx.set(dut.block.scale, kind in ("params", "scale"))
        ctx.set(dut.entries, {"table": 256, "offsets": 5}.get(kind, 0))
        starts = {"table": dut.start_table, "offsets": dut.start_offsets, "test": dut.start_test}
        start = starts.get(kind, dut.start_params)
        ctx.set(start, 1)
        await ctx.tick()
        ctx.set(start, 0)
        addresses, got = [], []
        for cycle in range(160):
            if ctx.get(dut.request):
                addresses.append((cycle, ctx.get(dut.read_address)))
            flags = [name for name in ("bias", "multiplier", "shift", "table", "offsets", "test")]
            what = [name for name in flags if ctx.get(dut.fetched[name])]
            if what:
                got.append((cycle - VECTOR_READ_LATENCY, *what, ctx.get(dut.fetched.word)))
                # The words of offsets and tests are there before the next command.
                assert ctx.get(dut.busy) or kind not in ("offsets", "test") or len(got) == len(START[kind])
            await ctx.tick()
        assert not ctx.get(dut.busy)
        return addresses, got

    addresses, got = JobBench(dut).run(job)
    kinds = START[kind]
    numbers = [kinds[:i].count(name) for i, name in enumerate(kinds)]
    assert addresses == [(i, 100 + i * WIDE.columns) for i in range(len(kinds))]
    assert got == [(i, name, number) for i, (name, number) in enumerate(zip(kinds, numbers, strict=True))]


@pytest.mark.parametrize(("bias", "scale", "words"), [(1, 1, 9), (1, 0, 4), (0, 1, 5)])
def test_next_params_follow_the_last_ones(bias, scale, words):
    dut = NextParams(WIDE)
    params = make(Opcode.VECTOR_PARAM, address=1000, bias=bias, scale=scale)

    async def job(ctx):
        ctx.set(dut.params.as_value(), int.from_bytes(encode(params), "little"))
        ctx.set(dut.set, 1)
        await ctx.tick()
        ctx.set(dut.set, 0)
        fetched = []
        for _ in range(3):
            ctx.set(dut.paused, 1)
            await ctx.tick()
            assert not ctx.get(dut.start)
            ctx.set(dut.quiet, 1)
            assert ctx.get(dut.start) and not ctx.get(dut.resume)
            fetched.append(tuple(ctx.get(dut.block[name]) for name in ("address", "bias", "scale")))
            await ctx.tick()
            assert ctx.get(dut.resume) and not ctx.get(dut.start)
            await ctx.tick()
            ctx.set(dut.paused, 0)
            ctx.set(dut.quiet, 0)
            await ctx.tick()
        return fetched

    step = words * WIDE.columns
    assert JobBench(dut).run(job) == [(1000 + i * step, bias, scale) for i in (1, 2, 3)]


def lanes_of_group(config: Config, log2: int, number: int) -> range:
    """Returns the lanes of group `number` of 2**log2 groups."""
    size = config.columns >> log2
    return range(number * size, number * size + size)


def set_group(ctx, group, log2: int, number: int) -> None:
    ctx.set(group.position, number << LOG2_BYTES - log2)
    ctx.set(group.known, (1 << LOG2_BYTES) - (1 << LOG2_BYTES - log2))


@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
def test_members_of_a_group(config):
    m = Module()
    group, lanes = Signal(Group), Signal(config.columns)
    m.d.comb += lanes.eq(members(group, config.columns))

    async def bench(ctx):
        for log2 in range((config.columns - 1).bit_length() + 1):
            for number in range(1 << log2):
                set_group(ctx, group, log2, number)
                assert ctx.get(lanes) == sum(1 << lane for lane in lanes_of_group(config, log2, number))

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("lanes", [0, 1, 2, 3, 5, 8, 9, 63])
@pytest.mark.parametrize("sizes", [(0, 3), (1, 2), (2, 1), (3, 0), (2, 2), (0, 0)])
@pytest.mark.parametrize("used", ["load", "store", "both"])
def test_beats_of_a_slot(lanes, sizes, used):
    """A beat per word of the widest elements up to the last of the lanes; narrower ones have a word for several."""
    dut = Beats(WIDE)
    load, store = sizes
    widest = max(load * (used != "store"), store * (used != "load"))
    worked = lanes if 1 <= lanes <= WIDE.columns else WIDE.columns
    beats = [number for number in range(1 << widest) if lanes_of_group(WIDE, widest, number).start < worked]

    async def job(ctx):
        ctx.set(dut.lanes, lanes)
        ctx.set(dut.configure, 1)
        await ctx.tick()
        ctx.set(dut.configure, 0)
        for stream, size in enumerate((0, load, 0, store)):
            ctx.set(dut.sizes[stream], size)
        ctx.set(dut.fields.loads, 0b010 if used != "store" else 0)
        ctx.set(dut.fields.store, used != "load")
        for _ in range(2):
            for number in beats:
                ctx.set(dut.issue, 0)
                await ctx.tick()
                last = number == beats[-1]
                assert (ctx.get(dut.first), ctx.get(dut.more)) == (number == 0, not last)
                if used != "store":
                    starts_word = [
                        lanes_of_group(WIDE, widest, n).start << load for n in (number, number + 1)
                    ]
                    new_word = starts_word[0] // WIDE.columns != starts_word[1] // WIDE.columns
                    assert ctx.get(dut.next_word) == (new_word and not last)
                position, known = ctx.get(dut.group.position), ctx.get(dut.group.known)
                assert (position, known) == (number << 3 - widest, 8 - (1 << 3 - widest))
                ctx.set(dut.issue, 1)
                await ctx.tick()

    JobBench(dut).run(job)


@pytest.mark.parametrize("element", [element for element in Element if element.bytes <= WIDE.columns])
def test_store_packs_the_results_of_a_group_and_masks_lanes(element):
    """`lanes` lanes, `tail_lanes` at the last turn of dimension 0; bytes of the element's size."""
    dut, dice = Store(WIDE), random.Random(element)
    bits, size, width = WIDE.vector_bits, element.bytes, WIDE.columns
    results = [dice.randrange(1 << bits) for _ in range(width)]
    groups = [(log2, number) for log2 in range(size.bit_length() - 1, 4) for number in range(1 << log2)]

    def extended(value: int) -> int:
        return (value - (1 << bits) if value >> bits - 1 else value) % (1 << 8 * size)

    vector = sum(extended(result) << 8 * size * i for i, result in enumerate(results))

    async def job(ctx):
        ctx.set(dut.element, element)
        ctx.set(dut.go.as_value(), go(1, 1, 1, (0, 1), 1))
        ctx.set(dut.configure, 1)
        await ctx.tick()
        ctx.set(dut.configure, 0)
        await ctx.tick().repeat(2)
        for (log2, number), (last, limit) in itertools.product(groups, enumerate((4, 3))):
            lanes = lanes_of_group(WIDE, log2, number)
            word, end = lanes.start * size // width, lanes.stop * size
            ends = dice.randrange(2)
            ctx.set(dut.pack, 1)
            set_group(ctx, dut.packed.group, log2, number)
            ctx.set(dut.packed.ends, ends)
            ctx.set(dut.results, sum(result << bits * i for i, result in enumerate(results)))
            await ctx.tick()
            ctx.set(dut.pack, 0)
            ctx.set(dut.results, 0)
            ctx.set(dut.last, last)
            ctx.set(dut.address, 40 + last)
            assert ctx.get(dut.step) == ends
            assert ctx.get(dut.next_word) == (not ends and end % width == 0)
            assert not ctx.get(dut.write.request)
            stored = range(lanes.start * size, min(lanes.stop, limit) * size)
            assert ctx.get(dut.write.address) == 40 + last
            assert ctx.get(dut.write.data) == (vector >> 8 * width * word) % (1 << 8 * width)
            assert ctx.get(dut.write.mask) == sum(1 << byte - word * width for byte in stored)
            await ctx.tick()
            assert ctx.get(dut.write.request) and not ctx.get(dut.step)

    JobBench(dut).run(job)
