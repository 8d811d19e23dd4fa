"""The LOAD unit against the naive executor: data, order, errors, exact cycles."""

import copy
import itertools
import random

import pytest
from dma_models import (
    AM_BYTES,
    WM_BYTES,
    AxiReadModel,
    Bench,
    LocalMemories,
    Memory,
    Stalls,
    assert_same,
    config_of,
    execute,
    load_go,
    pitch,
    signal,
    wait,
)
from rest_nightly import first_of

from tosaic.hw.dma import LoadUnit
from tosaic.hw.isa import Error, Opcode, Space, encode

# Blocks whose constructor raises are never elaborated; Amaranth says so when they are collected.
pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")

SIZE = 12 << 10


def content(size=SIZE, seed=5):
    return random.Random(seed).randbytes(size)


def bench(
    columns,
    program,
    base=0x8000_0000,
    latency=1,
    stall=0.0,
    seed=1,
    am_stall=None,
    errors=(),
    size=SIZE,
    **more,
):
    """A LOAD unit with a memory of `size` bytes at `base` (rounded down to beats at the edges)."""
    config, rng = config_of(columns), random.Random(seed)
    memory = Memory(base, content(size), errors)
    axi = AxiReadModel(config, memory, latency, Stalls(stall, rng), Stalls(stall, rng))
    local = LocalMemories(config, Stalls(stall if am_stall is None else am_stall, rng))
    local.am[:], local.wm[:] = content(AM_BYTES, 6), content(WM_BYTES, 7)
    return Bench(LoadUnit, axi, local, program, base, size, **more)


def check(bench_, program):
    """Everything in AM and WM, guard bytes and all, is what the executor leaves."""
    expected = copy.deepcopy(bench_.local)
    expected.am[:], expected.wm[:] = content(AM_BYTES, 6), content(WM_BYTES, 7)
    execute(program, bench_.axi.memory.bytes, expected)
    bench_.run(limit=60000)
    assert bench_.errors == []
    assert_same(bench_.local.am, expected.am)
    assert_same(bench_.local.wm, expected.wm)
    return bench_


@pytest.mark.parametrize("columns", [4, 16])
def test_alignments_and_lengths_around_4_kib(columns):
    """Every start within a beat of the boundary, lengths to beyond it, at local addresses of every
    alignment."""
    program, local = [], 3
    for start in range(4096 - columns - 1, 4096 + 2):
        for length in sorted({1, 2, columns - 1, columns, columns + 1, 2 * columns + 3}):
            program.append(load_go(start, local, length))
            local += length + 2 * columns + 1
    check(bench(columns, program), program)


@pytest.mark.parametrize(
    "columns, base", first_of([(4, 0x8000_0000), (32, 0x7FFF_F020), (8, 0x1000_0005)], 2)
)
@pytest.mark.parametrize("stall, latency", first_of([(0.4, 3), (0.0, 20)], 1))
def test_random_programs_under_random_stalls(columns, base, stall, latency):
    rng = random.Random(columns * 100 + latency)
    program, signals = [], 0
    for _ in range(40):
        kind = rng.random()
        if kind < 0.2:
            program.append(pitch("LOAD", rng.randrange(600), rng.randrange(1 << 24)))
        elif kind < 0.3:
            program.append(signal("LOAD", 3, 1))
            signals += 1
        elif kind < 0.45 and base % columns == 0:
            words, rows = rng.randrange(1, 20), rng.randrange(1, 4)
            program.append(pitch("LOAD", rng.randrange(20) * columns, rng.randrange(40) * columns))
            program.append(
                load_go(
                    rng.randrange(100) * columns,
                    rng.randrange(100) * columns,
                    words * columns,
                    rows,
                    Space.WM,
                )
            )
        else:
            program.append(
                load_go(
                    rng.randrange(6000), rng.randrange(1 << 24), rng.randrange(1, 400), rng.randrange(1, 6)
                )
            )
    run = check(bench(columns, program, base, latency, stall, seed=columns), program)
    assert run.semaphores[3] == signals
    assert run.beats == sum(beats for _, beats in run.axi.bursts)


def test_a_large_row_is_split_at_blocks_of_32_beats():
    run = bench(4, [load_go(0x7A, 0, 300)]).run()
    assert run.axi.bursts == [(0x8000_0078, 2), (0x8000_0080, 32), (0x8000_0100, 32), (0x8000_0180, 10)]


def test_4_kib_with_50_cycles_of_latency_keep_the_bus_full():
    """Address after 3 cycles, 50 of latency, 256 beats, then two cycles into the AM and one to the signal."""
    program = [load_go(0, 64, 4096), signal("LOAD", 1, 1)]
    run = bench(16, program, latency=50).run()
    assert run.command_cycles == [0, 1]
    assert run.axi.address_cycles == list(range(3, 11))
    assert run.axi.beat_cycles == list(range(53, 53 + 256))
    assert run.signals == [(53 + 256 + 2, 1, 1)]


def test_gos_follow_each_other_without_an_idle_beat():
    """Sixteen GOs of 256 bytes with pitches and signals between them take no longer on the bus than one of 4
    KiB."""
    program = []
    for i in range(16):
        program += [pitch("LOAD", 64, 64), load_go(i * 256, i * 300, 64, 4), signal("LOAD", 2, 1)]
    run = bench(16, program, latency=50).run()
    assert run.axi.beat_cycles == list(range(54, 54 + 256))
    assert [s[0] for s in run.signals] == [54 + 16 * (i + 1) + 2 for i in range(16)]


def test_rows_of_one_beat_take_one_cycle_each_while_32_hide_the_latency():
    program = [pitch("LOAD", 16, 16), load_go(0, 0, 16, 256)]
    run = bench(16, program, latency=27).run()
    assert run.axi.beat_cycles == list(range(31, 31 + 256))


def test_unaligned_on_both_sides_costs_one_beat():
    run = bench(16, [load_go(5, 3, 4096)], latency=50).run()
    assert run.axi.beat_cycles == list(range(53, 53 + 257))


def test_a_refused_am_write_holds_the_bus():
    run = bench(16, [load_go(0, 0, 1024)], latency=5, am_stall=1.0)
    run.run(stop_when=lambda b, ctx: b.cycle == 40)
    assert len(run.axi.beat_cycles) == 3  # the buffer has two entries, and one is being written
    assert_same(run.local.am[:1024], content(AM_BYTES, 6)[:1024])


def test_no_more_than_256_beats_are_under_way():
    run = bench(16, [load_go(0, 0, 8192)], latency=400)
    run.run(stop_when=lambda b, ctx: b.cycle == 300)
    assert sum(beats for _, beats in run.axi.bursts) == 256


def test_wait_stops_what_follows_but_not_what_came_before():
    program = [load_go(0, 0, 64), wait("LOAD", 4, 3), load_go(64, 64, 64), signal("LOAD", 5, 7)]
    run = bench(16, program, latency=4)

    def tokens(ctx, b):
        if b.cycle == 100:
            assert len(b.axi.beat_cycles) == 4 and not ctx.get(b.dut.status.busy)
            b.semaphores[4] += 2
        if b.cycle == 150:
            assert len(b.command_cycles) == 1
            b.semaphores[4] += 2

    run.before_cycle = tokens
    run.run()
    assert run.command_cycles == [0, 151, 152, 153]
    assert run.semaphores[4] == 1 and run.semaphores[5] == 7
    assert_same(run.local.am[:128], content()[:128])


def test_signal_fires_after_the_data_before_it_is_written():
    rng = random.Random(9)
    program, ends = [], []
    for i in range(30):
        program.append(load_go(i * 200 + rng.randrange(50), i * 200, rng.randrange(1, 150)))
        ends.append(program[-1])
        program.append(signal("LOAD", i % 16, i))
    run = bench(8, program, stall=0.5, latency=10)

    def complete(b):
        go = ends[len(b.signals) - 1]
        start = go.memory_address
        assert b.local.am[go.local_address :][: go.row_bytes] == content()[start : start + go.row_bytes]

    run.on_signal = complete
    run.run()
    assert [s[1:] for s in run.signals] == [(i % 16, i) for i in range(30)]


def test_the_window_ends_exactly_at_mem_size():
    run = bench(16, [load_go(SIZE - 16, 0, 16), load_go(SIZE - 1, 64, 1)]).run()
    assert run.errors == []
    assert_same(run.local.am[:16] + run.local.am[64:65], content()[-16:] + content()[-1:])


@pytest.mark.parametrize(
    "bad, code",
    [
        ([load_go(SIZE - 15, 0, 16)], Error.MEMORY_RANGE),
        ([load_go(SIZE, 0, 1)], Error.MEMORY_RANGE),
        ([load_go(0xFFFF_FFFF, 0, 2)], Error.MEMORY_RANGE),
        ([pitch("LOAD", 4096, 0), load_go(0, 0, 16, 4)], Error.MEMORY_RANGE),
        ([load_go(0, 0, 0)], Error.ILLEGAL),
        ([load_go(0, 0, 16, 0)], Error.ILLEGAL),
        ([load_go(8, 0, 16, 1, Space.WM)], Error.ILLEGAL),
        ([load_go(0, 8, 16, 1, Space.WM)], Error.ILLEGAL),
        ([load_go(0, 0, 24, 1, Space.WM)], Error.ILLEGAL),
        ([pitch("LOAD", 8, 16), load_go(0, 0, 16, 2, Space.WM)], Error.ILLEGAL),
        ([encode(load_go(0, 0, 1))[:0] + bytes([Opcode.STORE_GO]) + bytes(15)], Error.ILLEGAL),
    ],
)
def test_errors_stop_the_unit_after_what_was_issued(bad, code):
    """The good row before is answered, nothing after the error is issued, no signal behind it fires."""
    program = [load_go(0, 0, 1024), *bad, signal("LOAD", 1, 1), load_go(0, 2048, 1024), wait("LOAD", 0, 0)]
    run = bench(16, program, latency=30)
    run.run(stop_when=lambda b, ctx: b.cycle == 200 and not ctx.get(b.dut.status.busy))
    assert [e[1] for e in run.errors] == [code]
    assert run.axi.queue == [] and run.signals == []
    assert all(address < 0x8000_0000 + SIZE for address, _ in run.axi.bursts)
    assert_same(run.local.am[2048:3072], content(AM_BYTES, 6)[2048:3072])


def test_a_bus_error_is_reported_once_and_the_rest_is_drained():
    program = [load_go(0, 0, 4096), signal("LOAD", 1, 1), load_go(4096, 4096, 4096)]
    run = bench(16, program, latency=10, errors={0x8000_0000 + 100, 0x8000_0000 + 1000})
    run.run(stop_when=lambda b, ctx: b.cycle > 20 and not ctx.get(b.dut.status.busy))
    assert [e[1] for e in run.errors] == [Error.BUS_READ]
    assert run.axi.queue == [] and run.signals == []
    assert len(run.axi.beat_cycles) == sum(beats for _, beats in run.axi.bursts) < 512
    before = content(AM_BYTES, 6)
    assert_same(run.local.am, content()[:96] + before[96:])


def test_stop_drains_and_keeps_an_offered_address():
    run = bench(16, [load_go(0, 0, 4096)], latency=20)
    run.axi.address_stalls = Stalls(1.0)

    def stop(ctx, b):
        ctx.set(b.dut.stop, b.cycle == 10)
        if b.cycle == 30:
            assert ctx.get(b.dut.axi.arvalid) and ctx.get(b.dut.status.busy)
            b.axi.address_stalls = Stalls()

    run.before_cycle = stop
    run.run(stop_when=lambda b, ctx: b.cycle > 30 and not ctx.get(b.dut.status.busy))
    # The one on offer, and one behind it.
    assert run.axi.bursts == [(0x8000_0000, 32), (0x8000_0200, 32)] and run.axi.queue == []
    assert run.errors == []


def test_after_stop_and_reset_a_new_program_runs():
    """Stopped at different points of transfers in flight, reset as soon as the unit is idle."""
    for stop_cycle in range(2, 60, 3):
        run = bench(
            16, [load_go(0, 0, 4096), signal("LOAD", 1, 1)] * 3, latency=20, stall=0.3, seed=stop_cycle
        )
        state = {"resets": 0}

        def control(ctx, b, state=state, stop_cycle=stop_cycle):
            stopping = b.cycle >= stop_cycle and not state["resets"]
            ctx.set(b.dut.stop, stopping)
            idle = stopping and b.cycle > stop_cycle and not ctx.get(b.dut.status.busy)
            ctx.set(b.reset, idle)
            if idle:
                state["resets"] = 1
                b.program = [load_go(1024, 1024, 1024), signal("LOAD", 9, 2)]

        run.before_cycle = control
        run.run(stop_when=lambda b, ctx: b.semaphores[9] == 2)
        assert state["resets"] == 1 and run.errors == []
        assert_same(run.local.am[1024:2048], content()[1024:2048])


def test_streamed_words_are_told_of():
    """One pulse per word of a streamed GO, in the cycle before its write; none for others."""
    program = [
        load_go(64, 16, 160, space=Space.WM),
        load_go(0, 512, 96, space=Space.WM, streamed=1),
        load_go(256, 32, 64),
    ]
    unit = bench(16, program, base=0, latency=5, stall=0.3)
    told = []
    unit.before_cycle = lambda ctx, b: told.append(
        (ctx.get(b.dut.streamed_word), ctx.get(b.dut.wm.enable), ctx.get(b.dut.wm.address))
    )
    check(unit, program)
    written = [
        address for (streamed, _, _), (_, enable, address) in itertools.pairwise(told) if streamed and enable
    ]
    assert written == list(range(32, 38))
    assert sum(streamed for streamed, _, _ in told) == 6


def test_only_weights_are_streamed():
    unit = bench(16, [load_go(0, 0, 64, streamed=1)], base=0)
    unit.run(limit=2000)
    assert [code for _, code in unit.errors] == [Error.ILLEGAL]
