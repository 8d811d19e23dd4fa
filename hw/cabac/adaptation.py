"""Context variables: what one holds and how a bin changes it (11.2.4.3.2.2)."""

from amaranth.hdl import Cat, Module, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..nnr_tables import SHIFT0, SHIFT1, TRANSITION
from .lookup import lookup

P_BITS = 13
"""16 * state0 + state1 lies in -3859..3859."""

LOW0_BITS, LOW1_BITS = 3, 7
"""Bits of state0 and of state1 below the index of the table."""

COLUMNS = [(64 - high if high & 32 else high) & 31 for high in range(64)]
"""abs(p >> 7) by the upper bits of p."""


class Context(data.Struct):
    """A context variable. All bits 0 is the initial one.

    The rest follows from the states: with p = 16 * state0 + state1 `column` and `mps_is_0` are abs(p >> 7) and p < 0,
    and `low0` and `low1` say whether the bits of state0 and state1 below the index of the table are not all 0.
    They are stored with the states, so that the next bin starts from registers.
    """

    state0: signed(8)
    state1: signed(12)
    column: unsigned(5)
    mps_is_0: unsigned(1)
    low0: unsigned(1)
    low1: unsigned(1)


class Adaptation(wiring.Component):
    """The context after a bin of the constant value `value`. The engine has one for 0 and one for 1, and chooses.

    Ports:
        before (Context, in): the bin's context.
        after (Context, out): what becomes of it; combinational.
    """

    def __init__(self, value: int):
        self.value = value
        super().__init__({"before": In(Context), "after": Out(Context)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        before, after = self.before, self.after
        steps = []
        for name, low, low_bits, shift in (
            ("state0", "low0", LOW0_BITS, SHIFT0),
            ("state1", "low1", LOW1_BITS, SHIFT1),
        ):
            state = before[name]
            high = state.as_unsigned()[low_bits:]
            if self.value:
                table = [TRANSITION[raw ^ 16] >> shift for raw in range(32)]
                step = lookup(m, name, table, 8, high)
                m.d.comb += after[name].eq(state + step)
            else:
                # -state >> n is ~(state >> n), plus 1 if the bits below are 0.
                table = [_mirrored(index) >> shift for index in range(64)]
                step = lookup(m, name, table, 8, Cat(~before[low], high))
                m.d.comb += after[name].eq(state - step)
            m.d.comb += after[low].eq(after[name].as_unsigned()[:low_bits].any())
            steps.append(step)

        # The critical path: p after the bin is p + 16 * step0 + step1, which does not wait for the states' sums. A
        # carry-save step makes two numbers of three, so that one carry chain follows the tables. p - x is ~(~p + x).
        p, start, total = Signal(P_BITS), Signal(P_BITS), Signal(P_BITS)
        coarse, fine = Signal(P_BITS), Signal(P_BITS)
        sums, carries = Signal(P_BITS), Signal(P_BITS)
        mixed = Signal(signed(P_BITS))
        m.d.comb += [
            p.eq((before.state0 << 4) + before.state1),
            start.eq(p if self.value else ~p),
            coarse.eq(steps[0] << 4),
            fine.eq(steps[1]),
            sums.eq(start ^ coarse ^ fine),
            carries.eq(((start & coarse) | (start & fine) | (coarse & fine)) << 1),
            total.eq(sums + carries),
            mixed.eq(total if self.value else ~total),
            after.mps_is_0.eq(mixed < 0),
            # A table is shorter than the negation's carry chain.
            after.column.eq(lookup(m, "column", COLUMNS, 5, mixed.as_unsigned()[7:])),
        ]
        return m


def _mirrored(index: int) -> int:
    """TRANSITION at 16 + (-state >> n) for index = (state >> n, 5 bits) * 2 + (bits below are 0)."""
    low_is_zero, raw = index & 1, index >> 1
    high = raw - 32 if raw & 16 else raw
    place = 16 - high - 1 + low_is_zero
    # Place 32 belongs to states that no context reaches.
    return TRANSITION[place] if place < 32 else 0
