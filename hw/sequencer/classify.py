"""What is to be done with an instruction, as far as its bits tell."""

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..isa import INSTRUCTION_BYTES, ISA_HASH, Error, Opcode, Unit, layout
from .decode import Decoder
from .fetch import Fetched
from .queue import INDEX_BITS, OPERATION_BITS

OFFSET_BITS = exact_log2(INSTRUCTION_BYTES)
"""Bits of a program's byte offset below the instruction's index."""
QUEUES = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)
"""The units with a queue, in the order of every bit mask."""

Action = data.StructLayout(
    {
        # What is wrong with it, the first of these that is set; with one of the first three nothing else counts.
        "bus_error": 1,
        "damaged": 1,
        "illegal": 1,
        "isa_mismatch": 1,
        "config_mismatch": 1,
        "leaves": 1,  # a BRANCH out of the program
        "to_queue": len(QUEUES),  # bit of the unit that executes it
        "passes": 1,  # the sequencer's own
        "ends": 1,  # END
        "branches": 1,  # BRANCH
    }
)


def error_of(action: data.View) -> Value:
    """The error that an instruction is, isa.Error."""
    error: Value = Mux(action.leaves, Error.ILLEGAL.value, Error.NONE.value)
    for is_wrong, code in (
        (action.config_mismatch, Error.CONFIG_MISMATCH),
        (action.isa_mismatch, Error.ISA_MISMATCH),
        (action.damaged | action.illegal, Error.ILLEGAL),
        (action.bus_error, Error.BUS_READ),
    ):
        error = Mux(is_wrong, code.value, error)
    return error


def counts(action: data.View) -> Value:
    """Whether it is an instruction, and the others of its bits mean something."""
    return ~(action.bus_error | action.damaged | action.illegal)


def byte_offset(index: Value) -> Value:
    """Returns the byte offset in the program of the instruction with this index."""
    return Cat(Const(0, OFFSET_BITS), index)


class Classifier(wiring.Component):
    """Combinational. None of its findings waits for another: all are bits of their own, put together a cycle later.

    Ports:
        `fetched`: what came from the program.
        `is_first`: it is instruction 0, which must be BEGIN.
        `count`: instructions in the program, which a BRANCH may not leave.
        `action`: what is to be done with it.
    """

    fetched: In(Fetched)
    is_first: In(1)
    count: In(INDEX_BITS)
    action: Out(Action)

    def __init__(self, config: Config):
        self.config = config
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = Decoder(self.config.core_mask_bits, self.config.load_crc)
        instruction, opcode = self.fetched.instruction, self.fetched.instruction[:8]
        unit, is_begin = opcode[OPERATION_BITS:], opcode == Opcode.BEGIN
        begin = data.View(layout(Opcode.BEGIN), instruction)
        branch = data.View(layout(Opcode.BRANCH), instruction)
        leaves = branch.target[:OFFSET_BITS].any() | (branch.target[OFFSET_BITS:] >= self.count)
        action = self.action
        m.d.comb += [
            decoder.instruction.eq(instruction),
            action.bus_error.eq(self.fetched.bus_error),
            action.damaged.eq(decoder.damaged),
            action.illegal.eq(decoder.unknown | (self.is_first & ~is_begin)),
            action.isa_mismatch.eq(is_begin & (begin.isa_hash != ISA_HASH)),
            action.config_mismatch.eq(is_begin & (begin.config_hash != self.config.hash)),
            action.leaves.eq((opcode == Opcode.BRANCH) & leaves),
            action.to_queue.eq(Cat(unit == each for each in QUEUES)),
            action.passes.eq(unit == Unit.SEQUENCER),
            action.ends.eq(opcode == Opcode.END),
            action.branches.eq(opcode == Opcode.BRANCH),
        ]
        return m
