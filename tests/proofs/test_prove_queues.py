"""The queues between the sequencer and the units, and those of the array and of DMA: any one word is followed on its
way. It comes out as it went in, once, with exactly the words before it that went in before it. By induction."""

import dataclasses

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal
from proving import (
    WatchedFIFOBuffered,
    WatchedLateQueue,
    before,
    elaborated,
    implies,
    inputs_of,
    prove_by_induction,
    stays_offered,
    watch_queues,
)

from tosaic.hw.array import drain as drain_module
from tosaic.hw.array.drain import Drain
from tosaic.hw.config import CONFIGS
from tosaic.hw.constants import OUTSTANDING_BURSTS
from tosaic.hw.isa import FIELDS, Unit
from tosaic.hw.sequencer import queue as queue_module
from tosaic.hw.sequencer.classify import counts
from tosaic.hw.sequencer.dispatch import Dispatch
from tosaic.hw.sequencer.queue import INDEX_BITS, OPERATION_BITS, CommandQueue

pytestmark = pytest.mark.nightly
NANO = CONFIGS["nano"]
SHORT_QUEUES = dataclasses.replace(NANO, queue_commands=6)
"""The words are all of a command; `test_words_keep_order` has the queues as long as they are."""
HEADER_BITS = 16


QUEUES = {
    "commands": (WatchedFIFOBuffered, NANO.queue_commands),
    "bursts of LOAD": (WatchedFIFOBuffered, OUTSTANDING_BURSTS + 1),
    "bursts of STORE": (WatchedLateQueue, 8),
    "beats of STORE": (WatchedFIFOBuffered, 9),
}


@pytest.mark.parametrize("queue", QUEUES)
def test_words_keep_order(queue, tmp_path):
    """As long as they are."""
    m = Module()
    kind, depth = QUEUES[queue]
    m.submodules.dut = dut = kind(width=2, depth=depth)
    stays_offered(m, dut.r_rdy, dut.r_en, dut.r_data)
    prove_by_induction(m, tmp_path, [dut.w_en, dut.w_data, dut.r_en, dut.pick], steps=1)


@pytest.mark.parametrize("unit", [Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE], ids=lambda unit: unit.name)
def test_a_command_reaches_its_unit(unit, monkeypatch, tmp_path):
    """The instruction comes whole, and with its place in the program. Dispatch lets only the unit's instructions pass,
    whose bits behind their fields, and whose check byte, are zero."""
    queues, m = watch_queues(monkeypatch, queue_module), Module()
    dut = elaborated(m, "dut", CommandQueue(unit, SHORT_QUEUES, looks_ahead=unit is Unit.VECTOR))
    (fifo,) = queues
    given = dut.dispatched.payload
    fields_bits = max(sum(f.bits for f in fields) for code, fields in FIELDS.items() if code.unit == unit)
    m.d.comb += [
        Assume(given.instruction[OPERATION_BITS:HEADER_BITS] == unit),
        Assume(given.instruction[HEADER_BITS + fields_bits :] == 0),
    ]
    expected, index, inside = Signal(128), Signal.like(given.index), Signal()
    ahead = Signal(range(SHORT_QUEUES.queue_commands + 2))
    enters, leaves = dut.dispatched.valid & dut.dispatched.ready, dut.commands.valid & dut.commands.ready
    in_head = Signal()
    with m.If(inside & leaves):
        m.d.sync += [inside.eq(ahead != 0), ahead.eq(ahead - 1)]
    with m.If(~inside & enters & fifo.pick):
        count = fifo.level + (dut.commands.valid if dut.looks_ahead else 0)
        m.d.sync += [
            inside.eq(1),
            ahead.eq(count - leaves),
            expected.eq(given.instruction),
            index.eq(given.index),
        ]
    next_up = inside & (ahead == 0) & dut.commands.valid
    m.d.comb += [
        Assume(implies(inside, ~fifo.pick)),
        in_head.eq(inside & ~fifo.inside),
        Assert(implies(next_up, dut.commands.payload == expected)),
        Assert(implies(before(m, next_up & dut.at_head), dut.index == before(m, index))),
        Assert(dut.empty == ~((fifo.level != 0) | dut.commands.valid)),
        # Where the word that is followed is.
        Assert(implies(fifo.inside, inside)),
        Assert(implies(fifo.inside, fifo.expected[-len(index) :] == index)),
        Assert(implies(fifo.inside, fifo.expected[:OPERATION_BITS] == expected[:OPERATION_BITS])),
        Assert(
            implies(
                fifo.inside,
                fifo.expected[OPERATION_BITS : -len(index)]
                == expected[HEADER_BITS : HEADER_BITS + fields_bits],
            )
        ),
        Assert(implies(inside, Cat(expected[OPERATION_BITS:HEADER_BITS]) == unit)),
        Assert(implies(inside, expected[HEADER_BITS + fields_bits :] == 0)),
    ]
    if dut.looks_ahead:
        following = fifo.leads & dut.lookahead.moves
        m.d.comb += [
            Assert(implies(fifo.inside, ahead == fifo.ahead + dut.commands.valid)),
            Assert(implies(in_head, dut.commands.valid & (ahead == 0))),
            # Its index is known one cycle later, so that the proof must see it.
            Assume(dut.at_head),
            Assert(implies(following, dut.lookahead.following == expected)),
        ]
    else:
        m.d.comb += [Assert(~in_head), Assert(implies(inside, ahead == fifo.ahead))]
    stays_offered(m, dut.commands.valid, dut.commands.ready, dut.commands.payload)
    prove_by_induction(m, tmp_path, [*inputs_of(dut), fifo.pick], steps=2)


def test_a_vector_finds_its_place(monkeypatch, tmp_path):
    """The array's sums: whoever reserves a place before a slot finds it when the vector comes, in whatever cycle."""
    queues, m = watch_queues(monkeypatch, drain_module), Module()
    dut = elaborated(m, "dut", Drain(NANO))
    (fifo,) = queues
    coming = Signal(range(fifo.depth + 1))
    m.d.sync += coming.eq(coming + dut.reserve - dut.write)
    left = dut.accumulators.valid & dut.accumulators.ready
    m.d.comb += [
        Assume(implies(dut.reserve, dut.room)),
        Assume(implies(dut.write, coming != 0)),
        Assert(implies(dut.write, fifo.w_rdy)),
        Assert((dut.reserved == coming + fifo.level) & (dut.reserved <= fifo.depth)),
        Assert(dut.empty == (coming + fifo.level == 0)),
        # Nobody is held up while there is a place.
        Assert(dut.room == (coming + fifo.level != fifo.depth)),
        Assert(implies(before(m, left), dut.room)),
        Assert(implies(fifo.leads, dut.accumulators.payload.as_value() == fifo.expected)),
    ]
    stays_offered(m, dut.accumulators.valid, dut.accumulators.ready, dut.accumulators.payload.as_value())
    prove_by_induction(m, tmp_path, [*inputs_of(dut), fifo.pick], steps=2)


def test_dispatch_hands_over_in_order(tmp_path):
    """An instruction of the program goes to the queue of its unit and to no other one, once, as it was and with its
    place in the program, or is the sequencer's own; what is behind it comes behind it."""
    m = Module()
    dut = elaborated(m, "dut", Dispatch(NANO))
    queues = (dut.load, dut.array, dut.vector, dut.store)
    takes, payload = dut.program.valid & dut.program.ready, dut.program.payload
    held, instruction, place = Signal(), Signal.like(payload.instruction), Signal(INDEX_BITS)
    gone = dut.progress & ~takes | dut.done_with
    with m.If(dut.done_with):
        m.d.sync += held.eq(0)
    with m.If(takes):
        m.d.sync += [held.eq(1), instruction.eq(payload.instruction)]
    with m.If((dut.start & ~dut.running) | dut.jump):
        m.d.sync += [place.eq(Mux(dut.jump, dut.target, 0)), held.eq(0)]
    with m.Elif(takes):
        m.d.sync += place.eq(place + 1)
    unit = instruction[OPERATION_BITS:8]
    valids = Cat(queue.valid for queue in queues)
    m.d.comb += [
        Assert(implies(dut.running, dut.held == held)),
        Assert(implies(held, dut.instruction == instruction)),
        Assert(implies(dut.running & held, dut.index == (place - 1)[:INDEX_BITS])),
        Assert(implies(dut.running, dut.taken == place)),
        # Nothing is taken before the one before it is gone.
        Assert(implies(takes, dut.dispatching & (~held | dut.done_with))),
        Assert(implies(dut.done_with, held)),
        Assert((valids & (valids - 1)[: len(valids)]) == 0),
        Assert(implies(dut.done_with & valids.any(), Cat(q.valid & q.ready for q in queues).any())),
        Assert(implies(Cat(q.valid & q.ready for q in queues).any(), dut.done_with)),
        Assert(implies(gone, dut.running)),
    ]
    is_one = held & counts(dut.action)
    m.d.comb += [
        Assert(implies(held & dut.action.passes, dut.action.to_queue == 0)),
        Assert(implies(dut.done_with, is_one)),
    ]
    for bit, queue, its_unit in zip(
        range(4), queues, (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE), strict=True
    ):
        waits = before(m, queue.valid & ~queue.ready)
        m.d.comb += [
            Assert(implies(held & dut.action.to_queue[bit], unit == its_unit)),
            Assert(implies(queue.valid, is_one & (unit == its_unit) & dut.dispatching)),
            Assert(implies(queue.valid, queue.payload.instruction == instruction)),
            Assert(implies(queue.valid, queue.payload.index == (place - 1)[:INDEX_BITS])),
            Assert(implies(waits & dut.dispatching, queue.valid)),
        ]
    prove_by_induction(m, tmp_path, inputs_of(dut), steps=2)
