"""Branches: what units receive and where the program ends, against a few lines of Python that follow the program."""

import random

import pytest
from rest_nightly import first_of
from sequencer_bench import END, NOP, SequencerBench, assemble, begin, by_unit, config_of, pitch

from tosaic.hw.isa import Condition, Error, Opcode, Unit, make

TEST = make(Opcode.VECTOR_TEST, address=0)


def branch(target, condition=Condition.ALWAYS):
    """A branch to instruction number `target`."""
    return make(Opcode.BRANCH, target=16 * target, condition=condition)


LIMIT = 400
"""Instructions executed by a random program, so that a test stays quick."""


def followed(program, flags):
    """(instructions executed, number of the last one); (None, 0) when there are more than LIMIT."""
    flags, flag, at, done = list(flags), 0, 0, []
    while len(done) < LIMIT:
        instruction = program[at]
        done.append(instruction)
        if instruction.opcode == Opcode.END:
            return done, at
        if instruction.opcode == Opcode.VECTOR_TEST:
            flag = flags.pop(0) if flags else 0
        taken = (
            instruction.opcode == Opcode.BRANCH
            and {
                Condition.ALWAYS: True,
                Condition.IF_CLEAR: not flag,
                Condition.IF_SET: bool(flag),
                Condition.NEVER: False,
            }[instruction.condition]
        )
        at = instruction.target // 16 if taken else at + 1
    return None, 0


def random_program(config, rng, length):
    """Branches forward under any condition; branches back behind a test, so that most of the programs end."""
    program = [begin(config)]
    while len(program) < length:
        kind = rng.random()
        if kind < 0.15:
            program.append(branch(rng.randrange(len(program), length + 1), rng.choice(list(Condition))))
        elif kind < 0.25:
            program += [TEST, branch(rng.randrange(1, len(program) + 1), Condition.IF_SET)]
        elif kind < 0.4:
            program.append(TEST)
        else:
            program.append(rng.choice([NOP, pitch("LOAD", len(program)), pitch("STORE", len(program))]))
    # A pair may stick out by one.
    return [*program, *[NOP] * (length - len(program)), END, END]


@pytest.mark.parametrize(
    ("columns", "stall"), first_of([(4, 0.5), (32, 0.5), (4, 0.0), (16, 0.4), (32, 0.0)], 2)
)
def test_random_programs_with_branches(columns, stall):
    config = config_of(columns, queue_commands=4)
    bench = SequencerBench(config, seed=columns, bus_stall=stall, unit_stall=stall, slow_cycles=1)

    async def script(ctx, bench):
        rng = random.Random(columns)
        for length, offset in ((5, 0), (20, 4096 - 64), (40, 96), (60, 4096 - 32)):
            done = None
            while done is None:
                program = random_program(config, rng, length)
                flags = [rng.random() < 0.8 for _ in range(4)]
                done, last = followed(program, flags)
            bench.flags = list(flags)
            ended = await bench.run(ctx, assemble(program), offset, limit_cycles=20_000)
            assert ended == (1, 0, 0, 16 * last)
            assert bench.logs() == by_unit(done)
            assert not bench.memory.queue

    bench.simulate(script)


def test_every_target_of_a_program_is_reached():
    config = config_of(32)
    bench = SequencerBench(config, bus_stall=0.3)

    async def script(ctx, bench):
        for target in range(2, 20):
            program = [begin(config), branch(target), *(pitch("LOAD", i) for i in range(2, 19)), END]
            done, last = followed(program, ())
            assert await bench.run(ctx, assemble(program)) == (1, 0, 0, 16 * last)
            assert bench.logs() == by_unit(done)

    bench.simulate(script)


def test_a_branch_waits_for_busy_units():
    config = config_of(8)
    cycles = {}

    async def script(ctx, bench):
        for condition in Condition:
            program = [begin(config), pitch("STORE", 1), branch(3, condition), END]
            before = bench.cycle
            assert (await bench.run(ctx, assemble(program)))[0] == 1
            cycles[condition] = bench.cycle - before

    SequencerBench(config, slow_cycles=50).simulate(script)
    assert all(50 <= count < 90 for count in cycles.values())
    # Fetching again takes its time.
    assert cycles[Condition.NEVER] < cycles[Condition.ALWAYS]


def test_the_flag_is_clear_at_the_start_of_a_run():
    config = config_of(16)

    async def script(ctx, bench):
        program = [begin(config), branch(3, Condition.IF_SET), TEST, END]
        for _ in range(2):
            bench.flags = [1]
            assert (await bench.run(ctx, assemble(program)))[0] == 1
            assert len(bench.logs()["vector"]) == 1

    SequencerBench(config).simulate(script)


@pytest.mark.parametrize("target", [4, 24, 31, 64, 80, 1 << 28, (1 << 32) - 16])
@pytest.mark.parametrize("condition", [Condition.ALWAYS, Condition.NEVER])
def test_targets_that_are_no_instruction_are_illegal(target, condition):
    config = config_of(16)

    async def script(ctx, bench):
        program = [begin(config), NOP, make(Opcode.BRANCH, target=target, condition=condition), END]
        assert await bench.run(ctx, assemble(program)) == (0, Error.ILLEGAL, Unit.SEQUENCER, 32)
        await bench.soft_reset(ctx)
        assert (await bench.run(ctx, assemble([begin(config), branch(2), END])))[0] == 1

    SequencerBench(config).simulate(script)


def test_an_endless_loop_is_ended_by_a_reset():
    config = config_of(16)

    async def script(ctx, bench):
        program = [begin(config), pitch("LOAD", 1), branch(1), END]
        await bench.start(ctx, assemble(program))
        for _ in range(500):
            await bench.step(ctx)
            assert ctx.get(bench.dut.report.running)
        await bench.soft_reset(ctx)
        assert (await bench.run(ctx, assemble([begin(config), branch(2), END])))[0] == 1

    SequencerBench(config).simulate(script)


def test_errors_behind_a_branch_name_their_instruction():
    config = config_of(16)

    async def script(ctx, bench):
        program = bytearray(assemble([begin(config), branch(3), NOP, NOP, END]))
        program[2 * 16 + 1] ^= 1
        assert (await bench.run(ctx, bytes(program)))[0] == 1
        program[3 * 16 + 1] ^= 1
        assert await bench.run(ctx, bytes(program)) == (0, Error.ILLEGAL, Unit.SEQUENCER, 48)

    SequencerBench(config).simulate(script)


def test_a_loop_without_end_of_program():
    config = config_of(16)

    async def script(ctx, bench):
        bench.flags = [1, 1, 1]
        program = [begin(config), TEST, branch(1, Condition.IF_SET)]
        assert await bench.run(ctx, assemble(program)) == (0, Error.PROGRAM_END, Unit.SEQUENCER, 48)
        assert len(bench.logs()["vector"]) == 4

    SequencerBench(config).simulate(script)
