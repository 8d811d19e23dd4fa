"""What a VECTOR_GO would use and is not there: Definitions against sets."""

import random

import pytest
from amaranth.sim import Simulator

from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import Op, Opcode, Source, encode, make
from tosaic.hw.vector.definitions import Definitions
from tosaic.sim.assembler import Assembler

CONFIG = CONFIGS["nano"]


def command(opcode, **fields):
    assembler = Assembler(CONFIG)
    assembler.emit(opcode, **fields)
    return assembler.instructions[-1]


def missing(commands, waits=0):
    """`missing` with each GO of `commands` at the head, in order; each command is there for `waits` cycles more."""
    dut = Definitions(CONFIG)
    found = []
    at_head = {
        Opcode.VECTOR_UOP: dut.has_uop,
        Opcode.VECTOR_BOUNDS: dut.has_bounds,
        Opcode.VECTOR_PARAM: dut.has_params,
        Opcode.VECTOR_TABLE: dut.has_table,
    }

    async def testbench(ctx):
        for instruction in commands:
            word = int.from_bytes(encode(instruction), "little")
            ctx.set(dut.lookahead.moves, 1)
            ctx.set(dut.lookahead.following, word)
            await ctx.tick()
            ctx.set(dut.word, word)
            ctx.set(dut.lookahead.moves, 0)
            for opcode, flag in at_head.items():
                ctx.set(flag, opcode == instruction.opcode)
            for _ in range(waits):
                await ctx.tick()
            if instruction.opcode == Opcode.VECTOR_GO:
                found.append(bool(ctx.get(dut.missing)))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    return found


class Reference:
    """The same, with sets."""

    def __init__(self):
        self.needs, self.bounded, self.used, self.there = {}, set(), set(), set()

    def take(self, i):
        match i.opcode:
            case Opcode.VECTOR_UOP:
                self.needs[i.index] = i.clamp or Source.IMMEDIATE in (i.a_source, i.b_source)
                self.used |= {"bias"} if i.bias else set()
                self.used |= {"scale"} if i.op == Op.RESCALE and i.per_channel else set()
                self.used |= {{Op.TABLE8: "low", Op.TABLE16: "high"}[i.op]} if i.op >= Op.TABLE8 else set()
            case Opcode.VECTOR_BOUNDS:
                self.bounded.add(i.index)
            case Opcode.VECTOR_PARAM:
                self.there |= {name for name in ("bias", "scale") if i.fields[name]}
            case Opcode.VECTOR_TABLE:
                self.there |= {"low", "high"} if i.entries == 512 else {"low"}

    def missing(self, go):
        incomplete = any(
            index not in self.needs or (self.needs[index] and index not in self.bounded)
            for index in range(go.uops)
        )
        return incomplete or bool(self.used - self.there)


def random_command(rng):
    match rng.randrange(8):
        case 0:
            return command(Opcode.VECTOR_PARAM, bias=rng.getrandbits(1), scale=rng.getrandbits(1))
        case 1:
            return command(Opcode.VECTOR_TABLE, entries=rng.choice([256, 512]))
        case 2 | 3:
            return command(Opcode.VECTOR_BOUNDS, index=rng.randrange(4))
        case _:
            return command(
                Opcode.VECTOR_UOP,
                index=rng.randrange(4),
                op=rng.choice([Op.MOV, Op.MOV, Op.RESCALE, Op.TABLE8, Op.TABLE16]),
                a_source=rng.choice([Source.NONE, Source.LOAD, Source.IMMEDIATE]),
                b_source=rng.choice([Source.NONE, Source.NONE, Source.IMMEDIATE]),
                bias=rng.random() < 0.2,
                per_channel=rng.getrandbits(1),
                clamp=rng.random() < 0.3,
            )


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    rng = random.Random(seed)
    commands, reference, expected = [], Reference(), []
    for _ in range(30):
        commands.append(random_command(rng))
        reference.take(commands[-1])
        for uops in (1, 2, 4):
            commands.append(command(Opcode.VECTOR_GO, uops=uops))
            expected.append(reference.missing(commands[-1]))
    assert missing(commands) == expected
    assert missing(commands, waits=2) == expected


def test_nothing_is_missing_of_a_whole_micro_program():
    uops = [command(Opcode.VECTOR_UOP, index=index) for index in range(CONFIG.vector_uops)]
    go = make(Opcode.VECTOR_GO, **command(Opcode.VECTOR_GO, uops=CONFIG.vector_uops).fields)
    assert missing([*uops[1:], go, uops[0], go]) == [True, False]
