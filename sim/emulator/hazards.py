"""Finds accesses that the program's order settles but its tokens do not.

The emulator executes instructions one after the other; on hardware the units run side by side and only WAIT and
SIGNAL order them. This check follows what each unit knows of the others (a vector clock per unit, handed on with
every token) and, for every byte, who touched it last. A byte that is read or written while another unit's earlier
access to it may still be going on is a race, even if it happens to go well on one memory's timing. The units of all
cores are numbered through: those of core c from c * len(Unit) on.
"""

import collections

import numpy as np

from tosaic.hw.config import Config
from tosaic.hw.isa import Instruction, Opcode, Unit

from .faults import Fault
from .known import Known
from .tokens import receivers

AM, WM, MEMORY = "activation memory", "weight memory", "external memory"

_WAITS = {Opcode.LOAD_WAIT, Opcode.ARRAY_WAIT, Opcode.VECTOR_WAIT, Opcode.STORE_WAIT}
_SIGNALS = {Opcode.LOAD_SIGNAL, Opcode.ARRAY_SIGNAL, Opcode.VECTOR_SIGNAL, Opcode.STORE_SIGNAL}


class _Bytes:
    """The last instruction of each of `units` that read each byte of one memory, and the last one that wrote it."""

    def __init__(self, size_bytes: int, units: range):
        self.units = units
        self.read = {unit: np.full(size_bytes, -1, np.int32) for unit in units}
        self.written = np.full(size_bytes, -1, np.int32)
        self.writer = np.zeros(size_bytes, np.int8)


class Hazards:
    """Told of every instruction and access in the order of execution; Fault on the first race."""

    def __init__(self, config: Config, memory_bytes: int):
        every = range(config.cores * len(Unit))
        self._memories = {(MEMORY, 0): _Bytes(memory_bytes, every)}
        for core in range(config.cores):
            own = range(core * len(Unit), (core + 1) * len(Unit))
            self._memories[AM, core] = _Bytes(config.am_bytes, own)
            self._memories[WM, core] = _Bytes(config.wm_bytes, own)
        # knows[u][v]: u comes after the instruction of unit v with this number and all before it.
        self._knows = np.full((len(every), len(every)), -1, np.int32)
        self._tokens: dict[tuple[int, int], collections.deque[np.ndarray]] = collections.defaultdict(
            collections.deque
        )
        """What the signalling units knew, for each token that waits, by core and semaphore."""
        self._number = -1
        self._offsets: list[int] = []
        """Program counters of the instructions so far."""
        self._core, self._unit = 0, int(Unit.SEQUENCER)
        self._vectors: list[collections.deque[tuple[int, int]]] = [
            collections.deque() for _ in range(config.cores)
        ]
        self._taken_up_to = -1
        self.known: Known | None = None
        """Where set, every byte that is read must be known."""

    def begin(self, instruction: Instruction, offset: int, core: int = 0) -> None:
        """The next instruction to be executed, at byte `offset` of the core's program."""
        if self._taken_up_to >= 0:
            # A VECTOR_GO that took the last vector of an ARRAY GO comes after it, but its own stores may not.
            first = self._core * len(Unit)
            known = self._knows[first + Unit.VECTOR]
            known[first + Unit.ARRAY] = max(known[first + Unit.ARRAY], self._taken_up_to)
            self._taken_up_to = -1
        self._number += 1
        self._offsets.append(offset)
        self._core, self._unit = core, core * len(Unit) + instruction.opcode.unit
        if instruction.opcode == Opcode.BRANCH:
            # All units are idle before it is decided, and begin nothing before that.
            self.settle()
        elif instruction.opcode in _SIGNALS:
            clock = self._knows[self._unit].copy()
            clock[self._unit] = self._number
            for receiver in receivers(instruction, core):
                self._tokens[receiver, instruction.semaphore].extend([clock] * instruction.count)
        elif instruction.opcode in _WAITS:
            known, tokens = self._knows[self._unit], self._tokens[core, instruction.semaphore]
            for _ in range(min(instruction.count, len(tokens))):
                np.maximum(known, tokens.popleft(), out=known)

    def settle(self) -> None:
        """All units of the core are idle: whatever comes there, comes after everything so far."""
        own = slice(self._core * len(Unit), (self._core + 1) * len(Unit))
        self._knows[own] = self._knows[own].max(axis=0)
        self._knows[own, own] = self._number

    def sent(self, vectors: int) -> None:
        """The ARRAY GO sends this many vectors to VECTOR."""
        self._vectors[self._core].append((self._number, vectors))

    def taken(self, vectors: int) -> None:
        """The VECTOR_GO takes this many vectors."""
        waiting = self._vectors[self._core]
        while vectors:
            number, there = waiting.popleft()
            if there > vectors:
                waiting.appendleft((number, there - vectors))
                return
            vectors -= there
            self._taken_up_to = number

    def read(self, name: str, addresses: np.ndarray, *, ordered: bool = False, used: bool = True) -> None:
        """The instruction reads these bytes (any order, repeats allowed). `ordered`: other than by tokens, it waits for
        those who write them. Where they are `used`, they must be known."""
        addresses = self._reads(name, addresses, ordered=ordered)
        if self.known is not None and used:
            self.known.read(name, addresses)

    def write(self, name: str, addresses: np.ndarray) -> None:
        """The instruction writes these bytes."""
        addresses = self._writes(name, addresses)
        if self.known is not None:
            self.known.write(name, addresses)

    def copy(self, source: str, addresses: np.ndarray, target: str, places: np.ndarray) -> None:
        """The instruction copies these bytes of one memory to those places of another."""
        addresses, places = self._reads(source, addresses), self._writes(target, places)
        if self.known is not None:
            self.known.copy(source, addresses, target, places)

    def _reads(self, name: str, addresses: np.ndarray, *, ordered: bool = False) -> np.ndarray:
        """The addresses where they are in the memory."""
        memory = self._memory(name)
        addresses = addresses % memory.written.size
        if not ordered:
            self._check_writer(name, memory, addresses, "reads")
        memory.read[self._unit][addresses] = self._number
        return addresses

    def _writes(self, name: str, addresses: np.ndarray) -> np.ndarray:
        """The addresses where they are in the memory."""
        memory = self._memory(name)
        addresses = addresses % memory.written.size
        self._check_writer(name, memory, addresses, "writes")
        for unit in memory.units:
            if unit != self._unit:
                last = memory.read[unit][addresses]
                late = last > self._knows[self._unit, unit]
                if late.any():
                    self._fail(name, "writes", addresses[late][0], "read", unit, last[late][0])
        memory.written[addresses] = self._number
        memory.writer[addresses] = self._unit
        return addresses

    def _memory(self, name: str) -> _Bytes:
        return self._memories[name, 0 if name == MEMORY else self._core]

    def _check_writer(self, name: str, memory: _Bytes, addresses: np.ndarray, action: str) -> None:
        last, writer = memory.written[addresses], memory.writer[addresses]
        late = (writer != self._unit) & (last > self._knows[self._unit][writer])
        if late.any():
            self._fail(name, action, addresses[late][0], "written", writer[late][0], last[late][0])

    def _fail(self, name: str, action: str, address: int, touched: str, unit: int, number: int) -> None:
        core, unit = divmod(unit, len(Unit))
        place = f"{Unit(unit).name}{f' of core {core}' if core != self._core else ''}"
        raise Fault(
            None,
            f"{action} byte {address} of the {name}, which may still be {touched} by {place} at program counter "
            f"{self._offsets[number]}: no token orders the two",
        )
