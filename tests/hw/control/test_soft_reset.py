"""Soft reset waits for the bus, but not for ever."""

import pytest
from amaranth.sim import Simulator

from tosaic.hw.control.reset import SETTLE_CYCLES, SoftReset


def _reset_cycle(idle_from, limit=64):
    """Cycles from the request to `reset`."""
    dut = SoftReset(limit)
    resets = []

    async def script(ctx):
        assert not ctx.get(dut.resetting)
        ctx.set(dut.request, 1)
        for cycle in range(3 * limit):
            ctx.set(dut.bus_idle, cycle >= idle_from)
            if ctx.get(dut.reset):
                resets.append(cycle)
            assert (
                ctx.get(dut.stop)
                == ctx.get(dut.resetting)
                == (1 <= cycle and (not resets or cycle == resets[0]))
            )
            await ctx.tick()
            ctx.set(dut.request, cycle == 2)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()
    assert len(resets) == 1
    return resets[0]


def test_settles_then_resets():
    assert _reset_cycle(0) == SETTLE_CYCLES


def test_waits_for_the_bus():
    assert _reset_cycle(30) == 32


def test_gives_up():
    assert _reset_cycle(1000) == 64


def test_constructor():
    with pytest.raises(ValueError, match=r"^drain_limit_cycles must be above 8, not 8$"):
        SoftReset(8)
