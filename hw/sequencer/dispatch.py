"""The sequencer's state machine: start, dispatch, branches, end, and the first error."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..isa import INSTRUCTION_BYTES, ISA_HASH, Condition, Error, Opcode, Unit, layout
from .decode import Decoder
from .faults import Fault
from .fetch import Fetched
from .queue import INDEX_BITS, Dispatched

_MEMBERS = ("load", "array", "vector", "store")


_OFFSET_BITS = exact_log2(INSTRUCTION_BYTES)


class State(enum.Enum, shape=3):
    IDLE = 0
    RUN = 1  # dispatching
    FINISH = 2  # END was met; units and queues run dry
    ERROR = 3  # until reset
    BRANCH = 4  # a BRANCH was met; units and queues run dry before it is decided


class Dispatch(wiring.Component):
    """Checks the program's instructions and hands them to the units' queues, one per cycle.

    Ports:
        `start`: begin at instruction 0; `instructions` and `bad_range` are read in this cycle.
        `instructions`: their number in the program.
        `bad_range`: the program does not lie in the memory window: the run ends at once in MEMORY_RANGE.
        `program`: the instructions; only `instructions` of them are taken.
        `load`, `array`, `vector`, `store`: to the queues.
        `fault`: a unit's or the watchdog's fault in the cycle before; `fault_pc` is that unit's program counter then.
        `quiet`: queues are empty, units idle, nothing is outstanding.
        `flag`: what the last VECTOR_TEST found, looked at while `quiet`.
        `jump`: a branch is taken in this cycle: the program goes on at instruction `target`, with which `remaining`
            instructions are left; `program` starts anew from there.
        `running`, `done`, `error`: levels. `done` is set by END, cleared by `start`.
        `dispatching`: running, and neither at END nor at a BRANCH.
        `starving`: waits for the program. `queue_full`: waits for room in a queue.
        `progress`: an instruction was dispatched or executed.
        `code`, `unit`: of the first error, isa.Error and isa.Unit.
        `pc`: byte offset of the instruction dispatched last; after an error, of the instruction it belongs to
            (PROGRAM_END: the end of the program).

    All that depends on an instruction's bits alone is decided when it comes from the program, so that what happens
    with it is a matter of few bits.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "instructions": In(INDEX_BITS),
                "bad_range": In(1),
                "program": In(stream.Signature(Fetched)),
                **{name: Out(stream.Signature(Dispatched)) for name in _MEMBERS},
                "fault": In(Fault),
                "fault_pc": In(32),
                "quiet": In(1),
                "flag": In(1),
                "jump": Out(1),
                "target": Out(INDEX_BITS),
                "remaining": Out(INDEX_BITS),
                "running": Out(1),
                "dispatching": Out(1),
                "done": Out(1),
                "error": Out(1),
                "starving": Out(1),
                "queue_full": Out(1),
                "progress": Out(1),
                "code": Out(4),
                "unit": Out(3),
                "pc": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = Decoder()
        state = Signal(State)
        queues = {Unit[name.upper()]: getattr(self, name) for name in _MEMBERS}

        # Stage 1: the instruction, and what is to be done with it, in registers.
        count = Signal(INDEX_BITS)
        accepted = Signal(INDEX_BITS)
        more = Signal()  # accepted != count
        held = Signal()
        current = Signal(Fetched)
        index = Signal(INDEX_BITS)
        accept = Signal()
        done_with = Signal()
        running = Signal()
        offered = self.program.payload
        m.d.comb += [
            running.eq(state == State.RUN),
            decoder.instruction.eq(offered.instruction),
            self.program.ready.eq(running & (~held | done_with) & more),
            accept.eq(self.program.valid & self.program.ready),
            self.starving.eq(running & ~held & more),
        ]
        opcode = decoder.instruction[:8]
        begin = data.View(layout(Opcode.BEGIN), decoder.instruction)
        branch = data.View(layout(Opcode.BRANCH), decoder.instruction)
        wrong = Signal(Error)
        with m.If(offered.bus_error):
            m.d.comb += wrong.eq(Error.BUS_READ)
        with m.Elif(~decoder.legal | ((accepted == 0) & (opcode != Opcode.BEGIN))):
            m.d.comb += wrong.eq(Error.ILLEGAL)
        with m.Elif((opcode == Opcode.BEGIN) & (begin.isa_hash != ISA_HASH)):
            m.d.comb += wrong.eq(Error.ISA_MISMATCH)
        with m.Elif((opcode == Opcode.BEGIN) & (begin.config_hash != self.config.hash)):
            m.d.comb += wrong.eq(Error.CONFIG_MISMATCH)
        with m.Elif(
            (opcode == Opcode.BRANCH)
            & (branch.target[:_OFFSET_BITS].any() | (branch.target[_OFFSET_BITS:] >= count))
        ):
            m.d.comb += wrong.eq(Error.ILLEGAL)

        # What is held is wrong, for a queue, or one of these.
        fails = Signal(Error)
        to_queue = Signal(len(queues))
        passes = Signal()
        ends = Signal()
        branches = Signal()
        with m.If(done_with):
            m.d.sync += held.eq(0)
        with m.If(accept):
            right = wrong == Error.NONE
            m.d.sync += [
                held.eq(1),
                current.eq(offered),
                fails.eq(wrong),
                to_queue.eq(Cat(right & (opcode[4:] == unit) for unit in queues)),
                passes.eq(right & (opcode[4:] == Unit.SEQUENCER)),
                ends.eq(right & (opcode == Opcode.END)),
                branches.eq(right & (opcode == Opcode.BRANCH)),
                index.eq(accepted),
                accepted.eq(accepted + 1),
                more.eq(accepted + 1 != count),
            ]

        # Stage 2: execute or dispatch.
        here = Cat(Const(0, 4), index)
        held_branch = data.View(layout(Opcode.BRANCH), current.instruction)
        condition = Signal(Condition)
        taken = Signal()
        m.d.comb += self.remaining.eq(count - self.target)
        with m.Switch(condition):
            with m.Case(Condition.ALWAYS):
                m.d.comb += taken.eq(1)
            with m.Case(Condition.IF_CLEAR):
                m.d.comb += taken.eq(~self.flag)
            with m.Case(Condition.IF_SET):
                m.d.comb += taken.eq(self.flag)
        found = Signal(Error)
        taken_by = Signal(len(queues))
        for bit, queue in enumerate(queues.values()):
            m.d.comb += [
                queue.payload.instruction.eq(current.instruction),
                queue.payload.index.eq(index),
                queue.valid.eq(running & held & to_queue[bit]),
                taken_by[bit].eq(to_queue[bit] & queue.ready),
            ]
        m.d.comb += [
            done_with.eq(running & held & (passes | taken_by.any())),
            self.queue_full.eq(running & held & to_queue.any() & ~taken_by.any()),
        ]

        with m.Switch(state):
            with m.Case(State.RUN):
                with m.If(held):
                    m.d.comb += found.eq(fails)
                    with m.If(ends):
                        m.d.sync += state.eq(State.FINISH)
                    with m.If(branches):
                        m.d.sync += [
                            state.eq(State.BRANCH),
                            condition.eq(held_branch.condition),
                            self.target.eq(held_branch.target[_OFFSET_BITS:]),
                        ]
                with m.Elif(~more):
                    m.d.comb += found.eq(Error.PROGRAM_END)
                with m.If(done_with):
                    m.d.sync += self.pc.eq(here)
            with m.Case(State.BRANCH), m.If(self.quiet):
                m.d.sync += state.eq(State.RUN)
                with m.If(taken):
                    m.d.comb += self.jump.eq(1)
                    m.d.sync += [accepted.eq(self.target), more.eq(1), held.eq(0)]
            with m.Case(State.FINISH), m.If(self.quiet):
                m.d.sync += [state.eq(State.IDLE), self.done.eq(1)]
            with m.Case(State.IDLE):
                m.d.sync += held.eq(0)
                with m.If(self.start):
                    m.d.sync += [
                        state.eq(State.RUN),
                        self.done.eq(0),
                        self.pc.eq(0),
                        count.eq(self.instructions),
                        accepted.eq(0),
                        more.eq(self.instructions != 0),
                    ]
                    with m.If(self.bad_range):
                        m.d.sync += [state.eq(State.ERROR), self.code.eq(Error.MEMORY_RANGE)]

        with m.If(found != Error.NONE):
            m.d.sync += [
                state.eq(State.ERROR),
                self.code.eq(found),
                self.unit.eq(Unit.SEQUENCER),
                self.pc.eq(Mux(held, here, Cat(Const(0, 4), count))),
            ]
        # A unit's fault belongs to an earlier instruction than the one being dispatched, so it wins, over what was
        # found in the cycle before, too.
        just_found = Signal()
        m.d.sync += just_found.eq(found != Error.NONE)
        with m.If((self.running | just_found) & self.fault.valid):
            m.d.sync += [
                state.eq(State.ERROR),
                self.code.eq(self.fault.code),
                self.unit.eq(self.fault.unit),
                self.pc.eq(self.fault_pc),
            ]
        m.d.comb += [
            self.running.eq((state == State.RUN) | (state == State.BRANCH) | (state == State.FINISH)),
            self.dispatching.eq(running),
            self.error.eq(state == State.ERROR),
            self.progress.eq(done_with | accept),
        ]
        return m
