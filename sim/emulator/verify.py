"""Checks a program without its inputs: every path through its branches, every instruction on it.

A program is taken apart at its branches. There all units are idle, so a piece needs to be checked once for each set-up
(micro-operations, streams, pitches and so on) that a path brings to it. Both ways of a branch are followed, whatever
the data would decide; a loop is left when it brings nothing new. What is checked of each piece is what the emulator
finds (illegal instructions, accesses outside the memory or over the program, vectors and tokens that do not come), the
order of all accesses by tokens (hazards.py), that what it reads was written on every path to it (known.py), and that
the units do not wait for each other with the queues' lengths (timing.py). Of the whole program: that its loops have an
exit (exits.py). One for which all that takes too long is refused (effort.py).

Tokens come in every order in which the units may run, not in program order only: every WAIT finds its tokens among the
signals before it, and no other unit takes them, for a semaphore has one unit that waits. So of the commands that are
not complete, the first one in program order never waits for tokens. Nor does a counter pass its largest number where a
unit signals while the WAITs of another one are still in its queue.
"""

import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tosaic.errors import DeviceError, MachineFault
from tosaic.hw.config import Config
from tosaic.hw.isa import (
    INSTRUCTION_BYTES,
    Condition,
    Error,
    IllegalInstruction,
    Instruction,
    Opcode,
    Unit,
    decode,
    make,
)

from .effort import MOST, MOST_FOR_EACH, PIECE, check_effort
from .execution import SEMAPHORE_MAX, Execution
from .exits import StraightPiece, loops_of
from .external_memory import ExternalBytes
from .faults import Fault
from .hazards import AM, MEMORY, WM, Hazards
from .known import Known, Packed, both
from .state import CoreState
from .stored_lanes import carried_registers
from .timing import Deadlock, predict
from .transfer import rows_of, source_of

TAKEN_COMMANDS = 2
"""Commands of a unit that may be incomplete beside those that its queue holds."""
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
    (VECTOR_OFFSETS). They stay inside the activation memory, but their order was checked for the image's data only.
    `data_loops`: where loops begin that end when data say so."""

    instructions: int
    pieces: int
    data_dependent: tuple[int, ...]
    data_loops: tuple[int, ...] = ()
    known: np.ndarray = dataclasses.field(
        default_factory=lambda: np.zeros(0, bool), compare=False, repr=False
    )
    """Bytes of external memory that are written on every path to an end, or were known before, bool."""


def verify(
    config: Config,
    memory: np.ndarray,
    program_address: int,
    program_bytes: int,
    *,
    known: np.ndarray | None = None,
    scratch: np.ndarray | None = None,
    beside: Sequence[range] = (),
) -> Verified:
    """Check the program in `memory` (uint8, 0 = MEM_BASE; changed). DeviceError names the first instruction at fault.

    `known` (bool, for each byte of memory; None: all): what the image and the host bring. `scratch` (the same; None:
    none): what nobody looks at behind the program's end. `beside`: where other programs are that it must not change.
    """
    given = np.ones(memory.size, bool) if known is None else known
    walk = _Walk(config, memory, given, np.zeros(memory.size, bool) if scratch is None else scratch)
    for program in beside:
        walk.protect(program)
    walk.open(program_address, program_bytes)
    return _Paths(walk).follow()


class _Paths:
    """All pieces of a program, which paths bring to them. What is known at the begin of one is what is known on all
    paths to it: where another path knows less, the piece is checked again."""

    def __init__(self, walk: "_Walk"):
        self._known, self._hazards = walk.known, walk.hazards
        self._numbers = {walk.signature(): 0}
        self._pieces = [StraightPiece(0)]
        self._known_before = [self._known.packed()]
        self._waiting, self._again = [(0, walk)], {0}
        self._dependent, self._ends = set[int](), list[Packed]()
        self._instructions = self._effort = 0
        self._most = MOST + MOST_FOR_EACH * walk.trace.program_instructions

    def follow(self) -> Verified:
        while self._waiting:
            number, walk = self._waiting.pop()
            if number not in self._again:
                continue
            self._again.discard(number)
            self._hazards.settle()
            self._known.unpack(self._known_before[number])
            self._pieces[number] = walk.piece()
            self._account(walk)
            self._go_on(number, walk)
        loops = loops_of(self._pieces)
        if loops.endless is not None:
            raise DeviceError(
                f"PROGRAM at program counter {loops.endless}: the loop that begins there has no exit{loops.why}",
                fault=MachineFault("PROGRAM", Unit.SEQUENCER.name, loops.endless),
            )
        self._known.unpack(functools.reduce(both, self._ends))
        return Verified(
            self._instructions,
            len(self._pieces),
            tuple(sorted(self._dependent)),
            loops.data_dependent,
            self._known.of(MEMORY),
        )

    def _account(self, walk: "_Walk") -> None:
        self._instructions += len(walk.trace.instructions)
        self._effort += walk.effort + PIECE
        self._dependent |= walk.data_dependent
        if self._effort + self._known.moved > self._most:
            raise DeviceError(
                f"PROGRAM at program counter {walk.offset}: this program of {walk.trace.program_instructions:,} "
                f"instructions has more paths than are followed here: after {self._instructions:,} instructions in "
                f"{len(self._pieces):,} pieces between branches not all of them were seen"
            )

    def _go_on(self, number: int, walk: "_Walk") -> None:
        """Goes on to the pieces after a piece's branch."""
        packed = self._known.packed()
        if not walk.targets:
            self._ends.append(packed)
        for target in walk.targets:
            signature = walk.signature(target)
            following = self._numbers.setdefault(signature, len(self._pieces))
            self._pieces[number].following.append(following)
            if following == len(self._pieces):
                self._pieces.append(StraightPiece(target))
                self._known_before.append(packed)
            elif (less := both(self._known_before[following], packed)) != self._known_before[following]:
                self._known_before[following] = less
            else:
                continue
            self._again.add(following)
            self._waiting.append((following, walk.fork(target)))


class _Walk(Execution):
    """An execution that stops at a branch and can go on either way."""

    def __init__(self, config: Config, memory: np.ndarray, given: np.ndarray, scratch: np.ndarray):
        sizes = {AM: config.am_bytes, WM: config.wm_bytes, MEMORY: memory.size}
        self.known, self.hazards = Known(sizes, MEMORY, given, scratch), Hazards(config, memory.size)
        super().__init__(CoreState(config, ExternalBytes.of(memory), self.hazards))
        # The registers hold what an earlier program left there.
        nothing = dict.fromkeys(range(config.vector_registers), 0)
        self._vector.defined_lanes, self._vector.defined_slots = dict(nothing), nothing
        self._setup: dict[tuple[int, ...], int] = {}
        """Offset in the program of the instruction that set each place last."""
        self._waiters: dict[int, Opcode] = {}
        """The opcode of the unit that waits for each semaphore in this piece."""
        self._behind = self._no_commands()
        self.targets: tuple[int, ...] = ()
        self.data_dependent: set[int] = set()
        self.effort = 0
        """That this piece takes."""
        self._branched = False
        self._streamed_before: list[np.ndarray] = []
        """Words of weights that were streamed and not read when this piece began."""

    def open(self, address: int, size_bytes: int) -> None:
        super().open(address, size_bytes)
        self.hazards.known = self.known
        self.known.watch(AM, {test.address % self._config.am_bytes for test in _tests(self._code)})

    @property
    def offset(self) -> int:
        """Program counter."""
        return self._offset

    def signature(self, target: int = 0) -> tuple[Any, ...]:
        """Equal for executions that do the same from `target` on, but for data and for what is known of memories."""
        vector, array = self._vector, self._array
        return (
            target,
            frozenset(self._setup.items()),
            vector._params_end,
            frozenset(vector.defined_lanes.items()),
            frozenset(vector.defined_slots.items()),
            array._accumulators is not None,
            frozenset(array.left.items()),
            frozenset(array.lanes_left.items()),
            tuple(itertools.chain.from_iterable(each.tolist() for each in self._state.streamed_words)),
        )

    def fork(self, target: int) -> "_Walk":
        """The same machine, about to execute the instruction at `target`. The memories are shared, but
        not what was streamed."""
        shared = (self._state, self._config, self._decoded, self._code, self.known, self.hazards)
        other = copy.deepcopy(self, {id(value): value for value in shared})
        other._offset, other._branched, other.targets, other._waiters = target, False, (), {}
        other.effort, other._behind = 0, self._no_commands()
        other._streamed_before = [*self._state.streamed_words]
        other.trace = dataclasses.replace(
            self.trace, instructions=[], decode_cycles=[], unpacked_rows=[], jumps={}
        )
        return other

    def piece(self) -> StraightPiece:
        """Execute up to the next branch or END, and see that the units come to its end."""
        set_up_before = [self._decoded[offset] for offset in self._setup.values()]
        self._state.streamed_words.clear()
        self._state.streamed_words.extend(self._streamed_before)
        piece = StraightPiece(self._offset)
        while not (self.done or self._branched):
            offset = self._offset
            instruction = self.step(self.trace.program_instructions + 1)
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
            self._note(instruction, piece)
        self._check_units(set_up_before)
        return piece

    def _note(self, instruction: Instruction, piece: StraightPiece) -> None:
        """Notes what decides how often loops turn."""
        touched, pitch = self.known.touched(), self._pitches.get(instruction.opcode.unit)
        match instruction.opcode:
            case Opcode.LOAD_GO:
                piece.changed |= {
                    (byte, source_of(self._state, instruction, pitch, byte)) for byte in touched
                }
            case Opcode.STORE_GO:
                rows, _ = rows_of(self._state, instruction, pitch, to_wm=False)
                piece.stored.append((rows, instruction.row_bytes))
            case Opcode.VECTOR_TEST:
                piece.tested.append(instruction.address % self._config.am_bytes)
            case _:
                piece.changed |= {(byte, None) for byte in touched}

    def _execute(self, instruction: Instruction, offset: int) -> None:
        kernel, uops = self._array._setup.get("kernel"), self._vector._uops.values()
        carried = instruction.opcode == Opcode.VECTOR_GO and bool(carried_registers([*uops]))
        self.effort += check_effort(instruction, kernel, carried, self._config)
        super()._execute(instruction, offset)

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
        # Both ways of a branch to what follows it are one.
        self.targets = tuple(dict.fromkeys(after[Condition(branch.condition)]))
        self._branched = True

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


def _tests(code: bytes) -> Iterator[Instruction]:
    """The VECTOR_TESTs of a program, whether they are reached or not."""
    for offset in range(0, len(code) - INSTRUCTION_BYTES + 1, INSTRUCTION_BYTES):
        if code[offset] == Opcode.VECTOR_TEST:
            with contextlib.suppress(IllegalInstruction):
                yield decode(code[offset : offset + INSTRUCTION_BYTES])
