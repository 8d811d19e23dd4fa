"""A column's parameters: bias, multiplier, shift."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..isa import Opcode, width


class ParameterWrite(wiring.Signature):
    """A write of a column's parameters.

    Ports:
        bias, multiplier (1, out): store `word` there.
        shift (1, out): store the low bits of `byte` there.
        word (32, out), byte (8, out): what to store.
    """

    def __init__(self) -> None:
        super().__init__(
            {"bias": Out(1), "multiplier": Out(1), "shift": Out(1), "word": Out(32), "byte": Out(8)}
        )


class Parameters(wiring.Component):
    """Registers that hold their values until they are written.

    Ports:
        write (ParameterWrite, in): what to store.
        bias, multiplier (32, out), shift (VECTOR_UOP.shift, out): what was stored; from the next cycle on.
    """

    write: In(ParameterWrite())
    bias: Out(signed(32))
    multiplier: Out(signed(32))
    shift: Out(width(Opcode.VECTOR_UOP, "shift"))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bias, multiplier = Signal(signed(32), reset_less=True), Signal(signed(32), reset_less=True)
        shift = Signal.like(self.shift, reset_less=True)
        with m.If(self.write.bias):
            m.d.sync += bias.eq(self.write.word)
        with m.If(self.write.multiplier):
            m.d.sync += multiplier.eq(self.write.word)
        with m.If(self.write.shift):
            m.d.sync += shift.eq(self.write.byte)
        m.d.comb += [self.bias.eq(bias), self.multiplier.eq(multiplier), self.shift.eq(shift)]
        return m
