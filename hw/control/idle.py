"""When the machine's clock may stop."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

SETTLE_CYCLES = 8
"""Cycles without work until nothing moves any more."""


class Idle(wiring.Component):
    """Tells that nothing has been under way for SETTLE_CYCLES cycles.

    Ports:
        `busy` (1, in): a program runs, a reset is under way, or the bus owes an answer.
        `idle` (1, out): 0 in each cycle with `busy`, and in the SETTLE_CYCLES cycles after it.
    """

    def __init__(self) -> None:
        super().__init__({"busy": In(1), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left = Signal(range(SETTLE_CYCLES + 1), init=SETTLE_CYCLES)
        with m.If(self.busy):
            m.d.sync += left.eq(SETTLE_CYCLES)
        with m.Elif(left.any()):
            m.d.sync += left.eq(left - 1)
        m.d.comb += self.idle.eq(~self.busy & ~left.any())
        return m
