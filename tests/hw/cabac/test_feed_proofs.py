"""What brings a block's words to the engines, proved for every behaviour of both sides, by induction: nothing is read
past the end, no word is lost, doubled or given to another stream, and what can move does."""

import pytest
from amaranth.hdl import Array, Assert, Assume, Cat, Module, Mux, Signal
from cabac_models import config_of
from proving import before, claim, prove_by_induction

from tosaic.hw.cabac.distributor import Distributor
from tosaic.hw.cabac.feed import ByteFeed
from tosaic.hw.constants import BURST_BEATS, DECODE_BUFFER_BEATS
from tosaic.hw.dma.block_buffer import BlockBuffer
from tosaic.hw.nnr_streams import TAG_BITS
from tosaic.hw.skid import SkidBuffer

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("yosys")]
W = 4
COUNT_BITS = 26


def test_byte_feed(tmp_path):
    """Byte p of the words comes out as byte p - skip of the stream, for any p, once, in order, and no word is taken
    of which no byte belongs to the stream."""
    m = Module()
    m.submodules.dut = dut = ByteFeed(config_of(W))
    words, given = dut.words, dut.bytes
    takes, gives = words.valid & words.ready, given.valid & given.ready
    total, length, skip = Signal(COUNT_BITS), Signal(COUNT_BITS), Signal(2)
    words_taken, bytes_given, place = Signal(COUNT_BITS), Signal(COUNT_BITS), Signal(COUNT_BITS)
    # Any byte, chosen with the stream, and what it should be.
    chosen, watched, expected = Signal(COUNT_BITS), Signal(COUNT_BITS), Signal(8)
    with m.If(dut.start):
        m.d.sync += [
            length.eq(dut.length_bytes),
            skip.eq(dut.skip_bytes),
            total.eq(Mux(dut.length_bytes == 0, 0, dut.length_bytes + dut.skip_bytes)),
            words_taken.eq(0),
            bytes_given.eq(0),
            watched.eq(chosen),
        ]
    with m.Else():
        m.d.sync += [words_taken.eq(words_taken + takes), bytes_given.eq(bytes_given + gives)]
        with m.If(takes & (words_taken == watched[2:])):
            m.d.sync += expected.eq(words.payload.word_select(watched[:2], 8))
    left, in_word = dut.left, dut.in_word
    read, behind = words_taken << 2, Signal(COUNT_BITS)
    m.d.comb += [
        place.eq(total - left),
        behind.eq(watched - place),
        Assume(~dut.start | dut.ended),
        # What holds always.
        Assert((left <= total) & (in_word <= W)),
        Assert(dut.ended == (left == 0)),
        claim(total != 0, total == length + skip),
        claim(total == 0, (length == 0) & (words_taken == 0)),
        claim(left != 0, read == place + in_word),
        claim(left == 0, (in_word == 0) & (read >= total) & (read < total + W)),
        claim(left != 0, dut.skips == Mux(place < skip, skip - place, 0)),
        Assert(bytes_given == Mux(place > skip, place - skip, 0)),
        claim(
            (left != 0) & (watched >= place) & (watched < read),
            dut.word.word_select(behind[:2], 8) == expected,
        ),
        # No word is read past the end, and none twice.
        claim(takes, (read < total) & ~dut.start),
        # The bytes are those of the stream.
        claim(gives, (place >= skip) & (place < total)),
        claim(gives & (place == watched), given.payload == expected),
        claim(dut.ended, bytes_given == length),
        # Progress.
        claim((left != 0) & (in_word == 0), words.ready),
        claim((left != 0) & (in_word != 0) & (dut.skips == 0), given.valid),
    ]
    moved = before(m, (left != 0) & (in_word != 0) & ((dut.skips != 0) | given.ready) & ~dut.start)
    m.d.comb += claim(moved, left == before(m, left) - 1)
    ports = [dut.start, dut.length_bytes, dut.skip_bytes, words.valid, words.payload, given.ready, chosen]
    prove_by_induction(m, tmp_path, ports)


def test_skid_buffer(tmp_path):
    """A queue of two places: what goes in as the n-th comes out as the n-th, for any n."""
    m = Module()
    m.submodules.dut = dut = SkidBuffer(8)
    put, get = dut.input, dut.output
    taken, given, expected = Signal(COUNT_BITS), Signal(COUNT_BITS), Signal(8)
    watched, chosen = Signal(COUNT_BITS), Signal(COUNT_BITS)
    begun = Signal()
    m.d.sync += [
        taken.eq(taken + (put.valid & put.ready)),
        given.eq(given + (get.valid & get.ready)),
        begun.eq(1),
    ]
    with m.If(~begun):
        m.d.sync += watched.eq(chosen)
    with m.If(put.valid & put.ready & (taken == Mux(begun, watched, chosen))):
        m.d.sync += expected.eq(put.payload)
    # As far as the counters reach.
    m.d.comb += Assume(~taken[-1])
    held = before(m, get.valid & ~get.ready)
    m.d.comb += [
        claim(~begun, (taken == 0) & (given == 0)),
        Assert(taken == given + get.valid + dut.spare_valid),
        claim(dut.spare_valid, get.valid),
        claim(begun & get.valid & (watched == given), get.payload == expected),
        claim(begun & dut.spare_valid & (watched == given + 1), dut.spare == expected),
        claim(held, get.valid & (get.payload == before(m, get.payload))),
        Assert(put.ready | get.valid),
    ]
    prove_by_induction(m, tmp_path, [put.valid, put.payload, get.ready, chosen])


def test_distributor(tmp_path):
    """Each word of the block goes to the stream that its tag names, one at a time, and no word behind the block is
    taken, nor a tag word that no word needs."""
    m = Module()
    m.submodules.dut = dut = Distributor(config_of(W, 4))
    words, group = dut.words, 8 * W // TAG_BITS
    takes = words.valid & words.ready
    count, taken, tag_words = Signal(COUNT_BITS), Signal(COUNT_BITS), Signal(COUNT_BITS)
    tags, stream, is_tag = Signal(8 * W), Signal(TAG_BITS), Signal()
    accepted = [skid.input.valid & skid.input.ready for skid in dut.skids]
    with m.If(dut.start):
        m.d.sync += [count.eq(dut.word_count), taken.eq(0), tag_words.eq(0)]
    with m.Elif(takes & is_tag):
        m.d.sync += [tag_words.eq(tag_words + 1), tags.eq(words.payload)]
    with m.Elif(takes):
        m.d.sync += taken.eq(taken + 1)
    tags_left = dut.tags_left
    used = Signal(range(group + 1))
    readies = Array(skid.input.ready for skid in dut.skids)
    m.d.comb += [
        used.eq(group - tags_left),
        stream.eq(Mux(dut.is_tagged, tags.word_select(used[:-1], TAG_BITS), 0)),
        is_tag.eq(dut.is_tagged & (taken == tag_words * group)),
        Assume(~dut.start | (dut.words_left == 0)),
        # What holds always.
        Assert(count == dut.words_left + taken),
        Assert(tags_left <= group),
        Assert(taken[-2:] == 0),
        claim(dut.is_tagged, tag_words * group == taken + tags_left),
        claim(dut.is_tagged & (tags_left != 0), dut.tags == (tags >> (used * TAG_BITS))),
        claim(~dut.is_tagged, (tag_words == 0)),
        # No word past the end, and no tag word without a word behind it.
        claim(takes & ~dut.start, taken < count),
        # A word goes to its stream and to no other; a tag word to none.
        claim(takes & is_tag, ~Cat(accepted).any()),
        claim(takes & ~is_tag, Cat(accepted) == (1 << stream)),
        claim(~takes, ~Cat(accepted).any()),
        *(
            claim(each, skid.input.payload.word == words.payload)
            for each, skid in zip(accepted, dut.skids, strict=True)
        ),
        # Progress: a tag word is always taken, another one if its stream has a place.
        claim((dut.words_left != 0) & (is_tag | readies[stream]), words.ready),
    ]
    ports = [dut.start, dut.tagged, dut.word_count, words.valid, words.payload]
    prove_by_induction(m, tmp_path, [*ports, *(output.ready for output in dut.streams)])


def test_block_buffer(tmp_path):
    """What was asked for always finds a place when it comes, however late the decoder takes it; the queue itself is
    Amaranth's. Once everything is decoded there is room again."""
    m = Module()
    m.submodules.dut = dut = BlockBuffer(config_of(W))
    words, output = dut.words, dut.output
    coming = Signal(range(DECODE_BUFFER_BEATS + 1))
    was_idle = Signal()
    m.d.sync += [
        coming.eq(coming + dut.requested - words.valid),
        was_idle.eq((coming == 0) & (dut.fifo.level == 0) & (dut.requested == 0)),
    ]
    m.d.comb += [
        Assume(dut.requested <= BURST_BEATS),
        Assume((dut.requested == 0) | dut.room),
        Assume(~words.valid | (coming != 0)),
        Assert(dut.under_way == coming + dut.fifo.level),
        Assert(dut.under_way <= DECODE_BUFFER_BEATS),
        Assert(output.valid | (dut.fifo.level <= 1)),
        claim(words.valid, dut.fifo.w_rdy),
        claim(dut.fifo.level > 1, output.valid),
        claim(dut.room, dut.under_way <= DECODE_BUFFER_BEATS - BURST_BEATS),
        claim(was_idle, dut.room),
    ]
    prove_by_induction(m, tmp_path, [dut.requested, words.valid, words.payload, output.ready])
