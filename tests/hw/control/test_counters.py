"""The event counters against a naive model, read at every possible time."""

import random

import pytest
from amaranth.sim import Simulator

from tosaic.hw.control.counters import Counters, place
from tosaic.hw.csr_map import COUNTERS

NAMES = [name for name, _ in COUNTERS]


def test_every_counter_has_a_place():
    assert len({place(name) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("density", [1.0, 0.5, 0.03])
@pytest.mark.parametrize("reads", ["always", "often", "never"])
def test_counts_every_event_once(density, reads):
    dut = Counters()
    rng = random.Random(f"{density} {reads}")
    counts, cycles = dict.fromkeys(NAMES, 0), 0

    async def script(ctx):
        nonlocal cycles
        expected = 0
        last_read = -3
        for cycle in range(1200):
            running = cycle % 400 < 350
            clear = cycle in (395, 700)
            events = {name: rng.random() < density for name in NAMES}
            read = reads == "always" or (reads == "often" and rng.random() < 0.4) or cycle % 400 > 360
            read = read and cycle >= last_read + 3
            ctx.set(dut.running, running)
            ctx.set(dut.clear, clear)
            ctx.set(dut.events, {name.lower(): bit for name, bit in events.items()})
            ctx.set(dut.read, read)
            if read:
                last_read = cycle
                name = rng.choice(NAMES)
                ctx.set(dut.index, place(name))
                expected = counts[name]
            assert ctx.get(dut.cycles) == cycles
            for name in NAMES:
                counts[name] = 0 if clear else counts[name] + (running and events[name])
            cycles = 0 if clear else cycles + running
            await ctx.tick()
            assert ctx.get(dut.count) == expected
        for name in NAMES:
            ctx.set(dut.running, 0)
            ctx.set(dut.read, 1)
            ctx.set(dut.index, place(name))
            await ctx.tick()
            assert ctx.get(dut.count) == counts[name]

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()


def test_without_events_there_are_cycles():
    dut = Counters(count_events=False)

    async def script(ctx):
        ctx.set(dut.running, 1)
        ctx.set(dut.events, dict.fromkeys((name.lower() for name in NAMES), 1))
        ctx.set(dut.read, 1)
        for cycle in range(5):
            assert (ctx.get(dut.cycles), ctx.get(dut.count)) == (cycle, 0)
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()
