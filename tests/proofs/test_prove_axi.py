"""AXI4's rules at the ports of LOAD, STORE and the program's fetch, for all programs, stalls and answers, by induction:
what is offered stays until it is taken, bursts have the type and the length that they should, WLAST comes with the last
beat of its burst and the next burst's data behind it, what was asked for is always taken. That bursts keep to 4 KiB and
to the window is proved of the splitter that makes them (test_prove_dma.py); the port of several cores has
test_prove_cores.py.

What is shown of the words that enter a queue holds of those that leave it, since queues keep order
(test_prove_queues.py).
"""

import pytest
from amaranth.hdl import Assert, Assume, Module, Mux, Signal
from amaranth.lib import data
from amaranth.utils import exact_log2
from proving import (
    before,
    cut_queues,
    elaborated,
    implies,
    inputs_of,
    leaves_free,
    prove_by_induction,
    stays_offered,
    watch_queues,
)

from tosaic.hw.config import CONFIGS
from tosaic.hw.constants import AXI_INCR, BURST_BEATS, OUTSTANDING_BEATS
from tosaic.hw.dma import store as store_module
from tosaic.hw.dma.bursts import beats_of, lanes_of
from tosaic.hw.dma.load import LoadUnit
from tosaic.hw.dma.store import StoreUnit
from tosaic.hw.wishbone.memory import MemoryBridge

pytestmark = pytest.mark.nightly
NANO = CONFIGS["nano"]


def address_rules(m, axi, channel):
    """Asserts the rules of an address channel, AR or AW."""
    valid, ready, address, length, size, burst = (
        getattr(axi, f"a{channel}{field}") for field in ("valid", "ready", "addr", "len", "size", "burst")
    )
    stays_offered(m, valid, ready, address, length, size, burst)
    lane_bits = exact_log2(NANO.word_bytes)
    m.d.comb += [
        Assert(implies(valid, burst == AXI_INCR)),
        Assert(implies(valid, size == lane_bits)),
        Assert(implies(valid, length < BURST_BEATS)),
        Assert(implies(valid, address[:lane_bits] == 0)),
    ]


def test_load_offers_reads(tmp_path):
    m = Module()
    m.submodules.dut = dut = LoadUnit(NANO)
    address_rules(m, dut.axi, "r")
    # What holds always: the address that waits behind the one that is offered is a word's, too.
    spare = dut.addresses.spare.address[: exact_log2(NANO.word_bytes)]
    m.d.comb += Assert(implies(dut.addresses.spare_valid, spare == 0))
    prove_by_induction(m, tmp_path, inputs_of(dut), steps=2)


def test_store_offers_writes(tmp_path):
    m = Module()
    m.submodules.dut = dut = StoreUnit(NANO)
    address_rules(m, dut.axi, "w")
    m.d.comb += Assert(dut.axi.bready)
    prove_by_induction(m, tmp_path, inputs_of(dut), steps=2)


def test_store_offers_data(tmp_path):
    m = Module()
    m.submodules.dut = dut = StoreUnit(NANO)
    axi = dut.axi
    stays_offered(m, axi.wvalid, axi.wready, axi.wdata, axi.wstrb, axi.wlast)
    prove_by_induction(m, tmp_path, inputs_of(dut), steps=2)


def test_store_ends_its_bursts(monkeypatch, tmp_path):
    """The beats of bursts are read in the order of their addresses: as many as AWLEN told, WLAST with the last one, and
    strobes for the bytes of the row alone."""
    queues, m = cut_queues(monkeypatch, store_module), Module()
    dut = elaborated(m, "dut", StoreUnit(NANO))
    pending, _ = queues
    head, burst = data.View(dut.reading, pending.r_data), dut.burst
    ports, prepares = leaves_free(m, pending), dut.am.prepare
    number, is_last = Signal(8), Signal()
    with m.If(prepares):
        m.d.sync += number.eq(Mux(is_last, 0, number + 1))
    strobes = lanes_of(head, number == 0, is_last, NANO.word_bytes)
    m.d.comb += [
        is_last.eq(number == head.last_beat),
        # A burst goes to the reader in the cycle in which its address goes to the port.
        Assert(implies(pending.w_en, pending.w_rdy)),
        Assert(pending.w_data == dut.reading.of(burst)),
        Assert(implies(before(m, pending.w_en), dut.axi.awvalid)),
        Assert(implies(before(m, pending.w_en), dut.axi.awlen == before(m, burst.last_beat))),
        Assert(implies(before(m, pending.w_en), dut.axi.awaddr == before(m, burst.address))),
        Assert(
            implies(dut.axi.awvalid & ~before(m, dut.axi.awvalid & ~dut.axi.awready), before(m, pending.w_en))
        ),
        # What holds always.
        Assert((number == dut.index) & (number < BURST_BEATS) & (dut.is_first == (number == 0))),
        Assert(implies(number != 0, pending.r_rdy & (number <= head.last_beat))),
        # Beats.
        Assert(implies(prepares, pending.r_rdy)),
        Assert(pending.r_en == (prepares & is_last)),
        Assert(implies(before(m, prepares), dut.mark.last == before(m, is_last))),
        Assert(implies(before(m, prepares), dut.mark.strobe == before(m, strobes))),
    ]
    prove_by_induction(m, tmp_path, [*inputs_of(dut), *ports], steps=3)


def test_store_has_a_place_for_every_beat(monkeypatch, tmp_path):
    """A beat that was read finds a place in the buffer before the bus, however late the bus takes it, and leaves it
    with the mark of its own read; no beat is lost or sent twice."""
    queues, m = watch_queues(monkeypatch, store_module), Module()
    m.submodules.dut = dut = StoreUnit(NANO)
    beats, granted = dut.beats, dut.taken
    under_way = 0  # granted, and not in the buffer
    mark = dut.mark.as_value()
    asks = dut.am.request
    for _ in range(store_module.AM_READ_LATENCY):
        granted, mark = before(m, granted), before(m, mark)
        under_way = under_way + granted
    m.d.comb += [
        Assert(implies(dut.prepared, asks & (dut.credit != 0))),
        Assert(dut.credit - dut.prepared + asks + under_way + beats.level == store_module.BEATS_BUFFERED),
        Assert(beats.w_en == granted),
        Assert(implies(beats.w_en, beats.w_rdy)),
        Assert(implies(beats.w_en, beats.w_data[: len(mark)] == mark)),
        Assert(implies(beats.w_en, beats.w_data[len(mark) :] == dut.am.data)),
        Assert(implies(beats.r_en, beats.r_rdy)),
        Assert(dut.sent == (dut.axi.wvalid & dut.axi.wready)),
    ]
    prove_by_induction(m, tmp_path, [*inputs_of(dut), *(queue.pick for queue in queues)], steps=4)


def test_load_asks_for_no_more_than_it_may(tmp_path):
    """At most OUTSTANDING_BEATS are requested and have not retired, which is what the shared port of several cores has
    places for; every answer has the burst that asked for it."""
    m = Module()
    m.submodules.dut = dut = LoadUnit(NANO)
    m.d.comb += [
        Assert(dut.beats_under_way <= OUTSTANDING_BEATS),
        Assert(implies(dut.issues, dut.beats_under_way + beats_of(dut.burst) <= OUTSTANDING_BEATS)),
        Assert(implies(dut.issues, dut.descriptors.w_rdy)),
        Assert(implies(dut.retires, dut.head_valid)),
        # The memory answers only what it was asked.
        Assume(implies(dut.retires, dut.beats_under_way != 0)),
    ]
    prove_by_induction(m, tmp_path, inputs_of(dut), steps=4)


def test_the_wishbone_bridge_answers_bursts(tmp_path):
    """In the system on Wishbone answers stay until they are taken, RLAST comes with the last beat of its burst, and a
    write is answered once, after its last beat, with the ID that asked."""
    m = Module()
    m.submodules.dut = dut = MemoryBridge(NANO)
    idle = dut.idle
    read, write, bus = dut.read, dut.write, dut.wishbone
    last = ~(idle | bus.cyc | write.bvalid)  # all that is left is the last beat of a read
    stays_offered(m, read.rvalid, read.rready, read.rid, read.rdata, read.rresp, read.rlast)
    stays_offered(m, write.bvalid, write.bready, write.bid, write.bresp)
    # Beats of the burst that was taken last that are not answered (read), or taken (write).
    reads, writes, answers = Signal(9), Signal(9), Signal(2)
    read_id, write_id = (Signal.like(read.arid, name=f"{kind}_id") for kind in ("read", "write"))
    asked = (read.arvalid & read.arready, write.awvalid & write.awready)
    with m.If(asked[0]):
        m.d.sync += [reads.eq(read.arlen + 1), read_id.eq(read.arid)]
    with m.Elif(read.rvalid & read.rready):
        m.d.sync += reads.eq(reads - 1)
    with m.If(asked[1]):
        m.d.sync += [writes.eq(write.awlen + 1), write_id.eq(write.awid)]
    with m.Elif(write.wvalid & write.wready):
        m.d.sync += writes.eq(writes - 1)
    m.d.sync += answers.eq(answers + asked[1] - (write.bvalid & write.bready))
    held = before(m, write.wvalid & ~write.wready)
    cycle_held = before(m, bus.cyc & bus.stb & ~(bus.ack | bus.err))
    ended = bus.cyc & bus.stb & (bus.ack | bus.err)
    m.d.comb += [
        Assume(implies(held, write.wvalid)),
        Assume(implies(held, write.wdata == before(m, write.wdata))),
        Assume(implies(held, write.wstrb == before(m, write.wstrb))),
        # One burst at a time.
        Assert(~(asked[0] & asked[1])),
        Assert(implies(idle, (reads == 0) & (writes == 0) & (answers == 0) & ~read.rvalid)),
        Assert(implies(last, (reads == read.rvalid) & (writes == 0) & (answers == 0))),
        Assert(implies(bus.cyc & ~bus.we, (reads == dut.left + 1 + read.rvalid) & (answers == 0))),
        Assert(implies(bus.cyc & bus.we, (writes == dut.left + 1) & (answers == 1) & (reads == 0))),
        Assert(implies(asked[0] | asked[1], idle)),
        Assert(implies(read.rvalid, reads != 0)),
        Assert(implies(reads != 0, read.rid == read_id)),
        Assert(implies(read.rvalid, read.rlast == (reads == 1))),
        Assert(implies(write.wvalid & write.wready, writes != 0)),
        Assert(answers <= 1),
        Assert(implies(writes != 0, answers == 1)),
        Assert(implies(answers == 1, write.bid == write_id)),
        Assert(implies(write.bvalid, (answers == 1) & (writes == 0) & (reads == 0))),
        # Wishbone: a cycle stays as it is until it is answered.
        Assert(implies(bus.stb, bus.cyc)),
        Assert(implies(cycle_held, bus.cyc & bus.stb)),
        Assert(implies(cycle_held, (bus.we == before(m, bus.we)) & (bus.adr == before(m, bus.adr)))),
        Assert(implies(cycle_held & bus.we, bus.dat_w == before(m, bus.dat_w))),
        Assert(implies(ended & bus.we, writes != 0)),
    ]
    prove_by_induction(m, tmp_path, inputs_of(dut), steps=3)
