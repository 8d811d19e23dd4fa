"""The arithmetic decoder's interval: one context-coded bin, or bypass bins, in a cycle (11.2.4.3).

The text's registers are ivlCurrRange and ivlOffset. Here they are `width` = ivlCurrRange, 256..510, and
`slack` = ivlCurrRange - 1 - ivlOffset, so that 0 <= slack < width. A bin is the less probable one when slack < rLPS,
which does not wait for ivlCurrRange - rLPS; the less probable bin leaves slack as it is; and where ivlOffset takes in a
bit of the stream, slack takes in its complement.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .tables import RLPS, lookup

MAX_SHIFT = 7
"""Most bits that one context-coded bin takes from the stream: rLPS is at least 2."""
BYPASS_BINS = 2
"""Bypass bins in one cycle."""


class Decision(wiring.Component):
    """DecodeDecision (11.2.4.3.2) and renormalisation (11.2.4.3.3); combinational.

    Ports:
        `width`, `slack`, `next_width`, `next_slack`: the interval before and after.
        `column`: of the table of rLPS, from the context.
        `bits`: the next bits of the stream, the first one highest.
        `lps`: the bin is the less probable one.
        `lps_shift`, `mps_shift`: bits taken from the stream if it is, if it is not; both before `lps` is known.
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
            # rLPS <= 228 leaves at least 128 of a range from 256 on: one bit is enough.
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
    """DecodeBypass (11.2.4.3.4), BYPASS_BINS times; combinational.

    Ports:
        `bits`: the next bits of the stream, the first one highest.
        `bins`: as many bins, the first one highest.
        `slack_after`: slack after the first, after the second bin.
    """

    width: In(9)
    slack: In(9)
    bits: In(BYPASS_BINS)
    bins: Out(BYPASS_BINS)
    slack_after: Out(9).array(BYPASS_BINS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        slack = self.slack
        for index in range(BYPASS_BINS):
            doubled = Signal(10, name=f"doubled{index}")
            less = Signal(11, name=f"less{index}")
            value = less[10]
            m.d.comb += [
                doubled.eq(Cat(~self.bits[-1 - index], slack)),
                less.eq(doubled - self.width),
                self.bins[-1 - index].eq(value),
                self.slack_after[index].eq(Mux(value, doubled, less)),
            ]
            slack = self.slack_after[index]
        return m
