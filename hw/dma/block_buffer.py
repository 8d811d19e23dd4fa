"""Words of compressed blocks between the read channel and the decoder."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from ..config import Config
from .bursts import BURST_BEATS

BUFFER_WORDS = 2 * BURST_BEATS
"""Words of blocks requested and not decoded, at most. A decoder takes a word in a hundred cycles; what is requested
must not wait on the read channel for it, since the program comes through there, too."""


class BlockBuffer(wiring.Component):
    """Holds a place for every word that is asked for, so that every word that comes is taken at once.

    Ports:
        `requested`: this many words are asked for in this cycle; only while `room`, a burst at most.
        `room`: a whole burst finds a place. Low in the cycle after a request.
        `words`: what was asked for, in order; always taken.
        `output`: the same, as the decoder takes it.
    """

    def __init__(self, config: Config):
        word = 8 * config.word_bytes
        super().__init__(
            {
                "requested": In(range(BURST_BEATS + 1)),
                "room": Out(1, init=1),
                "words": In(stream.Signature(word, always_ready=True)),
                "output": Out(stream.Signature(word)),
            }
        )
        # The state, for the tests' proofs.
        self.fifo = SyncFIFOBuffered(width=word, depth=BUFFER_WORDS)
        self.under_way = Signal(range(BUFFER_WORDS + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.fifo = fifo = self.fifo
        under_way, output = self.under_way, self.output
        m.d.comb += [
            fifo.w_en.eq(self.words.valid),
            fifo.w_data.eq(self.words.payload),
            output.valid.eq(fifo.r_rdy),
            output.payload.eq(fifo.r_data),
            fifo.r_en.eq(output.ready),
        ]
        m.d.sync += [
            under_way.eq(under_way + self.requested - (output.valid & output.ready)),
            # From a register: whoever asks looks at it late in the cycle.
            self.room.eq((under_way <= BUFFER_WORDS - BURST_BEATS) & ~self.requested.any()),
        ]
        return m
