"""The array's commands and its issue stage: order, tokens, waiting."""

import random

import pytest
from array_programs import SQUARE
from component_bench import run, set_fields

from tosaic.hw.array.commands import ArrayCommands
from tosaic.hw.array.slot_issue import SlotIssue
from tosaic.hw.isa import Instruction, Opcode, encode, make

CONFIGURATION = [
    make(Opcode.ARRAY_INPUT, address=8, row_bytes=64, height=8, input_zp=-3, weight_zp=2, unsigned_input=0),
    make(Opcode.ARRAY_WINDOW, x_start=-1, x_step=1, y_start=0, y_step=1, y_step_bytes=8, width=8),
    make(Opcode.ARRAY_KERNEL, ky_count=1, ky_step=1, ky_step_bytes=8, run_count=1, run_step=1, chunks=1),
]


def go(pixels: int) -> Instruction:
    return make(Opcode.ARRAY_GO, weights=5, pixels=pixels, accumulate=0, drain=1, more_blocks=0, streamed=1)


def signal(count: int) -> Instruction:
    return make(Opcode.ARRAY_SIGNAL, semaphore=4, count=count)


async def give(ctx, dut: ArrayCommands, instruction: Instruction, cycles: int = 20) -> bool:
    """Offers a command for some cycles; whether it was taken."""
    ctx.set(dut.commands.payload, int.from_bytes(encode(instruction), "little"))
    ctx.set(dut.commands.valid, 1)
    taken = False
    while not taken and cycles:
        taken = bool(ctx.get(dut.commands.ready))
        await ctx.tick()
        cycles -= 1
    ctx.set(dut.commands.valid, 0)
    return taken


def test_a_job_has_its_configuration_and_signals_follow_it():
    dut = ArrayCommands(SQUARE)

    async def process(ctx):
        for command in (*CONFIGURATION, go(7), signal(1)):
            assert await give(ctx, dut, command)
        assert ctx.get(dut.jobs.valid) and ctx.get(dut.busy)
        job = dut.jobs.payload
        assert (ctx.get(job.count), ctx.get(job.weights), ctx.get(job.streamed)) == (7, 5, 1)
        assert (ctx.get(job.input.input_zp), ctx.get(job.window.x_start)) == (-3, -1)
        # The next configuration waits for the job to be taken, its signal for the job's last read.
        assert not await give(ctx, dut, CONFIGURATION[0])
        assert not ctx.get(dut.tokens.signal)
        ctx.set(dut.jobs.ready, 1)
        await ctx.tick()
        ctx.set(dut.jobs.ready, 0)
        assert not ctx.get(dut.jobs.valid)
        ctx.set(dut.finished, 1)
        await ctx.tick()
        ctx.set(dut.finished, 0)
        ctx.set(dut.tokens.signal_full, 1)
        assert not ctx.get(dut.tokens.signal)
        ctx.set(dut.tokens.signal_full, 0)
        assert ctx.get(dut.tokens.signal)
        assert (ctx.get(dut.tokens.signal_semaphore), ctx.get(dut.tokens.signal_count)) == (4, 1)
        await ctx.tick()
        assert not ctx.get(dut.busy)

    run(dut, process)


@pytest.mark.parametrize("command", [go(0), make(Opcode.NOP)], ids=["no pixels", "another unit's"])
def test_what_is_illegal_is_a_fault_and_no_job(command):
    dut = ArrayCommands(SQUARE)

    async def process(ctx):
        for legal in CONFIGURATION:
            assert await give(ctx, dut, legal)
        faults = 0
        ctx.set(dut.commands.payload, int.from_bytes(encode(command), "little"))
        ctx.set(dut.commands.valid, 1)
        for _ in range(4):
            faults += ctx.get(dut.fault)
            await ctx.tick()
            ctx.set(dut.commands.valid, 0)
        assert faults == 1 and not ctx.get(dut.jobs.valid) and not ctx.get(dut.busy)

    run(dut, process)


def test_a_wait_asks_for_its_tokens_until_it_has_them():
    dut = ArrayCommands(SQUARE)

    async def process(ctx):
        wait = make(Opcode.ARRAY_WAIT, semaphore=9, count=3)
        assert not await give(ctx, dut, wait, cycles=3)
        ctx.set(dut.commands.valid, 1)
        assert ctx.get(dut.tokens.wait)
        assert (ctx.get(dut.tokens.semaphore), ctx.get(dut.tokens.count)) == (9, 3)
        ctx.set(dut.tokens.ok, 1)
        assert await give(ctx, dut, wait, cycles=1)

    run(dut, process)


def test_slots_are_issued_in_order_and_wait_for_grant_room_and_weights():
    """Every slot once, at its address, only when all that it needs is there; bytes outside the image are not read."""
    dut, dice = SlotIssue(SQUARE), random.Random(11)
    width = SQUARE.word_bytes
    slots = [
        dict(column=dice.randint(-6, 20), line=dice.randint(-2, 5), base=dice.randrange(SQUARE.am_bytes))
        | dict(
            deliver=dice.random() < 0.3, streamed=dice.random() < 0.3, weights=dice.randrange(SQUARE.wm_words)
        )
        for _ in range(120)
    ]
    row_bytes, height = 16, 4

    async def process(ctx):
        given, issued, address = 0, 0, None
        set_fields(ctx, dut.slots.payload, row_bytes=row_bytes, height=height, read=1, read_weights=1)
        for _ in range(2000):
            if issued == len(slots):
                break
            ctx.set(dut.slots.valid, given < len(slots))
            if given < len(slots):
                slot = slots[given]
                for name in ("column", "line", "base", "streamed", "weights"):
                    ctx.set(dut.slots.payload[name], slot[name])
                ctx.set(dut.slots.payload.control.deliver, slot["deliver"])
            grant, room, there = (dice.random() < 0.7 for _ in range(3))
            ctx.set(dut.am.grant, grant)
            ctx.set(dut.room, room)
            ctx.set(dut.weights_there, there)
            ready = ctx.get(dut.slots.ready)
            if ctx.get(dut.issued):
                slot = slots[issued]
                left, right = slot["column"], slot["column"] + width
                inside = right > 0 and left < row_bytes and 0 <= slot["line"] < height
                assert ctx.get(dut.am.request) == inside, issued
                assert grant or not inside
                assert room or not slot["deliver"]
                assert there or not slot["streamed"]
                assert ctx.get(dut.weights_taken) == slot["streamed"]
                assert ctx.get(dut.control.deliver) == slot["deliver"]
                assert ctx.get(dut.format.inside) == inside
                if inside:
                    assert address == (slot["base"] + slot["column"]) % SQUARE.am_bytes
                    assert ctx.get(dut.format.low) == max(0, min(width, -left))
                    assert ctx.get(dut.format.high) == max(0, min(width, row_bytes - left))
            elif ctx.get(dut.am.request) or ctx.get(dut.held_by_room) or ctx.get(dut.held_by_weights):
                reasons = [ctx.get(port) for port in (dut.held_by_am, dut.held_by_room, dut.held_by_weights)]
                assert sum(reasons) == 1
            if ctx.get(dut.am.prepare):
                address = ctx.get(dut.am.address)
            number = issued
            issued += ctx.get(dut.issued)
            given += bool(ready and given < len(slots))
            await ctx.tick()
            assert ctx.get(dut.wm.enable) == (issued > number)
            if issued > number:
                assert ctx.get(dut.wm.address) == slots[number]["weights"]
        assert issued == len(slots) and not ctx.get(dut.waiting)

    run(dut, process)
