"""Semaphores against a naive model; four units at once."""

import random

import pytest
from amaranth.sim import Simulator
from sequencer_bench import config_of

from tosaic.hw.sequencer import UNITS
from tosaic.hw.sequencer.semaphores import Semaphores


def test_constructor():
    with pytest.raises(ValueError, match=r"^semaphores must be at most 16 \(a field of 4 bits\), not 17$"):
        Semaphores(config_of(8, semaphores=17))


@pytest.mark.parametrize(("semaphores", "largest"), [(16, 255), (4, 3), (2, 1)])
def test_against_a_naive_model(semaphores, largest):
    dut = Semaphores(config_of(8, semaphores=semaphores))
    rng = random.Random(semaphores)
    counters = [0] * semaphores

    async def testbench(ctx):
        for cycle in range(1500):
            ports = [getattr(dut, name) for name in UNITS]
            waits = []
            signals = []
            for port in ports:
                wait = rng.random() < 0.5, rng.randrange(semaphores), rng.randint(0, largest)
                signal = rng.random() < 0.2, rng.randrange(semaphores), rng.randint(0, largest)
                for member, value in zip(("wait", "semaphore", "count"), wait, strict=True):
                    ctx.set(getattr(port, member), value)
                for member, value in zip(("signal", "signal_semaphore", "signal_count"), signal, strict=True):
                    ctx.set(getattr(port, member), value)
                waits.append(wait)
                signals.append(signal)
            clear = cycle % 500 == 499
            ctx.set(dut.clear, clear)

            taken = set()
            expected = []
            for asks, semaphore, count in waits:
                granted = asks and semaphore not in taken and counters[semaphore] >= count
                expected.append(int(granted))
                if granted:
                    taken.add(semaphore)
            assert [ctx.get(port.ok) for port in ports] == expected
            waiting = [ctx.get(dut.waiting[i]) for i in range(4)]
            assert waiting == [int(w[0] and not ok) for w, ok in zip(waits, expected, strict=True)]

            for (_, semaphore, count), ok in zip(waits, expected, strict=True):
                counters[semaphore] -= count * ok
            for asks, semaphore, count in signals:
                counters[semaphore] += count * asks
            counters[:] = [0 if clear else value % 4096 for value in counters]
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
