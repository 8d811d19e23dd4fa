"""What orders the units and moves their commands: semaphores, buffers, arbiters, registers, reset. By induction, so for
every behaviour of what is around them and for runs of any length."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal
from proving import (
    before,
    constant,
    elaborated,
    implies,
    inputs_of,
    prove_at_once,
    prove_by_induction,
    stays_offered,
)

from tosaic.hw.config import CONFIGS
from tosaic.hw.config_text import get_config
from tosaic.hw.control.axi_lite import AxiLiteSubordinate
from tosaic.hw.control.reset import SETTLE_CYCLES, SoftReset
from tosaic.hw.cores.token_exchange import TokenExchange
from tosaic.hw.sequencer.arbiter import ReadArbiter
from tosaic.hw.sequencer.semaphores import COUNTER_BITS, UNITS, Semaphores
from tosaic.hw.skid import SkidBuffer

pytestmark = pytest.mark.nightly
NANO = CONFIGS["nano"]
TWO_CORES, FOUR_CORES = get_config("nano,cores=2"), get_config("nano,cores=4")


@pytest.mark.parametrize("config", [NANO, TWO_CORES], ids=["one core", "two cores"])
def test_tokens_are_never_negative_nor_lost(config, tmp_path):
    """A signal of any one semaphore is kept until its tokens are added to the counter; a grant subtracts its tokens,
    which are there; nothing else changes the counter. Units keep to `Tokens`: a wait stays until it is granted, a
    signal comes while there is room for it; and programs keep below the counter's largest number. Tokens from another
    core come in like a unit's."""
    m = Module()
    dut = elaborated(m, "dut", Semaphores(config))
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
        others = dut.for_others[unit]
        mine = port.signal & (~port.signal_cores.any() | port.signal_cores[0] if config.cores > 1 else 1)
        inputs.append(port.signal_cores)
        here = port.semaphore[: dut.index_bits] == which
        m.d.comb += [
            Assume(port.semaphore < config.semaphores),
            Assume(implies(port.signal, ~port.signal_full)),
            Assume(implies(waited, port.wait & (port.semaphore == before(m, port.semaphore)))),
            Assume(implies(waited, port.count == before(m, port.count))),
            Assume(implies(pending & (semaphore == which), counter.data + count < 1 << COUNTER_BITS)),
            Assert(port.signal_full == (pending | others.any())),
            # What the comparison found is still there when it is granted.
            Assert(implies(dut.enough[unit], port.wait)),
            Assert(implies(dut.enough[unit] & here, counter.data >= port.count)),
            Assert(implies(dut.enough[unit], dut.asked[unit][0] == port.semaphore[: dut.index_bits])),
            Assert(implies(dut.enough[unit], dut.asked[unit][1] == port.count)),
            Assert(implies(port.ok, dut.enough[unit])),
            # A signal is kept as it was given.
            Assert(implies(before(m, mine), pending)),
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
    if config.cores > 1:
        foreign, (semaphore, count), pending = dut.foreign, dut.signalled[UNITS], dut.signals[UNITS]
        came, added = before(m, foreign.comes), Signal(name="added_foreign")
        inputs += [foreign.comes, foreign.coming_semaphore, foreign.coming_count, foreign.taken]
        m.d.comb += [
            Assume(implies(foreign.comes, ~foreign.full)),
            Assume(implies(pending & (semaphore == which), counter.data + count < 1 << COUNTER_BITS)),
            Assert(foreign.full == pending),
            Assert(implies(came, pending)),
            Assert(implies(came, semaphore == before(m, foreign.coming_semaphore)[: dut.index_bits])),
            Assert(implies(came, count == before(m, foreign.coming_count))),
            Assert(implies(before(m, pending) & pending, semaphore == before(m, semaphore))),
            Assert(implies(before(m, pending) & pending, count == before(m, count))),
            added.eq(before(m, pending & (semaphore == which)) & ~pending),
        ]
        events, change = [*events, added], change + Mux(added, before(m, count), 0)
    m.d.comb += [Assert(sum(events) <= 1), Assert(counter.data == change[:COUNTER_BITS])]
    prove_by_induction(m, tmp_path, inputs, steps=2)


def test_tokens_that_are_there_are_given(tmp_path):
    """The semaphores' part of freedom from deadlock: while a unit waits for tokens that are there, some unit gets its
    own in this cycle or in the next one; and while a signal is not counted, one is counted or tokens are given in this
    cycle."""
    m = Module()
    dut = elaborated(m, "dut", Semaphores(NANO))
    ports = (dut.load, dut.array, dut.vector, dut.store)
    given = Cat(port.ok for port in ports).any()
    m.d.comb += [Assume(~dut.clear), Assert(~dut.clears)]
    for port in ports:
        counter = dut.counters.read_port(domain="comb")
        waits = port.wait & (counter.data >= port.count) & ~port.ok
        m.d.comb += [counter.addr.eq(port.semaphore), Assert(implies(before(m, waits & ~given), given))]
        m.d.comb += Assume(implies(port.signal, ~port.signal_full))
    pending, counted = before(m, dut.signals.any() & ~given), before(m, dut.signals) & ~dut.signals
    m.d.comb += Assert(implies(pending, counted.any()))
    prove_by_induction(m, tmp_path, inputs_of(dut), steps=2)


def test_tokens_for_other_cores_arrive_once(tmp_path):
    """A SIGNAL of any one unit is offered to each other core that it is for, whole, until that one has it, and to no
    other one. Then the unit may signal again."""
    m = Module()
    dut = elaborated(m, "dut", Semaphores(FOUR_CORES, core=1))
    foreign, ports = dut.foreign, (dut.load, dut.array, dut.vector, dut.store)
    m.d.comb += Assume(~dut.clear)
    inputs = [*inputs_of(dut)]
    offers = 0
    for unit, port in enumerate(ports):
        left, semaphore, count = (
            Signal(FOUR_CORES.cores),
            Signal(dut.index_bits),
            Signal.like(port.signal_count),
        )
        accepted, is_first = port.signal & ~port.signal_full, Signal()
        earlier = Cat(dut.for_others[number].any() for number in range(unit)).any()
        m.d.comb += is_first.eq(left.any() & ~earlier)
        with m.If(accepted):
            m.d.sync += [left.eq(port.signal_cores & ~(1 << 1)), semaphore.eq(port.signal_semaphore)]
            m.d.sync += count.eq(port.signal_count)
        with m.Elif(is_first):
            m.d.sync += left.eq(left & ~foreign.taken)
        m.d.comb += [
            # Only what is offered is taken: see `test_exchanged_tokens_arrive`.
            Assume((foreign.taken & ~foreign.sends) == 0),
            Assume(implies(port.signal, ~port.signal_full)),
            Assert(dut.for_others[unit] == left),
            Assert(implies(left.any(), port.signal_full)),
            Assert(~left[1]),
            Assert(
                implies(left.any(), (dut.signalled[unit][0] == semaphore) & (dut.signalled[unit][1] == count))
            ),
            Assert(implies(is_first, foreign.sends == left)),
            Assert(implies(is_first, (foreign.semaphore == semaphore) & (foreign.count == count))),
        ]
        offers = offers | left.any()
    m.d.comb += Assert(implies(~offers, ~foreign.sends.any()))
    prove_by_induction(m, tmp_path, inputs, steps=2)


def test_exchanged_tokens_arrive(tmp_path):
    """A core gets what one other core sends, whole, in the cycle in which that one is told so, and only while it has a
    place; of several that send to it one in a cycle. Whoever has a place and is sent to gets something."""
    m = Module()
    m.submodules.dut = dut = TokenExchange(FOUR_CORES)
    for target, port in enumerate(dut.cores):
        taken = Cat(source.taken[target] for source in dut.cores)
        sends = Cat(source.sends[target] for source in dut.cores)
        m.d.comb += [
            Assert(port.comes == taken.any()),
            Assert((taken & (taken - 1)[: len(taken)]) == 0),
            Assert((taken & ~sends) == 0),
            Assert(implies(port.comes, ~port.full)),
            Assert(implies(sends.any() & ~port.full, port.comes)),
        ]
        for source in dut.cores:
            given = source.taken[target]
            m.d.comb += [
                Assert(implies(given, port.coming_semaphore == source.semaphore)),
                Assert(implies(given, port.coming_count == source.count)),
            ]
    ports = [each for port in dut.cores for each in (port.sends, port.semaphore, port.count, port.full)]
    prove_at_once(m, tmp_path, ports)


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
