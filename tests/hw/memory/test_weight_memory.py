"""The weight memory against a list of words."""

import random

import pytest
from amaranth.sim import Simulator

from tosaic.hw.config import Config
from tosaic.hw.interfaces import WM_READ_LATENCY
from tosaic.hw.memory import WeightMemory

# Blocks whose constructor raises are never elaborated; Amaranth says so when they are collected.
pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")


def tiny(columns=8, wm_bytes=128):
    return Config(
        "tiny", rows=1, columns=columns, am_bytes=1024, am_banks=4, wm_bytes=wm_bytes, line_pixels=8
    )


def test_matches_a_list_of_words_under_random_traffic():
    config, random_ = tiny(), random.Random(3)
    dut, words = WeightMemory(config), [0] * config.wm_words

    async def testbench(ctx):
        due = {}
        for cycle in range(500):
            if cycle in due:
                assert ctx.get(dut.read.data) == due.pop(cycle), cycle
            read, write = random_.random() < 0.7, random_.random() < 0.7
            read_address, write_address, value = (
                random_.randrange(1 << 20),
                random_.randrange(1 << 20),
                random_.getrandbits(64),
            )
            ctx.set(dut.read.enable, read)
            ctx.set(dut.read.address, read_address)
            ctx.set(dut.write.enable, write)
            ctx.set(dut.write.address, write_address)
            ctx.set(dut.write.data, value)
            if read:
                due[cycle + WM_READ_LATENCY] = words[read_address % config.wm_words]
            if write:
                words[write_address % config.wm_words] = value
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
