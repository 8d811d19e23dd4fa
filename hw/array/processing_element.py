"""A multiplier and its accumulator."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..booth import multiply
from ..one_hot import only_if
from .accumulate import ACCUMULATOR_BITS, Accumulate
from .layouts import OPERAND_BITS

PRODUCT_BITS = 2 * OPERAND_BITS


def hides_sums(platform: object) -> bool:
    """Whether elements pass zeros where nothing of theirs is delivered, so that an OR joins the rows. On ECP5: a choice
    among the rows would take more LUTs, and one of three numbers to add to does not fit a carry cell."""
    return getattr(platform, "family", None) == "ecp5"


class ProcessingElement(wiring.Component):
    """A product in each cycle, its sum in the next. The product's register always takes, so that it can be the one
    inside a multiplier block.

    Ports:
        operand, weight (signed 9, in): the factors.
        add (1, in): the product of the factors of the cycle before is added.
        keep, chain (1, in): with `add`: to the own sum, to `above`, or with neither to 0. Not both.
        above (32, in): sum of the element above.
        sum (32, out): the new sum, from the cycle after `add` on.
    """

    operand: In(signed(OPERAND_BITS))
    weight: In(signed(OPERAND_BITS))
    add: In(1)
    keep: In(1)
    chain: In(1)
    above: In(ACCUMULATOR_BITS)
    sum: Out(ACCUMULATOR_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        product = Signal(signed(PRODUCT_BITS), reset_less=True)
        m.d.sync += product.eq(multiply(m, self.operand, self.weight, platform))
        own = Signal(ACCUMULATOR_BITS, reset_less=True)
        with m.If(self.add):
            m.d.sync += own.eq(product + (only_if(self.keep, own) | only_if(self.chain, self.above)))
        m.d.comb += self.sum.eq(own)
        return m


class HidingElement(wiring.Component):
    """The same where `hides_sums`: with a second register, which is zero when it is not asked for.

    Ports:
        operand, weight, add, above (in): as above.
        keep (1, in): with `add`: to the own sum, else to `above`.
        hide (1, in): `passed` is zero in the next cycle.
        passed (32, out): the new sum, from the cycle after `add` on.
    """

    operand: In(signed(OPERAND_BITS))
    weight: In(signed(OPERAND_BITS))
    add: In(1)
    keep: In(1)
    hide: In(1)
    above: In(ACCUMULATOR_BITS)
    passed: Out(ACCUMULATOR_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        product = Signal(signed(PRODUCT_BITS), reset_less=True)
        m.d.sync += product.eq(self.operand * self.weight)
        m.submodules.accumulate = accumulate = Accumulate(PRODUCT_BITS)
        own = Signal(ACCUMULATOR_BITS, reset_less=True)
        passed = Signal(ACCUMULATOR_BITS, reset_less=True)
        m.d.comb += [
            accumulate.keep.eq(self.keep),
            accumulate.own.eq(own),
            accumulate.above.eq(self.above),
            accumulate.product.eq(product),
            self.passed.eq(passed),
        ]
        with m.If(self.add):
            m.d.sync += [own.eq(accumulate.sum), passed.eq(accumulate.sum)]
        with m.If(self.hide):
            m.d.sync += passed.eq(0)
        return m
