"""The sequencer's state machine: start, dispatch, branches, end, and the first error."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import INSTRUCTION_BYTES, Condition, Error, Opcode, Unit, layout
from .classify import OFFSET_BITS, Action, Classifier, byte_offset, counts, error_of
from .faults import CODE_BITS, UNIT_BITS, Fault
from .fetch import Fetched
from .queue import INDEX_BITS, Dispatched

ADDRESS_BITS = 32


class DispatchState(enum.Enum, shape=3):
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
        `fault`: a unit's or the watchdog's fault in the cycle before.
        `fault_pc`: that unit's program counter then.
        `quiet`: queues are empty, units idle, nothing is outstanding.
        `flag`: what the last VECTOR_TEST found, looked at while `quiet`.
        `jump`: a branch is taken in this cycle: `program` starts anew from `target`.
        `target`: the index of the instruction at which the program goes on.
        `remaining`: instructions from there to the program's end.
        `running`: a program runs.
        `dispatching`: running, and neither at END nor at a BRANCH.
        `done`: END was executed; cleared by `start`.
        `error`: the run ended in an error; until reset.
        `starving`: waits for the program.
        `queue_full`: waits for room in a queue.
        `progress`: an instruction was dispatched or executed.
        `code`, `unit`: of the first error, isa.Error and isa.Unit.
        `pc`: byte offset of the instruction dispatched last; after an error, of the instruction it belongs to
            (PROGRAM_END: the end of the program).

    Timing: an instruction is classified in the cycle in which it is taken from the program, and executed or put into a
    queue in the next one or later, of which only few bits decide.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "instructions": In(INDEX_BITS),
                "bad_range": In(1),
                "program": In(stream.Signature(Fetched)),
                "load": Out(stream.Signature(Dispatched)),
                "array": Out(stream.Signature(Dispatched)),
                "vector": Out(stream.Signature(Dispatched)),
                "store": Out(stream.Signature(Dispatched)),
                "fault": In(Fault),
                "fault_pc": In(ADDRESS_BITS),
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
                "code": Out(CODE_BITS),
                "unit": Out(UNIT_BITS),
                "pc": Out(ADDRESS_BITS),
            }
        )
        self._state = Signal(DispatchState)
        self._count = Signal(INDEX_BITS)
        """Instructions in the program."""
        self.taken = Signal(INDEX_BITS)
        """Index of the instruction that is taken from the program next."""
        self._more = Signal()
        """There is one: taken != _count."""
        self.held = Signal()
        """An instruction was taken and is not done with: `instruction` of index `index`, with its `action`."""
        self.instruction = Signal(8 * INSTRUCTION_BYTES)
        self.index = Signal(INDEX_BITS)
        self.action = Signal(Action)
        self._counts = Signal()
        """Such an instruction can be executed."""
        self.done_with = Signal()
        """It is, in this cycle."""
        self._condition = Signal(Condition)
        """Condition of the BRANCH that waits."""
        self._found = Signal(Error)
        """An error of the program in this cycle."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._take(m)
        self._hand_over(m)
        with m.Switch(self._state):
            with m.Case(DispatchState.RUN):
                self._run(m)
            with m.Case(DispatchState.BRANCH):
                self._branch(m)
            with m.Case(DispatchState.FINISH):
                with m.If(self.quiet):
                    m.d.sync += [self._state.eq(DispatchState.IDLE), self.done.eq(1)]
            with m.Case(DispatchState.IDLE):
                self._idle(m)
        self._stop_at_errors(m)
        m.d.comb += [
            self.running.eq(
                (self._state == DispatchState.RUN)
                | (self._state == DispatchState.BRANCH)
                | (self._state == DispatchState.FINISH)
            ),
            self.dispatching.eq(self._state == DispatchState.RUN),
            self.error.eq(self._state == DispatchState.ERROR),
        ]
        return m

    def _take(self, m: Module) -> None:
        """Takes the next instruction when the one before is done with."""
        m.submodules.classifier = classifier = Classifier(self.config)
        accept = Signal()
        m.d.comb += [
            classifier.fetched.eq(self.program.payload),
            classifier.is_first.eq(self.taken == 0),
            classifier.count.eq(self._count),
            self.program.ready.eq(self.dispatching & (~self.held | self.done_with) & self._more),
            accept.eq(self.program.valid & self.program.ready),
            self.starving.eq(self.dispatching & ~self.held & self._more),
            self.progress.eq(self.done_with | accept),
        ]
        with m.If(self.done_with):
            m.d.sync += self.held.eq(0)
        with m.If(accept):
            m.d.sync += [
                self.held.eq(1),
                self.instruction.eq(self.program.payload.instruction),
                self.action.eq(classifier.action),
                self.index.eq(self.taken),
                self.taken.eq(self.taken + 1),
                self._more.eq(self.taken + 1 != self._count),
            ]

    def _hand_over(self, m: Module) -> None:
        """Offers the held instruction to its queue; the sequencer's own are done with at once."""
        to_queue = self.action.to_queue
        taken_by = Signal(len(to_queue))
        m.d.comb += self._counts.eq(self.held & counts(self.action))
        for bit, queue in enumerate((self.load, self.array, self.vector, self.store)):
            m.d.comb += [
                queue.payload.instruction.eq(self.instruction),
                queue.payload.index.eq(self.index),
                queue.valid.eq(self.dispatching & self._counts & to_queue[bit]),
                taken_by[bit].eq(to_queue[bit] & queue.ready),
            ]
        m.d.comb += [
            self.done_with.eq(self.dispatching & self._counts & (self.action.passes | taken_by.any())),
            self.queue_full.eq(self.dispatching & self._counts & to_queue.any() & ~taken_by.any()),
        ]

    def _run(self, m: Module) -> None:
        with m.If(self.held):
            branch = data.View(layout(Opcode.BRANCH), self.instruction)
            m.d.comb += self._found.eq(error_of(self.action))
            with m.If(self._counts & self.action.ends):
                m.d.sync += self._state.eq(DispatchState.FINISH)
            with m.If(self._counts & self.action.branches):
                m.d.sync += [
                    self._state.eq(DispatchState.BRANCH),
                    self._condition.eq(branch.condition),
                    self.target.eq(branch.target[OFFSET_BITS:]),
                ]
        with m.Elif(~self._more):
            m.d.comb += self._found.eq(Error.PROGRAM_END)
        with m.If(self.done_with):
            m.d.sync += self.pc.eq(byte_offset(self.index))

    def _branch(self, m: Module) -> None:
        m.d.comb += self.remaining.eq(self._count - self.target)
        is_taken = Signal()
        with m.Switch(self._condition):
            with m.Case(Condition.ALWAYS):
                m.d.comb += is_taken.eq(1)
            with m.Case(Condition.IF_CLEAR):
                m.d.comb += is_taken.eq(~self.flag)
            with m.Case(Condition.IF_SET):
                m.d.comb += is_taken.eq(self.flag)
        with m.If(self.quiet):
            m.d.sync += self._state.eq(DispatchState.RUN)
            with m.If(is_taken):
                m.d.comb += self.jump.eq(1)
                m.d.sync += [self.taken.eq(self.target), self._more.eq(1), self.held.eq(0)]

    def _idle(self, m: Module) -> None:
        m.d.sync += self.held.eq(0)
        with m.If(self.start):
            m.d.sync += [
                self._state.eq(DispatchState.RUN),
                self.done.eq(0),
                self.pc.eq(0),
                self._count.eq(self.instructions),
                self.taken.eq(0),
                self._more.eq(self.instructions != 0),
            ]
            with m.If(self.bad_range):
                m.d.sync += [self._state.eq(DispatchState.ERROR), self.code.eq(Error.MEMORY_RANGE)]

    def _stop_at_errors(self, m: Module) -> None:
        """The first error stays. A unit's fault belongs to an earlier instruction than the one being dispatched, so it
        wins over the program's, also over that of the cycle before."""
        just_found = Signal()
        m.d.sync += just_found.eq(self._found != Error.NONE)
        with m.If(self._found != Error.NONE):
            m.d.sync += [
                self._state.eq(DispatchState.ERROR),
                self.code.eq(self._found),
                self.unit.eq(Unit.SEQUENCER),
                self.pc.eq(byte_offset(Mux(self.held, self.index, self._count))),
            ]
        with m.If((self.running | just_found) & self.fault.valid):
            m.d.sync += [
                self._state.eq(DispatchState.ERROR),
                self.code.eq(self.fault.code),
                self.unit.eq(self.fault.unit),
                self.pc.eq(self.fault_pc),
            ]
