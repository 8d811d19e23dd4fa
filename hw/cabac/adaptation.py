"""Context variables: what one holds and how a bin changes it (11.2.4.3.2.2)."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..nnr_tables import SHIFT0, SHIFT1, TRANSITION
from .lookup import lookup


class Context(data.Struct):
    """A context variable. All bits 0 is the initial one.

    `column` and `mps_is_0` follow from the states: with p = 16 * state0 + state1 they are abs(p >> 7) and p < 0.
    They are kept beside the states so that the next bin can start from them.
    """

    state0: signed(8)
    state1: signed(12)
    column: unsigned(5)
    mps_is_0: unsigned(1)


class Adaptation(wiring.Component):
    """The context after the bin `value`, which is fixed: the decoder computes both and then picks; combinational."""

    def __init__(self, value: int):
        self.value = value
        super().__init__({"before": In(Context), "after": Out(Context)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        before, after = self.before, self.after
        for name, low_bits, shift in (("state0", 3, SHIFT0), ("state1", 7, SHIFT1)):
            state = before[name]
            high = state.as_unsigned()[low_bits:]
            if self.value:
                steps = [TRANSITION[raw ^ 16] >> shift for raw in range(32)]
                step = lookup(m, name, steps, 8, high)
                m.d.comb += after[name].eq(state + step)
            else:
                # -state >> n is ~(state >> n), plus 1 if the bits below are 0.
                low_is_zero = ~state.as_unsigned()[:low_bits].any()
                steps = [_mirrored(index) >> shift for index in range(64)]
                step = lookup(m, name, steps, 8, Cat(low_is_zero, high))
                m.d.comb += after[name].eq(state - step)
        mixed = Signal(signed(13))
        high = Signal(signed(6))
        m.d.comb += [
            mixed.eq((after.state0 << 4) + after.state1),
            high.eq(mixed >> 7),
            after.mps_is_0.eq(mixed < 0),
            after.column.eq(Mux(mixed < 0, -high, high)),
        ]
        return m


def _mirrored(index: int) -> int:
    """TRANSITION at 16 + (-state >> n) for index = (state >> n, 5 bits) * 2 + (bits below are 0)."""
    low_is_zero, raw = index & 1, index >> 1
    high = raw - 32 if raw & 16 else raw
    place = 16 - high - 1 + low_is_zero
    # Place 32 belongs to states that no context reaches.
    return TRANSITION[place] if place < 32 else 0
