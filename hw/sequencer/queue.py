"""A unit's command queue, which also knows where in the program the unit is."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import Command, Lookahead
from ..isa import FIELDS, Opcode, Unit
from ..memory.blocks import Queue

INDEX_BITS = 24
"""Programs have at most 2**24 instructions."""
_HEADER_BITS = 16
OPERATION_BITS = 4
"""Bits of the opcode that name the operation; its other bits are the unit."""

_LOAD_SETUP = (Opcode.LOAD_PITCH, Opcode.LOAD_TENSOR, Opcode.LOAD_STREAMS)


def never_at_fault(unit: Unit, config: Config) -> tuple[Opcode, ...]:
    """Instructions that `unit` takes while an earlier one is executed, and in which it finds no fault: a WAIT, and what
    only sets up its next jobs. Without a decoder LOAD_TENSOR and LOAD_STREAMS are faults themselves."""
    wait = Opcode[f"{unit.name}_WAIT"]
    match unit:
        case Unit.LOAD:
            return (wait, *(_LOAD_SETUP if config.cabac_engines else _LOAD_SETUP[:1]))
        case Unit.STORE:
            return (wait, Opcode.STORE_PITCH)
        case _:
            return (wait,)


Dispatched = data.StructLayout({"instruction": 128, "index": INDEX_BITS})
"""An instruction and its place in the program."""


class CommandQueue(wiring.Component):
    """Holds up to `queue_commands` instructions of one unit, as far as the unit's instructions have fields.

    Ports:
        `dispatched`: instructions and their index in the program, in order.
        `commands`: the same for the unit; the check byte has been checked and is zero.
        `lookahead`: the instruction behind, of a queue that `looks_ahead`.
        `at_head`: what the unit does in this cycle concerns the instruction at the head (a WAIT that waits),
            not the last one taken that may be at fault.
        `index`: the index of that instruction in the cycle before.
        `empty`: nothing is queued, nor on its way through the queue.

    Timing: an instruction is at the head 2 cycles after it was put into the empty queue, 3 in one that looks ahead; one
    per cycle.
    """

    def __init__(self, unit: Unit, config: Config, *, looks_ahead: bool = False):
        self.unit, self.config, self.looks_ahead = unit, config, looks_ahead
        super().__init__(
            {
                "dispatched": In(stream.Signature(Dispatched)),
                "commands": Out(Command),
                "lookahead": Out(Lookahead()),
                "at_head": In(1),
                "index": Out(INDEX_BITS),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Dispatch lets only instructions of the unit pass, whose bits beyond the last field are zero.
        fields_bits = max(
            sum(field.bits for field in fields) for code, fields in FIELDS.items() if code.unit == self.unit
        )
        kept_bits = OPERATION_BITS + fields_bits
        width, depth = kept_bits + INDEX_BITS, self.config.queue_commands
        # What comes to the head is decoded in the cycle before.
        m.submodules.fifo = fifo = Queue(width=width, depth=depth, direct=True)
        instruction = self.dispatched.payload.instruction
        taken_index = Signal(INDEX_BITS)
        head = Signal(kept_bits + INDEX_BITS, reset_less=True)
        head_valid, moves = Signal(), Signal()
        if self.looks_ahead:
            m.d.comb += moves.eq(~head_valid | self.commands.ready)
            with m.If(moves):
                m.d.sync += [head.eq(fifo.r_data), head_valid.eq(fifo.r_rdy)]
            m.d.comb += [
                self.empty.eq((fifo.level == 0) & ~head_valid),
                self.lookahead.moves.eq(moves),
                self.lookahead.following.eq(self._command(fifo.r_data, kept_bits)),
            ]
        else:
            m.d.comb += [head.eq(fifo.r_data), head_valid.eq(fifo.r_rdy), moves.eq(self.commands.ready)]
            m.d.comb += self.empty.eq(fifo.level == 0)
        head_index = head[kept_bits:]
        m.d.comb += [
            fifo.w_data.eq(
                Cat(
                    instruction[:OPERATION_BITS],
                    instruction[_HEADER_BITS : _HEADER_BITS + fields_bits],
                    self.dispatched.payload.index,
                )
            ),
            fifo.w_en.eq(self.dispatched.valid),
            self.dispatched.ready.eq(fifo.w_rdy),
            self.commands.payload.eq(self._command(head, kept_bits)),
            self.commands.valid.eq(head_valid),
            fifo.r_en.eq(moves),
        ]
        # Which of them it is comes late, from the unit: it is chosen a cycle later.
        showed_head, shown_head, shown_taken = Signal(), Signal(INDEX_BITS), Signal(INDEX_BITS)
        m.d.sync += [
            showed_head.eq(self.at_head & head_valid),
            shown_head.eq(head_index),
            shown_taken.eq(taken_index),
        ]
        m.d.comb += self.index.eq(Mux(showed_head, shown_head, shown_taken))
        # A unit has one instruction at a time in which it may find a fault: what it takes meanwhile does not count.
        innocent = [opcode & ((1 << OPERATION_BITS) - 1) for opcode in never_at_fault(self.unit, self.config)]
        with m.If(self.commands.valid & self.commands.ready & ~head[:OPERATION_BITS].matches(*innocent)):
            m.d.sync += taken_index.eq(head_index)
        return m

    def _command(self, kept: Value, kept_bits: int) -> Value:
        """The instruction of which these bits were kept."""
        return Cat(
            kept[:OPERATION_BITS],
            Const(self.unit, 8 - OPERATION_BITS),
            Const(0, 8),
            kept[OPERATION_BITS:kept_bits],
        )
