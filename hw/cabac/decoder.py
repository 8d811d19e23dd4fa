"""The CABAC decoder: one tensor after the other, each by one engine or by several side by side."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..nnr_streams import WAITING_WORDS, DecodeError
from .distributor import Distributor
from .engine import Engine
from .job import LEVEL_BITS, TensorJob, TensorResult

STUCK_CYCLES_PER_LANE = 128
"""A level takes less than 64 cycles, hence a word of weights comes, or a word is taken, within 64 cycles per lane."""


class CabacDecoder(wiring.Component):
    """Decodes tensors into weights, `cabac_engines` streams at a time.

    Ports:
        `jobs`: tensors. A job may use fewer streams than there are engines.
        `words`: the block each tensor lies in (see `interleave`), whole words, the first byte lowest; taken no further
            than the block goes.
        `weights`: W weights a word, in the order of the levels; the last word ends with zeros.
        `results`: one per job, after its last word. After an error fewer words come out, but never wrong ones. After
            the error TAGS only a reset helps.

    Timing: an engine's, see Engine; a job starts its engines one cycle after it is taken. Words of several streams come
    out in turns, and engines wait for each other only when one is WAITING_WORDS words ahead.
    """

    def __init__(self, config: Config):
        self.config = config
        word = stream.Signature(8 * config.word_bytes)
        self.late = Signal()
        """Words are missing, and not for the tags' sake."""
        super().__init__(
            {
                "jobs": In(stream.Signature(TensorJob(config))),
                "words": In(word),
                "weights": Out(word),
                "results": Out(stream.Signature(TensorResult)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        engines = [Engine(self.config) for _ in range(self.config.cabac_engines)]
        for index, engine in enumerate(engines):
            m.submodules[f"engine{index}"] = engine
        job = Signal(TensorJob(self.config))
        prepares, running = Signal(), Signal()
        used = Signal(len(engines))
        aborts = Signal()
        m.d.comb += [
            self.jobs.ready.eq(~prepares & ~running),
            aborts.eq(Cat(engine.failed for engine in engines).any()),
        ]
        lane_bits = exact_log2(self.config.word_bytes)
        words = Signal(LEVEL_BITS - lane_bits + 1)
        with m.If(self.jobs.valid & self.jobs.ready):
            m.d.sync += [
                job.eq(self.jobs.payload),
                words.eq((self.jobs.payload.levels + self.config.word_bytes - 1) >> lane_bits),
                prepares.eq(1),
            ]
        with m.If(prepares):
            m.d.sync += [prepares.eq(0), running.eq(1), used.eq((1 << (1 << job.log2_streams)) - 1)]
        self._start(m, job, words, prepares, engines)
        self._distribute(m, job, prepares, engines)
        empty = self._collect(m, job, prepares, aborts, engines)
        stuck = self._watch(m, running) if len(engines) > 1 else Const(0)

        # The tensor is through when all its engines are.
        result = self.results.payload
        done = Cat(engine.results.valid for engine in engines)
        total = Signal(LEVEL_BITS + exact_log2(len(engines)))
        m.d.comb += [
            self.results.valid.eq(running & (((done & used) == used) & empty | stuck)),
            result.tensor.eq(job.tensor),
            total.eq(
                sum(
                    Mux(use, engine.results.payload.saturated, 0)
                    for use, engine in zip(used, engines, strict=True)
                )
            ),
            result.saturated.eq(Mux(total[LEVEL_BITS:].any(), (1 << LEVEL_BITS) - 1, total)),
            result.position.eq(engines[0].results.payload.position),
        ]
        for index, engine in reversed(list(enumerate(engines))):
            with m.If(engine.failed):
                m.d.comb += [
                    result.stream.eq(index),
                    result.error.eq(engine.results.payload.error),
                    result.position.eq(engine.results.payload.position),
                ]
        with m.If(stuck):
            m.d.comb += [result.error.eq(DecodeError.TAGS), result.stream.eq(0)]
        finishes = self.results.valid & self.results.ready
        for index, engine in enumerate(engines):
            m.d.comb += [
                engine.results.ready.eq(finishes & used[index]),
                engine.abort.eq(aborts & used[index]),
            ]
        with m.If(finishes):
            m.d.sync += running.eq(0)
        return m

    def _start(self, m: Module, job: Signal, words: Signal, starts: Signal, engines: list[Engine]) -> None:
        """Tell each engine its share of the levels, which are so many words."""
        lane_bits = exact_log2(self.config.word_bytes)
        missing = Signal(lane_bits)
        last_stream = Signal(2)
        mask = Signal(2)
        m.d.comb += [
            missing.eq(-job.levels),
            mask.eq((1 << job.log2_streams) - 1),
            last_stream.eq((words - 1) & mask),
        ]
        for index, engine in enumerate(engines):
            own = Signal.like(words, name=f"words{index}")
            in_use = index <= mask
            settings = engine.jobs.payload.settings
            m.d.comb += [
                own.eq((words + mask - index) >> job.log2_streams),
                engine.jobs.valid.eq(starts & in_use),
                settings.eq(job.settings),
                engine.jobs.payload.levels.eq((own << lane_bits) - Mux(last_stream == index, missing, 0)),
                engine.jobs.payload.length.eq(job.lengths[index]),
                engine.jobs.payload.offset.eq(job.offset if index == 0 else 0),
            ]

    def _distribute(self, m: Module, job: Signal, starts: Signal, engines: list[Engine]) -> None:
        """The block's words to the engines. One engine takes its words and no more by itself."""
        if len(engines) == 1:
            wiring.connect(m, wiring.flipped(self.words), engines[0].words)
            return
        m.submodules.distributor = distributor = Distributor(self.config)
        m.d.comb += self.late.eq(distributor.late)
        wiring.connect(m, wiring.flipped(self.words), distributor.words)
        lane_bits = exact_log2(self.config.word_bytes)
        stream_words = []
        for index, (engine, words) in enumerate(zip(engines, distributor.streams, strict=True)):
            wiring.connect(m, words, engine.words)
            length = job.lengths[index]
            block_bytes = length + (job.offset if index == 0 else 0)
            in_use = index < (1 << job.log2_streams)
            stream_words.append(
                Mux(in_use & (length != 0), (block_bytes + self.config.word_bytes - 1) >> lane_bits, 0)
            )
        m.d.comb += [
            distributor.start.eq(starts),
            distributor.tagged.eq(job.log2_streams != 0),
            distributor.word_count.eq(sum(stream_words)),
        ]

    def _watch(self, m: Module, running: Signal) -> Signal:
        """Whether nothing can move any more because the block's tags are wrong."""
        limit = STUCK_CYCLES_PER_LANE * self.config.word_bytes
        cycles = Signal(range(limit + 1))
        moves = (self.words.valid & self.words.ready) | self.weights.valid | self.late
        stuck = cycles == limit
        with m.If(~running | moves):
            m.d.sync += cycles.eq(0)
        with m.Elif(~stuck):
            m.d.sync += cycles.eq(cycles + 1)
        return stuck

    def _collect(
        self, m: Module, job: Signal, starts: Signal, aborts: Signal, engines: list[Engine]
    ) -> Signal:
        """Words in turns; returns whether none waits."""
        turn = Signal(exact_log2(len(engines)))
        mask = (1 << job.log2_streams) - 1
        valids, payloads = [], []
        moves = self.weights.valid & self.weights.ready
        if len(engines) == 1:
            wiring.connect(m, engines[0].weights, wiring.flipped(self.weights))
            return ~engines[0].weights.valid
        held = Signal()
        for index, engine in enumerate(engines):
            fifo = SyncFIFOBuffered(width=8 * self.config.word_bytes, depth=WAITING_WORDS)
            m.submodules[f"fifo{index}"] = fifo
            m.d.comb += [
                fifo.w_en.eq(engine.weights.valid),
                fifo.w_data.eq(engine.weights.payload),
                engine.weights.ready.eq(fifo.w_rdy),
                # What waits behind a fault is dropped, but not a word already offered.
                fifo.r_en.eq((aborts & ~(held & (turn == index))) | (moves & (turn == index))),
            ]
            valids.append(fifo.r_rdy)
            payloads.append(fifo.r_data)
        m.d.comb += [
            self.weights.valid.eq(Array(valids)[turn] & (~aborts | held)),
            self.weights.payload.eq(Array(payloads)[turn]),
        ]
        m.d.sync += held.eq(self.weights.valid & ~self.weights.ready)
        with m.If(starts):
            m.d.sync += turn.eq(0)
        with m.Elif(moves):
            m.d.sync += turn.eq((turn + 1) & mask)
        return ~Cat(valids).any()
