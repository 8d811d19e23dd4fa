"""Small memories in block RAM, on boards that have blocks to spare."""

import dataclasses
import random
from collections import deque

import pytest
from amaranth.back import rtlil
from amaranth.sim import Simulator

from tosaic.boards.catalogue import known_boards
from tosaic.hw.config import CONFIGS
from tosaic.hw.memory.activation import ActivationMemory
from tosaic.hw.memory.blocks import Queue
from tosaic.hw.memory.weight import WeightMemory
from tosaic.hw.vector.registers import RegisterFile

DEPTH = 6


@dataclasses.dataclass
class Fabric:
    """A platform, as far as memories look at it."""

    spare_block_ram: bool
    family: str = ""


def test_a_queue_keeps_order_beside_a_deque():
    queue, wanted, draws = Queue(width=8, depth=DEPTH), deque(), random.Random(37)

    async def testbench(ctx):
        for _ in range(2_000):
            offered, takes, given = draws.random() < 0.6, draws.random() < 0.5, draws.randrange(256)
            ctx.set(queue.w_en, offered)
            ctx.set(queue.w_data, given)
            ctx.set(queue.r_en, takes)
            written, read = ctx.get(queue.w_rdy), ctx.get(queue.r_rdy)
            if read:
                assert ctx.get(queue.r_data) == wanted[0]
            await ctx.tick()
            if read and takes:
                wanted.popleft()
            if written and offered:
                wanted.append(given)

    simulator = Simulator(queue)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize("spare", [False, True])
def test_a_queue_is_in_blocks_where_there_are_some(spare: bool):
    queue = Queue(width=8, depth=DEPTH)
    ports = [queue.w_data, queue.w_en, queue.w_rdy, queue.r_data, queue.r_en, queue.r_rdy]
    text = rtlil.convert(queue, ports=ports, platform=Fabric(spare))
    assert ('ram_style "block"' in text) is spare
    assert "no_rw_check" in text


def test_a_queue_whose_words_go_through_logic_at_once_is_in_luts():
    queue = Queue(width=8, depth=DEPTH, direct=True)
    ports = [queue.w_data, queue.w_en, queue.w_rdy, queue.r_data, queue.r_en, queue.r_rdy]
    text = rtlil.convert(queue, ports=ports, platform=Fabric(True))
    assert "ram_style" not in text and "no_rw_check" in text


def test_platforms_know_which_boards_have_blocks_to_spare():
    boards = known_boards()
    assert boards["ulx3s-85f"].make_platform().spare_block_ram
    assert not boards["ecpix5-85f"].make_platform().spare_block_ram


@pytest.mark.parametrize("memory", [ActivationMemory, WeightMemory])
@pytest.mark.parametrize("family", ["ultrascale", "series7", "ecp5"])
def test_large_memories_leave_the_blocks_to_small_ones_where_others_are_larger(memory, family: str):
    text = rtlil.convert(memory(CONFIGS["nano"]), platform=Fabric(True, family))
    assert ('ram_style "ultra"' in text) is (family == "ultrascale")
    assert "no_rw_check" in text


@pytest.mark.parametrize("spare", [False, True])
def test_the_registers_of_the_lanes_are_in_blocks_where_there_are_some(spare: bool):
    text = rtlil.convert(RegisterFile(CONFIGS["nano"]), platform=Fabric(spare))
    assert ('ram_style "block"' in text) is spare
    assert "no_rw_check" in text
