"""The sequencer with stub units: order, errors with their program counter, watchdog, recovery."""

import random

import pytest
from rest_nightly import first_of
from sequencer_bench import (
    BASE,
    END,
    MEMORY_BYTES,
    NOP,
    SequencerBench,
    assemble,
    begin,
    by_unit,
    config_of,
    pitch,
    signal,
    wait,
)

from tosaic.hw.isa import FIELDS, ISA_HASH, Error, Opcode, Unit, make


def _random_program(config, rng, length):
    """Any instructions of the units but WAIT and SIGNAL, which the stubs would obey; `config` has all of them."""
    opcodes = [o for o in Opcode if o.unit != Unit.SEQUENCER and o & 15 > 1] + [Opcode.NOP]
    body = []
    for _ in range(length):
        opcode = rng.choice(opcodes)
        values = {
            f.name: rng.getrandbits(f.bits) - (1 << (f.bits - 1) if f.signed else 0) for f in FIELDS[opcode]
        }
        body.append(make(opcode, **values))
    return [begin(config), *body, END]


@pytest.mark.parametrize("columns", first_of([4, 32, 8, 16], 2))
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_units_receive_their_instructions_in_order(columns, stall):
    config = config_of(columns, queue_commands=4, load_crc=1)
    bench = SequencerBench(config, seed=columns, bus_stall=stall, unit_stall=stall)

    async def script(ctx, bench):
        rng = random.Random(columns)
        for length, offset in ((0, 0), (1, 32), (14, 96), (61, 4096 - 64), (60, 0)):
            program = _random_program(config, rng, length)
            assert await bench.run(ctx, assemble(program), offset) == (1, 0, 0, 16 * (length + 1))
            assert bench.logs() == by_unit(program)
            assert not bench.memory.queue

    bench.simulate(script)


def test_dispatches_one_instruction_per_cycle():
    config = config_of(16)
    bench = SequencerBench(config)
    cycles = []

    async def script(ctx, bench):
        for length in (10, 110):
            program = [begin(config), *(pitch("LOAD", i) for i in range(length)), END]
            before = bench.cycle
            await bench.run(ctx, assemble(program))
            cycles.append(bench.cycle - before)

    bench.simulate(script)
    assert cycles[1] - cycles[0] == 100


def test_done_waits_for_busy_units():
    bench = SequencerBench(config_of(8), slow_cycles=50)
    cycles = []

    async def script(ctx, bench):
        for program in ([begin(bench.config), END], [begin(bench.config), pitch("STORE", 1), END]):
            before = bench.cycle
            assert (await bench.run(ctx, assemble(program)))[0] == 1
            cycles.append(bench.cycle - before)

    bench.simulate(script)
    assert cycles[1] - cycles[0] >= 50


def test_every_corrupted_byte_is_illegal_at_its_instruction():
    config = config_of(16)
    program = assemble([begin(config), pitch("LOAD", 0x12345678), NOP, signal("STORE", 3, 200), END])
    rng = random.Random(7)

    async def script(ctx, bench):
        for position in range(len(program)):
            corrupt = bytearray(program)
            corrupt[position] ^= rng.randrange(1, 256)
            expected = (0, Error.ILLEGAL, Unit.SEQUENCER, position // 16 * 16)
            assert await bench.run(ctx, bytes(corrupt)) == expected, position
            await bench.soft_reset(ctx)
        assert (await bench.run(ctx, program))[0] == 1

    SequencerBench(config).simulate(script)


_CONFIG = config_of(8)
_GOOD = [begin(_CONFIG), pitch("LOAD", 1), pitch("STORE", 2), END]


def _fail(instructions, code, pc, unit=Unit.SEQUENCER):
    async def script(ctx, bench):
        program = instructions if isinstance(instructions, bytes) else assemble(instructions)
        assert await bench.run(ctx, program) == (0, code, unit, pc)
        for _ in range(20):
            await bench.step(ctx)
            assert ctx.get(bench.dut.report.error) and ctx.get(bench.dut.report.pc) == pc
        # Start is refused until reset.
        await bench.start(ctx, assemble(_GOOD))
        assert ctx.get(bench.dut.report.error) and not ctx.get(bench.dut.report.running)
        await bench.soft_reset(ctx)
        assert await bench.run(ctx, assemble(_GOOD)) == (1, 0, 0, 48)
        assert bench.logs() == by_unit(_GOOD)

    return script


@pytest.mark.parametrize(
    ("instructions", "code", "pc"),
    [
        ([NOP, *_GOOD], Error.ILLEGAL, 0),
        ([pitch("LOAD", 1), *_GOOD], Error.ILLEGAL, 0),
        ([END], Error.ILLEGAL, 0),
        (bytes(64), Error.ILLEGAL, 0),
        ([make(Opcode.BEGIN, isa_hash=ISA_HASH ^ 1, config_hash=_CONFIG.hash), END], Error.ISA_MISMATCH, 0),
        (
            [make(Opcode.BEGIN, isa_hash=ISA_HASH, config_hash=_CONFIG.hash ^ 1 << 31), END],
            Error.CONFIG_MISMATCH,
            0,
        ),
        (_GOOD[:-1], Error.PROGRAM_END, 48),
        (assemble(_GOOD)[:-1], Error.PROGRAM_END, 48),
        (b"", Error.PROGRAM_END, 0),
    ],
)
def test_program_errors_and_recovery(instructions, code, pc):
    SequencerBench(_CONFIG, bus_stall=0.2).simulate(_fail(instructions, code, pc))


def test_misplaced_programs_are_refused():
    program = assemble(_GOOD)

    async def script(ctx, bench):
        for offset in (16, MEMORY_BYTES - 32, 1 << 31, (1 << 32) - 32):
            ctx.set(bench.dut.program_address, offset)
            ctx.set(bench.dut.program_bytes, len(program))
            await bench.step(ctx)
            ctx.set(bench.dut.start, 1)
            await bench.step(ctx)
            ctx.set(bench.dut.start, 0)
            for _ in range(10):
                await bench.step(ctx)
            report = bench.dut.report
            assert (ctx.get(report.error), ctx.get(report.code)) == (1, Error.MEMORY_RANGE), offset
            assert bench.memory.bursts == 0
            await bench.soft_reset(ctx)
        assert (await bench.run(ctx, program, MEMORY_BYTES - 64))[0] == 1

    SequencerBench(_CONFIG).simulate(script)


@pytest.mark.parametrize("columns", [4, 32])
def test_bus_error_names_the_instruction(columns):
    config = config_of(columns)
    program = [begin(config), *(pitch("LOAD", i) for i in range(6)), END]

    async def script(ctx, bench):
        bench.memory.errors = {BASE + 4 * 16 + 5}
        assert await bench.run(ctx, assemble(program)) == (0, Error.BUS_READ, Unit.SEQUENCER, 64)
        bench.memory.errors = {BASE + len(program) * 16 + 40}
        await bench.soft_reset(ctx)
        assert (await bench.run(ctx, assemble(program)))[0] == 1

    SequencerBench(config).simulate(script)


@pytest.mark.parametrize("unit", ["LOAD", "ARRAY", "VECTOR", "STORE"])
def test_watchdog_names_the_wait_that_never_comes(unit):
    program = [
        begin(_CONFIG),
        pitch("LOAD", 1),
        pitch("STORE", 1),
        signal("LOAD", 5, 1),
        wait(unit, 5, 2),
        NOP,
        END,
    ]

    async def script(ctx, bench):
        assert await bench.run(ctx, assemble(program)) == (0, Error.WATCHDOG, Unit[unit], 64)
        assert 300 <= bench.cycle <= 340
        await bench.soft_reset(ctx)
        assert (await bench.run(ctx, assemble(_GOOD)))[0] == 1

    SequencerBench(_CONFIG).simulate(script)


def test_watchdog_names_the_sequencer_when_the_bus_is_silent_and_zero_disables_it():
    async def script(ctx, bench):
        assert await bench.run(ctx, assemble(_GOOD)) == (0, Error.WATCHDOG, Unit.SEQUENCER, 0)
        bench.memory.answers = True
        await bench.soft_reset(ctx)
        bench.memory.answers = False
        ctx.set(bench.dut.watchdog_cycles, 0)
        await bench.start(ctx, assemble(_GOOD))
        for _ in range(1000):
            await bench.step(ctx)
        assert ctx.get(bench.dut.report.running)

    SequencerBench(_CONFIG, answers=False).simulate(script)


@pytest.mark.parametrize("unit", ["LOAD", "ARRAY", "STORE"])
def test_unit_errors_name_the_instruction_taken_last(unit):
    program = [begin(_CONFIG), NOP, wait(unit, 0, 0), signal(unit, 0, 1), *(NOP for _ in range(40)), END]

    async def script(ctx, bench):
        stub = bench.units[unit.lower()]
        stub.fault_at, stub.code = 1, Error.ILLEGAL
        assert await bench.run(ctx, assemble(program)) == (0, Error.ILLEGAL, Unit[unit], 48)
        await bench.soft_reset(ctx)
        assert (await bench.run(ctx, assemble(program)))[0] == 1

    SequencerBench(_CONFIG).simulate(script)


def test_tokens_order_the_units():
    """LOAD -> ARRAY -> VECTOR -> STORE -> LOAD, each behind the other's signal; semaphores start at zero."""
    units = ("LOAD", "ARRAY", "VECTOR", "STORE")
    program = [begin(_CONFIG)]
    for turn in range(5):
        for number, unit in enumerate(units):
            if turn or number:
                program.append(wait(unit, number, 3))
            program.append(signal(unit, (number + 1) % 4, 3))
    program.append(END)

    async def script(ctx, bench):
        for _ in range(3):
            assert (await bench.run(ctx, assemble(program)))[0] == 1
            assert bench.logs() == by_unit(program)

    SequencerBench(_CONFIG, unit_stall=0.3, slow_cycles=2).simulate(script)


def test_semaphores_start_at_zero():
    leaves_one = [begin(_CONFIG), signal("LOAD", 5, 1), END]
    takes_one = [begin(_CONFIG), wait("ARRAY", 5, 1), END]

    async def script(ctx, bench):
        assert (await bench.run(ctx, assemble(leaves_one)))[0] == 1
        assert await bench.run(ctx, assemble(takes_one)) == (0, Error.WATCHDOG, Unit.ARRAY, 16)

    SequencerBench(_CONFIG).simulate(script)


def test_what_follows_end_is_fetched_at_most_and_drained():
    program = [begin(_CONFIG), END, *(pitch("LOAD", i) for i in range(40))]

    async def script(ctx, bench):
        bench.memory.latency_cycles = 20
        for _ in range(2):
            assert await bench.run(ctx, assemble(program)) == (1, 0, 0, 16)
            assert bench.logs() == by_unit([]) and not bench.memory.queue
        assert await bench.run(ctx, assemble(_GOOD)) == (1, 0, 0, 48)
        assert bench.logs() == by_unit(_GOOD)

    SequencerBench(_CONFIG).simulate(script)


def test_soft_reset_in_mid_run_leaves_the_bus_clean():
    config = config_of(16)
    program = [begin(config), *(pitch("LOAD", i) for i in range(200)), END]

    async def script(ctx, bench):
        for after_cycles in (1, 2, 3, 5, 9, 14, 33, 70):
            await bench.start(ctx, assemble(program))
            for _ in range(after_cycles):
                await bench.step(ctx)
            assert ctx.get(bench.dut.report.running)
            await bench.soft_reset(ctx)
            assert not ctx.get(bench.dut.report.running)
            assert (await bench.run(ctx, assemble(_GOOD_16)))[0] == 1
            assert bench.logs() == by_unit(_GOOD_16)

    _GOOD_16 = [begin(config), pitch("STORE", 9), END]
    SequencerBench(config, bus_stall=0.4, unit_stall=0.5).simulate(script)
