"""The output `idle` waits until nothing moves."""

from amaranth.sim import Simulator

from tosaic.hw.control.idle import SETTLE_CYCLES, Idle


def test_idle_after_the_last_work():
    dut = Idle()
    busy = [0] * 12 + [1] + [0] * 3 + [1, 1] + [0] * 12
    seen = []

    async def script(ctx):
        for each in busy:
            ctx.set(dut.busy, each)
            seen.append(ctx.get(dut.idle))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()
    # Out of reset nothing is known of the cycles before.
    assert seen == [0] * SETTLE_CYCLES + [1] * 4 + [0] * (6 + SETTLE_CYCLES) + [1] * 4
