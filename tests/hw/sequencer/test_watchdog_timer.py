"""When exactly the watchdog fires, and whom the faults block blames."""

import pytest
from amaranth.sim import Simulator

from tosaic.hw.isa import Error, Unit
from tosaic.hw.sequencer import UNITS
from tosaic.hw.sequencer.faults import Faults
from tosaic.hw.sequencer.watchdog import Watchdog


def _fired(limit, running, progress):
    dut = Watchdog()
    fired = []

    async def script(ctx):
        ctx.set(dut.limit_cycles, limit)
        for is_running, moves in zip(running, progress, strict=True):
            ctx.set(dut.running, is_running)
            ctx.set(dut.progress, moves)
            fired.append(ctx.get(dut.fired))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()
    return fired


def test_fires_after_the_limit():
    assert _fired(4, [1] * 7, [0] * 7) == [0, 0, 0, 0, 1, 1, 1]


def test_progress_and_rest_start_it_again():
    assert _fired(3, [1] * 9, [0, 0, 1, 0, 0, 0, 1, 0, 0]) == [0, 0, 0, 0, 0, 0, 1, 0, 0]
    assert _fired(3, [0, 0, 0, 0, 1, 1, 1, 1], [0] * 8) == [0, 0, 0, 0, 0, 0, 0, 1]


def test_zero_switches_it_off():
    assert not any(_fired(0, [1] * 50, [0] * 50))


@pytest.mark.parametrize(
    ("busy", "waiting", "starving", "unit"),
    [
        ("", "", False, Unit.SEQUENCER),
        ("load array", "array", True, Unit.SEQUENCER),
        ("load", "array vector store", False, Unit.LOAD),
        ("store vector", "load array", False, Unit.STORE),
        ("store load", "", False, Unit.LOAD),
        ("vector", "array", False, Unit.ARRAY),
        ("load store vector array", "load store", False, Unit.LOAD),
        ("vector", "", False, Unit.VECTOR),
        ("", "vector store", False, Unit.VECTOR),
    ],
)
def test_who_is_blamed(busy, waiting, starving, unit):
    dut = Faults()

    async def script(ctx):
        for bit, name in enumerate(UNITS):
            ctx.set(getattr(dut, name).busy, name in busy.split())
            ctx.set(dut.waiting[bit], name in waiting.split())
        ctx.set(dut.starving, starving)
        assert not ctx.get(dut.fault.valid)
        ctx.set(dut.watchdog, 1)
        assert (ctx.get(dut.fault.valid), ctx.get(dut.fault.code), ctx.get(dut.fault.unit)) == (
            1,
            Error.WATCHDOG,
            unit,
        )
        for name, code in (("store", 6), ("array", 1), ("load", 5)):
            ctx.set(getattr(dut, name).error, 1)
            ctx.set(getattr(dut, name).code, code)
            assert (ctx.get(dut.fault.code), ctx.get(dut.fault.unit)) == (code, Unit[name.upper()])

    simulator = Simulator(dut)
    simulator.add_testbench(script)
    simulator.run()
