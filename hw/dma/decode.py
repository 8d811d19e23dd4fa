"""Compressed weights on their way from LOAD's beats to a memory: blocks of NNR streams through the CABAC decoder."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..cabac.decoder import CabacDecoder
from ..cabac.job import STREAM_BYTES_BITS, DecodeReport
from ..cabac.job import Job as CabacJob
from ..config import Config
from ..nnr_streams import TAG_BITS, DecodeError
from .block_buffer import BlockBuffer
from .bursts import BURST_BEATS


class BlockJob(data.StructLayout):
    """A LOAD_DECODE: what the decoder is told, the words of the block, and where its weights go."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "cabac": CabacJob(config),
                "block_words": unsigned(24 - exact_log2(config.word_bytes)),
                "to_wm": unsigned(1),
                "local_address": unsigned(24),
            }
        )


class BlockDecoder(wiring.Component):
    """Decodes blocks, one after the other; the words of the next one may come while one is decoded.

    Ports:
        `jobs`: one per block, at least three cycles before its words. `ready` comes from a register.
        `requested`: this many words of blocks are asked for in this cycle; only while `room`, a burst at most.
        `room`: a whole burst finds a place.
        `words`: what was asked for, in order; always taken.
        `weights`: W weights a word, from a register; a word every other cycle at most.
        `starts`: the words of `weights` from the next cycle on belong to the job whose `to_wm` and `local_address` are
            shown. All words before those of this block have come.
        `ended`: all words of a block were taken from `weights`, and it was right.
        `failed`: a block was wrong, which `report` tells from the next cycle on. `illegal`: a block has not as many
            words as its streams need. Until a reset nothing more is decoded.
        `active`: a block is being decoded.
    """

    def __init__(self, config: Config):
        self.config = config
        word = 8 * config.word_bytes
        super().__init__(
            {
                "jobs": In(stream.Signature(BlockJob(config))),
                "requested": In(range(BURST_BEATS + 1)),
                "room": Out(1),
                "words": In(stream.Signature(word, always_ready=True)),
                "weights": Out(stream.Signature(word)),
                "starts": Out(1),
                "to_wm": Out(1),
                "local_address": Out(24),
                "ended": Out(1),
                "failed": Out(1),
                "illegal": Out(1),
                "report": Out(DecodeReport),
                "active": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = CabacDecoder(self.config)
        m.submodules.buffer = buffer = BlockBuffer(self.config)
        wiring.connect(m, buffer.output, decoder.words)
        job = Signal(BlockJob(self.config))
        waits, stopped = Signal(), Signal()
        wanted = self._block_words(m, job)
        m.d.comb += [
            buffer.requested.eq(self.requested),
            self.room.eq(buffer.room),
            buffer.words.valid.eq(self.words.valid),
            buffer.words.payload.eq(self.words.payload),
            self.jobs.ready.eq(~waits),
            decoder.jobs.payload.eq(job.cabac),
            decoder.jobs.valid.eq(waits & buffer.output.valid & ~stopped),
            self.starts.eq(decoder.jobs.valid & decoder.jobs.ready),
            self.to_wm.eq(job.to_wm),
            self.local_address.eq(job.local_address),
        ]
        with m.If(self.jobs.valid & self.jobs.ready):
            m.d.sync += [job.eq(self.jobs.payload), waits.eq(1)]
        with m.Elif(self.starts):
            m.d.sync += waits.eq(0)

        result = decoder.results.payload
        saturated = result.saturated.any()
        wrong, finished = Signal(), Signal()
        m.d.comb += [
            # A register of its own, so that the memory's grant does not reach into the decoder.
            decoder.weights.ready.eq(~self.weights.valid),
            decoder.results.ready.eq(~self.weights.valid),
            finished.eq(decoder.results.valid & decoder.results.ready),
            wrong.eq(finished & ((result.error != DecodeError.NONE) | saturated)),
            self.ended.eq(finished & ~wrong),
        ]
        with m.If(~self.weights.valid):
            m.d.sync += [
                self.weights.payload.eq(decoder.weights.payload),
                self.weights.valid.eq(decoder.weights.valid),
            ]
        with m.Elif(self.weights.ready):
            m.d.sync += self.weights.valid.eq(0)
        m.d.sync += [
            self.illegal.eq(self.starts & (job.block_words != wanted)),
            self.failed.eq(wrong & ~stopped),
        ]
        with m.If(wrong | (self.starts & (job.block_words != wanted))):
            m.d.sync += stopped.eq(1)
        with m.If(wrong & ~stopped):
            m.d.sync += [
                self.report.code.eq(
                    Mux(result.error != DecodeError.NONE, result.error, DecodeError.SATURATED)
                ),
                self.report.stream.eq(result.stream),
                self.report.tensor.eq(result.tensor),
                self.report.position.eq(result.position),
            ]
        with m.If(self.starts):
            m.d.sync += self.active.eq(1)
        with m.Elif(finished):
            m.d.sync += self.active.eq(0)
        return m

    def _block_words(self, m: Module, job: Signal) -> Signal:
        """The words that the block of `job` needs, two cycles after `job`."""
        lane_bits = exact_log2(self.config.word_bytes)
        group_bits = exact_log2(8 * self.config.word_bytes // TAG_BITS)
        words, total = Signal(STREAM_BYTES_BITS + 2), Signal(STREAM_BYTES_BITS + 2)
        counts = [
            Mux(
                index < (1 << job.cabac.log2_streams),
                (length + self.config.word_bytes - 1) >> lane_bits,
                0,
            )
            for index, length in enumerate(job.cabac.lengths)
        ]
        tags = (words + (1 << group_bits) - 1) >> group_bits
        m.d.sync += [words.eq(sum(counts)), total.eq(words + Mux(job.cabac.log2_streams != 0, tags, 0))]
        return total
