"""The parts of divided rows (decision 0024): what each of them reads, when it reads it, and that their sums are added
up. By induction, for `base`, whose rows have four parts."""

import pytest
from amaranth.hdl import Assert, Assume, Module, Mux, Signal
from amaranth.lib import fifo
from proving import Left, OpenQueue, before, constant, elaborated, implies, inputs_of, prove_by_induction

from tosaic.hw.array.accumulate import ACCUMULATOR_BITS
from tosaic.hw.array.commands import JOB_NUMBER_BITS, MOST_BEHIND, ArrayCommands, PendingSignal
from tosaic.hw.array.delivery_counter import DeliveryCounter
from tosaic.hw.array.layouts import split_levels
from tosaic.hw.array.part_sums import PartSums
from tosaic.hw.array.slot_issue import SlotIssue
from tosaic.hw.config import CONFIGS
from tosaic.hw.config_text import get_config
from tosaic.hw.interfaces import WM_ADDRESS_BITS

pytestmark = pytest.mark.nightly
PARTS = CONFIGS["base"]
NANO = CONFIGS["nano"]
FEW_COLUMNS = get_config("small,weight_banks=2")
"""A machine of few columns, for what columns do each by itself."""
ROWS, BANKS = PARTS.divided_rows, PARTS.most_row_parts
LEVELS = split_levels(PARTS)
PART_ROWS = [ROWS >> (level + 1) for level in range(LEVELS)]
"""Rows of a part, by the level: 8 with two parts, 4 with four."""


def test_parts_are_added_up(tmp_path):
    """What is delivered, and what is kept at a place, is what the row has summed and, with `add`, what was kept there
    last: for any place, column by column and modulo 2**32. No place is read in the cycle in which it is
    kept."""
    m = Module()
    dut = elaborated(m, "dut", PartSums(FEW_COLUMNS))
    places = m.submodules.dut.submodules.places.read_port(domain="comb")
    watched = constant(m, Signal.like(dut.place, name="watched"))
    kept, known = Signal.like(dut.sums), Signal()
    adds, here = before(m, dut.add), before(m, dut.place) == watched
    with m.If(dut.gather & here):
        m.d.sync += [kept.eq(dut.total), known.eq(1)]
    m.d.comb += [
        # A step has at least four slots, and so do the rows of a part: see `test_rows_of_parts_take_turns`.
        Assume(implies(dut.gather & here & dut.add, dut.place != watched)),
        Assume(implies(dut.add & (dut.place == watched), known)),
    ]
    added = Mux(adds, before(m, kept), 0)
    for column in range(FEW_COLUMNS.columns):
        own, total, more = (
            word.word_select(column, ACCUMULATOR_BITS) for word in (dut.sums, dut.total, added)
        )
        m.d.comb += Assert(implies(here, total == (own + more)[:ACCUMULATOR_BITS]))
    m.d.comb += [
        places.addr.eq(watched),
        Assert(implies(known, places.data == kept)),
        Assert(implies(before(m, dut.add) & here, known)),
    ]
    prove_by_induction(m, tmp_path, [*inputs_of(dut), watched], steps=3)


def test_parts_read_what_the_first_one_read(tmp_path):
    """Part q of divided rows does in a slot what part 0 did q times the rows of a part earlier, and reads the weights
    of the step that is q further on; no other part does anything of its own. Any slot is followed until all parts are
    through, and the job ends with the last of them."""
    m = Module()
    dut = elaborated(m, "dut", SlotIssue(PARTS))
    apart, issued = ROWS // BANKS, dut.issued
    pick, follows = Signal(name="pick"), Signal()
    age = Signal(range(ROWS))  # slots since the one that is followed
    split, weights, last = Signal(LEVELS), Signal.like(dut.slot.weights), Signal()
    with m.If(issued & pick & ~follows):
        m.d.sync += [
            follows.eq(1),
            age.eq(1),
            split.eq(dut.slot.split),
            weights.eq(dut.slot.weights),
            last.eq(dut.slot.last & dut.slot.split.any()),
        ]
    with m.Elif(issued & follows):
        m.d.sync += [age.eq(age + 1), follows.eq(age != len(dut.history))]
    m.d.comb += [
        # At most one level (DenseCounter).
        Assume((dut.slot.split & (dut.slot.split - 1)[:LEVELS]) == 0),
        Assert((split & (split - 1)[:LEVELS]) == 0),
        Assert(implies(follows, (age >= 1) & (age <= len(dut.history)))),
    ]
    for number, then in enumerate(dut.history, 1):
        here = follows & (age == number)
        m.d.comb += [
            Assert(implies(here, (then.split == split) & (then.weights == weights) & (then.last == last))),
        ]
    for bank in range(1, BANKS):
        its_turn = issued & follows & (age == bank * apart)
        reads, step = Signal(name=f"reads{bank}"), Signal(range(BANKS), name=f"step{bank}")
        for level, rows in enumerate(PART_ROWS):
            with m.If(split[level] & ((bank * apart) % rows == 0)):
                m.d.comb += [reads.eq(1), step.eq(bank * apart // rows)]
        address = dut.wm.part_address.word_select(bank - 1, WM_ADDRESS_BITS)
        wanted = Signal(WM_ADDRESS_BITS, name=f"wanted{bank}")
        m.d.comb += [
            wanted.eq(weights + step * PARTS.columns),
            Assert(implies(its_turn, dut.control.inject[bank - 1] == reads)),
            Assert(implies(before(m, its_turn), dut.wm.part_enable[bank - 1] == before(m, reads))),
            Assert(implies(before(m, its_turn & reads), address == before(m, wanted))),
        ]
    m.d.comb += Assert(implies(issued & follows & last & (age == len(dut.history)), dut.last))
    prove_by_induction(m, tmp_path, [*inputs_of(dut), pick], steps=2)


def test_rows_of_parts_take_turns(tmp_path):
    """Row i has its turn i slots after its tile ended: rows of the last part deliver, those of the others keep what
    they have; all but the first part's add what the row of the same place in the part before kept. Rows without a pixel
    do neither."""
    m = Module()
    m.submodules.dut = dut = DeliveryCounter(PARTS)
    split, pixels, row, running = (
        Signal(LEVELS),
        Signal.like(dut.tile_rows),
        Signal(range(ROWS + 1)),
        Signal(),
    )
    begins = dut.advance & dut.drain
    with m.If(begins):
        m.d.sync += [split.eq(dut.split), pixels.eq(dut.tile_rows), row.eq(1), running.eq(1)]
    with m.Elif(dut.advance & running):
        m.d.sync += [row.eq(row + 1), running.eq(row != ROWS - 1)]
    now_split, now_pixels = Mux(dut.drain, dut.split, split), Mux(dut.drain, dut.tile_rows, pixels)
    now_row, turn = Mux(dut.drain, 0, row), dut.drain | running
    m.d.comb += [
        Assume(implies(dut.drain, (dut.tile_rows >= 1) & (dut.tile_rows <= PARTS.rows))),
        Assume((dut.split & (dut.split - 1)[:LEVELS]) == 0),
        Assume(implies(dut.drain, ~running)),
        # A tile that is divided has a row of each part for each of its pixels.
        *(
            Assume(implies(dut.drain & dut.split[level], dut.tile_rows <= rows))
            for level, rows in enumerate(PART_ROWS)
        ),
        # What holds always.
        Assert((split & (split - 1)[:LEVELS]) == 0),
        Assert(implies(running, (dut.divided == split) & (dut.pixels == pixels) & (row >= 1) & (row < ROWS))),
        Assert(
            implies(running & split.any(), (dut.next_row == row) & (dut.left == ROWS - row) & dut.delivering)
        ),
        Assert(implies(running & ~split.any(), dut.delivering == (row < pixels))),
        Assert(implies(running & dut.delivering, (dut.next_row == row))),
        Assert(implies(running & ~split.any() & (row < pixels), dut.left == pixels - row)),
        Assert(dut.delivering == (dut.left != 0)),
        Assert(implies(~running, ~dut.delivering)),
        *(Assert(implies(running & split[level], pixels <= rows)) for level, rows in enumerate(PART_ROWS)),
        Assert(implies(running, (pixels >= 1) & (pixels <= PARTS.rows))),
        # Undivided.
        Assert(implies(~now_split.any(), dut.deliver == (turn & (now_row < now_pixels)))),
        Assert(implies(~now_split.any(), ~dut.gather & ~dut.add)),
        Assert(implies(dut.deliver | dut.gather, dut.row == now_row)),
        Assert(implies(~turn, ~dut.deliver & ~dut.gather)),
    ]
    for level, rows in enumerate(PART_ROWS):
        mine, place, part = turn & now_split[level], now_row % rows, now_row // rows
        has_pixel, is_last = place < now_pixels, part == ROWS // rows - 1
        m.d.comb += [
            Assert(implies(mine, dut.deliver == (has_pixel & is_last))),
            Assert(implies(mine, dut.gather == (has_pixel & ~is_last))),
            Assert(implies(mine & has_pixel, (dut.place == place) & (dut.add == (part != 0)))),
        ]
    prove_by_induction(m, tmp_path, inputs_of(dut), steps=2)


def test_a_signal_waits_for_the_jobs_before_it(monkeypatch, tmp_path):
    """A SIGNAL of the array fires once, in its turn, as soon as all jobs that were handed out before it have made their
    last read, and not before, however long the semaphores held it up. A job is handed out once."""
    monkeypatch.setattr(fifo, "SyncFIFO", OpenQueue)
    m = Module()
    dut = elaborated(m, "dut", ArrayCommands(NANO))
    queue, tokens = m.submodules.dut.submodules.signals, dut.tokens
    jobs = Left(m, queue, MOST_BEHIND, dut.hands_out, dut.finished)
    pending = [PendingSignal(0)(word) for word in queue.words]
    waiting = before(m, dut.jobs.valid & ~dut.jobs.ready)
    m.d.comb += [
        Assume(implies(dut.finished, jobs.under_way != 0)),
        Assume(implies(dut.hands_out, jobs.under_way < MOST_BEHIND)),
        Assert(tokens.signal == ((queue.level != 0) & (jobs.left[0] == 0) & ~tokens.signal_full)),
        Assert(tokens.signal == (queue.r_en & queue.r_rdy)),
        Assert(implies(tokens.signal, tokens.signal_semaphore == pending[0].semaphore)),
        Assert(implies(tokens.signal, tokens.signal_count == pending[0].count)),
        Assert(dut.jobs.valid == (before(m, dut.hands_out) | waiting)),
        Assert(implies(dut.hands_out, ~dut.jobs.valid)),
        Assert(implies(jobs.under_way != 0, dut.busy)),
        # What holds always.
        Assert((queue.level <= queue.depth) & (jobs.under_way <= MOST_BEHIND)),
        Assert((dut.handed - dut.done)[:JOB_NUMBER_BITS] == jobs.under_way),
    ]
    above = None
    for place, signal in enumerate(pending):
        there, behind = queue.level > place, Signal(JOB_NUMBER_BITS)
        m.d.comb += [
            behind.eq(dut.handed - signal.after),
            Assert(implies(there, behind <= MOST_BEHIND)),
            *(() if above is None else (Assert(implies(there, behind <= above)),)),
            Assert(
                implies(
                    there,
                    jobs.left[place] == Mux(jobs.under_way > behind, jobs.under_way - behind, 0),
                )
            ),
        ]
        above = behind
    prove_by_induction(m, tmp_path, inputs_of(dut), steps=1)
