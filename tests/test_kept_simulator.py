"""The plugin's simulator: a run sees nothing of the runs before it."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from kept_simulator import KeptSimulator, kept_simulator


class Counter(wiring.Component):
    """Counts cycles, and writes each number to a memory of which it shows the word before."""

    count: Out(4, init=3)
    last: Out(4)
    held: In(1)

    def __init__(self, _config):
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(shape=4, depth=2, init=[9, 9])
        write, read = words.write_port(), words.read_port(domain="comb")
        m.d.comb += [write.data.eq(self.count), write.en.eq(1), self.last.eq(read.data)]
        with m.If(~self.held):
            m.d.sync += self.count.eq(self.count + 1)
        return m


def seen(ctx, unit: Counter) -> tuple[int, int, int]:
    return ctx.get(unit.count), ctx.get(unit.last), ctx.get(unit.held)


def test_every_run_begins_with_initial_values():
    unit, reset, simulator = kept_simulator(Counter, "counter")
    runs = []

    async def bench(ctx):
        runs.append([seen(ctx, unit)])
        for _ in range(3):
            await ctx.tick()
            runs[-1].append(seen(ctx, unit))
        ctx.set(unit.held, 1)
        ctx.set(reset, 1)

    for _ in range(3):
        simulator.run(bench)
    assert runs == [[(3, 9, 0), (4, 3, 0), (5, 4, 0), (6, 5, 0)]] * 3
    assert kept_simulator(Counter, "counter")[2] is simulator


def test_a_run_that_fails_leaves_nothing():
    unit = Counter(None)
    simulator, found = KeptSimulator(unit), []

    async def fails(ctx):
        await ctx.tick()
        ctx.set(unit.held, 1)
        await ctx.tick()
        raise ValueError("wrong")

    async def bench(ctx):
        await ctx.tick()
        found.append(seen(ctx, unit))

    for _ in range(2):
        with pytest.raises(ValueError, match="^wrong$"):
            simulator.run(fails)
        simulator.run(bench)
    assert found == [(4, 3, 0)] * 2


def test_what_runs_beside_a_testbench_ends_with_it():
    unit = Counter(None)
    simulator, found = KeptSimulator(unit), []

    async def holds(ctx):
        while True:
            await ctx.tick()
            ctx.set(unit.held, 1)
            found.append("held")

    async def bench(ctx):
        await ctx.tick().repeat(3)
        found.append(seen(ctx, unit))

    simulator.run(bench, holds)
    assert found == ["held", "held", (4, 4, 1), "held"]
    found.clear()
    simulator.run(bench)
    assert found == [(6, 5, 0)]
