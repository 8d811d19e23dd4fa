"""What is added to a lane's product: of x and b, bit by bit, or a comparison's outcome."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from .leading_zeros import leading_zeros

FEW_BITS = 6
"""Bits of the largest number of leading zeros."""


def make_addend(m: Module, target: Signal, flags: data.View, x: Value, b: Value) -> None:
    """Loads `target` in stage 4 with ((x & both) ^ takes_b) & b ^ (x & takes_x), bit by bit; `flags` are AddendFlags.

    - `both`, `own`, `x`: AND, OR, XOR of x and b, b alone, or x alone.
    - `abs`: ~x where x is negative, else x; b is all ones.
    - `choose`: the less of x and b if `choose_less`, else the greater.
    - `few`: the leading zeros of x (`zeros`), or whether x and b are `equal` or x is `greater`.
    """
    bits = len(target)
    less, equal = Signal(), Signal()
    takes_b, takes_x = Signal(), Signal()
    m.d.comb += [
        less.eq(x < b),
        equal.eq(x == b),
        # `abs` finds ones in b: x ^ b is ~x.
        takes_b.eq(flags.own | (flags.abs & x[-1]) | (flags.choose & (less ^ flags.choose_less))),
        takes_x.eq(flags.x | (flags.choose & ~(less ^ flags.choose_less))),
    ]
    logic = Cat((((x[i] & flags.both) ^ takes_b) & b[i]) ^ (x[i] & takes_x) for i in range(bits))
    compared = (flags.equal & equal) | (flags.greater & ~less & ~equal)
    few = Mux(flags.zeros, leading_zeros(x[:32]), compared)
    m.d.sync += target.eq(logic)
    with m.If(flags.few):
        m.d.sync += target.eq(few[:FEW_BITS])
