"""The arithmetic decoder's interval: one context-coded bin, or bypass bins, in a cycle (11.2.4.3).

The text's registers are ivlCurrRange and ivlOffset. Here they are `width` = ivlCurrRange, 256..510, and
`slack` = ivlCurrRange - 1 - ivlOffset, so that 0 <= slack < width. A bin is the less probable one when slack < rLPS,
a comparison that does not wait for ivlCurrRange - rLPS. The less probable bin leaves slack as it is. Where ivlOffset
takes in a bit of the stream, slack takes in its complement.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..nnr_streams import BYPASS_BINS
from ..nnr_tables import RLPS
from .lookup import lookup

MAX_SHIFT = 7
"""Largest number of bits that one context-coded bin takes from the stream: rLPS is at least 2."""


class Decision(wiring.Component):
    """DecodeDecision (11.2.4.3.2) and renormalisation (11.2.4.3.3); combinational.

    Ports:
        width (9, in): the interval before the bin.
        slack (9, in): likewise.
        column (5, in): of the table of rLPS, from the context.
        bits (MAX_SHIFT, in): the next bits of the stream, the first one highest.
        lps (1, out): the bin is the less probable one.
        lps_shift (0..MAX_SHIFT, out): bits taken from the stream if it is; earlier in the cycle than `lps`.
        mps_shift (1, out): bits taken from the stream if it is not; earlier in the cycle than `lps`.
        next_width (9, out): the interval after the bin.
        next_slack (9, out): likewise.
    """

    width: In(9)
    slack: In(9)
    column: In(5)
    bits: In(MAX_SHIFT)
    lps: Out(1)
    lps_shift: Out(range(MAX_SHIFT + 1))
    mps_shift: Out(1)
    next_width: Out(9)
    next_slack: Out(9)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows = [value | (9 - value.bit_length()) << 8 for value in RLPS]
        row = lookup(m, "rlps", rows, 11, Cat(self.column, self.width[5:8]))
        lps_width = Signal(8)
        mps_width = Signal(9)
        mps_slack = Signal(10)
        ahead = Signal(MAX_SHIFT)
        long = Signal(9 + MAX_SHIFT)
        m.d.comb += [
            lps_width.eq(row[:8]),
            self.lps_shift.eq(row[8:]),
            mps_width.eq(self.width - lps_width),
            mps_slack.eq(self.slack - lps_width),
            self.lps.eq(mps_slack[9]),
            # rLPS is at most 228, so at least 128 of the width remain, and one bit is enough.
            self.mps_shift.eq(~mps_width[8]),
            ahead.eq(~self.bits),
            long.eq(Cat(ahead, self.slack) << self.lps_shift),
            self.next_width.eq(
                Mux(self.lps, lps_width << self.lps_shift, Mux(self.mps_shift, mps_width << 1, mps_width))
            ),
            self.next_slack.eq(
                Mux(
                    self.lps,
                    long[MAX_SHIFT:],
                    Mux(self.mps_shift, Cat(ahead[-1], mps_slack[:8]), mps_slack[:9]),
                )
            ),
        ]
        return m


class Bypass(wiring.Component):
    """DecodeBypass (11.2.4.3.4), up to BYPASS_BINS times; combinational.

    The first two bins are a division by `width` with a quotient of 0..3: three differences, computed side by side. The
    third bin is computed from the second one's slack.

    Ports:
        width (9, in): the interval.
        slack (9, in): slack before the first bin.
        bits (BYPASS_BINS, in): the next bits of the stream, the first one highest.
        bins (BYPASS_BINS, out): the bins, the first one highest.
        slack_after (BYPASS_BINS x 9, out): slack after the first, the second, the third bin.
    """

    width: In(9)
    slack: In(9)
    bits: In(BYPASS_BINS)
    bins: Out(BYPASS_BINS)
    slack_after: Out(9).array(BYPASS_BINS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ahead = Signal(BYPASS_BINS)
        quadrupled = Signal(11)
        m.d.comb += [ahead.eq(~self.bits), quadrupled.eq(Cat(ahead[1:], self.slack))]
        less = [Signal(12, name=f"less{times}") for times in range(1, 4)]
        less1, less2, less3 = less
        # A carry-save step makes two numbers of three, so that one carry chain is left. -x is ~x + 1.
        minus1, minus2 = Signal(12), Signal(12)
        sums, carries = Signal(12), Signal(12)
        m.d.comb += [
            minus1.eq(~Cat(self.width, Const(0, 3))),
            minus2.eq(~Cat(Const(0, 1), self.width, Const(0, 2))),
            sums.eq(quadrupled ^ minus1 ^ minus2),
            carries.eq((quadrupled & minus1) | (quadrupled & minus2) | (minus1 & minus2)),
            less1.eq(quadrupled - self.width),
            less2.eq(quadrupled - (self.width << 1)),
            less3.eq(sums + Cat(Const(1, 1), carries[:11]) + 1),
        ]
        # A bin is 1 where slack is smaller than the multiple of the width.
        first, second = less2[11], Mux(less2[11], less1[11], less3[11])
        doubled = Signal(10)
        last = Signal(11)
        m.d.comb += [
            self.slack_after[0].eq(Mux(first, quadrupled, less2)[1:]),
            self.slack_after[1].eq(
                Mux(first, Mux(less1[11], quadrupled, less1), Mux(less3[11], less2, less3))
            ),
            doubled.eq(Cat(ahead[0], self.slack_after[1])),
            last.eq(doubled - self.width),
            self.slack_after[2].eq(Mux(last[10], doubled, last)),
            self.bins.eq(Cat(last[10], second, first)),
        ]
        return m
