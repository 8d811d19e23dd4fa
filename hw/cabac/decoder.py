"""The CABAC decoder: one tensor after the other, each by one engine or by several side by side."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..memory.blocks import Queue
from ..nnr_streams import TAG_BITS, WAITING_WORDS, DecodeError
from .distributor import Distributor
from .engine import Engine
from .job import LEVEL_BITS, TensorJob, TensorResult

STUCK_CYCLES_PER_LANE = 128
"""A level takes less than 64 cycles, so within 64 cycles per lane a word of weights comes or a word is taken."""


class CabacDecoder(wiring.Component):
    """Decodes tensors into weights, `cabac_engines` streams at a time.

    Timing: an engine's, see Engine; a job starts its engines one cycle after it is taken. Words of several streams come
    out in turns, and engines wait for each other only when one is WAITING_WORDS words ahead.

    Ports:
        jobs (stream of TensorJob, in): tensors. A job may use fewer streams than there are engines.
        words (stream of 8 W, in): the block each tensor lies in (see `interleave`), whole words, the first byte lowest;
            taken no further than the block goes.
        weights (stream of 8 W, out): W weights a word, in the order of the levels; the last word ends with zeros.
        results (stream of TensorResult, out): one per job, after its last word. After an error fewer words come out,
            but never wrong ones. After the error TAGS only a reset helps.
    """

    def __init__(self, config: Config):
        self.config = config
        word = stream.Signature(8 * config.word_bytes)
        super().__init__(
            {
                "jobs": In(stream.Signature(TensorJob(config))),
                "words": In(word),
                "weights": Out(word),
                "results": Out(stream.Signature(TensorResult)),
            }
        )
        self.engines = [Engine(config) for _ in range(config.cabac_engines)]
        self.job = Signal(TensorJob(config))
        self.starts, self.running = Signal(), Signal()
        self.used = Signal(len(self.engines))
        """Bit per engine: it decodes a stream of this tensor."""
        self.aborts = Signal()
        self.drained = Signal()
        """All words of weights that came are out."""
        self.late = Signal()
        """The decoder waits for words that have not come. Then it is not stuck."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index, engine in enumerate(self.engines):
            m.submodules[f"engine{index}"] = engine
        self._start(m)
        stuck: ValueLike = Const(0)
        if len(self.engines) == 1:
            engine = self.engines[0]
            wiring.connect(m, wiring.flipped(self.words), engine.words)
            wiring.connect(m, engine.weights, wiring.flipped(self.weights))
            m.d.comb += self.drained.eq(~engine.weights.valid)
        else:
            self._distribute(m)
            self._collect(m)
            stuck = self._watch(m)
        self._finish(m, stuck)
        return m

    def _start(self, m: Module) -> None:
        """Take a job; in the next cycle tell each engine its words of the levels."""
        job, lane_bits, given = self.job, exact_log2(self.config.word_bytes), self.jobs.payload
        words = Signal(LEVEL_BITS - lane_bits + 1)
        missing, last_stream, mask = Signal(lane_bits), Signal(TAG_BITS), Signal(TAG_BITS)
        m.d.comb += [
            self.jobs.ready.eq(~self.starts & ~self.running),
            missing.eq(-job.levels),
            mask.eq((1 << job.log2_streams) - 1),
            last_stream.eq((words - 1) & mask),
        ]
        with m.If(self.jobs.valid & self.jobs.ready):
            m.d.sync += [
                job.eq(given),
                words.eq((given.levels + self.config.word_bytes - 1) >> lane_bits),
                self.starts.eq(1),
            ]
        with m.If(self.starts):
            m.d.sync += [
                self.starts.eq(0),
                self.running.eq(1),
                self.used.eq((1 << (1 << job.log2_streams)) - 1),
            ]
        for index, engine in enumerate(self.engines):
            own = Signal.like(words, name=f"words{index}")
            m.d.comb += [
                own.eq((words + mask - index) >> job.log2_streams),
                engine.jobs.valid.eq(self.starts & (index <= mask)),
                engine.jobs.payload.settings.eq(job.settings),
                engine.jobs.payload.levels.eq((own << lane_bits) - Mux(last_stream == index, missing, 0)),
                engine.jobs.payload.length.eq(job.lengths[index]),
                engine.jobs.payload.offset.eq(job.offset if index == 0 else 0),
            ]

    def _distribute(self, m: Module) -> None:
        """The block's words go to the engines that their tags name."""
        job, word_bytes = self.job, self.config.word_bytes
        m.submodules.distributor = distributor = Distributor(self.config)
        wiring.connect(m, wiring.flipped(self.words), distributor.words)
        stream_words = []
        for index, (engine, words) in enumerate(zip(self.engines, distributor.streams, strict=True)):
            wiring.connect(m, words, engine.words)
            length = job.lengths[index]
            block_bytes = length + (job.offset if index == 0 else 0)
            in_use = index < (1 << job.log2_streams)
            stream_words.append(
                Mux(in_use & (length != 0), (block_bytes + word_bytes - 1) >> exact_log2(word_bytes), 0)
            )
        m.d.comb += [
            self.late.eq(distributor.late),
            distributor.start.eq(self.starts),
            distributor.tagged.eq(job.log2_streams != 0),
            distributor.word_count.eq(sum(stream_words)),
        ]

    def _collect(self, m: Module) -> None:
        """The engines' words of weights come out in turns."""
        turn, held, moves = Signal(exact_log2(len(self.engines))), Signal(), Signal()
        valids, payloads = [], []
        for index, engine in enumerate(self.engines):
            fifo = Queue(width=8 * self.config.word_bytes, depth=WAITING_WORDS)
            m.submodules[f"fifo{index}"] = fifo
            m.d.comb += [
                fifo.w_en.eq(engine.weights.valid),
                fifo.w_data.eq(engine.weights.payload),
                engine.weights.ready.eq(fifo.w_rdy),
                # After a fault the words are dropped, but not one that is on offer already.
                fifo.r_en.eq((self.aborts & ~(held & (turn == index))) | (moves & (turn == index))),
            ]
            valids.append(fifo.r_rdy)
            payloads.append(fifo.r_data)
        m.d.comb += [
            moves.eq(self.weights.valid & self.weights.ready),
            self.weights.valid.eq(Array(valids)[turn] & (~self.aborts | held)),
            self.weights.payload.eq(Array(payloads)[turn]),
            self.drained.eq(~Cat(valids).any()),
        ]
        m.d.sync += held.eq(self.weights.valid & ~self.weights.ready)
        with m.If(self.starts):
            m.d.sync += turn.eq(0)
        with m.Elif(moves):
            m.d.sync += turn.eq((turn + 1) & ((1 << self.job.log2_streams) - 1))

    def _watch(self, m: Module) -> Value:
        """Whether nothing can move any more because the block's tags are wrong."""
        limit = STUCK_CYCLES_PER_LANE * self.config.word_bytes
        cycles = Signal(range(limit + 1))
        moves = (self.words.valid & self.words.ready) | self.weights.valid | self.late
        stuck = cycles == limit
        with m.If(~self.running | moves):
            m.d.sync += cycles.eq(0)
        with m.Elif(~stuck):
            m.d.sync += cycles.eq(cycles + 1)
        return stuck

    def _finish(self, m: Module, stuck: ValueLike) -> None:
        """The tensor's result, once all its engines have one and all words of weights are out. A failed engine aborts
        the others."""
        result, finishes = self.results.payload, Signal()
        done = Cat(engine.results.valid for engine in self.engines)
        total = Signal(LEVEL_BITS + exact_log2(len(self.engines)))
        counts = [engine.results.payload.saturated for engine in self.engines]
        m.d.comb += [
            self.aborts.eq(Cat(engine.failed for engine in self.engines).any()),
            self.results.valid.eq(self.running & (((done & self.used) == self.used) & self.drained | stuck)),
            finishes.eq(self.results.valid & self.results.ready),
            result.tensor.eq(self.job.tensor),
            total.eq(sum(Mux(use, count, 0) for use, count in zip(self.used, counts, strict=True))),
            result.saturated.eq(Mux(total[LEVEL_BITS:].any(), (1 << LEVEL_BITS) - 1, total)),
            result.position.eq(self.engines[0].results.payload.position),
        ]
        # The fault of the lowest stream is reported.
        for index, engine in reversed(list(enumerate(self.engines))):
            m.d.comb += [
                engine.results.ready.eq(finishes & self.used[index]),
                engine.abort.eq(self.aborts & self.used[index]),
            ]
            with m.If(engine.failed):
                m.d.comb += [
                    result.stream.eq(index),
                    result.error.eq(engine.results.payload.error),
                    result.position.eq(engine.results.payload.position),
                ]
        with m.If(stuck):
            m.d.comb += [result.error.eq(DecodeError.TAGS), result.stream.eq(0)]
        with m.If(finishes):
            m.d.sync += self.running.eq(0)
