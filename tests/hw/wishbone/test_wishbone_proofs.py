"""The register bridge's rules, proved by Yosys' SAT solver: for every behaviour of both sides, by induction."""

import pytest
from amaranth.hdl import Assert, Assume, Module, Signal
from proving import before, claim, prove_by_induction, stays_offered

from tosaic.hw.wishbone import ControlBridge

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("yosys")]


def test_register_bridge(tmp_path):
    """AXI4-Lite: what is offered stays until it is taken, and no answer is left over. Wishbone: an answer only to a
    cycle that lasts from its beginning, and never two."""
    m = Module()
    m.submodules.dut = dut = ControlBridge()
    bus, axi = dut.wishbone, dut.axi

    for valid, ready, payload in (
        (axi.awvalid, axi.awready, (axi.awaddr,)),
        (axi.wvalid, axi.wready, (axi.wdata, axi.wstrb)),
        (axi.arvalid, axi.arready, (axi.araddr,)),
    ):
        stays_offered(m, valid, ready, *payload)

    # Transactions that the subordinate has taken and owes an answer to.
    reads, addresses, writes = Signal(2), Signal(2), Signal(2)
    m.d.sync += [
        reads.eq(reads + (axi.arvalid & axi.arready) - (axi.rvalid & axi.rready)),
        addresses.eq(addresses + (axi.awvalid & axi.awready) - (axi.bvalid & axi.bready)),
        writes.eq(writes + (axi.wvalid & axi.wready) - (axi.bvalid & axi.bready)),
    ]
    m.d.comb += [
        # The subordinate answers what it took, and nothing else.
        Assume(~axi.rvalid | (reads != 0)),
        Assume(~axi.bvalid | (addresses != 0) & (writes != 0)),
        # While the bridge waits for an answer, the request is offered or taken; else there is none.
        Assert(reads + axi.arvalid == axi.rready),
        Assert(addresses + axi.awvalid == axi.bready),
        Assert(writes + axi.wvalid == axi.bready),
        Assert(~(axi.rready & axi.bready)),
    ]

    asked = Signal()
    m.d.comb += asked.eq(bus.cyc & bus.stb)
    answered = before(m, bus.ack | bus.err)
    taken = before(m, axi.rvalid & axi.rready)
    m.d.comb += [
        Assert(~(bus.ack & bus.err)),
        claim(bus.ack | bus.err, asked & before(m, asked) & ~answered),
        # An answer comes the cycle after the one on the AXI side, with its data.
        claim(bus.ack | bus.err, taken | before(m, axi.bvalid & axi.bready)),
        claim((bus.ack | bus.err) & taken, bus.dat_r == before(m, axi.rdata)),
        claim((bus.ack | bus.err) & taken, bus.err == (before(m, axi.rresp) != 0)),
    ]
    inputs = [bus.cyc, bus.stb, bus.we, bus.adr, bus.sel, bus.dat_w]
    inputs += [axi.awready, axi.wready, axi.bvalid, axi.bresp, axi.arready, axi.rvalid, axi.rdata, axi.rresp]
    prove_by_induction(m, tmp_path, inputs)
