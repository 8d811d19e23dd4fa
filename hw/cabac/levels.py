"""Levels to weights: parts of a level to its int32 value, to a byte between bounds, to words."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .job import LEVEL_BITS, Settings

SIZE_BITS = 32


class LevelParts(data.Struct):
    """A level as the syntax leaves it: abs(level) before doubling is `size`, plus cabac_unary_length if `above_unary`.
    A zero has `significant` 0. `odd`: bit 0 of stateId where dependent quantization is on."""

    size: SIZE_BITS
    above_unary: 1
    significant: 1
    negative: 1
    odd: 1


class WeightPacker(wiring.Component):
    """Packs one level per cycle; a level taken is in its word four cycles later.

    Ports:
        `start`: a new stream begins; the pipeline must be empty.
        `settings`, `dependent`: stable between starts, but `dependent` may change before the first level.
        `advance`: parts are taken in this cycle, and the pipeline moves. From registers.
        `valid`, `parts`: a level, if `advance`.
        `flush`: levels are through; fill the last word with zeros. Hold while `busy`.
        `abandon`: throw away what is in the pipeline.
        `truncated`: the level in `parts` read beyond the end of the stream.
        `pending`: something is in the pipeline. `busy`: or in a word.
        `words`: the weights.
        `too_large`, `was_truncated`: a level is outside int32, or read too far. Its word and those behind it do not
            come out.
        `saturated`: levels outside the bounds since `start`.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "settings": In(Settings),
                "dependent": In(1),
                "advance": Out(1),
                "valid": In(1),
                "parts": In(LevelParts),
                "flush": In(1),
                "abandon": In(1),
                "truncated": In(1),
                "pending": Out(1),
                "busy": Out(1),
                "words": Out(stream.Signature(8 * config.word_bytes)),
                "too_large": Out(1),
                "was_truncated": Out(1),
                "saturated": Out(LEVEL_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.config.word_bytes
        word = Signal(8 * lanes, reset_less=True)
        lane = Signal(range(lanes))
        full = Signal()
        m.d.comb += [
            self.words.valid.eq(full),
            self.words.payload.eq(word),
            self.advance.eq(~full | self.words.ready),
        ]

        # Stage 1: the size. Stage 2: the level's magnitude. Stage 3: the weight. Then into the word.
        size = Signal(SIZE_BITS, reset_less=True)
        first = Signal(LevelParts, reset_less=True)
        first_valid = Signal()
        magnitude = Signal(SIZE_BITS + 1)
        low_bits = Signal(8, reset_less=True)
        large, second_negative, second_valid = Signal(), Signal(), Signal()
        cut, wrong, second_cut = Signal(), Signal(), Signal()
        weight = Signal(signed(8), reset_less=True)
        third_valid, clipped = Signal(), Signal()
        value = Signal(signed(9))
        too_low, too_high = Signal(), Signal()
        m.d.comb += [
            magnitude.eq(Mux(self.dependent, (size << 1) - first.odd, size)),
            value.eq(Mux(second_negative, -low_bits, low_bits)),
            too_low.eq(second_negative & (large | (value < self.settings.low))),
            too_high.eq(~second_negative & (large | (value > self.settings.high))),
            self.too_large.eq(wrong),
            self.was_truncated.eq(second_cut),
            self.pending.eq(first_valid | second_valid | third_valid),
            self.busy.eq(self.pending | full | (lane != 0)),
        ]
        with m.If(self.advance):
            m.d.sync += [
                size.eq(self.parts.size + Mux(self.parts.above_unary, self.settings.unary_length, 0)),
                first.eq(self.parts),
                first_valid.eq(self.valid),
                cut.eq(self.truncated),
                second_cut.eq(first_valid & cut),
                low_bits.eq(Mux(first.significant, magnitude[:8], 0)),
                large.eq(first.significant & magnitude[8:].any()),
                second_negative.eq(first.significant & first.negative),
                second_valid.eq(first_valid),
                # -2**31 is the one magnitude of 32 bits that a level may have.
                wrong.eq(
                    first_valid
                    & first.significant
                    & (magnitude[32] | (magnitude[31] & ~(first.negative & ~magnitude[:31].any())))
                ),
                weight.eq(Mux(too_low, self.settings.low, Mux(too_high, self.settings.high, value))),
                third_valid.eq(second_valid),
                clipped.eq(second_valid & (too_low | too_high)),
            ]
            with m.If(clipped & ~self.saturated.all()):
                m.d.sync += self.saturated.eq(self.saturated + 1)
            pads = Signal()
            m.d.comb += pads.eq(self.flush & ~self.pending & (lane != 0))
            with m.If(third_valid | pads):
                m.d.sync += [word.eq(Cat(word[8:], Mux(third_valid, weight, 0))), lane.eq(lane + 1)]
            m.d.sync += full.eq((third_valid | pads) & (lane == lanes - 1))
        with m.If(self.abandon | wrong | second_cut):
            m.d.sync += [
                signal.eq(0) for signal in (first_valid, second_valid, third_valid, wrong, second_cut, lane)
            ]
        with m.If(self.start):
            m.d.sync += self.saturated.eq(0)
        return m
