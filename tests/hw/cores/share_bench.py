"""Requesters and a memory around the shared port, both with random hesitation."""

import random

from amaranth.hdl import Module
from amaranth.sim import Simulator

from tosaic.hw.config import CONFIGS
from tosaic.hw.config_text import variant

MEMORY_BYTES = 1 << 14


def machine(cores, bus_words):
    return variant(CONFIGS["nano"], {"cores": cores, "bus_words": bus_words})


def random_burst(config, rng, longest=32):
    """Address and beats of a burst as a DMA unit makes them: it crosses no multiple of 32 words."""
    word = config.word_bytes
    first = rng.randrange(MEMORY_BYTES // word)
    return first * word, rng.randint(1, min(longest, 32 - first % 32))


def simulate(dut, process, cycles):
    """Run `process(ctx)` at the end of every cycle, until it returns True."""
    ended = []

    async def testbench(ctx):
        for _ in range(cycles):
            if process(ctx):
                ended.append(True)
                return
            await ctx.tick()

    module = Module()
    module.submodules.dut = dut
    simulator = Simulator(module)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    assert ended, "not at its end"


def seeded(seed, stall):
    """A random generator, and whether somebody goes on in this cycle."""
    rng = random.Random(seed)
    return rng, lambda: rng.random() >= stall
