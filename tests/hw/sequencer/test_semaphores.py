"""Semaphores against their contract; four units at once."""

import random

import pytest
from amaranth.sim import Simulator
from rest_nightly import first_of
from sequencer_bench import config_of

from tosaic.hw.legal import LEAST_SEMAPHORES
from tosaic.hw.sequencer import UNITS
from tosaic.hw.sequencer.semaphores import Semaphores


class _Bench:
    """Units that wait until they get what they asked for, and the sums of what was signalled and got."""

    def __init__(self, semaphores=LEAST_SEMAPHORES):
        self.dut = Semaphores(config_of(8, semaphores=semaphores))
        self.counters = [0] * semaphores
        self.waits = dict.fromkeys(UNITS)
        self.signals = dict.fromkeys(UNITS)
        self.cycle = 0

    def simulate(self, script):
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        simulator.add_testbench(script)
        simulator.run()

    async def step(self, ctx, clear=False):
        """One cycle; returns the units that got their tokens. What was signalled or got is forgotten."""
        got = []
        for name in UNITS:
            port, wait, signal = getattr(self.dut, name), self.waits[name], self.signals[name]
            ctx.set(port.wait, wait is not None)
            if wait:
                ctx.set(port.semaphore, wait[0])
                ctx.set(port.count, wait[1])
            fires = signal is not None and not ctx.get(port.signal_full)
            ctx.set(port.signal, fires)
            if fires:
                ctx.set(port.signal_semaphore, signal[0])
                ctx.set(port.signal_count, signal[1])
        ctx.set(self.dut.clear, clear)
        for bit, name in enumerate(UNITS):
            port, wait = getattr(self.dut, name), self.waits[name]
            ok = ctx.get(port.ok)
            assert ctx.get(self.dut.waiting[bit]) == int(wait is not None and not ok)
            if ok:
                semaphore, count = wait
                assert self.counters[semaphore] >= count
                self.counters[semaphore] -= count
                self.waits[name] = None
                got.append(name)
        for name in UNITS:
            if ctx.get(getattr(self.dut, name).signal):
                semaphore, count = self.signals[name]
                self.counters[semaphore] = (self.counters[semaphore] + count) % 4096
                self.signals[name] = None
        if clear:
            self.counters = [0] * len(self.counters)
        await ctx.tick()
        self.cycle += 1
        return got


@pytest.mark.parametrize(("used", "largest"), first_of([(16, 255), (2, 1), (16, 1), (4, 3)], 2))
def test_units_get_what_was_signalled_and_no_more(used, largest):
    """The fewer semaphores are used, the more often units meet at one."""
    bench, rng = _Bench(16), random.Random(used + largest)

    async def script(ctx):
        for _ in range(3):
            await bench.step(ctx, clear=True)
            for _ in range(600):
                for name in UNITS:
                    if bench.waits[name] is None and rng.random() < 0.5:
                        bench.waits[name] = rng.randrange(used), rng.randint(0, largest)
                    if bench.signals[name] is None and rng.random() < 0.2:
                        bench.signals[name] = rng.randrange(used), rng.randint(0, largest)
                await bench.step(ctx)
            # Nothing new: every wait for which there is enough ends, and what is left is what the sums say.
            for _ in range(30):
                await bench.step(ctx)
            for wait in filter(None, bench.waits.values()):
                assert bench.counters[wait[0]] < wait[1]
            # Waits that wait go on doing so until a clear; one unit is freed to look at the counters.
            bench.signals["array"] = bench.waits["load"]
            for _ in range(6):
                await bench.step(ctx)
            assert bench.waits["load"] is None
            for semaphore in range(used):
                while bench.counters[semaphore]:
                    bench.waits["load"] = semaphore, min(bench.counters[semaphore], 255)
                    for _ in range(8):
                        await bench.step(ctx)
                    assert bench.waits["load"] is None
                bench.waits["load"] = semaphore, 1
                for _ in range(8):
                    await bench.step(ctx)
                bench.signals["array"] = semaphore, 1
                for _ in range(8):
                    await bench.step(ctx)
                assert bench.waits["load"] is None
            for name in UNITS:
                bench.waits[name] = None
            await bench.step(ctx)

    bench.simulate(script)


def test_counts_to_4095_and_wraps():
    bench = _Bench(16)

    async def signal(ctx, count):
        bench.signals["store"] = 5, count
        for _ in range(4):
            await bench.step(ctx)
        assert bench.signals["store"] is None

    async def script(ctx):
        for count in (*[255] * 16, 15, 1, 3):
            await signal(ctx, count)
        assert bench.counters[5] == 3
        bench.waits["vector"] = 5, 4
        for _ in range(20):
            assert not await bench.step(ctx)
        await signal(ctx, 1)
        assert bench.waits["vector"] is None

    bench.simulate(script)


def test_cycles_of_a_wait_and_of_a_signal():
    bench = _Bench(16)

    async def until(ctx, name):
        since = bench.cycle
        while name not in await bench.step(ctx):
            pass
        return bench.cycle - 1 - since

    async def script(ctx):
        bench.signals["load"] = 3, 2
        bench.waits["array"] = 3, 1
        assert await until(ctx, "array") == 3
        # There already: compared, then granted.
        bench.waits["store"] = 3, 1
        assert await until(ctx, "store") == 1
        # One grant per cycle, in the order of the units; a signal comes after them.
        for semaphore, name in enumerate(UNITS):
            bench.waits[name] = semaphore, 0
        bench.signals["load"] = 7, 1
        assert [await bench.step(ctx) for _ in range(5)] == [[], ["load"], ["array"], ["vector"], ["store"]]
        bench.waits["load"] = 7, 1
        assert await until(ctx, "load") == 2

    bench.simulate(script)


def test_of_two_that_want_the_same_only_one_gets_it():
    bench = _Bench()

    async def script(ctx):
        for _ in range(4):
            bench.waits["vector"] = bench.waits["array"] = 1, 2
            bench.signals["store"] = 1, 3
            got = [await bench.step(ctx) for _ in range(12)]
            assert sum(got, []) == ["array"]
            bench.signals["store"] = 1, 1
            got = [await bench.step(ctx) for _ in range(12)]
            assert sum(got, []) == ["vector"]

    bench.simulate(script)


def test_clear_drops_what_was_not_counted():
    bench = _Bench(16)

    async def script(ctx):
        for number in range(40):
            for index, name in enumerate(UNITS):
                if bench.signals[name] is None:
                    bench.signals[name] = (4 * number + index) % 16, 9
            await bench.step(ctx, clear=number == 39)
        bench.signals = dict.fromkeys(UNITS)
        for semaphore in range(16):
            bench.waits["load"] = semaphore, 1
            for _ in range(24):
                assert not await bench.step(ctx)
            bench.signals["load"] = semaphore, 1
            for _ in range(6):
                await bench.step(ctx)
            assert bench.waits["load"] is None

    bench.simulate(script)
