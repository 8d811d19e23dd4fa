"""Decodes one stream: quant_tensor_term() of NNR WD2 clause 11, a context-coded bin or three bypass bins per cycle."""

import enum

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..nnr_streams import BYPASS_BINS, UNARY_MAX, DecodeError
from ..nnr_tables import PREFIX_CONTEXTS
from .adaptation import Adaptation, Context
from .contexts import CLEAR_CYCLES, NUMBER_BITS, ROW_BITS, ContextMemory, ContextPlace
from .feed import ByteFeed
from .interval import MAX_SHIFT, Bypass, Decision
from .job import EngineJob, EngineResult
from .levels import SIZE_BITS, LevelParts, WeightPacker
from .window import BitWindow

FILL_BITS = 3
FILL_CYCLES = 3
"""The first ivlOffset has 9 bits (11.2.2.3)."""
START_COLUMN = 31
"""Column of the table of rLPS that holds 2 in row 0."""


class Phase(enum.IntEnum):
    """Bits of the one-hot state. From SIG to START the interval moves. Engine has a method for each."""

    SIG = 0
    SIGN = 1
    GREATER = 2
    PREFIX = 3
    BYPASS = 4
    HEADER = 5
    START = 6
    FILL = 7
    IDLE = 8
    CLEAR = 9
    TERMINATE = 10
    FLUSH = 11
    DRAIN = 12
    DONE = 13


class Engine(wiring.Component):
    """Decodes one stream after the other.

    Timing: with words there at once the first level's first bin is decoded 22 cycles after the job is taken, later by
    a cycle per byte skipped beyond 13. From then on a context-coded bin or three bypass bins a cycle, without pause,
    unless words are late or weights are not taken.

    Ports:
        jobs (stream of EngineJob, in): streams to decode.
        words (stream of 8 W, in): what they lie in, whole words; taken no further than the stream goes.
        weights (stream of 8 W, out): W weights a word, int8, the first one lowest; the last word ends with zeros.
        results (stream of EngineResult, out): one per job; all words of the job were taken before. After an error
            the words in front of the one with the error come out, and no others.
        failed (1, out): the stream was given up because of an error; until the result is taken.
        abort (1, in): give the stream up without an error: another stream of its tensor failed.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "jobs": In(stream.Signature(EngineJob(config))),
                "words": In(stream.Signature(8 * config.word_bytes)),
                "weights": Out(stream.Signature(8 * config.word_bytes)),
                "results": Out(stream.Signature(EngineResult)),
                "abort": In(1),
                "failed": Out(1),
            }
        )
        self.feed, self.window, self.packer = ByteFeed(config), BitWindow(), WeightPacker(config)
        self.decision, self.bypass = Decision(), Bypass()
        self.contexts, self.adapt0, self.adapt1 = ContextMemory(), Adaptation(0), Adaptation(1)

        # Registers; the tests' proofs read some of them.
        self.phase = Signal(len(Phase), init=1 << Phase.IDLE)
        self.job = Signal(EngineJob(config))
        self.dependent = Signal()
        self.width = Signal(9)
        self.slack = Signal(9)
        self.context = Signal(Context)
        self.place = Signal(ContextPlace)
        self.size = Signal(SIZE_BITS)
        self.bins_left = Signal(NUMBER_BITS)
        self.row = Signal(ROW_BITS)
        self.level_count = Signal.like(self.job.levels)  # one too many in the cycle after a level's last bin
        self.one_left = Signal()
        self.two_left = Signal()
        self.level_ended = Signal()
        self.too_long = Signal()
        self.judged = Signal()  # `verdict` is that of the end
        self.verdict = Signal(DecodeError)

        # The bins of this cycle.
        self.step = Signal()
        self.fills = Signal()  # instead of bins, FILL takes bits
        self.is_bypass = Signal()
        self.decided = Signal()  # of a context-coded bin
        self.value = Signal()  # that, or the last bypass bin if it is not a third one
        self.grown = Signal(SIZE_BITS)  # `size` with the bypass bins
        self.ends = Signal()  # they are the last ones of a level
        # What follows a bin that is 0 or 1: its phase, the next context, and whether the level ends.
        self.next_if_0 = Signal.like(self.phase)
        self.next_if_1 = Signal.like(self.phase)
        self.if_0 = Signal(Context)
        self.if_1 = Signal(Context)
        self.ends_if_0 = Signal()
        self.ends_if_1 = Signal()
        self.error = Signal(DecodeError)

        # How many bypass bins this cycle takes. The third one is known late. With dependent quantization the last bin
        # of a level chooses the next context, so it must not be a third one.
        late_third = (self.bins_left == BYPASS_BINS) & self.dependent
        self.one_bin = self.bins_left == 1
        self.three_bins = (self.bins_left >= BYPASS_BINS) & ~late_third
        self.last_bins = (self.bins_left <= BYPASS_BINS) & ~late_third
        # Bits beyond the stream's end were dropped. It shows in the cycle in which their level is packed.
        self.over = self.window.count < 0

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._connect(m)
        self._decode_bins(m)
        self._take_bits(m)
        self._change_context(m)
        self._step(m)
        # A later phase's multiplexers are nearer to the registers: those of sig_flag, which is decoded most often.
        for act in (self._idle, self._clear, self._fill, self._start, self._header):
            act(m)
        for act in (self._prefix, self._greater, self._bypass, self._sign, self._sig):
            act(m)
        for act in (self._terminate, self._flush, self._drain, self._done):
            act(m)
        self._end_level(m)
        self._pack_level(m)
        self._judge_end(m)
        self._finish(m)
        return m

    def _at(self, *phases: Phase) -> Value:
        return Cat(self.phase[each] for each in phases).any()

    def _connect(self, m: Module) -> None:
        m.submodules.feed, m.submodules.window, m.submodules.packer = self.feed, self.window, self.packer
        m.submodules.decision, m.submodules.bypass = self.decision, self.bypass
        m.submodules.contexts = self.contexts
        m.submodules.adapt0, m.submodules.adapt1 = self.adapt0, self.adapt1
        wiring.connect(m, wiring.flipped(self.words), self.feed.words)
        wiring.connect(m, self.feed.bytes, self.window.bytes)
        wiring.connect(m, self.packer.words, wiring.flipped(self.weights))
        m.d.comb += [
            self.feed.length_bytes.eq(self.jobs.payload.length),
            self.feed.skip_bytes.eq(self.jobs.payload.offset),
            self.window.start.eq(self.feed.start | self.packer.abandon),
            self.window.ended.eq(self.feed.ended),
            self.contexts.row.eq(self.row),
            self.packer.settings.eq(self.job.settings),
            self.packer.dependent.eq(self.dependent),
            self.results.payload.saturated.eq(self.packer.saturated),
        ]

    # What is common to the phases from SIG to START.

    def _decode_bins(self, m: Module) -> None:
        """One bin by its context and up to three bypass bins, of which the phase chooses."""
        bypass, decision, bits = self.bypass, self.decision, self.window.bits
        m.d.comb += [
            self.step.eq(
                self.window.ready & self.packer.advance & self.phase[Phase.SIG : Phase.START + 1].any()
            ),
            self.is_bypass.eq(self._at(Phase.BYPASS, Phase.HEADER)),
            decision.width.eq(self.width),
            decision.slack.eq(self.slack),
            decision.column.eq(self.context.column),
            decision.bits.eq(bits[-MAX_SHIFT:]),
            bypass.width.eq(self.width),
            bypass.slack.eq(self.slack),
            bypass.bits.eq(bits[-BYPASS_BINS:]),
            self.decided.eq(decision.lps ^ ~self.context.mps_is_0),
            self.value.eq(
                Mux(self.is_bypass, Mux(self.one_bin, bypass.bins[2], bypass.bins[1]), self.decided)
            ),
            self.grown.eq(
                Mux(
                    self.three_bins,
                    Cat(bypass.bins, self.size),
                    Mux(self.one_bin, Cat(bypass.bins[2], self.size), Cat(bypass.bins[1:], self.size)),
                )
            ),
        ]

    def _take_bits(self, m: Module) -> None:
        """The bits that the bins, or FILL, take from the stream."""
        window, decision, in_fill = self.window, self.decision, self.phase[Phase.FILL]
        bypass_bits = Mux(self.three_bins, BYPASS_BINS, Mux(self.one_bin, 1, 2))
        m.d.comb += [
            self.fills.eq(window.ready & in_fill),
            window.step.eq(self.step | self.fills),
            window.use_long.eq(decision.lps & ~self.is_bypass & ~in_fill),
            window.long_shift.eq(decision.lps_shift),
            window.short_shift.eq(
                Mux(in_fill, FILL_BITS, Mux(self.is_bypass, bypass_bits, decision.mps_shift))
            ),
        ]

    def _change_context(self, m: Module) -> None:
        """The current bin's context adapts. Those of the next bin are read, one for either value of this one."""
        contexts, place, unary_length = self.contexts, self.place, self.job.settings.unary_length
        m.d.comb += [
            self.adapt0.before.eq(self.context),
            self.adapt1.before.eq(self.context),
            contexts.place.eq(place),
            contexts.dependent.eq(self.dependent),
            contexts.write.eq(self.step & self._at(Phase.SIG, Phase.SIGN, Phase.GREATER, Phase.PREFIX)),
            contexts.written.eq(Mux(self.decided, self.adapt1.after, self.adapt0.after)),
            # Parity of the level that a 0 ends: of its size, which is cabac_unary_length + 1 before the remainder.
            contexts.next_parity.eq(
                Mux(self.phase[Phase.GREATER], self.size[0], self.phase[Phase.PREFIX] & ~unary_length[0])
                | (self.phase[Phase.BYPASS] & unary_length[0])
            ),
            contexts.next_neighbour.eq(
                Cat(~place.negative, place.negative)
                & self._at(Phase.GREATER, Phase.PREFIX, Phase.BYPASS).replicate(2)
            ),
            contexts.greater_number.eq(Mux(self.phase[Phase.SIGN], 0, self.size[:ROW_BITS])),
            contexts.prefix_number.eq(Mux(self.phase[Phase.PREFIX], place.number + 1, 0)),
        ]

    def _step(self, m: Module) -> None:
        """The registers after the bins; a phase says what follows, and adds what is its own."""
        place, after = self.place, self.bypass.slack_after
        bypassed = Mux(self.three_bins, after[2], Mux(self.one_bin, after[0], after[1]))
        following = Mux(self.decided, self.next_if_1, self.next_if_0)
        m.d.comb += [
            self.next_if_0.eq(self.phase),
            self.next_if_1.eq(self.phase),
            self.if_0.eq(self.contexts.sig[0]),
            self.if_1.eq(self.contexts.sig[0]),
        ]
        with m.If(self.step):
            m.d.sync += [
                self.slack.eq(Mux(self.is_bypass, bypassed, self.decision.next_slack)),
                self.width.eq(Mux(self.is_bypass, self.width, self.decision.next_width)),
                self.context.eq(Mux(self.value, self.if_1, self.if_0)),
                self.phase.eq(following),
                Cat(place.sig, place.sign, place.greater, place.prefix).eq(following[: Phase.PREFIX + 1]),
                self.bins_left.eq(
                    Mux(
                        self.is_bypass,
                        self.bins_left - Mux(self.three_bins, BYPASS_BINS, 2),
                        Mux(self.phase[Phase.PREFIX], place.number, self.bins_left),
                    )
                ),
            ]

    def _next_level(self) -> Value:
        is_last = Mux(self.level_ended, self.two_left, self.one_left)
        return Mux(is_last, 1 << Phase.TERMINATE, 1 << Phase.SIG)

    def _first_level(self) -> Value:
        return Mux(self.level_count == 0, 1 << Phase.TERMINATE, 1 << Phase.SIG)

    # A stream's beginning.

    def _idle(self, m: Module) -> None:
        """Takes a job."""
        job, starts = self.jobs.payload, self.packer.start
        m.d.comb += [
            self.jobs.ready.eq(self.phase[Phase.IDLE]),
            starts.eq(self.jobs.valid & self.jobs.ready),
            self.feed.start.eq(starts),
        ]
        with m.If(starts):
            m.d.sync += [
                self.job.eq(job),
                self.level_count.eq(job.levels),
                self.dependent.eq(job.settings.dq & ~job.settings.dq_coded),
                self.bins_left.eq(job.settings.header_bins + job.settings.dq_coded),
                # 512 and rLPS 2 leave the 510 of 11.2.2.3.
                self.width.eq(0),
                self.context.column.eq(START_COLUMN),
                self.place.eq(0),
                self.row.eq(0),
                self.too_long.eq(0),
                self.phase.eq(1 << Phase.CLEAR),
            ]

    def _clear(self, m: Module) -> None:
        """Makes the contexts initial, a row a cycle."""
        m.d.comb += self.contexts.clear.eq(self.phase[Phase.CLEAR])
        with m.If(self.phase[Phase.CLEAR]):
            m.d.sync += [
                self.row.eq(self.row + 1),
                self.one_left.eq(self.level_count == 1),
                self.two_left.eq(self.level_count == 2),
            ]
            with m.If(self.row == CLEAR_CYCLES - 1):
                m.d.sync += self.phase.eq(1 << Phase.FILL)
            with m.If(self.job.settings.unary_length > UNARY_MAX):
                m.d.comb += self.error.eq(DecodeError.UNARY_LENGTH)

    def _fill(self, m: Module) -> None:
        """Takes ivlOffset, FILL_BITS a cycle. `row` is 0 again and counts the cycles."""
        with m.If(self.fills):
            m.d.sync += [
                self.slack.eq(Cat(~self.window.bits[-FILL_BITS:], self.slack)),
                self.row.eq(self.row + 1),
            ]
            with m.If(self.row == FILL_CYCLES - 1):
                m.d.sync += self.phase.eq(1 << Phase.START)

    def _start(self, m: Module) -> None:
        """Takes 2 off slack and width, as a bin would. The packer is empty, so it does not hold up the step."""
        following = Mux(self.bins_left != 0, 1 << Phase.HEADER, self._first_level())
        with m.If(self.phase[Phase.START]):
            m.d.comb += [self.next_if_0.eq(following), self.next_if_1.eq(following)]
            with m.If(self.window.ready & self.over):
                m.d.comb += self.error.eq(DecodeError.TRUNCATED)
            with m.Elif(self.window.ready & (self.slack < 2)):
                m.d.comb += self.error.eq(DecodeError.START)

    def _header(self, m: Module) -> None:
        """Bypass bins in front of the levels are dropped, but for dq_flag, which is the last one if it is coded."""
        following, dq_flag = self._first_level(), Mux(self.three_bins, self.bypass.bins[0], self.value)
        with m.If(self.phase[Phase.HEADER] & self.last_bins):
            m.d.comb += [self.next_if_0.eq(following), self.next_if_1.eq(following)]
        with m.If(self.phase[Phase.HEADER] & self.step & self.last_bins & self.job.settings.dq_coded):
            m.d.sync += self.dependent.eq(dq_flag)

    # A level.

    def _sig(self, m: Module) -> None:
        """sig_flag: a 0 ends the level."""
        contexts, place = self.contexts, self.place
        # After a 0 the next bin may have the context that this bin changes.
        same_again = (place.neighbour == 0) & (contexts.next_states[0] == place.state)
        with m.If(self.phase[Phase.SIG]):
            m.d.comb += [
                self.next_if_0.eq(self._next_level()),
                self.ends_if_0.eq(1),
                self.if_0.eq(Mux(same_again, self.adapt0.after, contexts.sig[0])),
                self.next_if_1.eq(1 << Phase.SIGN),
                self.if_1.eq(contexts.sign),
            ]

    def _sign(self, m: Module) -> None:
        """sign_flag: a 1 makes the level negative."""
        contexts, no_greater = self.contexts, self.job.settings.unary_length == 0
        following = Mux(no_greater, 1 << Phase.PREFIX, 1 << Phase.GREATER)
        with m.If(self.phase[Phase.SIGN]):
            m.d.comb += [
                self.next_if_0.eq(following),
                self.if_0.eq(Mux(no_greater, contexts.prefix, contexts.greater[0])),
                self.next_if_1.eq(following),
                self.if_1.eq(Mux(no_greater, contexts.prefix, contexts.greater[1])),
            ]
        with m.If(self.phase[Phase.SIGN] & self.step):
            m.d.sync += [self.place.negative.eq(self.decided), self.place.number.eq(0), self.size.eq(1)]

    def _greater(self, m: Module) -> None:
        """abs_level_greater_x, up to cabac_unary_length times: a 0 ends the level."""
        contexts, place, is_last = self.contexts, self.place, Signal(name="is_last_greater")
        m.d.comb += is_last.eq(self.size[:NUMBER_BITS] == self.job.settings.unary_length[:NUMBER_BITS])
        greater = Mux(place.negative, contexts.greater[1], contexts.greater[0])
        with m.If(self.phase[Phase.GREATER]):
            m.d.comb += [
                self.next_if_0.eq(self._next_level()),
                self.ends_if_0.eq(1),
                self.next_if_1.eq(Mux(is_last, 1 << Phase.PREFIX, 1 << Phase.GREATER)),
                self.if_1.eq(Mux(is_last, contexts.prefix, greater)),
            ]
        with m.If(self.phase[Phase.GREATER] & self.step):
            # After a 0 nothing reads the size any more.
            m.d.sync += [
                self.size.eq(Mux(is_last, 1, self.size + 1)),
                place.number.eq(Mux(is_last, 0, place.number + 1)),
            ]

    def _prefix(self, m: Module) -> None:
        """abs_level_greater_x2: as many ones as the remainder has bits, then a 0."""
        number = self.place.number
        is_last = number == PREFIX_CONTEXTS - 1
        with m.If(self.phase[Phase.PREFIX]):
            m.d.comb += [
                self.next_if_0.eq(Mux(number == 0, self._next_level(), 1 << Phase.BYPASS)),
                self.ends_if_0.eq(number == 0),
                self.next_if_1.eq(Mux(is_last, 1 << Phase.TERMINATE, 1 << Phase.PREFIX)),
                self.if_1.eq(self.contexts.prefix),
            ]
        with m.If(self.phase[Phase.PREFIX] & self.step):
            m.d.sync += number.eq(number + 1)
        with m.If(self.phase[Phase.PREFIX] & self.step & self.decided & is_last):
            # The verdict comes later: a level before this one may have an error, which then is the first.
            m.d.sync += self.too_long.eq(1)

    def _bypass(self, m: Module) -> None:
        """abs_remainder: `bins_left` bypass bins."""
        with m.If(self.phase[Phase.BYPASS]):
            m.d.comb += self.if_1.eq(self.contexts.sig[1])
        with m.If(self.phase[Phase.BYPASS] & self.last_bins):
            m.d.comb += [
                self.next_if_0.eq(self._next_level()),
                self.ends_if_0.eq(1),
                self.next_if_1.eq(self._next_level()),
                self.ends_if_1.eq(1),
            ]
        with m.If(self.phase[Phase.BYPASS] & self.step):
            m.d.sync += self.size.eq(self.grown)

    def _end_level(self, m: Module) -> None:
        """The next level's sig_flag depends on the level that ends."""
        contexts, place = self.contexts, self.place
        of_value = self.value & self.phase[Phase.BYPASS]
        m.d.comb += self.ends.eq(self.step & Mux(self.decided, self.ends_if_1, self.ends_if_0))
        with m.If(self.ends):
            m.d.sync += [
                place.state.eq(Mux(of_value, contexts.next_states[1], contexts.next_states[0])),
                place.neighbour.eq(contexts.next_neighbour),
            ]

    def _pack_level(self, m: Module) -> None:
        """A level is counted and goes to the packer in the cycle after its last bin."""
        packer, parts = self.packer, Signal(LevelParts)
        m.d.comb += [
            packer.valid.eq(self.level_ended),
            packer.parts.eq(parts),
            packer.truncated.eq(self.over),
        ]
        with m.If(packer.advance & self.level_ended):
            m.d.sync += [
                self.level_count.eq(self.level_count - 1),
                self.one_left.eq(self.two_left),
                self.two_left.eq(self.level_count == 3),
            ]
        with m.If(packer.advance):
            m.d.sync += [
                self.level_ended.eq(self.ends),
                parts.size.eq(Mux(self.phase[Phase.BYPASS], self.grown, self.size)),
                parts.above_unary.eq(self._at(Phase.PREFIX, Phase.BYPASS)),
                parts.significant.eq(~self.phase[Phase.SIG]),
                parts.negative.eq(self.place.negative),
                parts.odd.eq(self.place.state[0]),
            ]

    # A stream's end.

    def _judge_end(self, m: Module) -> None:
        """Judges the end, and keeps what is wrong with it in a register. It holds from a cycle after the last bin on:
        bytes that arrive later do not change it."""
        window, verdict = self.window, self.verdict
        unused = window.count.as_unsigned()[:3]
        m.d.sync += [self.judged.eq(self.phase[Phase.TERMINATE]), verdict.eq(DecodeError.NONE)]
        with m.If(self.over):
            m.d.sync += verdict.eq(DecodeError.TRUNCATED)
        with m.Elif(self.too_long):
            m.d.sync += verdict.eq(DecodeError.PREFIX)
        with m.Elif(self.slack >= 2):
            m.d.sync += verdict.eq(DecodeError.TERMINATE)
        with m.Elif(~window.previous):
            m.d.sync += verdict.eq(DecodeError.STOP)
        with m.Elif((window.bits[-8:] & ~(Const(0xFF, 8) >> unused)).any()):
            m.d.sync += verdict.eq(DecodeError.PADDING)
        with m.Elif(~self.feed.ended | (window.count >= 8)):
            m.d.sync += verdict.eq(DecodeError.TRAILING)

    def _terminate(self, m: Module) -> None:
        """Waits for the verdict, and until no level can be wrong any more."""
        with m.If(self.phase[Phase.TERMINATE] & self.judged & ~self.level_ended & ~self.packer.pending):
            m.d.comb += self.error.eq(self.verdict)
            m.d.sync += self.phase.eq(1 << Phase.FLUSH)

    def _flush(self, m: Module) -> None:
        """The last words go out."""
        m.d.comb += self.packer.flush.eq(self.phase[Phase.FLUSH])
        with m.If(self.phase[Phase.FLUSH] & ~self.packer.busy):
            m.d.sync += self.phase.eq(1 << Phase.DONE)

    def _drain(self, m: Module) -> None:
        """After an error the rest of the stream is dropped."""
        m.d.comb += self.packer.abandon.eq(self.phase[Phase.DRAIN])
        with m.If(self.phase[Phase.DRAIN] & self.feed.ended & ~self.packer.busy):
            m.d.sync += self.phase.eq(1 << Phase.DONE)

    def _done(self, m: Module) -> None:
        """Gives the result."""
        m.d.comb += self.results.valid.eq(self.phase[Phase.DONE])
        with m.If(self.results.valid & self.results.ready):
            m.d.sync += [self.phase.eq(1 << Phase.IDLE), self.failed.eq(0)]

    def _finish(self, m: Module) -> None:
        """The result. An error or `abort`, in whatever phase, leads to DRAIN."""
        packer, bytes_, result = self.packer, self.feed.bytes, Signal(EngineResult)
        taken_bytes = Signal.like(self.job.length)
        m.d.comb += [
            self.results.payload.error.eq(result.error),
            self.results.payload.position.eq(result.position),
        ]
        with m.If(packer.start):
            m.d.sync += [taken_bytes.eq(0), result.error.eq(DecodeError.NONE)]
        with m.Elif(bytes_.valid & bytes_.ready):
            m.d.sync += taken_bytes.eq(taken_bytes + 1)
        with m.If(~self._at(Phase.IDLE, Phase.FLUSH, Phase.DRAIN, Phase.DONE)):
            # Stays where the levels ended, or where they failed.
            m.d.sync += result.position.eq((taken_bytes << 3) - self.window.count)
        with m.If(packer.was_truncated):
            m.d.comb += self.error.eq(DecodeError.TRUNCATED)
        with m.Elif(packer.too_large):
            m.d.comb += self.error.eq(DecodeError.LEVEL)
        with m.If(self.error != DecodeError.NONE):
            m.d.sync += [result.error.eq(self.error), self.phase.eq(1 << Phase.DRAIN), self.failed.eq(1)]
        with m.Elif(self.abort & ~self._at(Phase.IDLE, Phase.DRAIN, Phase.DONE)):
            m.d.sync += [result.error.eq(DecodeError.NONE), self.phase.eq(1 << Phase.DRAIN)]
