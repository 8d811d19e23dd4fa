"""The memory between depthwise GOs against a list: places are read and written in order, and round again."""

import random

import pytest
from amaranth.sim import Simulator

from tosaic.hw.array.partial_sums import PartialSums
from tosaic.hw.config_text import get_config

CONFIG = get_config("nano,rows=4,partial_sums=8")
VECTOR_BITS = 32 * CONFIG.columns


@pytest.mark.parametrize("seed", range(3))
def test_what_one_go_writes_the_next_one_reads(seed: int) -> None:
    """Reads come two cycles late, and give zero where nothing was read; a GO may be longer than the memory."""
    dut, dice = PartialSums(CONFIG), random.Random(seed)

    async def job(ctx):
        places: list[int | None] = [None] * CONFIG.partial_sums
        for _ in range(6):
            reads = writes = 0
            due: list[int | None] = [0]
            ctx.set(dut.restart_reads, 1)
            ctx.set(dut.restart_writes, 1)
            await ctx.tick()
            ctx.set(dut.restart_reads, 0)
            ctx.set(dut.restart_writes, 0)
            for _ in range(dice.choice((5, 40))):
                # A write comes behind the reads, so that no place is read in the cycle in which it is written.
                write, read = writes + 1 < reads and dice.random() < 0.7, dice.random() < 0.5
                sums = dice.randrange(1 << VECTOR_BITS)
                ctx.set(dut.read, read)
                ctx.set(dut.write, write)
                ctx.set(dut.sums, sums)
                due.append(places[reads % len(places)] if read else 0)
                if write:
                    places[writes % len(places)] = sums
                reads, writes = reads + read, writes + write
                await ctx.tick()
                expected = due.pop(0)
                if expected is not None:
                    assert ctx.get(dut.vector) == expected
            ctx.set(dut.read, 0)
            ctx.set(dut.write, 0)
            await ctx.tick().repeat(2)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(job)
    simulator.run()
