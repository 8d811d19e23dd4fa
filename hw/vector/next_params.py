"""Parameters that follow those of the last VECTOR_PARAM, fetched between two batches of a GO."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .fetch import BIAS_WORDS, MULTIPLIER_WORDS, SHIFT_WORDS


class NextParams(wiring.Component):
    """Remembers where parameters end, and has the next ones fetched when the walker pauses.

    - `set` with `address`, `bias`, `scale`: a VECTOR_PARAM is taken.
    - `paused`: the walker is between two batches. `quiet`: nothing of the one before is under way, and no fetch is.
    - `start`: fetch from `next_address` what `next_bias` and `next_scale` say. `resume`: it is there, go on.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "set": In(1),
                "address": In(24),
                "bias": In(1),
                "scale": In(1),
                "paused": In(1),
                "quiet": In(1),
                "start": Out(1),
                "next_address": Out(24),
                "next_bias": Out(1),
                "next_scale": Out(1),
                "resume": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = self.config.columns
        started = Signal()
        size = Signal(range(columns * (BIAS_WORDS + MULTIPLIER_WORDS + SHIFT_WORDS) + 1))
        address = Signal(24)  # of the last ones
        m.d.comb += [
            size.eq(
                Mux(self.next_bias, columns * BIAS_WORDS, 0)
                + Mux(self.next_scale, columns * (MULTIPLIER_WORDS + SHIFT_WORDS), 0)
            ),
            self.next_address.eq(address + size),
            self.start.eq(self.paused & self.quiet & ~started),
            self.resume.eq(self.paused & self.quiet & started),
        ]
        with m.If(self.set):
            m.d.sync += [
                address.eq(self.address),
                self.next_bias.eq(self.bias),
                self.next_scale.eq(self.scale),
            ]
        with m.Elif(self.start):
            m.d.sync += [address.eq(self.next_address), started.eq(1)]
        with m.Elif(self.resume):
            m.d.sync += started.eq(0)
        return m


__all__ = ["NextParams"]
