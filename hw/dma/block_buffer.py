"""Words of compressed blocks between the read channel and the decoder."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..constants import BURST_BEATS, DECODE_BUFFER_BEATS
from ..memory.blocks import Queue


class BlockBuffer(wiring.Component):
    """Holds a place for every word that is requested, so that every word is taken when it comes.

    A decoder takes a word in about a hundred cycles. Requested words must not wait for it on the read channel, which
    also brings the program.

    Ports:
        requested (0..BURST_BEATS, in): words that are requested in this cycle; only while `room`.
        room (1, out): a whole burst finds a place; low in the cycle after a request.
        words (stream of 8 W, in): what was requested, in order; always taken.
        output (stream of 8 W, out): the same words, as the decoder takes them.
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
        self.fifo = Queue(width=word, depth=DECODE_BUFFER_BEATS)
        self.under_way = Signal(range(DECODE_BUFFER_BEATS + 1))

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
            # A register: LOAD decides late in its cycle whether it requests.
            self.room.eq((under_way <= DECODE_BUFFER_BEATS - BURST_BEATS) & ~self.requested.any()),
        ]
        return m
