"""What the sequencer does with an instruction: Classifier against the tables of the instruction set."""

import pytest
from amaranth.sim import Simulator
from sequencer_bench import END, NOP, begin, config_of, pitch, signal, wait

from tosaic.hw.isa import ISA_HASH, Condition, Error, Opcode, encode, make
from tosaic.hw.sequencer.classify import QUEUES, Classifier

CONFIG = config_of(4)
COUNT = 7


def branch(target):
    return make(Opcode.BRANCH, target=target, condition=Condition.ALWAYS)


def classify(raw, *, is_first=False, bus_error=False):
    """(wrong, units that it goes to, passes, ends, branches)"""
    dut, found = Classifier(CONFIG), []

    async def testbench(ctx):
        ctx.set(dut.fetched.instruction, int.from_bytes(raw, "little"))
        ctx.set(dut.fetched.bus_error, bus_error)
        ctx.set(dut.is_first, is_first)
        ctx.set(dut.count, COUNT)
        await ctx.delay(1e-9)
        action = ctx.get(dut.action)
        units = [unit.name for bit, unit in enumerate(QUEUES) if action.to_queue >> bit & 1]
        found.append((Error(action.wrong), units, action.passes, action.ends, action.branches))

    simulator = Simulator(dut)
    simulator.add_testbench(testbench)
    simulator.run()
    return found[0]


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        (NOP, (Error.NONE, [], 1, 0, 0)),
        (END, (Error.NONE, [], 1, 1, 0)),
        (begin(CONFIG), (Error.NONE, [], 1, 0, 0)),
        (branch(16 * (COUNT - 1)), (Error.NONE, [], 1, 0, 1)),
        (pitch("LOAD", 1), (Error.NONE, ["LOAD"], 0, 0, 0)),
        (wait("ARRAY", 1, 1), (Error.NONE, ["ARRAY"], 0, 0, 0)),
        (signal("VECTOR", 1, 1), (Error.NONE, ["VECTOR"], 0, 0, 0)),
        (pitch("STORE", 1), (Error.NONE, ["STORE"], 0, 0, 0)),
    ],
)
def test_where_it_goes(instruction, expected):
    assert classify(encode(instruction)) == expected


@pytest.mark.parametrize(
    ("raw", "options", "wrong"),
    [
        (encode(NOP), {"is_first": True}, Error.ILLEGAL),
        (encode(NOP), {"is_first": True, "bus_error": True}, Error.BUS_READ),
        (bytes(16), {}, Error.ILLEGAL),
        (encode(branch(16 * COUNT)), {}, Error.ILLEGAL),
        (encode(branch(8)), {}, Error.ILLEGAL),
        (
            encode(make(Opcode.BEGIN, isa_hash=ISA_HASH ^ 1, config_hash=CONFIG.hash)),
            {"is_first": True},
            Error.ISA_MISMATCH,
        ),
        (
            encode(make(Opcode.BEGIN, isa_hash=ISA_HASH, config_hash=CONFIG.hash ^ 1)),
            {"is_first": True},
            Error.CONFIG_MISMATCH,
        ),
    ],
)
def test_what_is_wrong_goes_nowhere(raw, options, wrong):
    assert classify(raw, **options) == (wrong, [], 0, 0, 0)
