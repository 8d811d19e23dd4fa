"""Stretches events for the eye."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Lamp(wiring.Component):
    """`lit` for `cycles` cycles from the second one after each `event`: it comes at the end of long paths."""

    def __init__(self, cycles: int):
        if cycles < 1:
            raise ValueError(f"cycles must be at least 1, not {cycles}")
        self.cycles = cycles
        super().__init__({"event": In(1), "lit": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left, happened = Signal(range(self.cycles + 1)), Signal()
        m.d.sync += happened.eq(self.event)
        m.d.comb += self.lit.eq(left != 0)
        with m.If(happened):
            m.d.sync += left.eq(self.cycles)
        with m.Elif(self.lit):
            m.d.sync += left.eq(left - 1)
        return m
