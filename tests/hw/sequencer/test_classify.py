"""What the sequencer does with an instruction: Classifier against the tables of the instruction set."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator
from sequencer_bench import END, NOP, begin, config_of, pitch, signal, wait

from tosaic.hw.isa import ISA_HASH, Condition, Error, Opcode, encode, make
from tosaic.hw.sequencer.classify import QUEUES, Classifier, counts, error_of

CONFIG = config_of(4)
COUNT = 7


def branch(target):
    return make(Opcode.BRANCH, target=target, condition=Condition.ALWAYS)


def classify(raw, *, is_first=False, bus_error=False):
    """(error, units that it goes to, passes, ends, branches); but for the error nothing of what is no instruction."""
    m, found, error, means = Module(), [], Signal(Error), Signal()
    m.submodules.dut = dut = Classifier(CONFIG)
    m.d.comb += [error.eq(error_of(dut.action)), means.eq(counts(dut.action))]

    async def testbench(ctx):
        ctx.set(dut.fetched.instruction, int.from_bytes(raw, "little"))
        ctx.set(dut.fetched.bus_error, bus_error)
        ctx.set(dut.is_first, is_first)
        ctx.set(dut.count, COUNT)
        await ctx.delay(1e-9)
        action = ctx.get(dut.action)
        units = [unit.name for bit, unit in enumerate(QUEUES) if action.to_queue >> bit & 1]
        kinds = (action.passes, action.ends, action.branches)
        found.append((ctx.get(error), *((units, *kinds) if ctx.get(means) else ([], 0, 0, 0))))

    simulator = Simulator(m)
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
    ("raw", "options", "wrong", "passes", "branches"),
    [
        (encode(NOP), {"is_first": True}, Error.ILLEGAL, 0, 0),
        (encode(NOP), {"is_first": True, "bus_error": True}, Error.BUS_READ, 0, 0),
        (bytes(16), {}, Error.ILLEGAL, 0, 0),
        (encode(branch(16 * COUNT)), {}, Error.ILLEGAL, 1, 1),
        (encode(branch(8)), {}, Error.ILLEGAL, 1, 1),
        (
            encode(make(Opcode.BEGIN, isa_hash=ISA_HASH ^ 1, config_hash=CONFIG.hash)),
            {"is_first": True},
            Error.ISA_MISMATCH,
            1,
            0,
        ),
        (
            encode(make(Opcode.BEGIN, isa_hash=ISA_HASH, config_hash=CONFIG.hash ^ 1)),
            {"is_first": True},
            Error.CONFIG_MISMATCH,
            1,
            0,
        ),
    ],
)
def test_what_is_wrong_goes_to_no_unit(raw, options, wrong, passes, branches):
    assert classify(raw, **options) == (wrong, [], passes, 0, branches)
