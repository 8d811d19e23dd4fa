"""LOAD and STORE signal what is complete, and nothing else: for all programs, all stalls of the bus and of the memories,
and errors at any beat, by induction.

From a GO to its SIGNAL: commands become transfers in order, a transfer becomes bursts that carry each of its bytes once,
a beat of a burst becomes one access, and a SIGNAL fires when all bursts before it are complete, in order and once. After
an error none fires. Each step is proved with what it receives free; that words leave queues and buffers as they came is
proved in test_prove_queues.py and test_prove_control.py.

Of the bus it is assumed that answers of one ID come in order, as AXI demands, that a write is answered after its last
beat was taken, and that nothing is answered that was not asked for.
"""

import pytest
from amaranth.hdl import Assert, Assume, C, Cat, Module, Mux, Signal
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
    watch_queues,
)

from tosaic.hw.config import CONFIGS
from tosaic.hw.constants import BURST_BEATS, OUTSTANDING_BURSTS
from tosaic.hw.dma import completion as completion_module
from tosaic.hw.dma import load as load_module
from tosaic.hw.dma import store as store_module
from tosaic.hw.dma.bursts import BEAT_BITS, BurstSplitter, lanes_of
from tosaic.hw.dma.completion import Completion
from tosaic.hw.dma.issue import CommandIssue
from tosaic.hw.dma.load import LoadUnit
from tosaic.hw.dma.store import StoreUnit
from tosaic.hw.isa import Opcode, Space, Unit, layout

pytestmark = pytest.mark.nightly
NANO = CONFIGS["nano"]
LANE_BITS = exact_log2(NANO.word_bytes)


def sticky(m, event):
    """Whether the event was in an earlier cycle."""
    was = Signal(name="was")
    with m.If(event):
        m.d.sync += was.eq(1)
    return was


# Commands to transfers.


@pytest.mark.parametrize("unit", [Unit.LOAD, Unit.STORE], ids=lambda unit: unit.name)
def test_commands_become_transfers_in_order(unit, tmp_path):
    """A GO or a SIGNAL is taken in the cycle in which its transfer is, and this says what it says, with the pitches of
    the last PITCH before it. A WAIT goes when it has its tokens."""
    m = Module()
    m.submodules.dut = dut = CommandIssue(unit, NANO)
    command, taken = dut.commands, dut.commands.valid & dut.commands.ready
    wait, signal, pitch, go = (
        (opcode, data.View(layout(opcode), command.payload), command.payload[:8] == opcode)
        for opcode in (Opcode[f"{unit.name}_{kind}"] for kind in ("WAIT", "SIGNAL", "PITCH", "GO"))
    )
    pitches = [Signal.like(pitch[1][name], name=name) for name in ("memory_pitch", "local_pitch")]
    with m.If(taken & pitch[2]):
        m.d.sync += [held.eq(pitch[1][held.name]) for held in pitches]
    transfer = dut.transfers.payload
    passes = dut.transfers.valid & dut.transfers.ready
    offers_go, offers_signal = dut.transfers.valid & go[2], dut.transfers.valid & signal[2]
    legal = (go[1].row_bytes != 0) & (go[1].rows != 0)
    if unit is Unit.LOAD:
        legal = legal & ~go[1].packed & ~(go[1].streamed & (go[1].space == Space.AM))
    m.d.comb += [
        Assert((dut.memory_pitch == pitches[0]) & (dut.local_pitch == pitches[1])),
        Assert(implies(go[2] | signal[2], passes == taken)),
        Assert(implies(wait[2] | pitch[2], ~dut.transfers.valid)),
        Assert(implies(wait[2], taken == (command.valid & dut.ok))),
        Assert(implies(passes, taken)),
        Assert(implies(dut.transfers.valid, transfer.purpose.is_signal == signal[2])),
        # What is no command of a machine without decoder is illegal.
        Assert(implies(dut.transfers.valid & ~signal[2], transfer.illegal == ~(go[2] & legal))),
        Assert(
            implies(offers_go, (transfer.memory_pitch == pitches[0]) & (transfer.local_pitch == pitches[1]))
        ),
        *(
            Assert(implies(offers_go, transfer[name] == go[1][name]))
            for name in ("memory_address", "local_address", "row_bytes", "rows")
        ),
        *(
            Assert(implies(offers_signal, transfer.purpose.tokens[name] == signal[1][name]))
            for name in ("semaphore", "count")
        ),
    ]
    if unit is Unit.LOAD:
        m.d.comb += [
            Assert(implies(offers_go, transfer.purpose.to_wm == (go[1].space == Space.WM))),
            Assert(implies(offers_go, transfer.purpose.streamed == go[1].streamed)),
        ]
    prove_by_induction(m, tmp_path, inputs_of(dut), steps=1)


# Transfers to bursts.


class Rows:
    """A transfer as its text says it: row `row` begins at `memory` and `local`; `done` bytes of it have left."""

    def __init__(self, m, name, shape):
        self.m = m
        self.there, self.given = Signal(name=f"{name}_there"), Signal(shape, name=f"{name}_given")
        self.row = Signal(17, name=f"{name}_row")
        self.memory, self.local = Signal(32, name=f"{name}_memory"), Signal(24, name=f"{name}_local")

    def begin(self, given):
        self.m.d.sync += [self.there.eq(1), self.given.eq(given), self.row.eq(0)]
        self.m.d.sync += [self.memory.eq(given.memory_address), self.local.eq(given.local_address)]

    def next_row(self):
        self.m.d.sync += [
            self.row.eq(self.row + 1),
            self.memory.eq(self.memory + self.given.memory_pitch),
            self.local.eq(self.local + self.given.local_pitch),
        ]


class SplitterUnderProof:
    """A splitter, the transfer whose bursts are on offer (`now`) and the one that was taken behind it. Of the row on
    offer `start` is the first byte; `next_beat`, `next_local` and `left` say where its next burst begins and how many
    beats it has, minus 1."""

    def __init__(self):
        self.module = m = Module()
        m.submodules.dut = self.dut = dut = BurstSplitter(NANO)
        constant(m, dut.mem_base)
        constant(m, dut.mem_size)
        given = dut.transfers.payload
        self.now, self.behind = [Rows(m, name, given.shape()) for name in ("now", "behind")]
        self.takes, self.leaves = (port.valid & port.ready for port in (dut.transfers, dut.bursts))
        self.sound = ~sticky(m, dut.error)
        self.is_signal = self.now.given.purpose.is_signal
        self.start, self.beats = Signal(32), Signal(25)
        self.begins = Signal(init=1)  # of a row
        beat, local, left = Signal(32 - LANE_BITS), Signal(24), Signal(25)
        lanes = self.start[:LANE_BITS]
        self.next_beat = Mux(self.begins, self.start[LANE_BITS:], beat)
        self.next_local = Mux(self.begins, (self.now.local - lanes)[:24], local)
        self.left = Mux(self.begins, (self.now.given.row_bytes + lanes - 1)[LANE_BITS:25], left)
        self.ends_row = dut.bursts.payload.last_beat == self.left
        m.d.comb += [
            self.start.eq(dut.mem_base + self.now.memory),
            Assume(dut.mem_base + dut.mem_size <= 1 << 32),
            Assume(implies(~self.sound, dut.halt)),
            Assume(implies(self.takes, given.rows != 0)),
            # A GO without bytes is illegal.
            Assume(implies(self.takes, (given.row_bytes != 0) | given.illegal | given.purpose.is_signal)),
        ]
        with m.If(self.leaves & ~self.is_signal):
            beats = dut.bursts.payload.last_beat + 1
            m.d.sync += [
                self.begins.eq(self.ends_row),
                beat.eq(self.next_beat + beats),
                local.eq(self.next_local + (beats << LANE_BITS)),
                left.eq(self.left - beats),
            ]
        self._follow(m)

    def _follow(self, m):
        now, behind, given, ends = self.now, self.behind, self.dut.transfers.payload, Signal(name="ends")
        with m.If(self.leaves & self.is_signal):
            m.d.comb += ends.eq(1)
        with m.Elif(self.leaves & self.ends_row):
            m.d.comb += ends.eq(now.row + 1 == now.given.rows)
            now.next_row()
        with m.If(ends):
            m.d.sync += [now.there.eq(behind.there), behind.there.eq(0)]
            with m.If(behind.there):
                now.begin(behind.given)
        with m.If(self.takes & (~now.there | (ends & ~behind.there))):
            now.begin(given)
        with m.Elif(self.takes):
            behind.begin(given)

    def stage_1(self):
        """What always holds of the row that waits: it is the next one of the transfer that is on offer, or the first
        one of the transfer behind."""
        dut, now, behind, row = self.dut, self.now, self.behind, self.dut.row
        whose, next_row, memory, local = Signal(row.shape()), Signal(17), Signal(32), Signal(24)
        fresh = behind.there | ~dut.burst_valid
        self.module.d.comb += [
            whose.eq(Mux(behind.there, behind.given, now.given)),
            next_row.eq(Mux(fresh, 0, now.row + 1)),
            memory.eq(Mux(fresh, whose.memory_address, now.memory + whose.memory_pitch)),
            local.eq(Mux(fresh, whose.local_address, now.local + whose.local_pitch)),
        ]
        waits, on_offer = self.sound & dut.row_valid, self.sound & dut.burst_valid
        live, of_signal = on_offer & ~dut.purpose.is_signal, row.purpose.is_signal
        same = ("purpose", "illegal", "row_bytes", "memory_pitch", "local_pitch")
        return [
            implies(self.sound, now.there == dut.busy),
            implies(self.sound & behind.there, dut.row_valid & dut.burst_valid),
            *(implies(waits, row[name] == whose[name]) for name in same),
            implies(waits, (row.memory_address == memory) & (row.local_address == local)),
            implies(waits & ~of_signal, (row.rows == whose.rows - next_row) & (next_row < whose.rows)),
            implies(waits & of_signal, next_row == 0),
            implies(waits, dut.row_is_last == (of_signal | (row.rows == 1))),
            implies(waits & ~dut.burst_valid, now.row == 0),
            implies(waits & ~dut.burst_valid, now.memory == now.given.memory_address),
            implies(waits & ~dut.burst_valid, now.local == now.given.local_address),
            implies(live & (behind.there | ~dut.row_valid), now.row + 1 == now.given.rows),
            implies(live, now.row < now.given.rows),
            implies(on_offer, dut.purpose == now.given.purpose),
            implies(on_offer & self.is_signal, dut.burst_is_last & (behind.there | ~dut.row_valid)),
            implies(self.sound & ~live, self.begins),
            # A row ends where the splitter says so.
            implies(live, self.ends_row == dut.burst_is_last),
        ]

    def stage_2(self):
        """What always holds of the row that is on offer."""
        dut, now = self.dut, self.now
        live = self.sound & dut.burst_valid & ~dut.purpose.is_signal
        return [
            implies(
                self.sound & dut.row_valid & ~dut.row.illegal & ~dut.row.purpose.is_signal,
                dut.row.row_bytes != 0,
            ),
            implies(live, ~now.given.illegal & (now.given.row_bytes != 0)),
            implies(live, (dut.beat == self.next_beat) & (dut.local_address == self.next_local)),
            implies(live, dut.beats_left == self.left),
            implies(live, dut.first_lane == Mux(self.begins, self.start[:LANE_BITS], 0)),
            implies(live & ~self.begins, dut.beat[:BEAT_BITS] == 0),
            implies(live, dut.last_lane == (self.start + now.given.row_bytes - 1)[:LANE_BITS]),
            implies(live, dut.burst_is_last == (dut.beat[:BEAT_BITS] + dut.beats_left < BURST_BEATS)),
        ]


def claim_all(m, proved, assumed=()):
    m.d.comb += [*(Assert(each) for each in proved), *(Assume(each) for each in assumed)]


@pytest.mark.parametrize("part", ["order", "row"])
def test_bursts_carry_each_byte_once(part, tmp_path):
    """The bursts of a GO's row follow each other without a gap, in both memories, from its first byte to its last one;
    row follows row, and then what comes behind: a SIGNAL leaves when all bytes before it have left. The order is proved for rows that are right, these for
    an order that was right until the cycle before."""
    proof = SplitterUnderProof()
    dut, now, burst, goes = proof.dut, proof.now, proof.dut.bursts.payload, proof.sound & proof.leaves
    order, row = proof.stage_1(), proof.stage_2()
    if part == "order":
        claims = [
            implies(goes, now.there & (burst.purpose == now.given.purpose)),
            implies(goes & ~proof.is_signal, ~now.given.illegal),
        ]
        claim_all(proof.module, [*order, *claims], row)
    else:
        final_lane = (proof.start + now.given.row_bytes - 1)[:LANE_BITS]
        claims = [
            (burst.address >> LANE_BITS == proof.next_beat) & (burst.local_address == proof.next_local),
            burst.last_beat <= proof.left,
            burst.first_lane == Mux(proof.begins, proof.start[:LANE_BITS], 0),
            burst.last_lane == Mux(proof.ends_row, final_lane, NANO.word_bytes - 1),
        ]
        held = Signal(name="order_held")
        proof.module.d.comb += held.eq(Cat(order).all())
        claims = [implies(goes & ~proof.is_signal, each) for each in claims]
        claim_all(proof.module, [*row, *claims], [before(proof.module, held, init=1)])
    prove_by_induction(proof.module, tmp_path, inputs_of(dut), steps=1)
