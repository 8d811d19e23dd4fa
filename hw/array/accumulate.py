"""The adder of one accumulator."""

from amaranth.hdl import Const, Instance, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

ACCUMULATOR_BITS = 32

_SELECT_AND_ADD = 0x656A
"""LUT of a CCU2C: the sum of A and (B if C else D); the carry out where they are equal is A."""


class Accumulate(wiring.Component):
    """sum = (own if keep else above) + product, modulo 2**32. Combinational.

    On ECP5 the choice is in the LUTs of the carry chain, which no synthesis finds. That saves half the LUTs of a
    processing element.

    Ports:
        keep (1, in): which of `own` and `above` is added to.
        own, above (32, in): the sums to choose from.
        product (signed, in): extended to 32 bits.
        sum (32, out): the result.
    """

    def __init__(self, product_bits: int):
        super().__init__(
            {
                "keep": In(1),
                "own": In(ACCUMULATOR_BITS),
                "above": In(ACCUMULATOR_BITS),
                "product": In(product_bits),
                "sum": Out(ACCUMULATOR_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        product = Signal(ACCUMULATOR_BITS)
        m.d.comb += product.eq(self.product.as_signed())
        if getattr(platform, "family", None) != "ecp5":
            m.d.comb += self.sum.eq(product + Mux(self.keep, self.own, self.above))
            return m
        carry = Const(0, 1)
        for low in range(0, ACCUMULATOR_BITS, 2):
            carry_out = Signal(name=f"carry_{low + 2}")
            bits = {}
            for half, bit in enumerate((low, low + 1)):
                bits[f"p_INIT{half}"] = Const(_SELECT_AND_ADD, 16)
                bits[f"p_INJECT1_{half}"] = "NO"
                bits[f"i_A{half}"] = product[bit]
                bits[f"i_B{half}"] = self.own[bit]
                bits[f"i_C{half}"] = self.keep
                bits[f"i_D{half}"] = self.above[bit]
                bits[f"o_S{half}"] = self.sum[bit]
            m.submodules[f"bits_{low}"] = Instance("CCU2C", i_CIN=carry, o_COUT=carry_out, **bits)
            carry = carry_out
        return m
