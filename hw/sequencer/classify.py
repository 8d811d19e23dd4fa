"""What is to be done with an instruction, as far as its bits tell."""

from amaranth.hdl import Cat, Const, Module, Signal, Value
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
        "wrong": Error,  # NONE, or the error it is; then no other bit is set
        "to_queue": len(QUEUES),  # bit of the unit that executes it
        "passes": 1,  # the sequencer's own
        "ends": 1,  # END
        "branches": 1,  # BRANCH
    }
)


def byte_offset(index: Value) -> Value:
    """Where in the program the instruction of this index is."""
    return Cat(Const(0, OFFSET_BITS), index)


class Classifier(wiring.Component):
    """Combinational.

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
        m.submodules.decoder = decoder = Decoder(self.config.core_mask_bits)
        opcode = self.fetched.instruction[:8]
        right = Signal()
        m.d.comb += [
            decoder.instruction.eq(self.fetched.instruction),
            self.action.wrong.eq(self._wrong(m, decoder.legal)),
            right.eq(self.action.wrong == Error.NONE),
            self.action.to_queue.eq(Cat(right & (opcode[OPERATION_BITS:] == unit) for unit in QUEUES)),
            self.action.passes.eq(right & (opcode[OPERATION_BITS:] == Unit.SEQUENCER)),
            self.action.ends.eq(right & (opcode == Opcode.END)),
            self.action.branches.eq(right & (opcode == Opcode.BRANCH)),
        ]
        return m

    def _wrong(self, m: Module, legal: Signal) -> Signal:
        instruction, opcode = self.fetched.instruction, self.fetched.instruction[:8]
        begin = data.View(layout(Opcode.BEGIN), instruction)
        branch = data.View(layout(Opcode.BRANCH), instruction)
        is_begin = opcode == Opcode.BEGIN
        leaves = branch.target[:OFFSET_BITS].any() | (branch.target[OFFSET_BITS:] >= self.count)
        wrong = Signal(Error)
        with m.If(self.fetched.bus_error):
            m.d.comb += wrong.eq(Error.BUS_READ)
        with m.Elif(~legal | (self.is_first & ~is_begin)):
            m.d.comb += wrong.eq(Error.ILLEGAL)
        with m.Elif(is_begin & (begin.isa_hash != ISA_HASH)):
            m.d.comb += wrong.eq(Error.ISA_MISMATCH)
        with m.Elif(is_begin & (begin.config_hash != self.config.hash)):
            m.d.comb += wrong.eq(Error.CONFIG_MISMATCH)
        with m.Elif((opcode == Opcode.BRANCH) & leaves):
            m.d.comb += wrong.eq(Error.ILLEGAL)
        return wrong
