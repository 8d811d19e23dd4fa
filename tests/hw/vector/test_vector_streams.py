"""VECTOR's streams: who gets the offsets, and which settings a GO may not have."""

import pytest
from job_bench import JobBench
from vector_programs import TINY, offsets, stream

from tosaic.hw.isa import Element, Instruction, Opcode, encode, make
from tosaic.hw.vector.streams import Streams


def dims(number: int, pair: int, low: int, high: int) -> Instruction:
    """Dimensions of `low` and `high` turns, 4 and 100 bytes apart."""
    turns = dict(count_low=low, stride_low=4, count_high=high, stride_high=100)
    return make(Opcode.VECTOR_DIMS, stream=number, pair=pair, **turns)


async def configure(ctx, dut: Streams, commands: list[Instruction]) -> None:
    """Takes the commands, one per cycle, while no GO is running."""
    ports = {
        Opcode.VECTOR_STREAM: dut.set_stream,
        Opcode.VECTOR_DIMS: dut.set_dims,
        Opcode.VECTOR_OFFSETS: dut.set_offsets,
    }
    ctx.set(dut.idle, 1)
    for command in commands:
        ctx.set(dut.word, int.from_bytes(encode(command), "little"))
        ctx.set(ports[command.opcode], 1)
        await ctx.tick()
        ctx.set(ports[command.opcode], 0)
        assert not ctx.get(dut.settled)
    await ctx.tick()
    assert ctx.get(dut.settled)
    await ctx.tick().repeat(2)


@pytest.mark.parametrize(
    ("commands", "illegal"),
    [
        ([stream(0, 0)], 0),
        ([stream(0, 0, indexed=1), offsets(0, 1)], 0),
        ([stream(0, 0, indexed=1), offsets(0, 2), dims(0, 0, 1, 2)], 0),
        ([stream(0, 0, indexed=1), offsets(0, 2), dims(0, 0, 1, 3)], 1),
        ([stream(0, 0, indexed=1)], 1),
        ([stream(0, 0, indexed=1), stream(3, 0, indexed=1), offsets(0, 9)], 1),
        ([stream(0, 0, indexed=1), stream(0, 0), stream(3, 0, indexed=1), offsets(0, 9)], 0),
    ],
)
def test_one_indexed_stream_with_an_offset_per_turn(commands, illegal):
    dut = Streams(TINY)

    async def job(ctx):
        await configure(ctx, dut, commands)
        return ctx.get(dut.illegal)

    assert JobBench(dut).run(job) == illegal


@pytest.mark.parametrize("indexed", [0, 1, 2, 3])
def test_streams_step_one_by_one_and_the_indexed_one_adds_offsets(indexed):
    dut, given = Streams(TINY), [1000, 2000, 3000]

    async def job(ctx):
        ctx.set(dut.write_offsets, 1)
        for number, offset in enumerate(given):
            ctx.set(dut.offsets_word, number)
            ctx.set(dut.data, offset)
            await ctx.tick()
        ctx.set(dut.write_offsets, 0)
        commands = [offsets(0, len(given))]
        for number in range(4):
            commands.append(stream(number, 10 * number, Element(number), number % 2, number == indexed))
            commands.append(dims(number, 0, 2, 3))
        await configure(ctx, dut, commands)
        ctx.set(dut.idle, 0)
        await ctx.tick()
        for number in range(4):
            for turn in range(8):
                low, high = turn % 2, turn // 2 % 3
                expected = 10 * number + 4 * low + 100 * high + (given[high] if number == indexed else 0)
                ctx.set(dut.loads, 1 << number % 3)
                if number == 3:
                    assert ctx.get(dut.store_address) == expected
                    assert ctx.get(dut.store_last) == low
                    assert ctx.get(dut.store_element) == number
                else:
                    assert ctx.get(dut.load_address) == expected
                    assert ctx.get(dut.load_element) == number
                    assert ctx.get(dut.load_splat) == number % 2
                ctx.set(dut.store if number == 3 else dut.load, 1)
                await ctx.tick()
                ctx.set(dut.store, 0)
                ctx.set(dut.load, 0)

    JobBench(dut).run(job)
