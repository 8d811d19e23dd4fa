"""Checks a program without its inputs: every path through its branches, every instruction on it.

A program is taken apart at its branches. There all units are idle, so a piece needs to be checked once for each set-up
(micro-operations, streams, pitches and so on) that a path brings to it. Both ways of a branch are followed, whatever
the data would decide; a loop is left when it brings nothing new. What is checked of each piece is what the emulator
finds (illegal instructions, accesses outside the memory, vectors and tokens that do not come), the order of all
accesses by tokens (hazards.py), and that the units do not wait for each other with the queues' lengths (timing.py).

Tokens come in every order in which the units may run, not in program order only: every WAIT finds its tokens among the
signals before it, and no other unit takes them, for a semaphore has one unit that waits. So of the commands that are
not complete, the first one in program order never waits for tokens. Nor does a counter pass its largest number where a
unit signals while the WAITs of another one are still in its queue.
"""

import collections
import copy
import dataclasses
import itertools
from typing import Any

import numpy as np

from tosaic.errors import DeviceError, MachineFault
from tosaic.hw.config import Config
from tosaic.hw.isa import Condition, Error, Instruction, Opcode, Unit, make

from .execution import SEMAPHORE_MAX, Execution
from .external_memory import ExternalMemory
from .faults import Fault
from .hazards import Hazards
from .state import State
from .timing import Deadlock, predict

TAKEN_COMMANDS = 2
"""Commands of a unit that may be incomplete beside those that its queue holds."""
INSTRUCTIONS_MAX = 20_000_000
"""Instructions on all paths together; a program with more is refused."""
SETUP = {
    Opcode.LOAD_PITCH: (),
    Opcode.LOAD_TENSOR: (),
    Opcode.LOAD_STREAMS: (),
    Opcode.STORE_PITCH: (),
    Opcode.ARRAY_INPUT: (),
    Opcode.ARRAY_WINDOW: (),
    Opcode.ARRAY_KERNEL: (),
    Opcode.ARRAY_DEPTHWISE: (),
    Opcode.VECTOR_UOP: ("index",),
    Opcode.VECTOR_BOUNDS: ("index",),
    Opcode.VECTOR_STREAM: ("stream",),
    Opcode.VECTOR_DIMS: ("stream", "pair"),
    Opcode.VECTOR_PARAM: (),
    Opcode.VECTOR_TABLE: (),
    Opcode.VECTOR_OFFSETS: (),
}
"""Instructions that hold for those after them, and the fields that say which of several places they set."""


@dataclasses.dataclass(frozen=True)
class Verified:
    """What was checked. `data_dependent`: offsets in the program of the GOs whose addresses come from memory
    (VECTOR_OFFSETS). They stay inside the activation memory, but their order was checked for the image's data only."""

    instructions: int
    pieces: int
    data_dependent: tuple[int, ...]


def verify(config: Config, memory: np.ndarray, program_address: int, program_bytes: int) -> Verified:
    """Check the program in `memory` (uint8, 0 = MEM_BASE; changed). DeviceError names the first instruction at fault.

    No path is longer than INSTRUCTIONS_MAX instructions, nor all of them together.
    """
    hazards = Hazards(config, memory.size)
    walk = _Walk(State(config, ExternalMemory.of(memory), hazards))
    walk.open(program_address, program_bytes)
    waiting, seen, dependent, total = [walk], {walk.signature()}, set[int](), 0
    while waiting:
        walk = waiting.pop()
        hazards.settle()
        total += walk.piece(INSTRUCTIONS_MAX - total)
        dependent |= walk.data_dependent
        for target in walk.targets:
            following = walk.fork(target)
            if following.signature() not in seen:
                seen.add(following.signature())
                waiting.append(following)
    return Verified(total, len(seen), tuple(sorted(dependent)))


class _Walk(Execution):
    """An execution that stops at a branch and can go on either way."""

    def __init__(self, state: State):
        super().__init__(state)
        self._setup: dict[tuple[int, ...], int] = {}
        """Offset in the program of the instruction that set each place last."""
        self._waiters: dict[int, Opcode] = {}
        """By semaphore: who waits for it in this piece."""
        self._behind = self._no_commands()
        self.targets: tuple[int, ...] = ()
        self.data_dependent: set[int] = set()
        self._branched = False
        self._streamed_before: list[np.ndarray] = []
        """Words of weights that were streamed and not read when this piece began."""

    def signature(self) -> tuple[Any, ...]:
        """Equal for executions that do the same from here on, but for data."""
        accumulators = self._array._accumulators is not None
        streamed = tuple(itertools.chain.from_iterable(each.tolist() for each in self._streamed_before))
        return (
            self._offset,
            frozenset(self._setup.items()),
            self._vector._params_end,
            frozenset(self._vector.defined_lanes.items()),
            accumulators,
            streamed,
        )

    def fork(self, target: int) -> "_Walk":
        """The same machine, about to execute the instruction at `target`. The memories are shared, but
        not what was streamed."""
        shared = (self._state, self._config, self._decoded, self._code)
        other = copy.deepcopy(self, {id(value): value for value in shared})
        other._offset, other._branched, other.targets, other._waiters = target, False, (), {}
        other._behind, other._streamed_before = self._no_commands(), [*self._state.streamed_words]
        other.trace = dataclasses.replace(
            self.trace, instructions=[], decode_cycles=[], unpacked_rows=[], jumps={}
        )
        return other

    def piece(self, limit: int) -> int:
        """Execute up to the next branch or END, and see that the units come to its end; the number of instructions."""
        set_up_before = [self._decoded[offset] for offset in self._setup.values()]
        self._state.streamed_words.clear()
        self._state.streamed_words.extend(self._streamed_before)
        while not (self.done or self._branched):
            offset = self._offset
            instruction = self.step(limit)
            if instruction.opcode in SETUP:
                place = (
                    instruction.opcode,
                    *(instruction.fields[name] for name in SETUP[instruction.opcode]),
                )
                self._setup[place] = offset
            elif instruction.opcode == Opcode.VECTOR_GO and any(s.indexed for s in self._vector._streams):
                self.data_dependent.add(offset)
            if instruction.opcode.unit is not Unit.SEQUENCER:
                self._behind[instruction.opcode.unit].append(instruction)
        self._check_units(set_up_before)
        return len(self.trace.instructions)

    def _check_units(self, set_up_before: list[Instruction]) -> None:
        instructions = [*set_up_before, *self.trace.instructions[:-1], make(Opcode.END)]
        trace = dataclasses.replace(
            self.trace,
            program_instructions=len(instructions),
            instructions=instructions,
            streamed_words=sum(map(len, self._streamed_before)),
            jumps={},
        )
        try:
            predict(self._config, [trace], None, 0)
        except Deadlock as deadlock:
            raise DeviceError(
                f"{Error.WATCHDOG.name} before program counter {self._offset}: the units wait for each other: "
                f"{deadlock}",
                fault=MachineFault(Error.WATCHDOG.name, "SEQUENCER", self._offset),
            ) from None

    def _no_commands(self) -> dict[Unit, collections.deque[Instruction]]:
        """The last commands of each unit in this piece, which may all be incomplete when later ones of others are."""
        most = self._config.queue_commands + TAKEN_COMMANDS
        return {unit: collections.deque(maxlen=most) for unit in Unit if unit is not Unit.SEQUENCER}

    def _signal(self, signal: Instruction) -> None:
        super()._signal(signal)
        waiter = self._waiters.get(signal.semaphore)
        if waiter is None:
            return
        counter = self._semaphores[signal.semaphore]
        not_taken = sum(
            command.count
            for command in self._behind[waiter.unit]
            if command.opcode is waiter and command.semaphore == signal.semaphore
        )
        if counter + not_taken > SEMAPHORE_MAX:
            raise Fault(
                None,
                f"semaphore {signal.semaphore} may pass {SEMAPHORE_MAX}: it is {counter} here, and {not_taken} tokens "
                f"more while the last WAITs are still in the queue of {waiter.unit.name}",
            )

    def _wait(self, wait: Instruction) -> None:
        super()._wait(wait)
        first = self._waiters.setdefault(wait.semaphore, wait.opcode)
        if first is not wait.opcode:
            raise Fault(
                None,
                f"{first.unit.name} waits for semaphore {wait.semaphore}, too: which of the two gets its tokens would "
                "depend on time",
            )

    def _branch(self, branch: Instruction) -> None:
        self._check_branch(branch)
        self._require_no_tokens()
        after = {
            Condition.ALWAYS: (branch.target,),
            Condition.IF_CLEAR: (branch.target, self._offset),
            Condition.IF_SET: (branch.target, self._offset),
            Condition.NEVER: (self._offset,),
        }
        self.targets, self._branched = after[Condition(branch.condition)], True

    def _end(self, end: Instruction) -> None:
        super()._end(end)
        self._require_no_tokens()

    def _require_no_tokens(self) -> None:
        """A token that is left over would let the next piece's units go before their time."""
        for semaphore, count in enumerate(self._semaphores):
            if count:
                raise Fault(
                    None, f"semaphore {semaphore} is {count} here, and must be 0: tokens are left over"
                )
