"""One lane's parameters: bias, multiplier, shift."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Parameters(wiring.Component):
    """`write_bias`, `write_multiplier`, `write_shift` store `word` (its low 6 bits for the shift: `byte`)."""

    write_bias: In(1)
    write_multiplier: In(1)
    write_shift: In(1)
    word: In(32)
    byte: In(8)
    bias: Out(signed(32))
    multiplier: Out(signed(32))
    shift: Out(6)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bias, multiplier = Signal(signed(32), reset_less=True), Signal(signed(32), reset_less=True)
        shift = Signal(6, reset_less=True)
        with m.If(self.write_bias):
            m.d.sync += bias.eq(self.word)
        with m.If(self.write_multiplier):
            m.d.sync += multiplier.eq(self.word)
        with m.If(self.write_shift):
            m.d.sync += shift.eq(self.byte)
        m.d.comb += [self.bias.eq(bias), self.multiplier.eq(multiplier), self.shift.eq(shift)]
        return m


__all__ = ["Parameters"]
