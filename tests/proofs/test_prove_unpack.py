"""The unpacker against the text of `hw/packed_weights.py`, for every row, right or wrong, and all stalls, by induction.

A lane, which is a FIFO or a palette, is proved by itself: any one byte is followed from its word to its weight. What
tells the lanes what to do is proved with the lanes cut out, of which nothing is known then but that a weight stays
until the next one is made: every beat is used for what the text says that it is, every word is made once, of its own
code and with its lanes in their turn, and comes out in order; a row's last beat leaves with the row's last word.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal
from proving import before, constant, elaborated, implies, inputs_of, prove_by_induction, stays_offered

from tosaic.hw.config import CONFIGS
from tosaic.hw.dma import unpack as unpack_module
from tosaic.hw.dma.unpack import Unpacker, UnpackLane
from tosaic.hw.packed_weights import (
    COUNT_BITS,
    FIFO_BYTES,
    MODE_BITS,
    PALETTE_DEPTH,
    PALETTE_SIZE,
    TURNS,
    WORDS_PER_CODE,
    WeightCoding,
)

pytestmark = pytest.mark.nightly
CONFIG = CONFIGS["nano"]
WIDTH = CONFIG.word_bytes


def lane_under_proof():
    """A lane, with its memory's place that the proof looks at."""
    m = Module()
    dut = elaborated(m, "dut", UnpackLane())
    seen = m.submodules.dut.submodules.places.read_port(domain="comb")
    return m, dut, seen


def test_a_lane_is_a_fifo(tmp_path):
    """Mode MASK: a byte that finds the FIFO full is dropped, each other one is the weight of the first word that wants
    one when those before it are gone. A word that wants none gets 0. The FIFO holds FIFO_BYTES."""
    m, dut, seen = lane_under_proof()
    held, ahead = Signal(range(FIFO_BYTES + 1)), Signal(range(FIFO_BYTES + 1))
    inside, expected, pick = Signal(), Signal(8), Signal(name="pick")
    wanted = dut.code.bit_select(dut.phase, 1)
    enters, leaves = dut.push & (held != FIFO_BYTES), dut.take & wanted
    with m.If(dut.clear):
        m.d.sync += [held.eq(0), inside.eq(0)]
    with m.Else():
        m.d.sync += held.eq(held + enters - leaves)
        with m.If(inside & leaves):
            m.d.sync += [inside.eq(ahead != 0), ahead.eq(ahead - 1)]
        with m.If(~inside & enters & pick):
            m.d.sync += [inside.eq(1), ahead.eq(held - leaves), expected.eq(dut.data)]
    m.d.comb += [
        Assume((dut.mode == WeightCoding.MASK) & ~dut.keep_all),
        Assume(implies(dut.take, ~dut.lacks)),
        Assert(dut.lacks == (wanted & (held == 0))),
        Assert(held == (dut.end - dut.first)[: len(dut.end)]),
        Assert(implies(inside, ahead < held)),
        seen.addr.eq(dut.first + ahead),
        Assert(implies(inside, seen.data == expected)),
        Assert(implies(before(m, leaves & inside & (ahead == 0)), dut.weight == before(m, expected))),
        Assert(implies(before(m, dut.take & ~wanted), dut.weight == 0)),
        Assert(implies(~before(m, dut.take), dut.weight == before(m, dut.weight))),
    ]
    prove_by_induction(m, tmp_path, [*inputs_of(dut), pick], steps=2)


@pytest.mark.parametrize(
    "mode", [WeightCoding.PALETTE_4, WeightCoding.PALETTE_16], ids=lambda mode: mode.name
)
def test_a_lane_is_a_palette(mode, tmp_path):
    """The n-th word of the palette is what number n stands for, in every word of codes."""
    m, dut, seen = lane_under_proof()
    bits = 8 // WORDS_PER_CODE[mode]
    number = constant(m, Signal(range(PALETTE_SIZE[mode]), name="watched"))
    pushed, expected = Signal(range(PALETTE_DEPTH + 1)), Signal(8)
    with m.If(dut.clear):
        m.d.sync += pushed.eq(0)
    with m.Elif(dut.push):
        m.d.sync += pushed.eq(pushed + 1)
        with m.If(pushed == number):
            m.d.sync += expected.eq(dut.data)
    asked = (dut.code >> (dut.phase * bits)[:3])[:bits] == number
    m.d.comb += [
        Assume(dut.mode == mode),
        Assume(dut.phase < WORDS_PER_CODE[mode]),
        # The palette comes first, and whole: see `test_every_beat_is_used_for_what_it_is`.
        Assume(implies(dut.push, dut.keep_all & (pushed < PALETTE_SIZE[mode]))),
        Assume(implies(dut.take, pushed == PALETTE_SIZE[mode])),
        Assert(pushed <= PALETTE_SIZE[mode]),
        Assert(dut.end == pushed[: len(dut.end)]),
        Assert(~dut.lacks),
        seen.addr.eq(number),
        Assert(implies(pushed > number, seen.data == expected)),
        Assert(implies(before(m, dut.take & asked), dut.weight == before(m, expected))),
        Assert(implies(~before(m, dut.take), dut.weight == before(m, dut.weight))),
    ]
    prove_by_induction(m, tmp_path, [*inputs_of(dut), number], steps=2)


class FreeLane(UnpackLane):
    """Any weights at all."""

    def elaborate(self, platform):
        return Module()


def low_bits(value, mode, per_mode):
    """The value modulo a power of two that depends on the mode."""
    result = value
    for each, size in per_mode.items():
        result = Mux(mode == each, value & (size - 1), result)
    return result


def unpacker(monkeypatch):
    """An unpacker without its lanes, and the words made of its row so far."""
    monkeypatch.setattr(unpack_module, "UnpackLane", FreeLane)
    m = Module()
    dut = elaborated(m, "dut", Unpacker(CONFIG))
    header, count, made = dut.beats.payload, Signal(COUNT_BITS), Signal(COUNT_BITS + 1)
    mode = Signal(MODE_BITS)
    with m.If(dut.header):
        m.d.sync += [count.eq(header[:COUNT_BITS]), mode.eq(header[COUNT_BITS:][:MODE_BITS]), made.eq(0)]
    with m.Elif(dut.makes):
        m.d.sync += made.eq(made + 1)
    offered = before(m, dut.beats.valid & ~dut.beats.ready)
    m.d.comb += [
        Assume(implies(offered, dut.beats.valid & (dut.last == before(m, dut.last)))),
        Assume(implies(offered, dut.beats.payload == before(m, dut.beats.payload))),
        # Of each row.
        Assert(implies(dut.started & ~dut.stopped, (mode <= max(WeightCoding)) & (count != 0))),
        Assert(implies(dut.started, (dut.mode == mode) & (dut.words_left == count - made) & (made <= count))),
        Assert(implies(dut.started & dut.code_valid, dut.phase == low_bits(made, mode, WORDS_PER_CODE))),
        Assert(
            implies(
                dut.started & ~dut.code_valid & (dut.words_left != 0),
                low_bits(made, mode, WORDS_PER_CODE) == 0,
            )
        ),
        Assert(implies(dut.started & dut.code_valid, dut.words_left != 0)),
        Assert(implies(dut.started & dut.code_valid, (mode <= max(WeightCoding)) & (dut.palette_left == 0))),
        Assert(
            implies(~dut.started & ~dut.stopped, ~dut.code_valid & (dut.palette_left == 0) & ~dut.last_used)
        ),
        Assert(implies(dut.last_used, dut.started & dut.beats.valid & dut.last)),
        Assert(implies(dut.started, dut.turn == made[: len(dut.turn)])),
    ]
    for lane in dut.lanes:
        kept = ~before(m, lane.take)
        m.d.comb += Assume(implies(kept, lane.weight == before(m, lane.weight)))
    ports = [*inputs_of(dut), *(signal for lane in dut.lanes for signal in (lane.lacks, lane.weight))]
    return m, dut, (mode, count, made), ports


def test_every_beat_is_used_for_what_it_is(monkeypatch, tmp_path):
    """Header, palette, and then for each word: a word of codes where it is the first one that it stands for, and words
    for the FIFOs while a lane lacks one. A word is made when all that it needs is there. A row that is shorter or
    longer than that, or whose header names no words or no mode, is wrong, and no other one."""
    m, dut, (mode, count, made), ports = unpacker(monkeypatch)
    lacks = Cat(lane.lacks for lane in dut.lanes).any()
    palette, code = Signal(range(PALETTE_DEPTH + 1)), Signal(8 * WIDTH)  # words of it so far; the last codes
    coded = Signal(COUNT_BITS + 4)  # words of weights that the codes so far stand for
    size, per_code = Signal(range(PALETTE_DEPTH + 1)), Signal(4)
    for each in WeightCoding:
        with m.If(mode == each):
            m.d.comb += [size.eq(PALETTE_SIZE[each]), per_code.eq(WORDS_PER_CODE[each])]
    with m.If(dut.header):
        m.d.sync += [palette.eq(0), coded.eq(0)]
    with m.Elif(dut.uses & (palette != size)):
        m.d.sync += palette.eq(palette + 1)
    with m.Elif(dut.loads_code):
        m.d.sync += [coded.eq(coded + per_code), code.eq(dut.beats.payload)]
    after = made + dut.makes  # words made after this cycle
    works = dut.started & ~dut.stopped
    in_palette = works & (palette != size)
    header = dut.beats.payload
    unknown = (header[:COUNT_BITS] == 0) | (header[COUNT_BITS:][:MODE_BITS] > max(WeightCoding))
    needs = in_palette | ((coded > made) & (made != count) & lacks) | ((coded == after) & (after < count))
    wrong = (dut.header & unknown) | (works & dut.last_used & needs)
    wrong |= works & (made == count) & dut.beats.valid & ~dut.last_used
    m.d.comb += [
        # What holds always.
        Assert(implies(works, (palette <= size) & (dut.palette_left == size - palette))),
        Assert(implies(works & in_palette, (made == 0) & (coded == 0) & ~dut.code_valid)),
        Assert(implies(works & dut.code_valid, (coded == made - dut.phase + per_code) & (dut.code == code))),
        Assert(implies(works & ~dut.code_valid & (made != count), coded == made)),
        Assert(implies(works & ~dut.code_valid & (made == count), coded >= made)),
        Assert(implies(works, low_bits(coded, mode, WORDS_PER_CODE) == 0)),
        # Beats.
        Assert(implies(dut.header, dut.uses & ~dut.started)),
        Assert(implies(dut.uses & ~dut.started, dut.header)),
        Assert(implies(dut.uses & in_palette, dut.pushes)),
        Assert(implies(dut.uses & works & ~in_palette, dut.pushes | dut.loads_code)),
        Assert(~(dut.pushes & dut.loads_code)),
        Assert(implies(dut.pushes | dut.loads_code, dut.uses & works)),
        Assert(implies(dut.pushes & ~in_palette, (coded > made) & lacks)),
        Assert(implies(dut.loads_code, (coded == after) & (after < count) & ~in_palette)),
        # Words.
        Assert(
            implies(dut.makes & ~dut.stopped, works & (coded > made) & (made < count) & ~lacks & ~in_palette)
        ),
        Assert(dut.wrong == before(m, wrong & ~dut.stopped)),
        # Nothing behind the row's end.
        Assert(implies(dut.uses, ~dut.last_used & ~dut.stopped)),
    ]
    for index, lane in enumerate(dut.lanes):
        m.d.comb += [
            Assert(lane.clear == dut.header),
            Assert(lane.push == dut.pushes),
            Assert(implies(dut.pushes, lane.keep_all == in_palette)),
            Assert(implies(dut.pushes, lane.data == dut.beats.payload.word_select(index, 8))),
            Assert(lane.take == dut.makes),
            Assert(
                implies(
                    works & (dut.makes | lane.lacks) & dut.code_valid, lane.code == code.word_select(index, 8)
                )
            ),
            Assert(implies(dut.makes & works, lane.phase == low_bits(made, mode, WORDS_PER_CODE))),
            Assert(implies(dut.makes & works, lane.mode == mode)),
        ]
    prove_by_induction(m, tmp_path, ports, steps=2)


def test_every_word_comes_out(monkeypatch, tmp_path):
    """As it was made, with FIFOs and lanes paired in the word's turn, in order and once. A row's last beat leaves when
    all its words did."""
    m, dut, (mode, count, made), ports = unpacker(monkeypatch)
    given, turn = Signal(COUNT_BITS + 1), Signal(range(TURNS))
    taken = dut.weights.valid & dut.weights.ready
    with m.If(dut.header):
        m.d.sync += given.eq(0)
    with m.Elif(taken):
        m.d.sync += given.eq(given + 1)
    with m.If(dut.makes):
        m.d.sync += turn.eq(Mux(mode == WeightCoding.MASK, made, 0))
    fifos = Cat(lane.weight for lane in dut.lanes)
    word = Signal(8 * WIDTH)
    for index in range(WIDTH):
        m.d.comb += word.word_select(index, 8).eq(fifos.word_select((turn ^ index)[:2], 8))
    moves = ~dut.weights.valid | dut.weights.ready
    m.d.comb += [
        Assert(implies(dut.started, made - given == dut.made + dut.weights.valid)),
        Assert(implies(dut.made, dut.made_turn == turn)),
        Assert(implies(~dut.started, ~dut.made & ~dut.weights.valid)),
        Assert(implies(dut.makes, ~dut.made | moves)),
        Assert(implies(before(m, moves), dut.weights.valid == before(m, dut.made))),
        Assert(implies(before(m, moves & dut.made), dut.weights.payload == before(m, word))),
        Assert(implies(dut.beats.valid & dut.beats.ready & dut.last, (given + taken == count) & dut.started)),
        Assert(implies(dut.beats.valid & dut.beats.ready & ~dut.last, dut.uses)),
    ]
    stays_offered(m, dut.weights.valid, dut.weights.ready, dut.weights.payload)
    prove_by_induction(m, tmp_path, ports, steps=2)
