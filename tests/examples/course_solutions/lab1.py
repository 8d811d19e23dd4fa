"""A solution of lab 1."""

from amaranth.hdl import Module, Mux, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class ProcessingElement(wiring.Component):
    """Multiplies and accumulates."""

    def __init__(self):
        super().__init__(
            {
                "enable": In(1),
                "first": In(1),
                "x": In(signed(8)),
                "weight": In(signed(8)),
                "x_out": Out(signed(8)),
                "weight_out": Out(signed(8)),
                "total": Out(signed(32)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.d.sync += [self.x_out.eq(self.x), self.weight_out.eq(self.weight)]
        with m.If(self.enable):
            m.d.sync += self.total.eq(Mux(self.first, 0, self.total) + self.x * self.weight)
        return m
