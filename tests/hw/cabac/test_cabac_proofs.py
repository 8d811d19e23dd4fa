"""Properties of the CABAC decoder's arithmetic, proved for all inputs by Yosys' SAT solver.

Combinational parts in one step; registers by induction from the reset state.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal, signed
from cabac_models import config_of
from proving import prove_at_once, prove_by_induction

from tosaic.hw.cabac.adaptation import Adaptation, Context
from tosaic.hw.cabac.engine import Engine, Phase
from tosaic.hw.cabac.interval import BYPASS_BINS, MAX_SHIFT, Bypass, Decision
from tosaic.hw.cabac.lookup import lookup
from tosaic.hw.cabac.window import WINDOW_BITS, BitWindow
from tosaic.hw.nnr_streams import UNARY_MAX
from tosaic.hw.nnr_tables import PREFIX_CONTEXTS, RLPS, SHIFT0, SHIFT1, TRANSITION

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("yosys")]


def test_decision_is_the_one_of_the_text(tmp_path):
    """11.2.4.3.2 and 11.2.4.3.3 with ivlCurrRange and ivlOffset; ivlOffset stays below ivlCurrRange."""
    m = Module()
    m.submodules.dut = dut = Decision()
    offset, low_range, low_offset = Signal(9), Signal(9), Signal(9)
    rlps = lookup(m, "text", RLPS, 8, Cat(dut.column, dut.width[5:8]))
    new_range, new_offset = Signal(9), Signal(9)
    m.d.comb += [
        Assume((dut.width >= 256) & (dut.width <= 510) & (dut.slack < dut.width)),
        offset.eq(dut.width - 1 - dut.slack),
        low_range.eq(dut.width - rlps),
        low_offset.eq(offset - low_range),
        Assert(dut.lps == (offset >= low_range)),
        new_range.eq(Mux(dut.lps, rlps, low_range)),
        new_offset.eq(Mux(dut.lps, low_offset, offset)),
        Assert((dut.next_width >= 256) & (dut.next_width <= 510) & (dut.next_slack < dut.next_width)),
    ]
    shift = Signal(3)
    m.d.comb += [
        shift.eq(Mux(dut.lps, dut.lps_shift, dut.mps_shift)),
        Assert(dut.next_width == (new_range << shift)),
        Assert((shift == 0) | ~(new_range << (shift - 1)[:3])[8]),
        Assert(
            dut.next_width - 1 - dut.next_slack
            == (new_offset << shift) + (dut.bits >> (MAX_SHIFT - shift).as_unsigned()[:3])
        ),
    ]
    prove_at_once(m, tmp_path, [dut.width, dut.slack, dut.column, dut.bits])


def test_bypass_is_the_one_of_the_text(tmp_path):
    """11.2.4.3.4."""
    m = Module()
    m.submodules.dut = dut = Bypass()
    m.d.comb += Assume((dut.width >= 256) & (dut.width <= 510) & (dut.slack < dut.width))
    offset = dut.width - 1 - dut.slack
    for index in range(BYPASS_BINS):
        doubled, value, after = Signal(10), Signal(), Signal(10)
        m.d.comb += [
            doubled.eq((offset << 1) | dut.bits[-1 - index]),
            value.eq(doubled >= dut.width),
            after.eq(Mux(value, doubled - dut.width, doubled)),
            Assert(dut.bins[-1 - index] == value),
            Assert(dut.slack_after[index] < dut.width),
            Assert(dut.width - 1 - dut.slack_after[index] == after),
        ]
        offset = after
    prove_at_once(m, tmp_path, [dut.width, dut.slack, dut.bits])


def sound(context):
    """A context any stream may lead to."""
    mixed = (context.state0 << 4) + context.state1
    high = mixed >> 7
    return (
        (context.state0 >= -121)
        & (context.state0 <= 121)
        & (context.state1 >= -1923)
        & (context.state1 <= 1923)
        & (context.mps_is_0 == (mixed < 0))
        & (context.column == Mux(mixed < 0, -high, high))
        & (context.low0 == context.state0.as_unsigned()[:3].any())
        & (context.low1 == context.state1.as_unsigned()[:7].any())
    )


@pytest.mark.parametrize("value", [0, 1])
def test_adaptation_is_the_one_of_the_text(tmp_path, value):
    """11.2.4.3.2.2, of every context any stream may lead to."""
    m = Module()
    m.submodules.dut = dut = Adaptation(value)
    before, after = dut.before, dut.after
    m.d.comb += Assume(sound(before))
    for name, low_bits, shift in (("state0", 3, SHIFT0), ("state1", 7, SHIFT1)):
        signed_state, place = Signal(signed(13), name=f"{name}_s"), Signal(5, name=f"{name}_i")
        step = lookup(m, f"text_{name}", [entry >> shift for entry in TRANSITION], 8, place)
        m.d.comb += [
            signed_state.eq(before[name] if value else -before[name]),
            place.eq(16 + (signed_state >> low_bits)),
            Assert(after[name] == (before[name] + step if value else before[name] - step)),
        ]
    mixed = (after.state0 << 4) + after.state1
    high = mixed >> 7
    m.d.comb += [
        Assert(after.mps_is_0 == (mixed < 0)),
        Assert(after.column == Mux(mixed < 0, -high, high)),
        Assert(after.low0 == after.state0.as_unsigned()[:3].any()),
        Assert(after.low1 == after.state1.as_unsigned()[:7].any()),
    ]
    prove_at_once(m, tmp_path, [before.as_value()])


def test_contexts_stay_in_bounds(tmp_path):
    """Starting with the initial context, all zeros, no bin leads beyond the tables."""
    m = Module()
    context, value = Signal(Context), Signal()
    m.submodules.adapt0 = adapt0 = Adaptation(0)
    m.submodules.adapt1 = adapt1 = Adaptation(1)
    m.d.comb += [adapt0.before.eq(context), adapt1.before.eq(context)]
    m.d.sync += context.eq(Mux(value, adapt1.after, adapt0.after))
    m.d.comb += Assert(sound(context))
    prove_by_induction(m, tmp_path, [value])


def test_window_reads_nothing_that_is_not_there(tmp_path):
    """As long as the stream goes on, a step finds its bits; what is shown beyond the last bit is 0."""
    m = Module()
    m.submodules.dut = dut = BitWindow()
    wanted = Mux(dut.use_long, dut.long_shift, dut.short_shift)
    was_ended = Signal()
    m.d.sync += was_ended.eq(~dut.start & (was_ended | dut.ended))
    m.d.comb += [
        Assume(~dut.step | dut.ready),
        Assume(~was_ended | dut.ended | dut.start),
        Assume(~(dut.ended & dut.bytes.valid)),
        Assert(dut.count <= WINDOW_BITS),
        Assert((dut.count >= 0) | was_ended),
        Assert(~(dut.step & ~dut.ended & ~dut.start) | (dut.count >= wanted)),
        Assert(~(dut.bytes.valid & dut.bytes.ready) | (dut.count <= WINDOW_BITS - 8)),
        Assert(dut.count >= -MAX_SHIFT),
    ]
    ports = [dut.start, dut.bytes.valid, dut.bytes.payload, dut.ended, dut.step]
    prove_by_induction(m, tmp_path, [*ports, dut.use_long, dut.long_shift, dut.short_shift])


def test_engine_keeps_its_interval_and_makes_progress(tmp_path):
    """Whatever the stream: one phase at a time; ivlOffset < ivlCurrRange; counts of bins that only go up to their
    limits, so that every level ends."""
    m = Module()
    m.submodules.dut = dut = Engine(config_of(4))
    phase = dut.phase

    def at(*phases):
        return Cat(phase[each] for each in phases).any()

    def implies(condition, conclusion):
        return Assert(~condition | conclusion)

    levels = (Phase.SIG, Phase.SIGN, Phase.GREATER, Phase.PREFIX, Phase.BYPASS)
    unary_length = dut.job.settings.unary_length
    m.d.comb += [
        Assert((phase != 0) & ((phase & (phase - 1)) == 0)),
        implies(at(Phase.CLEAR, Phase.FILL, Phase.START), (dut.width == 0) & (dut.context.column == 31)),
        implies(
            at(*levels, Phase.HEADER),
            (dut.width >= 256) & (dut.width <= 510) & (dut.slack < dut.width),
        ),
        implies(at(*levels, Phase.HEADER, Phase.START, Phase.FILL), unary_length <= UNARY_MAX),
        # GREATER: one more each time, up to cabac_unary_length of them.
        implies(phase[Phase.GREATER], (dut.size >= 1) & (dut.size <= unary_length)),
        implies(phase[Phase.GREATER], dut.size == dut.place.number + 1),
        # PREFIX: up to 31 of them. BYPASS: as many as the prefix had ones.
        implies(phase[Phase.PREFIX], dut.place.number < PREFIX_CONTEXTS),
        implies(phase[Phase.PREFIX], dut.size == 1),
        implies(phase[Phase.BYPASS], (dut.bins_left >= 1) & (dut.bins_left < PREFIX_CONTEXTS)),
        implies(phase[Phase.HEADER], (dut.bins_left >= 1) & (dut.bins_left <= 16)),
        implies(at(Phase.CLEAR, Phase.FILL, Phase.START), dut.bins_left <= 16),
        Assert(dut.window.count <= WINDOW_BITS),
        Assert(dut.window.count >= -MAX_SHIFT),
        *(
            Assert(~at(*levels, Phase.HEADER) | (dut.place[name] == phase[each]))
            for name, each in (
                ("sig", Phase.SIG),
                ("sign", Phase.SIGN),
                ("greater", Phase.GREATER),
                ("prefix", Phase.PREFIX),
            )
        ),
    ]
    jobs, words = dut.jobs, dut.words
    ports = [jobs.valid, jobs.payload.as_value(), words.valid, words.payload, dut.abort]
    prove_by_induction(m, tmp_path, [*ports, dut.weights.ready, dut.results.ready])
