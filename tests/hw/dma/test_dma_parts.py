"""The parts that LOAD and STORE share, each against a naive model."""

import random

import pytest
from amaranth.hdl import Const
from amaranth.lib import data
from amaranth.sim import Simulator
from dma_models import config_of, load_go, pitch, signal, store_go, wait

from tosaic.hw.constants import BURST_BEATS, OUTSTANDING_BURSTS
from tosaic.hw.dma.bursts import BurstSplitter
from tosaic.hw.dma.completion import Completion
from tosaic.hw.dma.issue import CommandIssue
from tosaic.hw.dma.pack import pack
from tosaic.hw.isa import Error, Space, Unit, encode

# Blocks whose constructor raises are never elaborated; Amaranth says so when they are collected.
pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")


def simulate(dut, testbench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def bursts_of(config, base, row_address, local, row_bytes):
    """(address, local_address, beats, first_lane, last_lane) of a row's bursts."""
    word, found = config.word_bytes, []
    start, end = base + row_address, base + row_address + row_bytes
    first = start - start % word
    local -= start % word
    while first < end:
        stop = min(first - first % (BURST_BEATS * word) + BURST_BEATS * word, end)
        beats = -(-(stop - first) // word)
        last_lane = (stop - 1) % word if stop == end else word - 1
        found.append((first, local % (1 << 24), beats, start % word if not found else 0, last_lane))
        first, local = first + beats * word, local + beats * word
    return found


def test_splitter_against_rows_cut_one_by_one():
    """Random transfers; `bursts` stalls at random; with no stall the bursts come without a gap."""
    config, rng, base = config_of(8), random.Random(3), 0x8000_0005
    transfers, expected = [], []
    for number in range(40):
        if rng.random() < 0.2:
            transfers.append({"purpose": {"is_signal": 1, "tokens": {"semaphore": number % 16, "count": 7}}})
            expected.append((number % 16, 7))
            continue
        rows, row_bytes = rng.randrange(1, 4), rng.choice([1, 7, 8, 300, 700])
        start, local, outer, inner = (rng.randrange(5000) for _ in range(4))
        transfers.append(
            {
                "memory_address": start,
                "local_address": local,
                "row_bytes": row_bytes,
                "rows": rows,
                "memory_pitch": outer,
                "local_pitch": inner,
            }
        )
        for row in range(rows):
            expected += bursts_of(config, base, start + row * outer, local + row * inner, row_bytes)
    for stall in (0.0, 0.5):
        assert split(config, base, transfers, stall) == (expected, [])


def split(config, base, transfers, stall=0.0, size=1 << 20):
    """(bursts and SIGNALs, error codes) of the transfers."""
    dut, rng, found, codes = BurstSplitter(config), random.Random(4), [], []

    async def testbench(ctx):
        left, gaps = list(transfers), 0
        ctx.set(dut.mem_base, base)
        ctx.set(dut.mem_size, size)
        while left or ctx.get(dut.busy):
            ctx.set(dut.transfers.valid, bool(left))
            if left:
                empty = {name: 0 for name, _ in dut.transfers.payload.shape()} | {"purpose": {}}
                ctx.set(dut.transfers.payload, empty | left[0])
            ready = rng.random() >= stall
            ctx.set(dut.bursts.ready, ready)
            burst = dut.bursts.payload
            if ctx.get(dut.bursts.valid) and ready:
                if ctx.get(burst.purpose.is_signal):
                    found.append(
                        (ctx.get(burst.purpose.tokens.semaphore), ctx.get(burst.purpose.tokens.count))
                    )
                else:
                    places = (
                        ctx.get(burst.address),
                        ctx.get(burst.local_address),
                        ctx.get(burst.last_beat) + 1,
                    )
                    found.append((*places, ctx.get(burst.first_lane), ctx.get(burst.last_lane)))
            elif found and left and not stall:
                gaps += 1
            if ctx.get(dut.error):
                codes.append(Error(ctx.get(dut.code)))
            if left and ctx.get(dut.transfers.ready):
                left.pop(0)
            await ctx.tick()
            if codes:
                ctx.set(dut.halt, 1)
                assert not ctx.get(dut.bursts.valid) and not ctx.get(dut.transfers.ready)
                return
        assert gaps == 0

    simulate(dut, testbench)
    return found, codes


@pytest.mark.parametrize(
    "changes, code",
    [
        ({"memory_address": 100, "row_bytes": 24}, Error.MEMORY_RANGE),
        ({"illegal": 1}, Error.ILLEGAL),
        ({"purpose": {"to_wm": 1}, "row_bytes": 7}, Error.ILLEGAL),
        ({"purpose": {"to_wm": 1}, "memory_address": 4}, Error.ILLEGAL),
        ({"purpose": {"to_decoder": 1}, "local_address": 1}, Error.ILLEGAL),
    ],
)
def test_splitter_refuses_a_wrong_row(changes, code):
    row = {"memory_address": 96, "local_address": 0, "row_bytes": 8, "rows": 1}
    assert split(config_of(8), 0x1000, [row | changes], size=123) == ([], [code])
    assert split(config_of(8), 0x1000, [row], size=123) == ([(0x1060, 0, 1, 0, 7)], [])


def test_completion_against_counters():
    """A SIGNAL fires as soon as the bursts and blocks issued before it are complete, in order, and not earlier."""
    dut, rng = Completion(), random.Random(5)

    async def testbench(ctx):
        issued = completed = blocks = decoded = fired = 0
        waiting, full = [], False
        for cycle in range(3000):
            # Phases in which nothing completes fill the counters.
            completes = issued > completed and rng.random() < (0.9 if cycle % 200 > 80 else 0.02)
            issues = ctx.get(dut.room) and rng.random() < 0.6
            block_issues = blocks - decoded < 3 and rng.random() < 0.1
            block_ends = blocks > decoded and rng.random() < 0.2
            ctx.set(dut.issued, issues)
            ctx.set(dut.completed, completes)
            ctx.set(dut.block_issued, block_issues)
            ctx.set(dut.block_decoded, block_ends)
            halt, offers = rng.random() < 0.1, rng.random() < 0.15
            ctx.set(dut.halt, halt)
            ctx.set(dut.signals.valid, offers)
            tokens = {"semaphore": cycle % 16, "count": cycle % 256}
            ctx.set(dut.signals.payload, tokens)
            assert ctx.get(dut.outstanding) == (issued > completed)
            assert ctx.get(dut.decodes) == (blocks > decoded)
            assert ctx.get(dut.waiting) == bool(waiting)
            ready = waiting and completed >= waiting[0][0] and decoded >= waiting[0][1]
            assert ctx.get(dut.signal) == bool(ready and not halt)
            if ready and not halt:
                head = waiting.pop(0)[2]
                assert (ctx.get(dut.signal_semaphore), ctx.get(dut.signal_count)) == head
                fired += 1
            if offers and ctx.get(dut.signals.ready):
                waiting.append((issued, blocks, (cycle % 16, cycle % 256)))
            room = issued - completed + issues < OUTSTANDING_BURSTS
            full |= not room
            is_decoded = blocks == decoded and not block_issues
            issued, completed = issued + issues, completed + completes
            blocks, decoded = blocks + block_issues, decoded + block_ends
            await ctx.tick()
            assert ctx.get(dut.room) == room and ctx.get(dut.decoded) == is_decoded
            assert issued - completed <= OUTSTANDING_BURSTS
        assert fired > 100 and full

    simulate(dut, testbench)


def transfer_of(ctx, dut):
    """The transfer on offer: purpose (flag, semaphore, count), illegal, and the fields of a GO."""
    given = dut.transfers.payload
    names = ("memory_address", "local_address", "row_bytes", "rows", "memory_pitch", "local_pitch")
    return (
        ctx.get(given.purpose.is_signal),
        ctx.get(given.illegal),
        tuple(ctx.get(given[name]) for name in names),
    )


@pytest.mark.parametrize("unit", [Unit.LOAD, Unit.STORE])
def test_commands_become_transfers(unit):
    dut, name = CommandIssue(unit, config_of(8)), unit.name
    go = load_go if unit == Unit.LOAD else store_go

    async def testbench(ctx):
        async def give(command, **outputs):
            ctx.set(dut.commands.valid, 1)
            ctx.set(dut.commands.payload, int.from_bytes(encode(command), "little"))
            for port, value in outputs.items():
                assert (
                    ctx.get(
                        {"wait": dut.wait, "ready": dut.commands.ready, "valid": dut.transfers.valid}[port]
                    )
                    == value
                )
            return transfer_of(ctx, dut)

        ctx.set(dut.transfers.ready, 1)
        await give(wait(name, 9, 200), wait=1, ready=0, valid=0)
        assert (ctx.get(dut.semaphore), ctx.get(dut.count)) == (9, 200)
        ctx.set(dut.ok, 1)
        ctx.set(dut.halt, 1)
        await give(wait(name, 9, 200), wait=1, ready=1, valid=0)
        await give(go(1, 2, 3), wait=0, ready=0, valid=0)
        ctx.set(dut.halt, 0)
        await give(pitch(name, 1 << 31, 1 << 23), wait=0, ready=1, valid=0)
        await ctx.tick()
        assert await give(go(77, 88, 99, rows=5), wait=0, ready=1, valid=1) == (
            (0, 0, (77, 88, 99, 5, 1 << 31, 1 << 23))
        )
        assert (await give(go(77, 88, 0), valid=1))[:2] == (0, 1)
        assert (await give(go(77, 88, 9, rows=0), valid=1))[:2] == (0, 1)
        assert (await give(signal(name, 3, 4), valid=1))[:2] == (1, 0)
        other = "STORE" if unit == Unit.LOAD else "LOAD"
        assert (await give(signal(other, 3, 4), valid=1))[:2] == (0, 1)
        ctx.set(dut.transfers.ready, 0)
        await give(go(77, 88, 99), ready=0, valid=1)
        if unit == Unit.LOAD:
            assert (await give(load_go(0, 0, 8, space=Space.WM, streamed=1), valid=1))[:2] == (0, 0)
            assert ctx.get(dut.transfers.payload.purpose.to_wm) == 1
            assert ctx.get(dut.transfers.payload.purpose.streamed) == 1
            assert (await give(load_go(0, 0, 8, streamed=1), valid=1))[:2] == (0, 1)

    simulate(dut, testbench)


def test_command_issue_is_of_a_dma_unit():
    with pytest.raises(ValueError, match="^unit must be LOAD or STORE, not <Unit.ARRAY: 2>$"):
        CommandIssue(Unit.ARRAY, config_of(8))


def test_pack_checks_names_and_widths():
    layout = data.StructLayout({"low": 3, "inner": data.StructLayout({"high": 5})})
    assert len(pack(layout, {"low": Const(1, 1), "inner": {"high": Const(31, 5)}})) == 8
    with pytest.raises(ValueError, match="^low must have at most 3 bits, not 4$"):
        pack(layout, {"low": Const(1, 4), "inner": {"high": Const(1, 1)}})
    with pytest.raises(ValueError, match="^the layout has no member middle$"):
        pack(layout, {"low": Const(1, 1), "middle": Const(0, 1), "inner": {"high": Const(1, 1)}})
