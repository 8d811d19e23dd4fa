"""One decoder: quant_tensor_term() of NNR WD2 clause 11, a context-coded bin or three bypass bins per cycle."""

import enum

from amaranth.hdl import Cat, Const, Module, Mux, Signal, ValueLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..nnr_streams import BYPASS_BINS, UNARY_MAX, DecodeError
from ..nnr_tables import PREFIX_CONTEXTS
from .adaptation import Adaptation, Context
from .contexts import CLEAR_CYCLES, NUMBER_BITS, ROW_BITS, ContextMemory, Place
from .feed import ByteFeed
from .interval import MAX_SHIFT, Bypass, Decision
from .job import EngineJob, EngineResult
from .levels import SIZE_BITS, LevelParts, WeightPacker
from .window import BitWindow

FILL_BITS = 3
FILL_CYCLES = 3
"""The first ivlOffset has 9 bits (11.2.2.3)."""
START_COLUMN = 31
"""Of the table of rLPS; in row 0 it holds 2."""


class Phase(enum.IntEnum):
    """Bits of the one-hot state; from SIG to START the interval moves."""

    SIG = 0
    SIGN = 1
    GREATER = 2
    PREFIX = 3
    BYPASS = 4
    HEADER = 5  # bypass bins in front of the levels
    START = 6  # takes 2 off slack and width, as a bin would
    FILL = 7  # ivlOffset, FILL_BITS a cycle
    IDLE = 8
    CLEAR = 9  # contexts become initial
    TERMINATE = 10  # waits until no level can be wrong any more, then checks the end
    FLUSH = 11  # the last words
    DRAIN = 12  # after an error: the rest of the stream is dropped
    DONE = 13


class Engine(wiring.Component):
    """Decodes one stream after the other.

    Ports:
        `jobs`: streams to decode.
        `words`: what they lie in, whole words; taken no further than the stream goes.
        `weights`: W weights a word, int8, the first one lowest; the last word ends with zeros.
        `results`: one per job; all words of the job were taken before. After an error the words in front of the one
            with the error come out, and no others.
        `failed`: the stream was given up because of an error; until the result is taken.
        `abort`: give up the stream, too, without an error: it belongs to one that failed.

    Timing: with words there at once the first level's first bin is decoded 22 cycles after the job is taken, later by
    a cycle per byte skipped beyond 13. From then on a context-coded bin or three bypass bins a cycle, without pause,
    unless words are late or weights are not taken.
    """

    def __init__(self, config: Config):
        self.config = config
        word = stream.Signature(8 * config.word_bytes)
        super().__init__(
            {
                "jobs": In(stream.Signature(EngineJob(config))),
                "words": In(word),
                "weights": Out(word),
                "results": Out(stream.Signature(EngineResult)),
                "abort": In(1),
                "failed": Out(1),
            }
        )
        # The state, for the tests' proofs.
        self.phase = Signal(len(Phase), init=1 << Phase.IDLE)
        self.job = Signal(EngineJob(config))
        self.width = Signal(9)
        self.slack = Signal(9)
        self.context = Signal(Context)
        self.place = Signal(Place)
        self.size = Signal(SIZE_BITS)
        self.bins_left = Signal(NUMBER_BITS)
        self.window = BitWindow()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.feed = feed = ByteFeed(self.config)
        m.submodules.window = window = self.window
        m.submodules.packer = packer = WeightPacker(self.config)
        m.submodules.contexts = contexts = ContextMemory()
        m.submodules.decision = decision = Decision()
        m.submodules.bypass = bypass = Bypass()
        m.submodules.adapt0 = adapt0 = Adaptation(0)
        m.submodules.adapt1 = adapt1 = Adaptation(1)
        wiring.connect(m, wiring.flipped(self.words), feed.words)
        wiring.connect(m, feed.bytes, window.bytes)
        wiring.connect(m, packer.words, wiring.flipped(self.weights))

        phase, job, context, place = self.phase, self.job, self.context, self.place
        width, slack, size, bins_left = self.width, self.slack, self.size, self.bins_left
        settings = job.settings
        dependent = Signal()
        level_count = Signal.like(job.levels)
        one_left, two_left = Signal(), Signal()
        level_ended = Signal()

        def at(*phases: Phase) -> ValueLike:
            return Cat(phase[each] for each in phases).any()

        # What the current bin is.
        is_bypass = at(Phase.BYPASS, Phase.HEADER)
        # The third bypass bin is known late. With dependent quantization the last bin of a level chooses the next
        # context: it must not be a third one.
        one_bin, exactly_three = bins_left == 1, bins_left == BYPASS_BINS
        three_bins = (bins_left >= BYPASS_BINS) & ~(exactly_three & dependent)
        last_bins = (bins_left <= BYPASS_BINS) & ~(exactly_three & dependent)
        step, fills = Signal(), Signal()
        decided = Signal()
        value = Signal()
        m.d.comb += [
            fills.eq(window.ready & phase[Phase.FILL]),
            step.eq(window.ready & packer.advance & phase[Phase.SIG : Phase.START + 1].any()),
            decision.width.eq(width),
            decision.slack.eq(slack),
            decision.column.eq(context.column),
            decision.bits.eq(window.bits[-MAX_SHIFT:]),
            bypass.width.eq(width),
            bypass.slack.eq(slack),
            bypass.bits.eq(window.bits[-BYPASS_BINS:]),
            adapt0.before.eq(context),
            adapt1.before.eq(context),
            decided.eq(decision.lps ^ ~context.mps_is_0),
            value.eq(
                Mux(
                    is_bypass,
                    Mux(one_bin, bypass.bins[2], bypass.bins[1]),
                    decided,
                )
            ),
            window.use_long.eq(decision.lps & ~is_bypass & ~phase[Phase.FILL]),
            window.long_shift.eq(decision.lps_shift),
            window.short_shift.eq(
                Mux(
                    phase[Phase.FILL],
                    FILL_BITS,
                    Mux(is_bypass, Mux(three_bins, BYPASS_BINS, Mux(one_bin, 1, 2)), decision.mps_shift),
                )
            ),
            window.step.eq(step | fills),
            window.ended.eq(feed.ended),
        ]
        bypassed = Mux(
            three_bins, bypass.slack_after[2], Mux(one_bin, bypass.slack_after[0], bypass.slack_after[1])
        )

        # Which context comes next, for either value.
        unary_length = settings.unary_length
        if_0, if_1 = Signal(Context), Signal(Context)
        after_last_greater = Signal()
        same_again = Signal()
        m.d.comb += [
            contexts.place.eq(place),
            contexts.dependent.eq(dependent),
            contexts.write.eq(step & at(Phase.SIG, Phase.SIGN, Phase.GREATER, Phase.PREFIX)),
            contexts.written.eq(Mux(decided, adapt1.after, adapt0.after)),
            # Parity of the level that a 0 ends: of its size, which is cabac_unary_length + 1 before the remainder.
            contexts.next_parity.eq(
                Mux(phase[Phase.GREATER], size[0], Mux(phase[Phase.PREFIX], ~unary_length[0], 0))
                | (phase[Phase.BYPASS] & unary_length[0])
            ),
            contexts.next_neighbour.eq(
                Mux(at(Phase.GREATER, Phase.PREFIX, Phase.BYPASS), Cat(~place.negative, place.negative), 0)
            ),
            contexts.greater_number.eq(Mux(phase[Phase.SIGN], 0, size[:ROW_BITS])),
            contexts.prefix_number.eq(Mux(phase[Phase.PREFIX], place.number + 1, 0)),
            after_last_greater.eq(size[:NUMBER_BITS] == unary_length[:NUMBER_BITS]),
            same_again.eq(
                phase[Phase.SIG] & (place.neighbour == 0) & (contexts.next_states[0] == place.state)
            ),
        ]
        no_greater = unary_length == 0
        with m.If(phase[Phase.SIGN]):
            m.d.comb += [
                if_0.eq(Mux(no_greater, contexts.prefix, contexts.greater[0])),
                if_1.eq(Mux(no_greater, contexts.prefix, contexts.greater[1])),
            ]
        with m.Else():
            m.d.comb += if_0.eq(Mux(same_again, adapt0.after, contexts.sig[0]))
            with m.If(phase[Phase.SIG]):
                m.d.comb += if_1.eq(contexts.sign)
            with m.Elif(phase[Phase.GREATER] & ~after_last_greater):
                m.d.comb += if_1.eq(Mux(place.negative, contexts.greater[1], contexts.greater[0]))
            with m.Elif(at(Phase.GREATER, Phase.PREFIX)):
                m.d.comb += if_1.eq(contexts.prefix)
            with m.Elif(phase[Phase.BYPASS]):
                m.d.comb += if_1.eq(contexts.sig[1])
            with m.Else():
                m.d.comb += if_1.eq(contexts.sig[0])

        # Where the syntax goes, for either value of a context-coded bin; bypass bins do not matter for it.
        # level_count is one behind in the cycle after a level's last bin.
        is_last = Mux(level_ended, two_left, one_left)
        next_level = Mux(is_last, 1 << Phase.TERMINATE, 1 << Phase.SIG)
        next_if_0, next_if_1 = Signal.like(phase), Signal.like(phase)
        ends_if_0, ends_if_1 = Signal(), Signal()
        is_last_prefix = place.number == PREFIX_CONTEXTS - 1
        prefix_too_long = Signal()
        m.d.comb += [next_if_0.eq(phase), next_if_1.eq(phase)]
        with m.If(phase[Phase.SIG]):
            m.d.comb += [next_if_0.eq(next_level), ends_if_0.eq(1), next_if_1.eq(1 << Phase.SIGN)]
        with m.If(phase[Phase.SIGN]):
            following = Mux(no_greater, 1 << Phase.PREFIX, 1 << Phase.GREATER)
            m.d.comb += [next_if_0.eq(following), next_if_1.eq(following)]
        with m.If(phase[Phase.GREATER]):
            m.d.comb += [
                next_if_0.eq(next_level),
                ends_if_0.eq(1),
                next_if_1.eq(Mux(after_last_greater, 1 << Phase.PREFIX, 1 << Phase.GREATER)),
            ]
        with m.If(phase[Phase.PREFIX]):
            m.d.comb += [
                ends_if_0.eq(place.number == 0),
                next_if_0.eq(Mux(place.number == 0, next_level, 1 << Phase.BYPASS)),
                next_if_1.eq(Mux(is_last_prefix, 1 << Phase.TERMINATE, 1 << Phase.PREFIX)),
                prefix_too_long.eq(step & decided & is_last_prefix),
            ]
        with m.If(phase[Phase.BYPASS] & last_bins):
            m.d.comb += [next_if_0.eq(next_level), next_if_1.eq(next_level), ends_if_0.eq(1), ends_if_1.eq(1)]
        no_levels = level_count == 0
        after_header = Mux(no_levels, 1 << Phase.TERMINATE, 1 << Phase.SIG)
        with m.If(phase[Phase.HEADER] & last_bins):
            m.d.comb += [next_if_0.eq(after_header), next_if_1.eq(after_header)]
        with m.If(phase[Phase.START]):
            following = Mux(bins_left != 0, 1 << Phase.HEADER, after_header)
            m.d.comb += [next_if_0.eq(following), next_if_1.eq(following)]

        ends = Signal()
        grown = Signal(SIZE_BITS)
        m.d.comb += [
            ends.eq(step & Mux(decided, ends_if_1, ends_if_0)),
            grown.eq(
                Mux(
                    three_bins,
                    Cat(bypass.bins, size),
                    Mux(one_bin, Cat(bypass.bins[2], size), Cat(bypass.bins[1:], size)),
                )
            ),
        ]
        with m.If(step):
            m.d.sync += [
                slack.eq(Mux(is_bypass, bypassed, decision.next_slack)),
                width.eq(Mux(is_bypass, width, decision.next_width)),
                context.eq(Mux(value, if_1, if_0)),
                phase.eq(Mux(decided, next_if_1, next_if_0)),
                bins_left.eq(
                    Mux(
                        is_bypass,
                        bins_left - Mux(three_bins, BYPASS_BINS, 2),
                        Mux(phase[Phase.PREFIX], place.number, bins_left),
                    )
                ),
                Cat(place.sig, place.sign, place.greater, place.prefix).eq(
                    Mux(decided, next_if_1, next_if_0)[: Phase.PREFIX + 1]
                ),
                place.number.eq(
                    Mux(
                        at(Phase.GREATER, Phase.PREFIX) & ~(phase[Phase.GREATER] & after_last_greater),
                        place.number + 1,
                        0,
                    )
                ),
            ]
            with m.If(phase[Phase.SIGN]):
                m.d.sync += [place.negative.eq(decided), size.eq(1)]
            with m.If(phase[Phase.GREATER]):
                # Behind a 0 the level is over, and its size of no use.
                m.d.sync += size.eq(Mux(after_last_greater, 1, size + 1))
            with m.If(phase[Phase.BYPASS]):
                m.d.sync += size.eq(grown)
            with m.If(phase[Phase.HEADER] & last_bins & settings.dq_coded):
                m.d.sync += dependent.eq(Mux(three_bins, bypass.bins[0], value))
        with m.If(ends):
            m.d.sync += [
                place.state.eq(
                    Mux(value & phase[Phase.BYPASS], contexts.next_states[1], contexts.next_states[0])
                ),
                place.neighbour.eq(contexts.next_neighbour),
            ]

        # Levels on their way to words. `over` is noticed with the level that read too far.
        parts = Signal(LevelParts)
        with m.If(packer.advance):
            with m.If(level_ended):
                m.d.sync += [
                    level_count.eq(level_count - 1),
                    one_left.eq(two_left),
                    two_left.eq(level_count == 3),
                ]
            m.d.sync += [
                level_ended.eq(ends),
                parts.size.eq(Mux(phase[Phase.BYPASS], grown, size)),
                parts.above_unary.eq(at(Phase.PREFIX, Phase.BYPASS)),
                parts.significant.eq(~phase[Phase.SIG]),
                parts.negative.eq(place.negative),
                parts.odd.eq(place.state[0]),
            ]
        over = window.count < 0
        m.d.comb += [
            packer.valid.eq(level_ended),
            packer.parts.eq(parts),
            packer.truncated.eq(over),
            packer.settings.eq(settings),
            packer.dependent.eq(dependent),
        ]

        # A stream's beginning.
        row = Signal(ROW_BITS)
        new_job = self.jobs.payload
        starts = Signal()
        m.d.comb += [
            self.jobs.ready.eq(phase[Phase.IDLE]),
            starts.eq(self.jobs.valid & phase[Phase.IDLE]),
            feed.start.eq(starts),
            feed.length_bytes.eq(new_job.length),
            feed.skip_bytes.eq(new_job.offset),
            packer.start.eq(starts),
            window.start.eq(starts | phase[Phase.DRAIN]),
            contexts.clear.eq(phase[Phase.CLEAR]),
            contexts.row.eq(row),
        ]
        with m.If(starts):
            m.d.sync += [
                job.eq(new_job),
                level_count.eq(new_job.levels),
                dependent.eq(new_job.settings.dq & ~new_job.settings.dq_coded),
                bins_left.eq(new_job.settings.header_bins + new_job.settings.dq_coded),
                # 512 and rLPS 2 leave the 510 of 11.2.2.3.
                width.eq(0),
                context.column.eq(START_COLUMN),
                place.eq(0),
                row.eq(0),
                phase.eq(1 << Phase.CLEAR),
            ]
        with m.If(phase[Phase.CLEAR]):
            m.d.sync += [row.eq(row + 1), one_left.eq(level_count == 1), two_left.eq(level_count == 2)]
            with m.If(row == CLEAR_CYCLES - 1):
                m.d.sync += phase.eq(1 << Phase.FILL)
        with m.If(fills):
            m.d.sync += [slack.eq(Cat(~window.bits[-FILL_BITS:], slack)), row.eq(row + 1)]
            with m.If(row == FILL_CYCLES - 1):
                m.d.sync += phase.eq(1 << Phase.START)

        # Its end.
        result = Signal(EngineResult)
        taken_bytes = Signal.like(job.length)
        error = Signal(DecodeError)
        fails = Signal()
        ended_levels = Signal()
        too_long = Signal()
        verdict, terminates = Signal(DecodeError), Signal()
        m.d.comb += [
            packer.flush.eq(phase[Phase.FLUSH]),
            packer.abandon.eq(phase[Phase.DRAIN]),
            ended_levels.eq(phase[Phase.TERMINATE] & terminates & ~level_ended & ~packer.pending),
            self.results.valid.eq(phase[Phase.DONE]),
            self.results.payload.error.eq(result.error),
            self.results.payload.position.eq(result.position),
            self.results.payload.saturated.eq(packer.saturated),
        ]
        with m.If(starts):
            m.d.sync += taken_bytes.eq(0)
        with m.Elif(feed.bytes.valid & feed.bytes.ready):
            m.d.sync += taken_bytes.eq(taken_bytes + 1)
        with m.If(starts):
            m.d.sync += too_long.eq(0)
        with m.Elif(prefix_too_long):
            # Levels before it may have a fault, too, which then is the first.
            m.d.sync += too_long.eq(1)
        # Of the end, a cycle after it was reached, which is early enough: the last level is in the pipeline. Bytes that
        # arrive meanwhile change nothing about it.
        unused = window.count.as_unsigned()[:3]
        m.d.sync += [terminates.eq(phase[Phase.TERMINATE]), verdict.eq(DecodeError.NONE)]
        with m.If(over):
            m.d.sync += verdict.eq(DecodeError.TRUNCATED)
        with m.Elif(too_long):
            m.d.sync += verdict.eq(DecodeError.PREFIX)
        with m.Elif(slack >= 2):
            m.d.sync += verdict.eq(DecodeError.TERMINATE)
        with m.Elif(~window.previous):
            m.d.sync += verdict.eq(DecodeError.STOP)
        with m.Elif((window.bits[-8:] & ~(Const(0xFF, 8) >> unused)).any()):
            m.d.sync += verdict.eq(DecodeError.PADDING)
        with m.Elif(~feed.ended | (window.count >= 8)):
            m.d.sync += verdict.eq(DecodeError.TRAILING)
        with m.If(phase[Phase.CLEAR] & (unary_length > UNARY_MAX)):
            m.d.comb += error.eq(DecodeError.UNARY_LENGTH)
        with m.Elif(packer.was_truncated):
            m.d.comb += error.eq(DecodeError.TRUNCATED)
        with m.Elif(packer.too_large):
            m.d.comb += error.eq(DecodeError.LEVEL)
        # The packer is empty then and takes whatever comes.
        with m.Elif(phase[Phase.START] & window.ready & over):
            m.d.comb += error.eq(DecodeError.TRUNCATED)
        with m.Elif(phase[Phase.START] & window.ready & (slack < 2)):
            m.d.comb += error.eq(DecodeError.START)
        with m.Elif(ended_levels):
            m.d.comb += error.eq(verdict)
        m.d.comb += fails.eq(error != DecodeError.NONE)
        with m.If(ended_levels):
            m.d.sync += phase.eq(1 << Phase.FLUSH)
        with m.If(phase[Phase.FLUSH] & ~packer.busy):
            m.d.sync += phase.eq(1 << Phase.DONE)
        with m.If(phase[Phase.DRAIN] & feed.ended & ~packer.busy):
            m.d.sync += phase.eq(1 << Phase.DONE)
        with m.If(phase[Phase.DONE] & self.results.ready):
            m.d.sync += [phase.eq(1 << Phase.IDLE), self.failed.eq(0)]
        with m.If(~at(Phase.IDLE, Phase.FLUSH, Phase.DRAIN, Phase.DONE)):
            # Stays where the levels ended, or where they failed.
            m.d.sync += result.position.eq((taken_bytes << 3) - window.count)
        with m.If(starts):
            m.d.sync += result.error.eq(DecodeError.NONE)
        with m.If(fails):
            m.d.sync += [result.error.eq(error), phase.eq(1 << Phase.DRAIN), self.failed.eq(1)]
        with m.Elif(self.abort & ~at(Phase.IDLE, Phase.DRAIN, Phase.DONE)):
            m.d.sync += [result.error.eq(DecodeError.NONE), phase.eq(1 << Phase.DRAIN)]
        return m
