"""What orders the units and moves their commands: semaphores, buffers, arbiters, registers, reset. By induction, so for
every behaviour of what is around them and for runs of any length."""

import pytest
from amaranth.hdl import Assert, Assume, Module, Mux, Signal
from proving import before, constant, implies, prove_by_induction, stays_offered

from tosaic.hw.config import CONFIGS
from tosaic.hw.control.axi_lite import AxiLiteSubordinate
from tosaic.hw.control.reset import SETTLE_CYCLES, SoftReset
from tosaic.hw.sequencer.arbiter import ReadArbiter
from tosaic.hw.sequencer.semaphores import COUNTER_BITS, Semaphores
from tosaic.hw.skid import SkidBuffer

pytestmark = pytest.mark.nightly
NANO = CONFIGS["nano"]


def test_tokens_are_never_negative_nor_lost(tmp_path):
    """Of any one semaphore: a signal is kept until its tokens are added to the counter; a grant subtracts its tokens,
    which are there; nothing else changes the counter. Units keep to `Tokens`: a wait stays until it is granted, a
    signal comes while there is room for it; and programs keep below the counter's largest number."""
    m, dut = Module(), Semaphores(NANO)
    m.submodules.dut = dut.elaborate(None)
    dut._MustUse__used = True
    which = constant(m, Signal(dut.index_bits, name="which"))
    counter = dut.counters.read_port(domain="comb")
    m.d.comb += [counter.addr.eq(which), Assume(~dut.clear), Assert(~dut.clears)]
    inputs, events, change = [dut.clear, which], [], before(m, counter.data)
    for unit, port in enumerate((dut.load, dut.array, dut.vector, dut.store)):
        inputs += [
            port.wait,
            port.semaphore,
            port.count,
            port.signal,
            port.signal_semaphore,
            port.signal_count,
        ]
        semaphore, count = dut.signalled[unit]
        pending, waited = dut.signals[unit], before(m, port.wait & ~port.ok)
        here = port.semaphore[: dut.index_bits] == which
        m.d.comb += [
            Assume(port.semaphore < NANO.semaphores),
            Assume(implies(port.signal, ~port.signal_full)),
            Assume(implies(waited, port.wait & (port.semaphore == before(m, port.semaphore)))),
            Assume(implies(waited, port.count == before(m, port.count))),
            Assume(implies(pending & (semaphore == which), counter.data + count < 1 << COUNTER_BITS)),
            Assert(port.signal_full == pending),
            # What the comparison found is still there when it is granted.
            Assert(implies(dut.enough[unit], port.wait)),
            Assert(implies(dut.enough[unit] & here, counter.data >= port.count)),
            Assert(implies(port.ok, dut.enough[unit])),
            # A signal is kept as it was given.
            Assert(implies(before(m, port.signal), pending)),
            Assert(
                implies(
                    before(m, port.signal), semaphore == before(m, port.signal_semaphore)[: dut.index_bits]
                )
            ),
            Assert(implies(before(m, port.signal), count == before(m, port.signal_count))),
            Assert(implies(before(m, pending) & pending, semaphore == before(m, semaphore))),
            Assert(implies(before(m, pending) & pending, count == before(m, count))),
        ]
        granted, added = Signal(name=f"granted{unit}"), Signal(name=f"added{unit}")
        m.d.comb += [
            granted.eq(before(m, port.ok & here)),
            added.eq(before(m, pending & (semaphore == which)) & ~pending),
        ]
        events += [granted, added]
        change = change - Mux(granted, before(m, port.count), 0) + Mux(added, before(m, count), 0)
    m.d.comb += [Assert(sum(events) <= 1), Assert(counter.data == change[:COUNTER_BITS])]
    prove_by_induction(m, tmp_path, inputs, steps=2)


def test_a_buffer_keeps_order(tmp_path):
    """The payloads are numbered as they come; they leave in this order, none is lost or comes twice."""
    m = Module()
    m.submodules.dut = dut = SkidBuffer(8)
    taken, left = Signal(8), Signal(8)
    m.d.sync += [
        taken.eq(taken + (dut.input.valid & dut.input.ready)),
        left.eq(left + (dut.output.valid & dut.output.ready)),
    ]
    m.d.comb += [
        Assume(dut.input.payload == taken),
        Assert(implies(dut.output.valid, dut.output.payload == left)),
        Assert(implies(dut.spare_valid, dut.output.valid & (dut.spare == (left + 1)[:8]))),
        Assert((taken - left)[:8] == dut.output.valid + dut.spare_valid),
    ]
    stays_offered(m, dut.output.valid, dut.output.ready, dut.output.payload)
    prove_by_induction(m, tmp_path, [dut.input.valid, dut.input.payload, dut.output.ready])


def test_reads_take_turns(tmp_path):
    """AXI's rule of the address channel; what is offered is a request that was taken; and a requester waits for at most
    one burst of the other, unless the program's buffer runs low."""
    m = Module()
    m.submodules.dut = dut = ReadArbiter(NANO, fetch_id=1)
    bus, load, fetch = dut.bus, dut.load, dut.fetch
    fields = ("araddr", "arlen", "arid", "arsize", "arburst")
    stays_offered(m, bus.arvalid, bus.arready, *(getattr(bus, field) for field in fields))
    for requester in (load, fetch):
        taken = before(m, requester.arvalid & requester.arready)
        for field in fields:
            m.d.comb += Assert(implies(taken, getattr(bus, field) == before(m, getattr(requester, field))))
        m.d.comb += Assert(implies(taken, bus.arvalid))
    any_taken = (load.arvalid & load.arready) | (fetch.arvalid & fetch.arready)
    m.d.comb += [
        Assert(~(load.arvalid & load.arready & fetch.arvalid & fetch.arready)),
        # The bus has no request that nobody made.
        Assert(implies(bus.arvalid & ~before(m, bus.arvalid & ~bus.arready), before(m, any_taken))),
    ]
    for waits, other in ((load, fetch), (fetch, load)):
        other_was_last = dut.fetch_was_last if other is fetch else ~dut.fetch_was_last
        passed = Signal()  # the other one was served while this one waited
        with m.If(~waits.arvalid | waits.arready):
            m.d.sync += passed.eq(0)
        with m.Elif(other.arvalid & other.arready):
            m.d.sync += passed.eq(1)
        served_again = passed & waits.arvalid & other.arvalid & other.arready & ~dut.fetch_low
        m.d.comb += [Assert(~served_again), Assert(implies(passed, other_was_last))]
    inputs = [dut.fetch_low, bus.arready, bus.rid, bus.rvalid]
    for requester in (load, fetch):
        inputs += [requester.arvalid, requester.rready, *(getattr(requester, field) for field in fields)]
    prove_by_induction(m, tmp_path, inputs)


def test_every_register_access_is_answered_once(tmp_path):
    """AXI4-Lite's rules of the answers, and as many answers as transactions, each after its own."""
    m = Module()
    m.submodules.dut = dut = AxiLiteSubordinate()
    axi, bus = dut.axi, dut.bus
    stays_offered(m, axi.bvalid, axi.bready, axi.bresp)
    stays_offered(m, axi.rvalid, axi.rready, axi.rresp, axi.rdata)
    addresses, words, reads = (Signal(2, name=name) for name in ("addresses", "words", "reads"))
    m.d.sync += [
        addresses.eq(addresses + (axi.awvalid & axi.awready) - bus.write),
        words.eq(words + (axi.wvalid & axi.wready) - bus.write),
        reads.eq(reads + (axi.arvalid & axi.arready) - (axi.rvalid & axi.rready)),
    ]
    m.d.comb += [
        Assert((addresses <= 1) & (words <= 1) & (reads <= 1)),
        Assert(axi.awready == (addresses == 0)),
        Assert(axi.wready == (words == 0)),
        Assert(implies(bus.write, (addresses == 1) & (words == 1) & ~axi.bvalid)),
        Assert(implies(before(m, bus.write), axi.bvalid)),
        Assert(axi.arready == (reads == 0)),
        Assert(implies(axi.rvalid, reads == 1)),
        Assert(implies(bus.read, reads == 1)),
    ]
    inputs = [axi.awaddr, axi.awvalid, axi.wdata, axi.wstrb, axi.wvalid, axi.bready, axi.araddr, axi.arvalid]
    prove_by_induction(m, tmp_path, [*inputs, axi.rready, bus.write_error, bus.read_data, bus.read_error])


def test_a_soft_reset_ends(tmp_path):
    """Within its limit whatever the bus does; and before it only when nothing is outstanding."""
    limit = 32
    m = Module()
    m.submodules.dut = dut = SoftReset(limit)
    waited = Signal(range(limit + 1))
    m.d.sync += waited.eq(Mux(dut.resetting & ~dut.reset, waited + 1, 0))
    m.d.comb += [
        Assert(waited < limit),
        Assert(waited == dut.cycles),
        Assert(implies(dut.reset, dut.resetting & (waited >= SETTLE_CYCLES - 1))),
        Assert(implies(dut.reset & (waited < limit - 1), before(m, before(m, dut.bus_idle)))),
        Assert(implies(dut.resetting, dut.stop)),
        Assert(implies(before(m, dut.request & ~dut.resetting), dut.resetting)),
    ]
    prove_by_induction(m, tmp_path, [dut.request, dut.bus_idle])
