"""Levels to weights: the parts of a level become its int32 value, a byte between bounds, a part of a word."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .job import LEVEL_BITS, TensorSettings

SIZE_BITS = 32


class LevelParts(data.Struct):
    """A level as the syntax leaves it."""

    size: SIZE_BITS  # abs(level) before doubling, less cabac_unary_length if `above_unary`
    above_unary: 1
    significant: 1  # 0: the level is 0
    negative: 1
    odd: 1  # bit 0 of stateId, where dependent quantization is on


class WeightPacker(wiring.Component):
    """Packs one level per cycle; a level taken is in its word four cycles later.

    Ports:
        start (1, in): a new stream begins; the pipeline must be empty.
        settings (Settings, in): stable between starts.
        dependent (1, in): stable from the first level of a stream on.
        advance (1, out): parts are taken in this cycle, and the pipeline moves; from registers.
        valid (1, in): `parts` is a level; taken in a cycle with `advance`.
        parts (LevelParts, in): the level.
        truncated (1, in): the level in `parts` read beyond the end of the stream.
        flush (1, in): no level follows; fill the last word with zeros. Hold while `busy`.
        abandon (1, in): throw away what is in the pipeline.
        pending (1, out): a level is in the pipeline.
        busy (1, out): a level is in the pipeline or in a word.
        words (stream of 8 W, out): the weights.
        too_large (1, out): a level is outside int32; its word and those after it do not come out.
        was_truncated (1, out): a level was `truncated`; its word and those after it do not come out.
        saturated (LEVEL_BITS, out): levels outside the bounds since `start`; stops at its largest value.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "settings": In(TensorSettings),
                "dependent": In(1),
                "advance": Out(1),
                "valid": In(1),
                "parts": In(LevelParts),
                "truncated": In(1),
                "flush": In(1),
                "abandon": In(1),
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
        valids = Signal(3)  # bit per stage: it holds a level
        lane = Signal(range(self.config.word_bytes))
        parts, size = self._add_unary_length(m)
        low_byte, large, negative = self._make_level(m, valids[0], parts, size)
        weight = self._saturate(m, valids[1], low_byte, large, negative)
        self._pack(m, valids[2], lane, weight)
        m.d.comb += [
            self.pending.eq(valids.any()),
            self.busy.eq(self.pending | self.words.valid | (lane != 0)),
        ]
        with m.If(self.advance):
            m.d.sync += valids.eq(Cat(self.valid, valids))
        with m.If(self.abandon | self.too_large | self.was_truncated):
            m.d.sync += [valids.eq(0), lane.eq(0), self.too_large.eq(0), self.was_truncated.eq(0)]
        return m

    def _add_unary_length(self, m: Module) -> tuple[Value, Value]:
        """Stage 1: the level's parts and its size."""
        parts, size = Signal(LevelParts, reset_less=True), Signal(SIZE_BITS, reset_less=True)
        with m.If(self.advance):
            m.d.sync += [
                size.eq(self.parts.size + Mux(self.parts.above_unary, self.settings.unary_length, 0)),
                parts.eq(self.parts),
            ]
        return parts, size

    def _make_level(self, m: Module, valid: Value, parts: Value, size: Value) -> tuple[Value, Value, Value]:
        """Stage 2: low byte of the magnitude, whether there is more of it, sign; and the level's errors."""
        magnitude, low_byte = Signal(SIZE_BITS + 1), Signal(8, reset_less=True)
        large, negative, cut = Signal(), Signal(), Signal()
        m.d.comb += magnitude.eq(Mux(self.dependent, (size << 1) - parts.odd, size))
        # -2**31 is the only level with a magnitude of 32 bits.
        outside = magnitude[32] | (magnitude[31] & ~(parts.negative & ~magnitude[:31].any()))
        with m.If(self.advance):
            m.d.sync += [
                cut.eq(self.truncated),
                low_byte.eq(Mux(parts.significant, magnitude[:8], 0)),
                large.eq(parts.significant & magnitude[8:].any()),
                negative.eq(parts.significant & parts.negative),
                self.was_truncated.eq(valid & cut),
                self.too_large.eq(valid & parts.significant & outside),
            ]
        return low_byte, large, negative

    def _saturate(self, m: Module, valid: Value, low_byte: Value, large: Value, negative: Value) -> Value:
        """Stage 3: the weight, between the bounds."""
        weight, clipped = Signal(signed(8), reset_less=True), Signal()
        value, too_low, too_high = Signal(signed(9)), Signal(), Signal()
        low, high = self.settings.low, self.settings.high
        m.d.comb += [
            value.eq(Mux(negative, -low_byte, low_byte)),
            too_low.eq(negative & (large | (value < low))),
            too_high.eq(~negative & (large | (value > high))),
        ]
        with m.If(self.advance):
            m.d.sync += [
                weight.eq(Mux(too_low, low, Mux(too_high, high, value))),
                clipped.eq(valid & (too_low | too_high)),
            ]
        with m.If(self.start):
            m.d.sync += self.saturated.eq(0)
        with m.Elif(self.advance & clipped & ~self.saturated.all()):
            m.d.sync += self.saturated.eq(self.saturated + 1)
        return weight

    def _pack(self, m: Module, valid: Value, lane: Signal, weight: Value) -> None:
        """The weight, or a zero, goes into the word."""
        lanes = self.config.word_bytes
        word = Signal(8 * lanes, reset_less=True)
        full, pads = Signal(), Signal()
        m.d.comb += [
            self.words.valid.eq(full),
            self.words.payload.eq(word),
            self.advance.eq(~full | self.words.ready),
            pads.eq(self.flush & ~self.pending & (lane != 0)),
        ]
        with m.If(self.advance):
            m.d.sync += full.eq((valid | pads) & (lane == lanes - 1))
        with m.If(self.advance & (valid | pads)):
            m.d.sync += [word.eq(Cat(word[8:], Mux(valid, weight, 0))), lane.eq(lane + 1)]
