"""A unit's queue: what it keeps of an instruction, and which instruction the unit is at."""

import dataclasses

import pytest
from amaranth.sim import Simulator
from sequencer_bench import config_of, pitch, signal, wait

from tosaic.hw.isa import Opcode, Unit, encode, make
from tosaic.hw.sequencer.queue import CommandQueue, never_at_fault

CONFIG = config_of(4)
GO = make(Opcode.LOAD_GO, memory_address=5, space=0, local_address=6, row_bytes=7, rows=8, streamed=0)
STORE_GO = make(Opcode.STORE_GO, memory_address=5, local_address=6, row_bytes=7, rows=8)


def word(instruction):
    return int.from_bytes(encode(instruction), "little")


def indexes(unit, instructions, looks_ahead=False):
    """The queue's `index` two cycles after each instruction was taken; their indices are 10, 20, ..."""
    dut = CommandQueue(unit, CONFIG, looks_ahead=looks_ahead)
    found = []

    async def testbench(ctx):
        for number, instruction in enumerate(instructions, 1):
            ctx.set(dut.dispatched.payload.instruction, word(instruction))
            ctx.set(dut.dispatched.payload.index, 10 * number)
            ctx.set(dut.dispatched.valid, 1)
            await ctx.tick()
        ctx.set(dut.dispatched.valid, 0)
        for instruction in instructions:
            await ctx.tick().repeat(3)
            assert ctx.get(dut.commands.valid) and not ctx.get(dut.empty)
            assert ctx.get(dut.commands.payload) == word(instruction) & ~0xFF00
            ctx.set(dut.commands.ready, 1)
            await ctx.tick()
            ctx.set(dut.commands.ready, 0)
            await ctx.tick()
            found.append(ctx.get(dut.index))
        assert ctx.get(dut.empty)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    return found


@pytest.mark.parametrize(("unit", "go"), [(Unit.LOAD, GO), (Unit.STORE, STORE_GO)])
def test_what_is_taken_behind_a_transfer_is_not_at_fault(unit, go):
    behind = [pitch(unit.name, 3), wait(unit.name, 1, 0), signal(unit.name, 2, 1)]
    assert indexes(unit, [go, *behind, go]) == [10, 10, 10, 40, 50]


def test_a_queue_that_looks_ahead():
    instructions = [signal("VECTOR", 1, 1), wait("VECTOR", 1, 1), signal("VECTOR", 2, 1)]
    assert indexes(Unit.VECTOR, instructions, looks_ahead=True) == [10, 10, 30]


def test_what_concerns_the_head():
    dut = CommandQueue(Unit.LOAD, CONFIG)

    async def testbench(ctx):
        ctx.set(dut.dispatched.payload.instruction, word(wait("LOAD", 1, 1)))
        ctx.set(dut.dispatched.payload.index, 77)
        ctx.set(dut.dispatched.valid, 1)
        await ctx.tick()
        ctx.set(dut.dispatched.valid, 0)
        ctx.set(dut.at_head, 1)
        await ctx.tick().repeat(3)
        assert ctx.get(dut.index) == 77
        ctx.set(dut.at_head, 0)
        await ctx.tick()
        assert ctx.get(dut.index) == 0

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def test_without_a_decoder_its_set_up_is_a_fault():
    with_decoder = dataclasses.replace(CONFIG, cabac_engines=1)
    without = dataclasses.replace(CONFIG, cabac_engines=0)
    assert never_at_fault(Unit.LOAD, without) == (Opcode.LOAD_WAIT, Opcode.LOAD_PITCH)
    assert never_at_fault(Unit.LOAD, with_decoder) == (
        Opcode.LOAD_WAIT,
        Opcode.LOAD_PITCH,
        Opcode.LOAD_TENSOR,
        Opcode.LOAD_STREAMS,
    )
    assert never_at_fault(Unit.ARRAY, without) == (Opcode.ARRAY_WAIT,)
