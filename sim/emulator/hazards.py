"""Finds accesses that the program's order settles but its tokens do not.

The emulator executes instructions one after the other; on hardware the units run side by side and only WAIT and
SIGNAL order them. This check follows what each unit knows of the others (a vector clock per unit, handed on with
every token) and, for every byte, who touched it last. A byte that is read or written while another unit's earlier
access to it may still be going on is a race, even if it happens to go well on one memory's timing.
"""

import collections

import numpy as np

from tosaic.hw.config import Config
from tosaic.hw.isa import Instruction, Opcode, Unit

from .faults import Fault

AM, WM, MEMORY = "activation memory", "weight memory", "external memory"

_WAITS = {Opcode.LOAD_WAIT, Opcode.ARRAY_WAIT, Opcode.VECTOR_WAIT, Opcode.STORE_WAIT}
_SIGNALS = {Opcode.LOAD_SIGNAL, Opcode.ARRAY_SIGNAL, Opcode.VECTOR_SIGNAL, Opcode.STORE_SIGNAL}


class _Bytes:
    """Per byte of one memory: the last instruction of each unit that read it, and the last that wrote it."""

    def __init__(self, size_bytes: int):
        self.read = np.full((len(Unit), size_bytes), -1, np.int32)
        self.written = np.full(size_bytes, -1, np.int32)
        self.writer = np.zeros(size_bytes, np.int8)


class Hazards:
    """Told of every instruction and access in program order; Fault on the first race."""

    def __init__(self, config: Config, memory_bytes: int):
        self._memories = {
            AM: _Bytes(config.am_bytes),
            WM: _Bytes(config.wm_bytes),
            MEMORY: _Bytes(memory_bytes),
        }
        # knows[u][v]: u comes after the instruction of unit v with this number and all before it.
        self._knows = np.full((len(Unit), len(Unit)), -1, np.int32)
        self._tokens: list[collections.deque[np.ndarray]] = [
            collections.deque() for _ in range(config.semaphores)
        ]
        self._number = -1
        self._offsets: list[int] = []
        """Program counters of the instructions so far."""
        self._unit = Unit.SEQUENCER
        self._vectors: collections.deque[tuple[int, int]] = collections.deque()
        self._taken_up_to = -1

    def begin(self, instruction: Instruction, offset: int) -> None:
        """The next instruction to be executed, at byte `offset` of the program."""
        if self._taken_up_to >= 0:
            # A VECTOR_GO that took the last vector of an ARRAY GO comes after it, but its own stores may not.
            known = self._knows[Unit.VECTOR]
            known[Unit.ARRAY] = max(known[Unit.ARRAY], self._taken_up_to)
            self._taken_up_to = -1
        self._number += 1
        self._offsets.append(offset)
        self._unit = instruction.opcode.unit
        if instruction.opcode == Opcode.BRANCH:
            # All units are idle before it is decided, and begin nothing before that.
            self.settle()
        elif instruction.opcode in _SIGNALS:
            clock = self._knows[self._unit].copy()
            clock[self._unit] = self._number
            self._tokens[instruction.semaphore].extend([clock] * instruction.count)
        elif instruction.opcode in _WAITS:
            known = self._knows[self._unit]
            for _ in range(min(instruction.count, len(self._tokens[instruction.semaphore]))):
                np.maximum(known, self._tokens[instruction.semaphore].popleft(), out=known)

    def settle(self) -> None:
        """All units are idle: whatever comes, comes after everything so far."""
        self._knows[:] = self._number

    def sent(self, vectors: int) -> None:
        """The ARRAY GO sends this many vectors to VECTOR."""
        self._vectors.append((self._number, vectors))

    def taken(self, vectors: int) -> None:
        """The VECTOR_GO takes this many vectors."""
        while vectors:
            number, there = self._vectors.popleft()
            if there > vectors:
                self._vectors.appendleft((number, there - vectors))
                return
            vectors -= there
            self._taken_up_to = number

    def read(self, name: str, addresses: np.ndarray, *, ordered: bool = False) -> None:
        """The instruction reads these bytes (any order, repeats allowed). `ordered`: other than by tokens, it waits for
        those who write them."""
        memory = self._memories[name]
        addresses = addresses % memory.written.size
        if not ordered:
            self._check_writer(name, memory, addresses, "reads")
        memory.read[self._unit][addresses] = self._number

    def write(self, name: str, addresses: np.ndarray) -> None:
        """The instruction writes these bytes."""
        memory = self._memories[name]
        addresses = addresses % memory.written.size
        self._check_writer(name, memory, addresses, "writes")
        for unit in Unit:
            if unit != self._unit:
                last = memory.read[unit][addresses]
                late = last > self._knows[self._unit, unit]
                if late.any():
                    self._fail(name, "writes", addresses[late][0], "read", unit, last[late][0])
        memory.written[addresses] = self._number
        memory.writer[addresses] = self._unit

    def _check_writer(self, name: str, memory: _Bytes, addresses: np.ndarray, action: str) -> None:
        last, writer = memory.written[addresses], memory.writer[addresses]
        late = (writer != self._unit) & (last > self._knows[self._unit][writer])
        if late.any():
            self._fail(name, action, addresses[late][0], "written", Unit(writer[late][0]), last[late][0])

    def _fail(self, name: str, action: str, address: int, touched: str, unit: Unit, number: int) -> None:
        raise Fault(
            None,
            f"{action} byte {address} of the {name}, which may still be {touched} by {unit.name} at program counter "
            f"{self._offsets[number]}: no token orders the two",
        )
