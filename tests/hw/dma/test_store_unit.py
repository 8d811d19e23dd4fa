"""The STORE unit against the naive executor: data, order, errors, exact cycles."""

import random

import pytest
from dma_models import (
    AM_BYTES,
    AxiWriteModel,
    Bench,
    LocalMemories,
    Memory,
    Stalls,
    assert_same,
    config_of,
    execute,
    pitch,
    signal,
    store_go,
    wait,
)
from rest_nightly import first_of

from tosaic.hw.dma import StoreUnit
from tosaic.hw.isa import Error, Opcode

# Blocks whose constructor raises are never elaborated; Amaranth says so when they are collected.
pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")

SIZE = 24 << 10


def content(size=SIZE, seed=5):
    return random.Random(seed).randbytes(size)


def bench(columns, program, base=0x8000_0000, latency=1, stall=0.0, seed=1, am_stall=None, errors=(), **more):
    """A STORE unit with a memory of SIZE bytes at `base`."""
    config, rng = config_of(columns), random.Random(seed)
    memory = Memory(base, content(), errors)
    axi = AxiWriteModel(config, memory, latency, Stalls(stall, rng), Stalls(stall, rng), Stalls(stall, rng))
    local = LocalMemories(
        config, Stalls(stall if am_stall is None else am_stall, rng), am=content(AM_BYTES, 6)
    )
    return Bench(StoreUnit, axi, local, program, base, SIZE, **more)


def check(bench_, program):
    """Everything in external memory, guard bytes and all, is what the executor leaves."""
    expected = bytearray(content())
    execute(program, expected, bench_.local)
    bench_.run(limit=60000)
    assert bench_.errors == []
    assert_same(bench_.axi.memory.bytes, expected)
    assert_same(bench_.local.am, content(AM_BYTES, 6))
    return bench_


@pytest.mark.parametrize("columns", [4, 16])
@pytest.mark.parametrize("length", ["short", "beat", "long"])
def test_alignments_and_lengths_around_4_kib(columns, length):
    """Every start within a beat of the boundary, from local addresses of every alignment; the memory is
    compared after each."""
    count = {"short": 1, "beat": columns, "long": 2 * columns + 3}[length]
    for start in range(4096 - columns - 1, 4096 + 2, 1 if columns == 4 else 5):
        program = [store_go(start, 3 * start + 1, count)]
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
        if kind < 0.25:
            program.append(pitch("STORE", rng.randrange(600), rng.randrange(1 << 24)))
        elif kind < 0.4:
            program.append(signal("STORE", 3, 1))
            signals += 1
        else:
            program.append(
                store_go(
                    rng.randrange(12000), rng.randrange(1 << 24), rng.randrange(1, 400), rng.randrange(1, 6)
                )
            )
    run = check(bench(columns, program, base, latency, stall, seed=columns), program)
    assert run.semaphores[3] == signals
    assert run.beats == sum(beats for _, beats in run.axi.bursts)


def test_4_kib_keep_the_bus_full():
    """Address after 3 cycles, data after 8, 256 beats, the answer 50 cycles after the last, the signal one
    later."""
    program = [store_go(0, 64, 4096), signal("STORE", 1, 1)]
    run = bench(16, program, latency=50).run()
    assert run.command_cycles == [0, 1]
    # Eight bursts may be ahead of their data, so all addresses go out at once.
    assert run.axi.address_cycles == list(range(3, 11))
    assert run.axi.beat_cycles == list(range(8, 8 + 256))
    assert run.axi.answer_cycles[-1] == 8 + 255 + 50
    assert run.signals == [(8 + 255 + 50 + 1, 1, 1)]


def test_gos_follow_each_other_without_an_idle_beat():
    program = []
    for i in range(16):
        program += [pitch("STORE", 64, 64), store_go(i * 256, i * 300, 64, 4), signal("STORE", 2, 1)]
    run = bench(16, program, latency=20).run()
    assert run.axi.beat_cycles == list(range(9, 9 + 256))
    assert [s[0] for s in run.signals] == [9 + 16 * (i + 1) - 1 + 20 + 1 for i in range(16)]


def test_rows_of_one_beat_take_one_cycle_each_while_32_hide_the_latency():
    program = [pitch("STORE", 16, 16), store_go(0, 0, 16, 256)]
    run = bench(16, program, latency=24).run()
    assert run.axi.beat_cycles == list(range(9, 9 + 256))


def test_unaligned_on_both_sides_costs_one_beat():
    run = bench(16, [store_go(5, 3, 4096)], latency=5).run()
    assert run.axi.beat_cycles == list(range(8, 8 + 257))


def test_no_read_is_lost_when_the_bus_stalls():
    """With W never ready the unit reads ahead by its buffer and no further; then everything arrives."""
    program = [store_go(0, 0, 1024)]
    run = bench(16, program)
    run.axi.data_stalls = Stalls(1.0)
    reads = []

    def watch(ctx, b):
        if ctx.get(b.dut.am.request) and ctx.get(b.dut.am.grant):
            reads.append(b.cycle)
        if b.cycle == 60:
            assert len(reads) == 8
            b.axi.data_stalls = Stalls()

    run.before_cycle = watch
    check(run, program)
    assert len(reads) == 64


def test_wait_stops_what_follows_but_not_what_came_before():
    program = [store_go(0, 0, 64), wait("STORE", 4, 3), store_go(64, 64, 64), signal("STORE", 5, 7)]
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
    assert_same(run.axi.memory.bytes[:128], content(AM_BYTES, 6)[:128])


def test_signal_fires_after_the_answers_of_everything_before_it():
    """The model changes its memory when the answer is taken, so the bytes tell."""
    rng = random.Random(9)
    program, gos = [], []
    for i in range(30):
        program.append(store_go(i * 200 + rng.randrange(50), i * 200, rng.randrange(1, 150)))
        gos.append(program[-1])
        program.append(signal("STORE", i % 16, i))
    run = bench(8, program, stall=0.5, latency=10)

    def complete(b):
        go = gos[len(b.signals) - 1]
        stored = b.axi.memory.bytes[go.memory_address :][: go.row_bytes]
        assert stored == b.local.am[go.local_address :][: go.row_bytes]

    run.on_signal = complete
    run.run()
    assert [s[1:] for s in run.signals] == [(i % 16, i) for i in range(30)]


def test_the_window_ends_exactly_at_mem_size():
    program = [store_go(SIZE - 16, 0, 16), store_go(SIZE - 1, 64, 1)]
    check(bench(16, program), program)


@pytest.mark.parametrize(
    "bad, code",
    [
        ([store_go(SIZE - 15, 0, 16)], Error.MEMORY_RANGE),
        ([store_go(0xFFFF_FFFF, 0, 2)], Error.MEMORY_RANGE),
        ([pitch("STORE", 8192, 0), store_go(0, 0, 16, 4)], Error.MEMORY_RANGE),
        ([store_go(0, 0, 0)], Error.ILLEGAL),
        ([store_go(0, 0, 16, 0)], Error.ILLEGAL),
        ([bytes([Opcode.LOAD_GO]) + bytes(15)], Error.ILLEGAL),
    ],
)
def test_errors_stop_the_unit_after_what_was_issued(bad, code):
    """Bursts that began are completed, nothing after the error is issued, no signal behind it fires."""
    program = [store_go(0, 0, 512), *bad, signal("STORE", 1, 1), store_go(4096, 0, 512), wait("STORE", 0, 0)]
    run = bench(16, program, latency=30)
    run.run(stop_when=lambda b, ctx: b.cycle == 200 and not ctx.get(b.dut.status.busy))
    assert [e[1] for e in run.errors] == [code]
    assert (run.axi.addresses, run.axi.data, run.axi.answers, run.signals) == ([], [], [], [])
    assert_same(run.axi.memory.bytes[:512], content(AM_BYTES, 6)[:512])
    assert_same(run.axi.memory.bytes[4096 : 4096 + 512], content()[4096 : 4096 + 512])


def test_a_bus_error_is_reported_once_and_begun_bursts_are_completed():
    program = [store_go(0, 0, 8192), signal("STORE", 1, 1), store_go(8192, 8192, 4096)]
    run = bench(16, program, latency=10, errors={0x8000_0000 + 100, 0x8000_0000 + 1000})
    run.run(stop_when=lambda b, ctx: b.cycle > 50 and not ctx.get(b.dut.status.busy))
    assert [e[1] for e in run.errors] == [Error.BUS_WRITE]
    assert (run.axi.addresses, run.axi.data, run.axi.answers, run.signals) == ([], [], [], [])
    assert len(run.axi.beat_cycles) == sum(beats for _, beats in run.axi.bursts) < 512


def test_stop_completes_begun_bursts_and_keeps_an_offered_address():
    run = bench(16, [store_go(0, 0, 4096)], latency=20)
    run.axi.address_stalls = Stalls(1.0)

    def stop(ctx, b):
        ctx.set(b.dut.stop, b.cycle == 10)
        if b.cycle == 60:
            assert ctx.get(b.dut.axi.awvalid) and ctx.get(b.dut.status.busy)
            b.axi.address_stalls = Stalls()

    run.before_cycle = stop
    run.run(stop_when=lambda b, ctx: b.cycle > 60 and not ctx.get(b.dut.status.busy))
    assert run.axi.bursts == [(0x8000_0000, 32)] and len(run.axi.beat_cycles) == 32
    assert_same(run.axi.memory.bytes[:513], content(AM_BYTES, 6)[:512] + content()[512:513])
    assert run.errors == []


def test_after_stop_and_reset_a_new_program_runs():
    """Stopped at different points of transfers in flight, reset as soon as the unit is idle."""
    for stop_cycle in range(2, 60, 3):
        run = bench(
            16, [store_go(0, 0, 4096), signal("STORE", 1, 1)] * 3, latency=20, stall=0.3, seed=stop_cycle
        )
        state = {"resets": 0}

        def control(ctx, b, state=state, stop_cycle=stop_cycle):
            stopping = b.cycle >= stop_cycle and not state["resets"]
            ctx.set(b.dut.stop, stopping)
            idle = stopping and b.cycle > stop_cycle and not ctx.get(b.dut.status.busy)
            ctx.set(b.reset, idle)
            if idle:
                state["resets"] = 1
                b.program = [store_go(1024, 1024, 1024), signal("STORE", 9, 2)]

        run.before_cycle = control
        run.run(stop_when=lambda b, ctx: b.semaphores[9] == 2)
        assert state["resets"] == 1 and run.errors == []
        assert_same(run.axi.memory.bytes[1024:2048], content(AM_BYTES, 6)[1024:2048])
