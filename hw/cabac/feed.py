"""Words from the bus to the bytes of one stream."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from .job import STREAM_BYTES_BITS


class ByteFeed(wiring.Component):
    """Takes the words a stream lies in, no more, and gives its bytes in order, one per cycle.

    Ports:
        words (stream of 8 W, in): W bytes, the first one lowest.
        bytes (stream of 8, out): the stream's bytes.
        start (1, in): a stream begins; nothing may be left of the one before.
        length_bytes (STREAM_BYTES_BITS, in): its bytes; with `start`.
        skip_bytes (byte in a word, in): bytes in front of it in its first word, a cycle each; with `start`.
        ended (1, out): all bytes, skipped ones too, were taken; a register, since each step of the engine needs it.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "words": In(stream.Signature(8 * config.word_bytes)),
                "bytes": Out(stream.Signature(8)),
                "start": In(1),
                "length_bytes": In(STREAM_BYTES_BITS),
                "skip_bytes": In(exact_log2(config.word_bytes)),
                "ended": Out(1, init=1),
            }
        )
        # The state, for the tests' proofs.
        self.word = Signal(8 * config.word_bytes, reset_less=True)
        self.in_word = Signal(range(config.word_bytes + 1))
        self.skips = Signal.like(self.skip_bytes)
        self.left = Signal(STREAM_BYTES_BITS + 1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, in_word, skips, left = self.word, self.in_word, self.skips, self.left
        taken = Signal()
        m.d.comb += [
            self.bytes.payload.eq(word[:8]),
            self.bytes.valid.eq((in_word != 0) & (skips == 0)),
            taken.eq((in_word != 0) & ((skips != 0) | self.bytes.ready)),
            self.words.ready.eq(Mux(taken, (in_word == 1) & (left != 1), (in_word == 0) & (left != 0))),
        ]
        with m.If(self.start):
            m.d.sync += [
                left.eq(Mux(self.length_bytes == 0, 0, self.length_bytes + self.skip_bytes)),
                skips.eq(self.skip_bytes),
                in_word.eq(0),
                self.ended.eq(self.length_bytes == 0),
            ]
        with m.Else():
            with m.If(taken):
                m.d.sync += [
                    word.eq(word >> 8),
                    # The rest of the last word is dropped.
                    in_word.eq(Mux(left == 1, 0, in_word - 1)),
                    left.eq(left - 1),
                ]
                with m.If(left == 1):
                    m.d.sync += self.ended.eq(1)
                with m.If(skips != 0):
                    m.d.sync += skips.eq(skips - 1)
            with m.If(self.words.valid & self.words.ready):
                m.d.sync += [word.eq(self.words.payload), in_word.eq(self.config.word_bytes)]
        return m
