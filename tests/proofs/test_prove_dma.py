"""What a program can reach of external memory: every burst that LOAD and STORE make of any row stays in the window that
the host gave, and AXI's rules of bursts. The program's own reads stay within the program."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Signal
from amaranth.utils import exact_log2
from proving import before, constant, implies, prove_by_induction, stays_offered

from tosaic.hw.config import CONFIGS
from tosaic.hw.constants import BURST_BEATS, FETCH_BURST_BYTES
from tosaic.hw.dma.bursts import BEAT_BITS, BurstSplitter
from tosaic.hw.isa import INSTRUCTION_BYTES
from tosaic.hw.sequencer.fetch import Fetch

pytestmark = pytest.mark.nightly
NANO = CONFIGS["nano"]
PAGE_BYTES = 4096
"""AXI: no burst crosses a multiple of this."""


def splitter():
    """A splitter whose window stays, ends at 2**32 or before, and the facts that its state keeps to."""
    m = Module()
    m.submodules.dut = dut = BurstSplitter(NANO)
    lane_bits = exact_log2(NANO.word_bytes)
    constant(m, dut.mem_base)
    constant(m, dut.mem_size)
    end = Signal(33, name="window_end")
    live, given = dut.burst_valid & ~dut.purpose.is_signal, dut.transfers.payload
    first, last = Signal(33, name="first_byte"), Signal(34, name="last_byte")
    m.d.comb += [
        end.eq(dut.mem_base + dut.mem_size),
        Assume(end <= 1 << 32),
        Assume(given.rows != 0),
        # A GO without bytes is illegal.
        Assume((given.row_bytes != 0) | given.illegal | given.purpose.is_signal),
        Assert(
            implies(dut.row_valid & ~dut.row.illegal & ~dut.row.purpose.is_signal, dut.row.row_bytes != 0)
        ),
        first.eq(Cat(dut.first_lane, dut.beat)),
        last.eq(Cat(dut.last_lane, dut.beat + dut.beats_left)),
        Assert(implies(live, (first >= dut.mem_base) & (last < end) & (first <= last))),
        Assert(implies(live, dut.burst_is_last == (dut.beat[:BEAT_BITS] + dut.beats_left < BURST_BEATS))),
    ]
    inputs = [dut.mem_base, dut.mem_size, dut.halt, dut.bursts.ready, dut.transfers.valid]
    return m, dut, end, [*inputs, dut.transfers.payload.as_value()], lane_bits


def test_bursts_stay_in_the_window(tmp_path):
    m, dut, end, inputs, lane_bits = splitter()
    burst = dut.bursts.payload
    offered = dut.bursts.valid & ~burst.purpose.is_signal
    first = burst.address + burst.first_lane
    last = burst.address + (burst.last_beat << lane_bits) + burst.last_lane
    m.d.comb += Assert(implies(offered, (first >= dut.mem_base) & (last < end)))
    prove_by_induction(m, tmp_path, inputs, steps=1)


def test_bursts_stay_in_a_page(tmp_path):
    m, dut, _, inputs, lane_bits = splitter()
    burst = dut.bursts.payload
    last_beat = Signal(33)
    m.d.comb += last_beat.eq(burst.address + (burst.last_beat << lane_bits))
    page = exact_log2(PAGE_BYTES)
    m.d.comb += Assert(
        implies(dut.bursts.valid & ~burst.purpose.is_signal, last_beat[page:] == burst.address[page:])
    )
    prove_by_induction(m, tmp_path, inputs, steps=1)


def test_an_offered_burst_stays(tmp_path):
    """Unless `halt` takes it back."""
    m, dut, _, inputs, _ = splitter()
    held = before(m, dut.bursts.valid & ~dut.bursts.ready)
    payload = dut.bursts.payload.as_value()
    m.d.comb += [
        Assert(implies(held & ~dut.halt, dut.bursts.valid)),
        Assert(implies(held, payload == before(m, payload))),
    ]
    prove_by_induction(m, tmp_path, inputs, steps=1)


def test_the_program_is_read_within_its_bounds(tmp_path):
    """Bursts of the fetch: whole entries from the one with the first instruction to the one with the last, no burst
    across a multiple of its longest length, and what is offered stays."""
    m = Module()
    m.submodules.dut = dut = Fetch(NANO)
    axi = dut.axi
    begin, end = Signal(33, name="program_begin"), Signal(34, name="program_end")
    with m.If(dut.start):
        m.d.sync += [begin.eq(dut.address), end.eq(dut.address + dut.instructions * INSTRUCTION_BYTES)]
    bytes_of_burst = (axi.arlen + 1) * NANO.word_bytes
    last = Signal(34, name="last_byte")
    page = exact_log2(FETCH_BURST_BYTES)
    m.d.comb += [
        Assume(
            implies(dut.start, (dut.address[:4] == 0) & (dut.instructions != 0) & ~axi.arvalid & dut.stop)
        ),
        Assume(dut.address + dut.instructions * INSTRUCTION_BYTES <= 1 << 32),
        last.eq(axi.araddr + bytes_of_burst - 1),
        Assert((end <= 1 << 32) & (dut.next_address[:4] == 0)),
        # What is not requested yet ends with the program.
        Assert(implies(dut.entries_left != 0, dut.next_address + (dut.entries_left << 4) == end)),
        Assert(implies(dut.entries_left != 0, dut.next_address >= begin)),
        Assert(implies(dut.fits & ~axi.arvalid, dut.entries <= dut.entries_left)),
        Assert(implies(dut.fits & ~axi.arvalid, dut.entries != 0)),
        Assert(implies(dut.fits & ~axi.arvalid, dut.next_address[4:page] + dut.entries <= 1 << (page - 4))),
        Assert(implies(axi.arvalid, (axi.araddr >= begin) & (last < end))),
        Assert(implies(axi.arvalid, axi.araddr[page:] == last[page:])),
    ]
    stays_offered(m, axi.arvalid, axi.arready, axi.araddr, axi.arlen)
    inputs = [dut.start, dut.address, dut.instructions, dut.stop, dut.out.ready, axi.arready]
    prove_by_induction(m, tmp_path, [*inputs, axi.rvalid, axi.rlast, axi.rresp, axi.rdata], steps=1)
