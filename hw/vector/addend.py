"""What is added to a lane's product: of x and b, bit by bit, or a comparison's outcome."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import PureInterface

from .leading_zeros import leading_zeros

FEW_BITS = 6
"""Bits of the largest number of leading zeros."""


def make_addend(m: Module, target: Signal, control: PureInterface, x: Value, b: Value) -> None:
    """Loads `target` in stage 4 with what the flags of `control` say: ((x & both) ^ own) & b ^ (x & x); with
    `choose` x or b, whichever is less (`choose_less`) or not; with `few` the leading zeros of x or a comparison."""
    bits = len(target)
    less, equal = Signal(), Signal()
    takes_b, takes_x = Signal(), Signal()
    m.d.comb += [
        less.eq(x < b),
        equal.eq(x == b),
        # `abs` finds ones in b: x ^ b is ~x.
        takes_b.eq(
            control.s4_own | (control.s4_abs & x[-1]) | (control.s4_choose & (less ^ control.s4_choose_less))
        ),
        takes_x.eq(control.s4_x | (control.s4_choose & ~(less ^ control.s4_choose_less))),
    ]
    logic = Cat((((x[i] & control.s4_both) ^ takes_b) & b[i]) ^ (x[i] & takes_x) for i in range(bits))
    compared = (control.s4_equal & equal) | (control.s4_greater & ~less & ~equal)
    few = Mux(control.s4_zeros, leading_zeros(x[:32]), compared)
    m.d.sync += target.eq(logic)
    with m.If(control.s4_few):
        m.d.sync += target.eq(few[:FEW_BITS])


__all__ = ["make_addend"]
