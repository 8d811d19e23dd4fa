"""The queue is the library's, cycle by cycle, for a reader that takes only what is there."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib.fifo import SyncFIFO
from amaranth.sim import Simulator

from tosaic.hw.dma.late_queue import LateQueue

DEPTH, WIDTH = 8, 6


@pytest.mark.parametrize("often", [(0.9, 0.3), (0.3, 0.9), (0.6, 0.6), (1.0, 1.0)])
def test_it_is_the_library_s_queue(often):
    dice, m = random.Random(str(often)), Module()
    m.submodules.late = late = LateQueue(width=WIDTH, depth=DEPTH)
    m.submodules.queue = queue = SyncFIFO(width=WIDTH, depth=DEPTH)
    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    full = empty = 0

    async def bench(ctx):
        nonlocal full, empty
        for _ in range(600):
            there, room = ctx.get(queue.r_rdy), ctx.get(queue.w_rdy)
            assert (ctx.get(late.r_rdy), ctx.get(late.w_rdy)) == (there, room)
            if there:
                assert ctx.get(late.r_data) == ctx.get(queue.r_data)
            full, empty = full + (not room), empty + (not there)
            write, read, word = (
                dice.random() < often[0],
                there and dice.random() < often[1],
                dice.randrange(1 << WIDTH),
            )
            for each in (late, queue):
                ctx.set(each.w_en, write)
                ctx.set(each.w_data, word)
                ctx.set(each.r_en, read)
            await ctx.tick()

    simulator.add_testbench(bench)
    simulator.run()
    assert full if often[0] > often[1] else empty
