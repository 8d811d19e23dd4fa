"""The CABAC engine against the text's quant_tensor() (11.1.2.4), for every stream, settings and stalls, by induction.

The text's procedure runs beside the engine, bin by bin: which syntax element comes next, which context it has, what its
level is, which level is the last one. How a bin is decided, how a context adapts and how the bits come is proved by
itself (tests/hw/cabac/test_cabac_proofs.py), as is what makes a weight of a level, here.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal, signed
from amaranth.lib.memory import Memory
from proving import before, constant, elaborated, implies, inputs_of, prove_by_induction

from tosaic.hw.cabac import engine as engine_module
from tosaic.hw.cabac.adaptation import Context
from tosaic.hw.cabac.contexts import ROW_BITS, ContextMemory, whole
from tosaic.hw.cabac.engine import Engine, Phase
from tosaic.hw.cabac.interval import MAX_SHIFT
from tosaic.hw.cabac.levels import SIZE_BITS, WeightPacker
from tosaic.hw.cabac.window import WINDOW_BITS
from tosaic.hw.config_text import get_config
from tosaic.hw.nnr_streams import UNARY_MAX
from tosaic.hw.nnr_tables import PREFIX_CONTEXTS, STATE_TRANSITION

pytestmark = pytest.mark.nightly
CONFIG = get_config("nano,cabac_engines=1")
LEVEL_BITS = SIZE_BITS + 1
CODED = (Phase.SIG, Phase.SIGN, Phase.GREATER, Phase.PREFIX)
OF_LEVELS = (*CODED, Phase.BYPASS)


class ShownContexts(ContextMemory):
    """Shows what is stored for the current bin, and at any one row of all memories."""

    def __init__(self):
        super().__init__()
        self.current, self.any_row, self.any_at_row = (
            Signal(Context),
            Signal(ROW_BITS, name="any_row"),
            Signal(),
        )
        self.shown = []

    def elaborate(self, platform):
        m = super().elaborate(platform)
        stored, at_row = 0, 0
        for selected, at_place, at_any in self.shown:
            stored, at_row = stored | Mux(selected, at_place.data, 0), at_row | at_any
        m.d.comb += [self.current.as_value().eq(whole(stored)), self.any_at_row.eq(at_row != 0)]
        return m

    def _bank(self, m, name, rows, selected, row):
        read = super()._bank(m, name, rows, selected, row)
        words: Memory = getattr(m.submodules, name)
        at_place, at_any = words.read_port(domain="comb"), words.read_port(domain="comb")
        m.d.comb += [at_place.addr.eq(row), at_any.addr.eq(self.any_row)]
        self.shown.append((selected, at_place, Mux(self.any_row < rows, at_any.data, 0)))
        return read


class Text:
    """The text's variables, which go on with each step of the engine."""

    def __init__(self, m, dut):
        self.m, self.dut, self.unary = m, dut, dut.job.settings.unary_length
        self.element = Signal(len(OF_LEVELS), init=1)  # one-hot, by Phase: what comes next
        self.neighbour, self.state = Signal(2), Signal(3)
        self.negative, self.flag, self.bits, self.left = Signal(), Signal(8), Signal(6), Signal(6)
        self.level, self.remainder = Signal(LEVEL_BITS), Signal(LEVEL_BITS)
        self.levels = Signal.like(dut.job.levels)  # that are decoded
        # In the cycle of a step: the level that it ends.
        self.ends, self.significant, self.whole = Signal(), Signal(), Signal(LEVEL_BITS)
        running = Signal()
        m.d.comb += running.eq(dut.step & dut.phase[: len(OF_LEVELS)].any())
        with m.If(dut.packer.start):
            m.d.sync += [self.element.eq(1), self.neighbour.eq(0), self.state.eq(0), self.levels.eq(0)]
        with m.Elif(running):
            for element, act in zip(
                OF_LEVELS, (self._sig, self._sign, self._greater, self._prefix, self._bypass), strict=True
            ):
                with m.If(self.element[element]):
                    act(m, dut.decided)
        with m.If(self.ends):
            m.d.sync += [self.element.eq(1 << Phase.SIG), self.levels.eq(self.levels + 1)]
            m.d.sync += self.neighbour.eq(Mux(self.significant, 1 + self.negative, 0))
            parity = self.significant & self.whole[0]
            with m.If(dut.dependent):
                for state, following in enumerate(STATE_TRANSITION):
                    with m.If(self.state == state):
                        m.d.sync += self.state.eq(Mux(parity, following[1], following[0]))

    def _goes_to(self, phase):
        return self.element.eq(1 << phase)

    def _sig(self, m, value):
        with m.If(value):
            m.d.sync += [self._goes_to(Phase.SIGN), self.level.eq(1)]
        with m.Else():
            m.d.comb += self.ends.eq(1)

    def _sign(self, m, value):
        m.d.sync += [self.negative.eq(value), self.flag.eq(0), self.bits.eq(0)]
        m.d.sync += self.element.eq(Mux(self.unary == 0, 1 << Phase.PREFIX, 1 << Phase.GREATER))

    def _greater(self, m, value):
        m.d.sync += [self.level.eq(self.level + value), self.flag.eq(self.flag + 1)]
        with m.If(~value):
            m.d.comb += [self.ends.eq(1), self.significant.eq(1), self.whole.eq(self.level)]
        with m.Elif(self.flag + 1 == self.unary):
            m.d.sync += self._goes_to(Phase.PREFIX)

    def _prefix(self, m, value):
        with m.If(value):
            m.d.sync += [self.level.eq(self.level + (1 << self.bits[:5])), self.bits.eq(self.bits + 1)]
        with m.Elif(self.bits == 0):
            m.d.comb += [self.ends.eq(1), self.significant.eq(1), self.whole.eq(self.level)]
        with m.Else():
            m.d.sync += [self._goes_to(Phase.BYPASS), self.left.eq(self.bits), self.remainder.eq(0)]

    def _bypass(self, m, value):
        """Follows as many bins as the engine takes at once; the last of them are the last ones of the remainder."""
        bins, window = self.dut.bypass.bins, self.dut.window
        taken, remainder = Signal(2), Signal(LEVEL_BITS)
        m.d.comb += taken.eq(window.short_shift)
        for count in (1, 2, 3):
            with m.If(taken == count):
                m.d.comb += remainder.eq(Cat(bins[3 - count :], self.remainder))
        m.d.sync += [self.remainder.eq(remainder), self.left.eq(self.left - taken)]
        with m.If(self.left == taken):
            m.d.comb += [self.ends.eq(1), self.significant.eq(1), self.whole.eq(self.level + remainder)]


def engine_under_proof(monkeypatch):
    """The engine, the text beside it, and the facts that its state keeps to."""
    monkeypatch.setattr(engine_module, "ContextMemory", ShownContexts)
    m = Module()
    dut = elaborated(m, "dut", Engine(CONFIG))
    phase, place, unary = dut.phase, dut.place, dut.job.settings.unary_length

    def at(*phases):
        return Cat(phase[each] for each in phases).any()

    text = Text(m, dut)
    size, bits, left, window = dut.size, text.bits, text.left, dut.window
    begins = at(Phase.CLEAR, Phase.FILL, Phase.START, Phase.HEADER)
    m.d.comb += [
        Assert((phase != 0) & ((phase & (phase - 1)[: len(phase)]) == 0)),
        Assert(implies(at(*OF_LEVELS, Phase.HEADER, Phase.START, Phase.FILL), unary <= UNARY_MAX)),
        Assert((window.count <= WINDOW_BITS) & (window.count >= -MAX_SHIFT)),
        Assert(implies(begins, (text.element == 1) & (text.levels == 0) & (text.state == 0))),
        Assert(implies(begins, (text.neighbour == 0) & (place.state == 0) & (place.neighbour == 0))),
        Assert(implies(begins, ~(place.sig | place.sign | place.greater | place.prefix))),
        *(Assert(implies(at(*OF_LEVELS), place[each.name.lower()] == phase[each])) for each in CODED),
        # The syntax element is the text's, and so is all that its context depends on.
        Assert(implies(at(*OF_LEVELS), text.element == phase[: len(OF_LEVELS)])),
        Assert(implies(at(*OF_LEVELS), (place.state == text.state) & (place.neighbour == text.neighbour))),
        Assert(text.neighbour != 3),
        Assert(implies(at(Phase.GREATER, Phase.PREFIX, Phase.BYPASS), place.negative == text.negative)),
        Assert(implies(phase[Phase.SIGN], text.level == 1)),
        # The number of ones, and the level so far.
        Assert(implies(phase[Phase.GREATER], (place.number == text.flag) & (text.flag < unary))),
        Assert(implies(phase[Phase.GREATER], (size == text.flag + 1) & (text.level == size))),
        Assert(implies(phase[Phase.GREATER], bits == 0)),
        Assert(implies(phase[Phase.PREFIX], (place.number == bits) & (bits < PREFIX_CONTEXTS) & (size == 1))),
        Assert(implies(at(Phase.PREFIX, Phase.BYPASS), text.level == unary + (1 << bits[:5]))),
        Assert(implies(phase[Phase.BYPASS], (dut.bins_left == left) & (left != 0) & (left <= bits))),
        Assert(implies(phase[Phase.BYPASS], bits < PREFIX_CONTEXTS)),
        Assert(implies(phase[Phase.BYPASS], size == (1 << (bits - left)[:5]) + text.remainder)),
        Assert(implies(phase[Phase.BYPASS], text.remainder >> (bits - left)[:5] == 0)),
        Assert(implies(phase[Phase.HEADER], (dut.bins_left >= 1) & (dut.bins_left <= 16))),
        Assert(implies(at(Phase.CLEAR, Phase.FILL, Phase.START), dut.bins_left <= 16)),
    ]
    ports = [*inputs_of(dut), dut.contexts.any_row]
    return m, dut, text, at, ports


def test_every_bin_has_its_context(monkeypatch, tmp_path):
    """A bin is decoded with the context that the text gives it, as the last bin with the same one left it, or, before
    the first one of a stream, with the initial one."""
    m, dut, _, at, ports = engine_under_proof(monkeypatch)
    row = constant(m, dut.contexts.any_row)
    m.d.comb += [
        Assert(implies(at(*CODED), dut.context == dut.contexts.current)),
        Assert(implies(at(*CODED) & dut.step, dut.contexts.write)),
        Assert(implies(dut.contexts.write, dut.step & at(*CODED))),
        # All are initial when the first level begins.
        Assert(implies(dut.phase[Phase.CLEAR] & (dut.row > row), ~dut.contexts.any_at_row)),
        Assert(implies(at(Phase.FILL, Phase.START, Phase.HEADER), ~dut.contexts.any_at_row)),
    ]
    prove_by_induction(m, tmp_path, ports, steps=2)


def test_every_level_is_the_one_of_the_text(monkeypatch, tmp_path):
    """A step decodes the text's next syntax element. When a level ends, the packer gets its size before dependent
    quantization, its sign and its state; levels end as many times as the job says, and then the stream does."""
    m, dut, text, at, ports = engine_under_proof(monkeypatch)
    packer, levels = dut.packer, dut.job.levels
    parts, unary = packer.parts, dut.job.settings.unary_length
    ended = before(m, text.ends & dut.step)
    size = Signal(LEVEL_BITS)
    all_decoded = at(Phase.TERMINATE) & ~dut.too_long
    m.d.comb += [
        size.eq(parts.size + Mux(parts.above_unary, unary, 0)),
        Assert(dut.ends == text.ends),
        Assert(implies(ended, packer.valid)),
        Assert(implies(ended, parts.significant == before(m, text.significant))),
        Assert(implies(ended & parts.significant, size == before(m, text.whole))),
        Assert(implies(ended & parts.significant, (parts.size != 0) & ~parts.size[-1])),
        Assert(implies(ended & parts.significant, parts.negative == before(m, text.negative))),
        Assert(implies(ended, parts.odd == before(m, text.state[0]))),
        # Their number.
        Assert(
            implies(
                at(*OF_LEVELS), (levels - text.levels)[: len(levels)] == dut.level_count - dut.level_ended
            )
        ),
        Assert(implies(at(*OF_LEVELS), (dut.level_count != 0) & (text.levels < levels))),
        Assert(implies(at(*OF_LEVELS), dut.one_left == (dut.level_count == 1))),
        Assert(implies(at(*OF_LEVELS), dut.two_left == (dut.level_count == 2))),
        Assert(implies(at(*OF_LEVELS), (dut.level_count != 1) | ~dut.level_ended)),
        Assert(implies(all_decoded, text.levels == levels)),
        Assert(implies(at(Phase.CLEAR, Phase.FILL, Phase.START, Phase.HEADER), dut.level_count == levels)),
        Assert(implies(at(Phase.FILL, Phase.START, Phase.HEADER), dut.one_left == (levels == 1))),
        Assert(implies(at(Phase.FILL, Phase.START, Phase.HEADER), dut.two_left == (levels == 2))),
        Assert(implies(at(Phase.CLEAR, Phase.FILL, Phase.START, Phase.HEADER), ~dut.too_long)),
        # Nothing is left of a stream when the next one begins.
        Assert(implies(at(Phase.DONE, Phase.IDLE, Phase.CLEAR), ~packer.busy & ~dut.level_ended)),
        Assert(implies(at(Phase.FILL, Phase.START, Phase.HEADER), ~packer.busy & ~dut.level_ended)),
        Assert(implies(at(Phase.FLUSH), ~dut.level_ended)),
        Assert(implies(at(*OF_LEVELS), ~dut.too_long)),
    ]
    prove_by_induction(m, tmp_path, ports, steps=2)


def test_a_level_becomes_a_weight(tmp_path):
    """Dependent quantization, the sign and the bounds; a level outside int32 is found, and one that is outside the
    bounds is counted. For words that are taken at once: `advance` holds all stages together."""
    m = Module()
    m.submodules.dut = dut = WeightPacker(CONFIG)
    parts, settings = dut.parts, dut.settings
    level, weight = Signal(signed(LEVEL_BITS + 2)), Signal(signed(LEVEL_BITS + 2))
    size, twice = Signal(SIZE_BITS), Signal(signed(LEVEL_BITS + 2))
    low, high = constant(m, settings.low), constant(m, settings.high)
    for kept in (settings.unary_length, dut.dependent):
        constant(m, kept)
    m.d.comb += [
        Assume(dut.words.ready & ~dut.start & ~dut.abandon),
        Assume((low <= 0) & (high >= 0) & (settings.unary_length <= UNARY_MAX)),
        # As the levels come: see `test_every_level_is_the_one_of_the_text`.
        Assume(implies(parts.significant, (parts.size != 0) & ~parts.size[-1])),
        size.eq(parts.size + Mux(parts.above_unary, settings.unary_length, 0)),
        twice.eq(Mux(dut.dependent, (size << 1) - parts.odd, size)),
        level.eq(Mux(parts.significant, Mux(parts.negative, -twice, twice), 0)),
        weight.eq(Mux(level < low, low, Mux(level > high, high, level))),
    ]
    outside = (level < -(1 << 31)) | (level >= 1 << 31)

    def later(value, cycles):
        for _ in range(cycles):
            value = before(m, value)
        return value

    taken = dut.valid & dut.advance
    given_up = dut.too_large | dut.was_truncated
    kept = [~later(given_up, cycles) for cycles in range(1, 5)]  # it is not thrown away with one before it
    m.d.comb += [
        Assert(dut.advance),
        Assert(dut.too_large == (later(taken & outside, 2) & kept[0] & kept[1])),
        Assert(implies(later(taken, 4) & Cat(kept).all(), dut.words.payload[-8:] == later(weight, 4)[:8])),
    ]
    prove_by_induction(m, tmp_path, inputs_of(dut), steps=6)
