"""Soft reset: never while the bus still owes an answer."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

SETTLE_CYCLES = 8
"""Cycles from `stop` until `bus_idle` can be trusted."""
DRAIN_LIMIT_CYCLES = 65536
"""Cycles after which the bus is given up."""


class SoftReset(wiring.Component):
    """Stops the bus managers, waits until nothing is outstanding, then resets.

    Ports:
        `request`: a soft reset is asked for in this cycle; repeating it changes nothing.
        `bus_idle`: no transaction is outstanding.
        `resetting`: from the cycle after the request until the reset is done.
        `stop`: the bus managers begin no transaction.
        `reset`: the cycle of the reset, one, after at least SETTLE_CYCLES; without `bus_idle` after drain_limit_cycles.
        `will_reset`: `reset` a cycle earlier, for the registers that reset the machine.
    """

    def __init__(self, drain_limit_cycles: int = DRAIN_LIMIT_CYCLES):
        if drain_limit_cycles <= SETTLE_CYCLES:
            raise ValueError(f"drain_limit_cycles must be above {SETTLE_CYCLES}, not {drain_limit_cycles}")
        self.drain_limit_cycles = drain_limit_cycles
        super().__init__(
            {
                "request": In(1),
                "bus_idle": In(1),
                "resetting": Out(1),
                "stop": Out(1),
                "reset": Out(1),
                "will_reset": Out(1),
            }
        )
        # The state, for the tests' proofs: cycles since the request.
        self.cycles = Signal(range(drain_limit_cycles))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        cycles = self.cycles
        idle, settled, given_up = Signal(), Signal(), Signal()
        m.d.comb += [
            self.stop.eq(self.resetting),
            self.will_reset.eq(self.resetting & ~self.reset & (settled & idle | given_up)),
        ]
        # Two registers lie between the count and the reset.
        m.d.sync += [
            idle.eq(self.bus_idle),
            settled.eq(cycles >= SETTLE_CYCLES - 3),
            given_up.eq(cycles == self.drain_limit_cycles - 3),
            self.reset.eq(self.will_reset),
        ]
        with m.If(self.reset):
            m.d.sync += [self.resetting.eq(0), cycles.eq(0)]
        with m.Elif(self.resetting):
            m.d.sync += cycles.eq(cycles + 1)
        with m.Elif(self.request):
            m.d.sync += self.resetting.eq(1)
        return m
