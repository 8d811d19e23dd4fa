"""Compressed weights on their way from LOAD's beats to a memory: blocks of NNR streams through the CABAC decoder."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..cabac.decoder import CabacDecoder
from ..cabac.job import STREAM_BYTES_BITS, DecodeReport, TensorJob
from ..config import Config
from ..constants import BURST_BEATS
from ..interfaces import LOCAL_ADDRESS_BITS
from ..isa import Opcode, width
from ..nnr_streams import TAG_BITS, DecodeError
from .block_buffer import BlockBuffer


class BlockJob(data.StructLayout):
    """A LOAD_DECODE: what the decoder is told, the words of the block, and where its weights go."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "tensor": TensorJob(config),
                "block_words": unsigned(
                    width(Opcode.LOAD_DECODE, "row_bytes") - exact_log2(config.word_bytes)
                ),
                "to_wm": unsigned(1),
                "local_address": unsigned(LOCAL_ADDRESS_BITS),
            }
        )


class BlockDecoder(wiring.Component):
    """Decodes blocks, one after the other; the words of the next one may come while one is decoded.

    Ports:
        jobs (stream of BlockJob, in): one per block, at least three cycles before its words; `ready` from a register.
        requested (0..BURST_BEATS, in): words of blocks that are requested in this cycle; only while `room`.
        room (1, out): a whole burst finds a place.
        words (stream of 8 W, in): what was requested, in order; always taken.
        weights (stream of 8 W, out): W weights a word, from a register; a word every other cycle at most.
        starts (1, out): the weights from the next cycle on belong to the block of `to_wm` and `local_address`; all
            words of the blocks before it have come.
        to_wm (1, out): they go to the weight memory; in a cycle with `starts`.
        local_address (LOCAL_ADDRESS_BITS, out): byte where they begin; in a cycle with `starts`.
        ended (1, out): all words of a block were taken from `weights`, and it was right.
        failed (1, out): a block was wrong; until a reset nothing more is decoded.
        illegal (1, out): a block has not as many words as its streams need; until a reset nothing more is decoded.
        report (DecodeReport, out): why the first block failed, from the cycle of `failed` on.
        active (1, out): a block is being decoded.
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
                "local_address": Out(LOCAL_ADDRESS_BITS),
                "ended": Out(1),
                "failed": Out(1),
                "illegal": Out(1),
                "report": Out(DecodeReport),
                "active": Out(1),
            }
        )
        self.decoder = CabacDecoder(config)
        self.job = Signal(BlockJob(config))
        self.stopped = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = self.decoder
        m.submodules.buffer = buffer = BlockBuffer(self.config)
        wiring.connect(m, wiring.flipped(self.words), buffer.words)
        wiring.connect(m, buffer.output, self.decoder.words)
        m.d.comb += [buffer.requested.eq(self.requested), self.room.eq(buffer.room)]
        self._start_blocks(m, buffer.output.valid)
        self._pass_weights(m)
        self._end_blocks(m)
        return m

    def _start_blocks(self, m: Module, words_came: Signal) -> None:
        """A job waits for the first word of its block, then the decoder takes it."""
        job, jobs, waits = self.job, self.decoder.jobs, Signal()
        m.d.comb += [
            self.jobs.ready.eq(~waits),
            jobs.payload.eq(job.tensor),
            jobs.valid.eq(waits & words_came & ~self.stopped),
            self.starts.eq(jobs.valid & jobs.ready),
            self.to_wm.eq(job.to_wm),
            self.local_address.eq(job.local_address),
        ]
        with m.If(self.jobs.valid & self.jobs.ready):
            m.d.sync += [job.eq(self.jobs.payload), waits.eq(1)]
        with m.Elif(self.starts):
            m.d.sync += waits.eq(0)
        wrong_length = self.starts & (job.block_words != self._block_words(m))
        m.d.sync += self.illegal.eq(wrong_length)
        with m.If(wrong_length):
            m.d.sync += self.stopped.eq(1)

    def _pass_weights(self, m: Module) -> None:
        """A register between the decoder and the memory, so that no path leads from the memory's grant into it."""
        weights = self.decoder.weights
        m.d.comb += weights.ready.eq(~self.weights.valid)
        with m.If(~self.weights.valid):
            m.d.sync += [self.weights.payload.eq(weights.payload), self.weights.valid.eq(weights.valid)]
        with m.Elif(self.weights.ready):
            m.d.sync += self.weights.valid.eq(0)

    def _end_blocks(self, m: Module) -> None:
        """The decoder's result is taken after the last word of weights."""
        results, result = self.decoder.results, self.decoder.results.payload
        wrong, finished = Signal(), Signal()
        m.d.comb += [
            results.ready.eq(~self.weights.valid),
            finished.eq(results.valid & results.ready),
            wrong.eq(finished & ((result.error != DecodeError.NONE) | result.saturated.any())),
            self.ended.eq(finished & ~wrong),
        ]
        m.d.sync += self.failed.eq(wrong & ~self.stopped)
        with m.If(wrong):
            m.d.sync += self.stopped.eq(1)
        with m.If(wrong & ~self.stopped):
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

    def _block_words(self, m: Module) -> Signal:
        """The words that the block of `job` needs, two cycles after `job`."""
        word_bytes, tensor = self.config.word_bytes, self.job.tensor
        words, total = Signal(STREAM_BYTES_BITS + 2), Signal(STREAM_BYTES_BITS + 2)
        counts = [
            Mux(index < (1 << tensor.log2_streams), (length + word_bytes - 1) >> exact_log2(word_bytes), 0)
            for index, length in enumerate(tensor.lengths)
        ]
        group_bits = exact_log2(8 * word_bytes // TAG_BITS)
        tag_words = (words + (1 << group_bits) - 1) >> group_bits
        m.d.sync += [words.eq(sum(counts)), total.eq(words + Mux(tensor.log2_streams != 0, tag_words, 0))]
        return total
