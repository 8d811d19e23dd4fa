"""The bits of the stream that the interval takes next."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .interval import MAX_SHIFT

WINDOW_BITS = 8 + 2 * MAX_SHIFT - 1
"""A byte goes in while at most WINDOW_BITS - 8 bits are there. Where there are more, MAX_SHIFT can go out in this cycle
and MAX_SHIFT in the next one."""
SHOWN_BITS = 8


class BitWindow(wiring.Component):
    """Takes bytes, shows the next bits, most significant first, and drops those that its user has decoded.

    A byte goes in whenever there is room for one, so that MAX_SHIFT bits can go out in every cycle.

    Ports:
        start (1, in): forget everything.
        bytes (stream of 8, in): the stream; a byte is shown in the cycle after it was taken.
        ended (1, in): no byte follows the ones already taken.
        bits (SHOWN_BITS, out): the next bits, the first one highest, 0 after the end; from registers.
        ready (1, out): the bits of any step are there, or the stream has ended.
        step (1, in): drop `long_shift` or `short_shift` bits.
        use_long (1, in): which of them; it may come late in the cycle.
        long_shift (0..MAX_SHIFT, in): number of bits.
        short_shift (2, in): number of bits.
        count (signed 6, out): bits in the window; negative once bits beyond the end were dropped.
        previous (1, out): the bit dropped last.
    """

    start: In(1)
    bytes: In(stream.Signature(8))
    ended: In(1)
    bits: Out(SHOWN_BITS)
    ready: Out(1)
    step: In(1)
    use_long: In(1)
    long_shift: In(range(MAX_SHIFT + 1))
    short_shift: In(2)
    count: Out(signed(6))
    previous: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        window = Signal(WINDOW_BITS)
        taken = Signal()
        filled_count = Signal(signed(6))
        filled = Signal(WINDOW_BITS)
        with_previous = Cat(filled, self.previous)
        long, short = Signal(WINDOW_BITS + 1), Signal(WINDOW_BITS + 1)
        m.d.comb += [
            # A negative count lets bytes in, but then the stream has ended and there are none.
            self.bytes.ready.eq(self.count <= WINDOW_BITS - 8),
            taken.eq(self.bytes.valid & self.bytes.ready),
            filled.eq(
                window
                | Mux(
                    taken,
                    Cat(Const(0, WINDOW_BITS - 8), self.bytes.payload) >> self.count.as_unsigned()[:4],
                    0,
                )
            ),
            filled_count.eq(self.count + Mux(taken, 8, 0)),
            self.bits.eq(window[-SHOWN_BITS:]),
            self.ready.eq((self.count >= MAX_SHIFT) | self.ended),
            long.eq(with_previous << self.long_shift),
            short.eq(with_previous << self.short_shift),
        ]
        with m.If(self.start):
            m.d.sync += [window.eq(0), self.count.eq(0)]
        with m.Elif(self.step):
            m.d.sync += Cat(window, self.previous).eq(Mux(self.use_long, long, short))
            # A negative count stays: only its sign matters.
            with m.If(self.count >= 0):
                m.d.sync += self.count.eq(
                    Mux(self.use_long, filled_count - self.long_shift, filled_count - self.short_shift)
                )
        with m.Else():
            m.d.sync += [window.eq(filled), self.count.eq(filled_count)]
        return m
