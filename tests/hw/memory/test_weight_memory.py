"""The weight memory against a list of words."""

import dataclasses
import random

import pytest
from amaranth.hdl import Fragment
from amaranth.sim import Simulator

from tosaic.hw.config import Config
from tosaic.hw.interfaces import WM_READ_LATENCY
from tosaic.hw.memory import WeightMemory

# Blocks whose constructor raises are never elaborated; Amaranth says so when they are collected.
pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")


def tiny(columns=8, wm_bytes=128, **sizes):
    return Config(
        "tiny", rows=1, columns=columns, am_bytes=1024, am_banks=4, wm_bytes=wm_bytes, line_pixels=8, **sizes
    )


@pytest.mark.parametrize("parity", [0, 1])
def test_matches_a_list_of_words_under_random_traffic(parity):
    config, random_ = tiny(memory_parity=parity), random.Random(3)
    dut, words = WeightMemory(config), [0] * config.wm_words

    async def testbench(ctx):
        due = {}
        for cycle in range(500):
            if cycle in due:
                assert ctx.get(dut.read.data) == due.pop(cycle), cycle
            assert not parity or not ctx.get(dut.wrong), cycle
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


@pytest.mark.parametrize("banks", [2, 4])
def test_banks_read_a_word_for_every_part_of_the_rows_while_one_is_written(banks):
    """Words that meet in a cycle are as far apart as the parts are: `rows` / banks words, or that and whole rounds of
    the banks. A word that no part asks for changes nothing."""
    size = 4 * banks
    config = Config(
        f"{banks} banks",
        rows=size,
        columns=size,
        am_bytes=1024,
        am_banks=4,
        wm_bytes=8 * size**2,
        line_pixels=8,
        weight_banks=banks,
    )
    random_, dut, words = random.Random(banks), WeightMemory(config), [0] * config.wm_words
    address_bits, parts, apart, width = len(dut.read.address), banks - 1, size // banks, 8 * size

    async def testbench(ctx):
        due = {}
        for cycle in range(600):
            for number, expected in due.pop(cycle, []):
                held = ctx.get(dut.read.data if number < 0 else dut.read.part_data)
                assert held >> width * max(number, 0) & (1 << width) - 1 == expected, (cycle, number)
            # A word in each bank, given to the ports in any order.
            place = random_.randrange(1 << 20)
            turns = random_.sample(range(banks), banks)
            addresses = [
                (place + turn * apart + random_.randrange(9) * size) % (1 << address_bits) for turn in turns
            ]
            enables = [random_.random() < 0.7 for _ in turns]
            write, write_address = random_.random() < 0.7, random_.randrange(1 << 20)
            value = random_.getrandbits(width)
            ctx.set(dut.read.enable, enables[0])
            ctx.set(dut.read.address, addresses[0])
            ctx.set(dut.read.part_enable, sum(enables[1 + n] << n for n in range(parts)))
            ctx.set(dut.read.part_address, sum(addresses[1 + n] << address_bits * n for n in range(parts)))
            ctx.set(dut.write.enable, write)
            ctx.set(dut.write.address, write_address)
            ctx.set(dut.write.data, value)
            due[cycle + WM_READ_LATENCY] = [
                (number - 1, words[address % config.wm_words])
                for number, (enable, address) in enumerate(zip(enables, addresses, strict=True))
                if enable
            ]
            if write:
                words[write_address % config.wm_words] = value
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


class Kept:
    """A platform that keeps the memories."""

    def __init__(self):
        self.memories = []

    def get_memory(self, target):
        self.memories.append(target)
        return target.elaborate(None)


@pytest.mark.parametrize("banks", [1, 4])
def test_a_flipped_bit_is_wrong_where_its_word_is_read(banks):
    """In the third cycle behind the read, unless the word is written in the cycle of its read."""
    rows = {"rows": 4 * banks} if banks > 1 else {}
    config = dataclasses.replace(tiny(columns=16, wm_bytes=2048, memory_parity=1), weight_banks=banks, **rows)
    dut, platform, seen = WeightMemory(config), Kept(), []
    fragment = Fragment.get(dut, platform)

    async def script(ctx):
        async def read(address, writes=0):
            seen = []
            ctx.set(dut.read.address, address)
            ctx.set(dut.write.address, address)
            for enable in (1, 0, 0, 0, 0):
                ctx.set(dut.read.enable, enable)
                ctx.set(dut.write.enable, enable & writes)
                seen.append(ctx.get(dut.wrong))
                await ctx.tick()
            return seen

        ctx.set(dut.write.data, 0x55 << 120 | 3)
        await read(5, writes=1)
        # Word 5 is the second row of its bank's first part, or in the only bank.
        words = platform.memories[1 if banks > 1 else 0].data[1 if banks > 1 else 5]
        right = ctx.get(words)
        for bit in (0, 60, 127, 128):
            ctx.set(words, right ^ 1 << bit)
            seen.append((await read(5), await read(6), await read(5, writes=1), await read(5)))

    simulator = Simulator(fragment)
    simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()
    right = [0] * 5
    assert seen == [([0, 0, 0, 1, 0], right, right, right)] * 4
