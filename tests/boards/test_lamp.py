"""A lamp is lit for a while after each event."""

from amaranth.sim import Simulator

from tosaic.boards.soc.lamp import Lamp


def test_lit_from_the_second_cycle_on():
    dut = Lamp(3)
    events = [0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    lit: list[int] = []

    async def script(ctx):
        for event in events:
            ctx.set(dut.event, event)
            lit.append(ctx.get(dut.lit))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()
    assert lit == [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0]
