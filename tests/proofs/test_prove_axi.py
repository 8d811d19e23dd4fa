"""AXI4's rules at the ports of LOAD and STORE, for all programs, stalls and answers, by induction: what is offered
stays until it is taken, bursts have the type and the length that they should. That they keep to 4 KiB and to the window
is proved of the splitter that makes them (test_prove_dma.py)."""

import pytest
from amaranth.hdl import Assert, Module
from amaranth.utils import exact_log2
from proving import implies, prove_by_induction, stays_offered

from tosaic.hw.config import CONFIGS
from tosaic.hw.constants import AXI_INCR, BURST_BEATS
from tosaic.hw.dma.load import LoadUnit
from tosaic.hw.dma.store import StoreUnit

pytestmark = pytest.mark.nightly
NANO = CONFIGS["nano"]


def inputs_of(component):
    """All input ports of a component."""
    return [
        value.as_value() if hasattr(value, "as_value") else value
        for path, member, value in component.signature.flatten(component)
        if member.flow.name == "In"
    ]


def address_rules(m, axi, channel):
    """Of the address channel: AR or AW."""
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
