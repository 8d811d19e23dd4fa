"""The port that the cores share, for all requests, stalls and answers, by induction: turns, AXI4's rules of every
channel, and that every word goes where it belongs.

A core's side of it is proved with its queues cut out: what is shown of the beats that enter a queue holds of those that
leave it, since queues keep order (test_prove_queues.py). The cores keep AXI's rules, too, as test_prove_axi.py shows.
"""

import pytest
from amaranth.hdl import Assert, Assume, Module, Mux, Signal
from amaranth.lib import data
from amaranth.utils import exact_log2
from proving import (
    before,
    constant,
    cut_queues,
    elaborated,
    implies,
    inputs_of,
    leaves_free,
    prove_by_induction,
    stays_offered,
    watch_queues,
)

from tosaic.hw.config_text import get_config
from tosaic.hw.constants import AXI_INCR, BURST_BEATS
from tosaic.hw.cores import read_share, write_share
from tosaic.hw.cores.read_share import CoreReader, ReadShare
from tosaic.hw.cores.round_robin import RoundRobin
from tosaic.hw.cores.write_share import CoreWriter, WriteShare

pytestmark = pytest.mark.nightly
TWO_WORDS = get_config("nano,cores=2,bus_words=2")
LANE_BITS, WORD_BITS = exact_log2(TWO_WORDS.word_bytes), exact_log2(TWO_WORDS.bus_words)
WIDE_BITS = LANE_BITS + WORD_BITS


@pytest.mark.parametrize("count", (2, 4))
def test_turns(tmp_path, count):
    m = Module()
    m.submodules.dut = dut = RoundRobin(count)
    chosen_asks = dut.asks.bit_select(dut.chosen, 1)
    m.d.comb += [
        Assume(implies(dut.next, dut.asks.any())),
        Assert(implies(dut.asks.any(), chosen_asks)),
    ]
    for number in range(count):
        # Turns of others since it began to ask, and how many may still come before its own.
        passed, ahead = (
            Signal(range(2 * count), name=f"passed{number}"),
            Signal(range(count), name=f"ahead{number}"),
        )
        gets = dut.next & (dut.chosen == number)
        m.d.sync += passed.eq(Mux(gets | ~dut.asks[number], 0, passed + dut.next))
        m.d.comb += [
            ahead.eq(number - dut.last - 1),
            Assert(passed + ahead <= count - 1),
        ]
    prove_by_induction(m, tmp_path, [dut.asks, dut.next], steps=2)


def burst_of_words(m, prefix, valid, address, length):
    """What a core asks for: words of W bytes, at most BURST_BEATS, and none beyond a multiple of as many. The number of
    its first and of its last wide beat, and the word in it with which it begins."""
    words, first = BURST_BEATS * TWO_WORDS.word_bytes, Signal(WORD_BITS, name=f"{prefix}_first")
    m.d.comb += [
        first.eq(address[LANE_BITS:WIDE_BITS]),
        Assume(implies(valid, address[:LANE_BITS] == 0)),
        Assume(implies(valid, address[LANE_BITS : exact_log2(words)] + length < BURST_BEATS)),
    ]
    return first, address[WIDE_BITS:], (address[LANE_BITS:] + length)[WORD_BITS:]


def address_channel(m, dut, bus, channel, turns):
    """AXI's rules of the shared address channel, and that a turn's burst is the one that goes there."""
    valid, ready, *fields = (
        getattr(bus, f"a{channel}{field}")
        for field in ("valid", "ready", "id", "addr", "len", "size", "burst")
    )
    stays_offered(m, valid, ready, *fields)
    m.d.comb += [
        Assert(implies(valid, (fields[3] == exact_log2(TWO_WORDS.bus_bytes)) & (fields[4] == AXI_INCR))),
        # It comes with a turn, and a turn has no burst but its own on offer.
        Assert(implies(valid & ~before(m, valid & ~ready), before(m, turns.next))),
        Assert(implies(before(m, turns.next), valid & (fields[0][1:] == before(m, turns.chosen)))),
    ]


def test_shared_writes(monkeypatch, tmp_path):
    """AW and W: offered bursts and beats stay; the data of bursts come in the order of their addresses, each burst's
    from the core whose address it was, up to its last beat; an answer goes to the core that its ID names."""
    queues, m = watch_queues(monkeypatch, write_share), Module()

    class FreeWriter(CoreWriter):
        """A core of which nothing is known but that it keeps what it offers."""

        def elaborate(self, platform):
            return Module()

    monkeypatch.setattr(write_share, "CoreWriter", FreeWriter)
    dut = elaborated(m, "dut", WriteShare(TWO_WORDS))
    made = [getattr(m.submodules.dut.submodules, f"writer{core}") for core in range(TWO_WORDS.cores)]
    (order,), turns, bus = queues, m.submodules.dut.submodules.turns, dut.bus
    inputs = [order.pick]
    for core, writer in enumerate(made):
        beats = writer.beats
        held, asked = before(m, beats.valid & ~beats.ready), before(m, writer.complete & ~writer.taken)
        m.d.comb += [
            Assume(implies(held, beats.valid)),
            Assume(implies(held, beats.payload.as_value() == before(m, beats.payload.as_value()))),
            Assume(implies(asked, writer.complete)),
            Assert(writer.taken == (turns.next & (turns.chosen == core))),
            Assert(implies(writer.taken, writer.complete)),
            Assert(writer.answered == (bus.bvalid & (bus.bid[1:] == core))),
            Assert(implies(before(m, writer.taken), bus.awaddr == before(m, writer.address))),
            Assert(implies(before(m, writer.taken), bus.awlen == before(m, writer.length))),
            # Its beats go to the port while its burst is the oldest there, and as they are.
            Assert(implies(order.leads & (order.expected != core), ~beats.ready)),
            Assert(implies(order.leads & (order.expected == core), bus.wvalid == beats.valid)),
            Assert(implies(order.leads & (order.expected == core), beats.ready == bus.wready)),
            Assert(
                implies(order.leads & bus.wvalid & (order.expected == core), bus.wlast == beats.payload.last)
            ),
            Assert(
                implies(order.leads & bus.wvalid & (order.expected == core), bus.wdata == beats.payload.data)
            ),
            Assert(
                implies(
                    order.leads & bus.wvalid & (order.expected == core), bus.wstrb == beats.payload.strobe
                )
            ),
        ]
        inputs += [beats.valid, beats.payload.as_value(), writer.complete, writer.address, writer.length]
    address_channel(m, dut, bus, "w", turns)
    stays_offered(m, bus.wvalid, bus.wready, bus.wdata, bus.wstrb, bus.wlast)
    m.d.comb += [
        Assert(bus.bready),
        # No data without an address before it, and a place in the order for every address.
        Assert(implies(bus.wvalid, order.r_rdy)),
        Assert(order.w_en == turns.next),
        Assert(implies(turns.next, order.w_rdy & (order.w_data == turns.chosen))),
        Assert(order.r_en == (bus.wvalid & bus.wready & bus.wlast)),
    ]
    prove_by_induction(
        m, tmp_path, [*inputs, bus.awready, bus.wready, bus.bid, bus.bvalid, bus.bresp], steps=2
    )


def test_words_become_wide_beats(monkeypatch, tmp_path):
    """A burst of words that a core writes becomes the burst of the wide beats that hold them. Its last beat is the
    burst's last, and each word lies in its place with its strobes; all other strobes are 0."""
    queues, m = cut_queues(monkeypatch, write_share), Module()
    dut = elaborated(m, "dut", CoreWriter(TWO_WORDS))
    addresses, kept, firsts = queues
    core, wide = dut.core, data.View(write_share.WriteBeat(TWO_WORDS), kept.w_data)
    moves = core.wvalid & core.wready
    # The burst whose words come, as its address told: `firsts` has what its address began with.
    length = Signal(8)
    asked_first, asked_begin, asked_end = burst_of_words(m, "asked", core.awvalid, core.awaddr, core.awlen)
    given = data.View(data.StructLayout({"address": 32, "length": 8}), addresses.w_data)
    m.d.comb += [
        Assert(addresses.w_en == firsts.w_en),
        Assert(addresses.w_en == (core.awvalid & core.awready)),
        Assert(implies(addresses.w_en, addresses.w_rdy & firsts.w_rdy)),
        Assert(implies(core.awvalid, given.address == (asked_begin << WIDE_BITS)[:32])),
        Assert(implies(core.awvalid, given.length == (asked_end - asked_begin)[:8])),
        Assert(implies(core.awvalid, firsts.w_data == asked_first)),
    ]
    # The burst whose words come: begun with word `first` of a wide beat, of `length` + 1 words.
    first, word, number = Signal(WORD_BITS), Signal(8), Signal(8)
    ports = leaves_free(m, firsts)
    m.d.comb += [
        first.eq(firsts.r_data),
        Assume(implies(before(m, firsts.r_rdy & ~firsts.r_en), length == before(m, length))),
        Assume(length < BURST_BEATS),
        Assume(implies(core.wvalid & firsts.r_rdy, core.wlast == (word == length))),
    ]
    with m.If(moves):
        m.d.sync += word.eq(Mux(core.wlast, 0, word + 1))
        with m.If(kept.w_en):
            m.d.sync += number.eq(Mux(core.wlast, 0, number + 1))
    place = (first + word)[: WORD_BITS + 6]
    m.d.comb += [
        Assert(implies(moves, firsts.r_rdy & kept.w_rdy)),
        Assert(implies(kept.w_en, moves)),
        Assert(implies(word != 0, firsts.r_rdy & (word <= length))),
        Assert(number == Mux(word == 0, 0, place >> WORD_BITS)),
        Assert(firsts.r_en == (moves & core.wlast)),
        # A wide beat leaves with its last word, and the burst's last one as the last of as many as were told.
        Assert(implies(moves, kept.w_en == (core.wlast | place[:WORD_BITS].all()))),
        Assert(implies(kept.w_en, wide.last == (number == ((first + length) >> WORD_BITS)))),
    ]
    # Any one word's data and strobes.
    watched, inside = constant(m, Signal(8, name="watched")), Signal()
    word_data, strobe = Signal(8 * TWO_WORDS.word_bytes), Signal(TWO_WORDS.word_bytes)
    with m.If(moves & (word == watched)):
        m.d.sync += [word_data.eq(core.wdata), strobe.eq(core.wstrb), inside.eq(~kept.w_en)]
    with m.Elif(kept.w_en):
        m.d.sync += inside.eq(0)
    its_place = (first + watched)[:WORD_BITS]
    enters = moves & (word == watched)
    has_data, has_strobe = Mux(enters, core.wdata, word_data), Mux(enters, core.wstrb, strobe)
    m.d.comb += [
        Assert(implies(inside, (word > watched) & (number == ((first + watched) >> WORD_BITS)))),
        Assert((word != 0) == dut.inside),
        Assert(implies(word != 0, dut.following == place[:WORD_BITS])),
    ]
    prove_shares = []
    for lane in range(TWO_WORDS.bus_words):
        data_here = wide.data.word_select(lane, 8 * TWO_WORDS.word_bytes)
        strobe_here = wide.strobe.word_select(lane, TWO_WORDS.word_bytes)
        held = kept.w_en & (inside | enters) & (its_place == lane)
        waits = dut.earlier_strobe.word_select(lane, TWO_WORDS.word_bytes)
        waiting = (lane < place[:WORD_BITS]) & ((number != 0) | (lane >= first)) & (word != 0)
        prove_shares += [
            implies(waits != 0, waiting),
            implies(inside & (its_place == lane), waits == strobe),
            implies(
                inside & (its_place == lane),
                dut.earlier.word_select(lane, 8 * TWO_WORDS.word_bytes) == word_data,
            ),
            implies(held, data_here == has_data),
            implies(held, strobe_here == has_strobe),
            # Of what is before the first and behind the last word nothing is written.
            implies(kept.w_en & (lane > place[:WORD_BITS]), strobe_here == 0),
            implies(kept.w_en & (number == 0) & (lane < first), strobe_here == 0),
        ]
    m.d.comb += [Assert(each) for each in prove_shares]
    ports += [addresses.w_rdy, addresses.r_rdy, addresses.r_data, kept.w_rdy, kept.r_rdy, kept.r_data]
    prove_by_induction(m, tmp_path, [*inputs_of(dut), *ports, length, watched], steps=3)


def test_shared_reads(monkeypatch, tmp_path):
    """AR: what is offered stays, and is a core's burst; its ID tells the core and who asked there. R: always taken, and
    given to the core that the ID names."""
    m = Module()

    class FreeReader(CoreReader):
        def elaborate(self, platform):
            return Module()

    monkeypatch.setattr(read_share, "CoreReader", FreeReader)
    dut = elaborated(m, "dut", ReadShare(TWO_WORDS))
    inside = m.submodules.dut.submodules
    bus, turns = dut.bus, inside.turns
    address_channel(m, dut, bus, "r", turns)
    m.d.comb += Assert(bus.rready)
    ports = [bus.arready, bus.rvalid, bus.rid, bus.rdata, bus.rresp, bus.rlast]
    for core, port in enumerate(dut.cores):
        reader = getattr(inside, f"reader{core}")
        beat, asked = reader.beats.payload, before(m, port.arvalid & ~reader.taken)
        m.d.comb += [
            Assume(implies(asked, port.arvalid)),
            Assert(implies(reader.taken, port.arvalid)),
            Assert(implies(before(m, reader.taken), bus.araddr == before(m, reader.address))),
            Assert(implies(before(m, reader.taken), bus.arlen == before(m, reader.length))),
            Assert(implies(before(m, reader.taken), bus.arid[0] == before(m, port.arid[0]))),
            Assert(reader.beats.valid == (bus.rvalid & (bus.rid[1:] == core))),
            Assert((beat.data == bus.rdata) & (beat.resp == bus.rresp)),
            Assert((beat.last == bus.rlast) & (beat.of_program == bus.rid[0])),
        ]
        ports += [port.arvalid, port.arid, port.araddr, port.arlen, reader.address, reader.length]
    prove_by_induction(m, tmp_path, ports, steps=2)


def test_wide_beats_become_words(monkeypatch, tmp_path):
    """A core that reads gets as many words of each burst as it asked for, each from its place in its wide beat, the
    last one with RLAST; beats of LOAD and of the program may come mixed."""
    queues, m = cut_queues(monkeypatch, read_share), Module()
    dut = elaborated(m, "dut", CoreReader(TWO_WORDS))
    kept, *spans = queues
    core, head = dut.core, data.View(read_share.ReadBeat(TWO_WORDS), kept.r_data)
    asked_first, asked_begin, asked_end = burst_of_words(m, "asked", core.arvalid, core.araddr, core.arlen)
    ports = leaves_free(m, kept)
    m.d.comb += [
        Assert(implies(core.arvalid, dut.address == (asked_begin << WIDE_BITS)[:32])),
        Assert(implies(core.arvalid, dut.length == (asked_end - asked_begin)[:8])),
        Assert(kept.w_en == dut.beats.valid),
        Assert(kept.w_data == dut.beats.payload.as_value()),
        Assert(core.rvalid == kept.r_rdy),
    ]
    moves = core.rvalid & core.rready
    for of_program, fifo in enumerate(spans):
        given, span = (data.View(read_share.WordSpan(TWO_WORDS), word) for word in (fifo.w_data, fifo.r_data))
        last_word = (core.araddr[LANE_BITS:] + core.arlen)[:WORD_BITS]
        mine = kept.r_rdy & (head.of_program == of_program)
        # The burst that the span is of: its words, and its next one.
        length, word = Signal(8, name=f"length{of_program}"), Signal(8, name=f"word{of_program}")
        place = span.first + word
        m.d.comb += [
            Assert(fifo.w_en == (dut.taken & (core.arid[0] == of_program))),
            Assert(implies(core.arvalid, (given.first == asked_first) & (given.last == last_word))),
            # The memory answers what was asked for: there is a span, and RLAST comes with the last wide beat.
            Assume(implies(mine, fifo.r_rdy)),
            Assume(implies(before(m, fifo.r_rdy & ~fifo.r_en), length == before(m, length))),
            Assume((length < BURST_BEATS) & (span.last == (span.first + length)[:WORD_BITS])),
            Assume(
                implies(mine, head.last == ((place >> WORD_BITS) == ((span.first + length) >> WORD_BITS)))
            ),
            # What holds always.
            Assert(implies(fifo.r_rdy, word <= length)),
            Assert(implies(word != 0, fifo.r_rdy)),
            Assert(dut.begins[of_program] == ((word == 0) | (place >> WORD_BITS == 0))),
            Assert(implies(mine & dut.inside, (dut.following == place[:WORD_BITS]) & (word != 0))),
            Assert(implies(~(mine & dut.inside) & (word != 0), place[:WORD_BITS] == 0)),
            Assert(implies(dut.inside, kept.r_rdy)),
            # What the core gets.
            Assert(implies(mine, core.rid == of_program)),
            Assert(
                implies(
                    mine, core.rdata == head.data.word_select(place[:WORD_BITS], 8 * TWO_WORDS.word_bytes)
                )
            ),
            Assert(implies(mine, core.rlast == (word == length))),
            Assert(fifo.r_en == (moves & mine & core.rlast)),
            Assert(implies(mine & moves, kept.r_en == (core.rlast | place[:WORD_BITS].all()))),
        ]
        with m.If(moves & mine):
            m.d.sync += word.eq(Mux(core.rlast, 0, word + 1))
        ports += [*leaves_free(m, fifo), length]
    stays_offered(m, core.rvalid, core.rready, core.rdata, core.rlast, core.rresp, core.rid)
    prove_by_induction(m, tmp_path, [*inputs_of(dut), *ports], steps=3)
