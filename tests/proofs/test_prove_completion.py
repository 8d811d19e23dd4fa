"""LOAD and STORE signal what is complete, and nothing else: for all programs, all stalls of the bus and of the
memories, and errors at any beat, by induction.

From a GO to its SIGNAL: commands become transfers in order, a transfer becomes bursts that carry each of its bytes
once, a beat of a burst becomes one access, and a SIGNAL fires when all bursts before it are complete, in order and
once. After an error none fires. Each step is proved with what it receives free; that words leave queues and buffers as
they came is proved in test_prove_queues.py and test_prove_control.py, of what comes unpacked in test_prove_unpack.py.
The machine of these proofs has no decoder; a SIGNAL's wait for the decoder is in the proof of SIGNALs.

Of the bus it is assumed that answers of one ID come in order, as AXI demands, that a write is answered after its last
beat was taken, and that nothing is answered that was not asked for.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.utils import exact_log2
from proving import (
    Left,
    OpenQueue,
    before,
    constant,
    cut_queues,
    elaborated,
    implies,
    inputs_of,
    leaves_free,
    prove_by_induction,
)

from tosaic.hw.config import CONFIGS
from tosaic.hw.constants import BURST_BEATS, OUTSTANDING_BURSTS
from tosaic.hw.dma import completion as completion_module
from tosaic.hw.dma import load as load_module
from tosaic.hw.dma import store as store_module
from tosaic.hw.dma.bursts import BEAT_BITS, BurstSplitter, lanes_of
from tosaic.hw.dma.completion import NUMBER_BITS, Completion
from tosaic.hw.dma.issue import CommandIssue
from tosaic.hw.dma.load import LoadUnit
from tosaic.hw.dma.store import StoreUnit
from tosaic.hw.isa import Error, Opcode, Space, Unit, layout

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
    row follows row, and then what comes behind: a SIGNAL leaves when all bytes before it have left. The order is proved
    for rows that are right, these for an order that was right until the cycle before."""
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


# Bursts to SIGNALs.


PLACES = 3
"""SIGNALs that may wait in the proof; 8 in the machine."""
MOST_BLOCKS = 4
"""Blocks of compressed weights that are issued and not decoded."""


def test_a_signal_fires_when_all_before_it_is_complete(monkeypatch, tmp_path):
    """A SIGNAL fires once, in its turn and with its tokens, as soon as all bursts that were issued before it are
    complete and all blocks decoded, and not before, however long `halt` held it up. The queue has fewer places than in
    the machine: each is as the one before it."""
    monkeypatch.setattr(
        completion_module, "SyncFIFO", lambda *, width, depth: OpenQueue(width=width, depth=PLACES)
    )
    m = Module()
    dut = elaborated(m, "dut", Completion())
    queue = m.submodules.dut.submodules.queue
    tokens = dut.signals.payload.shape()
    entry = data.StructLayout({"tokens": tokens, "burst": NUMBER_BITS, "block": NUMBER_BITS})
    bursts = Left(m, queue, OUTSTANDING_BURSTS, dut.issued, dut.completed)
    blocks = Left(m, queue, MOST_BLOCKS, dut.block_issued, dut.block_decoded)
    first = data.View(entry, queue.words[0])
    complete = (bursts.left[0] == 0) & (blocks.left[0] == 0)
    fired = {"semaphore": dut.signal_semaphore, "count": dut.signal_count}
    m.d.comb += [
        Assume(implies(dut.issued, dut.room & ~dut.signals.valid)),
        Assume(implies(dut.completed, bursts.under_way != 0)),
        Assume(implies(dut.block_decoded, blocks.under_way != 0)),
        Assume(implies(dut.block_issued, dut.issued & (blocks.under_way < MOST_BLOCKS))),
        Assert(dut.signal == ((queue.level != 0) & complete & ~dut.halt)),
        Assert(dut.signal == (queue.r_en & queue.r_rdy)),
        Assert((dut.signals.valid & dut.signals.ready) == (queue.w_en & queue.w_rdy)),
        Assert(data.View(entry, queue.w_data).tokens == dut.signals.payload),
        *(Assert(implies(dut.signal, port == first.tokens[name])) for name, port in fired.items()),
        Assert(dut.outstanding == (bursts.under_way != 0)),
        Assert(dut.decodes == (blocks.under_way != 0)),
    ]
    # What holds always: the SIGNALs' numbers of bursts and blocks, of which fewer lie behind a later one.
    m.d.comb += [
        Assert(queue.level <= queue.depth),
        Assert((dut.issued_count - dut.completed_count)[:NUMBER_BITS] == bursts.under_way),
        Assert((dut.blocks_issued - dut.blocks_decoded)[:NUMBER_BITS] == blocks.under_way),
        Assert((bursts.under_way <= OUTSTANDING_BURSTS) & (blocks.under_way <= MOST_BLOCKS)),
        Assert(implies(dut.room, bursts.under_way < OUTSTANDING_BURSTS)),
    ]
    above, half = None, 1 << (NUMBER_BITS - 1)
    for place, word in enumerate(queue.words):
        there, word = queue.level > place, data.View(entry, word)
        behind, blocks_behind = Signal(NUMBER_BITS), Signal(NUMBER_BITS)
        m.d.comb += [
            behind.eq(dut.issued_count - word.burst),
            blocks_behind.eq(dut.blocks_issued - word.block),
            Assert(implies(there, blocks_behind <= behind)),
            Assert(implies(there, behind < half - 4 - dut.room)),
            *(() if above is None else (Assert(implies(there, behind <= above)),)),
        ]
        for kind, count in ((bursts, behind), (blocks, blocks_behind)):
            left = Mux(kind.under_way > count, kind.under_way - count, 0)
            m.d.comb += Assert(implies(there, kind.left[place] == left))
        above = behind
    prove_by_induction(m, tmp_path, inputs_of(dut), steps=1)


# Beats to memory, and the unit as a whole.


def test_store_signals_what_was_answered(monkeypatch, tmp_path):
    """A burst of STORE is complete when it is answered, one answer for one burst; a beat is read from where its burst
    says; from an answer with an error on no SIGNAL fires."""
    queues, m = cut_queues(monkeypatch, store_module), Module()
    dut = elaborated(m, "dut", StoreUnit(NANO))
    pending, _ = queues
    head = data.View(dut.reading, pending.r_data)
    ports, axi, completion = leaves_free(m, pending), dut.axi, dut.completion
    number, answers_left = Signal(8), Signal(range(OUTSTANDING_BURSTS + 1))
    with m.If(dut.am.prepare):
        m.d.sync += number.eq(Mux(number == head.last_beat, 0, number + 1))
    m.d.sync += answers_left.eq(answers_left + pending.w_en - axi.bvalid)
    failed = sticky(m, (axi.bvalid & (axi.bresp != 0)) | dut.stop)
    m.d.comb += [
        # The memory answers only what it was asked.
        Assume(implies(axi.bvalid, answers_left != 0)),
        Assert(axi.bready & (completion.completed == axi.bvalid) & (completion.issued == pending.w_en)),
        Assert(answers_left == (completion.issued_count - completion.completed_count)[:NUMBER_BITS]),
        Assert(implies(completion.room, answers_left < OUTSTANDING_BURSTS)),
        Assert(answers_left <= OUTSTANDING_BURSTS),
        Assert(implies(failed, dut.halted & ~dut.tokens.signal & ~pending.w_en)),
        Assert(implies(axi.bvalid & (axi.bresp != 0) & ~dut.halted, dut.status.error)),
        Assert(implies(answers_left != 0, dut.status.busy)),
        Assert(dut.tokens.signal == completion.signal),
        Assert((number == dut.index) & (dut.is_first == (number == 0))),
        Assert(implies(number != 0, pending.r_rdy & (number <= head.last_beat))),
        Assert(
            implies(pending.r_rdy, dut.am.address == (head.local_address + number * NANO.word_bytes)[:24])
        ),
    ]
    prove_by_induction(m, tmp_path, [*inputs_of(dut), *ports], steps=1)


def test_load_signals_what_is_written(monkeypatch, tmp_path):
    """A burst of LOAD is complete, once, when all its beats are written: each where its burst says, with the data that
    came, in the bytes of the row alone, and held until the memory takes it. What came with an error is not written, and
    from it on no SIGNAL fires and nothing is written."""
    queues, m = cut_queues(monkeypatch, load_module), Module()
    dut = elaborated(m, "dut", LoadUnit(NANO))
    (descriptors,) = queues
    ports = leaves_free(m, descriptors)
    head, beat, am, wm, completion = dut.head, dut.beats.output, dut.am, dut.wm, dut.completion
    number, is_last = Signal(8), Signal()
    to_am, to_wm, fails = Signal(), Signal(), Signal()
    ended = Signal()  # The burst's last beat has retired, and it is not complete.
    m.d.comb += [
        is_last.eq(number == head.last_beat),
        fails.eq(dut.retires & (beat.payload.resp != 0)),
        to_am.eq(dut.retires & ~fails & ~dut.halted & ~head.purpose.to_wm),
        to_wm.eq(dut.retires & ~fails & ~dut.halted & head.purpose.to_wm),
    ]
    with m.If(dut.retires):
        m.d.sync += number.eq(Mux(is_last, 0, number + 1))
    m.d.sync += ended.eq(Mux(dut.retires & is_last, 1, ended & ~completion.completed))
    failed = sticky(m, fails | dut.stop)
    waits = am.request & ~am.grant
    lanes = lanes_of(head, number == 0, is_last, NANO.word_bytes)
    address = (head.local_address + number * NANO.word_bytes)[:24]
    under_way = (completion.issued_count - completion.completed_count)[:NUMBER_BITS]
    m.d.comb += [
        # A machine without decoder and unpacker makes no such bursts, and the queue of bursts under way is cut.
        Assume(implies(descriptors.r_rdy, ~data.View(head.shape(), descriptors.r_data).purpose.packed)),
        Assume(implies(descriptors.r_rdy, ~data.View(head.shape(), descriptors.r_data).purpose.to_decoder)),
        # A burst has an address and a place among those under way.
        Assert(completion.issued == (descriptors.w_en & descriptors.w_rdy)),
        Assert(implies(descriptors.w_en, descriptors.w_data == dut.burst.as_value())),
        Assert(implies(descriptors.w_en, dut.addresses.input.valid & dut.addresses.input.ready)),
        Assert(implies(descriptors.w_en, dut.addresses.input.payload.address == dut.burst.address)),
        Assert(implies(descriptors.w_en, dut.addresses.input.payload.length == dut.burst.last_beat)),
        # Beats.
        Assert(implies(dut.retires, beat.valid & dut.head_valid & ~waits)),
        Assert(implies(dut.retires, dut.oldest.output.ready == is_last)),
        Assert(implies(dut.head_valid & (number != 0), number <= head.last_beat)),
        Assert(implies(to_am, am.prepare & (am.address == address) & (am.mask == lanes))),
        Assert(implies(to_am, am.data == beat.payload.data)),
        Assert(am.request == before(m, to_am | waits)),
        Assert(implies(waits, ~am.prepare)),
        Assert(wm.enable == before(m, to_wm)),
        Assert(implies(wm.enable, wm.address == before(m, address)[LANE_BITS:][: len(wm.address)])),
        Assert(implies(wm.enable, wm.data == before(m, beat.payload.data))),
        # Bursts.
        Assert((completion.completed == (ended & ~waits)) & (dut.ended_burst == ended)),
        Assert(implies(ended & dut.retires, completion.completed)),
        Assert(implies(failed, dut.halted & ~dut.tokens.signal & ~descriptors.w_en)),
        Assert(implies(failed, ~to_am & ~to_wm)),
        Assert(implies(fails & ~dut.halted, dut.status.error & (dut.status.code == Error.BUS_READ))),
        Assert(implies((under_way != 0) | waits, dut.status.busy)),
        # What holds always.
        Assert(implies(number != 0, dut.head_valid)),
        Assert((dut.begins_burst == (number == 0)) & (dut.index == number) & (number < BURST_BEATS)),
        Assert(implies(dut.head_valid & (number != 0), dut.next_address == address)),
        Assert(implies(dut.head_valid, ~head.purpose.packed & ~head.purpose.to_decoder)),
        Assert(implies(dut.oldest.spare_valid, ~dut.oldest.spare.purpose.packed)),
        Assert(implies(dut.oldest.spare_valid, ~dut.oldest.spare.purpose.to_decoder)),
    ]
    prove_by_induction(m, tmp_path, [*inputs_of(dut), *ports], steps=2)
