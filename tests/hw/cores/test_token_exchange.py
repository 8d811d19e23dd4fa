"""Tokens between the semaphores of several cores: each arrives once, at every core that it is for, in order."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator
from share_bench import machine

from tosaic.hw.cores import TokenExchange
from tosaic.hw.sequencer.semaphores import Semaphores

UNITS = ("load", "array", "vector", "store")


def bench(cores):
    """The semaphores of all cores, connected."""
    config, m = machine(cores, 1), Module()
    semaphores = [Semaphores(config, core) for core in range(cores)]
    m.submodules.exchange = exchange = TokenExchange(config)
    for core, each in enumerate(semaphores):
        m.submodules[f"core{core}"] = each
        wiring.connect(m, each.foreign, exchange.cores[core])
    return m, semaphores


def simulate(m, testbench):
    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


async def clear(ctx, semaphores):
    for each in semaphores:
        ctx.set(each.clear, 1)
    await ctx.tick()
    for each in semaphores:
        ctx.set(each.clear, 0)


@pytest.mark.parametrize("cores", (2, 4))
def test_random_signals(cores):
    m, semaphores = bench(cores)
    rng = random.Random(cores)
    expected = [[0] * 16 for _ in range(cores)]
    left = {(core, unit): 12 for core in range(cores) for unit in UNITS}

    async def testbench(ctx):
        await clear(ctx, semaphores)
        while any(left.values()):
            for (core, unit), count in left.items():
                port = getattr(semaphores[core], unit)
                ctx.set(port.signal, 0)
                if count and not ctx.get(port.signal_full) and rng.random() < 0.7:
                    semaphore, tokens, mask = rng.randrange(16), rng.randrange(8), rng.randrange(1 << cores)
                    ctx.set(port.signal, 1)
                    ctx.set(port.signal_semaphore, semaphore)
                    ctx.set(port.signal_count, tokens)
                    ctx.set(port.signal_cores, mask)
                    left[core, unit] -= 1
                    for receiver in range(cores):
                        if mask >> receiver & 1 or (not mask and receiver == core):
                            expected[receiver][semaphore] += tokens
            await ctx.tick()
        for each in semaphores:
            for unit in UNITS:
                ctx.set(getattr(each, unit).signal, 0)
        await ctx.tick().repeat(20 * cores)
        for each, counts in zip(semaphores, expected, strict=True):
            assert [ctx.get(each.counters.data[number]) for number in range(16)] == counts
            assert not any(ctx.get(getattr(each, unit).signal_full) for unit in UNITS)

    simulate(m, testbench)


def test_a_foreign_token_is_seen_a_cycle_later_than_ones_own():
    m, semaphores = bench(2)
    sender, receiver = semaphores

    async def testbench(ctx):
        await clear(ctx, semaphores)
        await ctx.tick().repeat(20)
        waits = {}
        for each in semaphores:
            ctx.set(each.store.semaphore, 3)
            ctx.set(each.store.count, 1)
            ctx.set(each.store.wait, 1)
        ctx.set(sender.load.signal_semaphore, 3)
        ctx.set(sender.load.signal_count, 1)
        ctx.set(sender.load.signal_cores, 0b11)
        ctx.set(sender.load.signal, 1)
        for cycle in range(10):
            for core, each in enumerate(semaphores):
                if ctx.get(each.store.ok):
                    waits.setdefault(core, cycle)
                    ctx.set(each.store.wait, 0)
            await ctx.tick()
            ctx.set(sender.load.signal, 0)
        assert waits[1] == waits[0] + 1

    simulate(m, testbench)
