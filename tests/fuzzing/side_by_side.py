"""How a program may end on hardware, whose units run side by side: the emulator's execution, each unit by itself.

The emulator executes one instruction after the other and stops at the first that is wrong. On hardware a unit that is
ahead may find its own fault first, and a WAIT is satisfied by a SIGNAL that the program has behind it. This execution
lets every unit go as far as it can, and so finds all faults of which the hardware reports one.
"""

import collections

from tosaic.errors import DeviceError, MachineFault
from tosaic.hw.isa import INSTRUCTION_BYTES, Error, Instruction, Opcode, Unit, decode
from tosaic.sim.emulator.execution import SEMAPHORE_MAX, Execution
from tosaic.sim.emulator.faults import Fault
from tosaic.sim.emulator.trace import Trace

OK = "OK"
"""A run came to END."""
WATCHDOG = Error.WATCHDOG.name
UNORDERED = "UNORDERED"
"""A run in which an access depends on time: anything may come of it."""


class SideBySide(Execution):
    """One run of one program."""

    def ends(self, code: bytes, limit: int) -> set[MachineFault | str]:
        """All faults that may be reported; else OK, WATCHDOG, or UNORDERED after `limit` instructions."""
        self._program_bytes, self.trace = len(code), Trace(len(code) // INSTRUCTION_BYTES)
        self._code = code
        self._faults: set[MachineFault | str] = set()
        self._queues: dict[Unit, collections.deque[tuple[Instruction, int]]] = {
            unit: collections.deque() for unit in Unit if unit != Unit.SEQUENCER
        }
        self._stopped: set[Unit] = set()
        self._unordered = False
        steps = 0
        while not self.done and steps < limit and not self._unordered:
            moved = [self._unit_moves(unit) for unit in self._queues]
            if not (any(moved) | self._dispatches()):
                break
            steps += 1
        if self._unordered or steps == limit:
            return {UNORDERED}
        return self._faults or {OK if self.done else WATCHDOG}

    def shares_tokens(self, code: bytes) -> bool:
        """Whether two units wait for the same semaphore: time decides which of them gets a token."""
        waits: dict[int, set[Unit]] = {}
        for offset in range(0, len(code) - INSTRUCTION_BYTES + 1, INSTRUCTION_BYTES):
            instruction = decode(code[offset : offset + INSTRUCTION_BYTES])
            if instruction.opcode.name.endswith("_WAIT"):
                waits.setdefault(instruction.semaphore, set()).add(instruction.opcode.unit)
        return any(len(units) > 1 for units in waits.values())

    def _signal(self, signal: Instruction) -> None:
        """A semaphore wraps."""
        self._semaphores[signal.semaphore] += signal.count
        self._semaphores[signal.semaphore] &= SEMAPHORE_MAX

    def _unit_moves(self, unit: Unit) -> bool:
        """Execute what is in the unit's queue as far as it goes; whether anything was."""
        queue, moved = self._queues[unit], False
        while queue and unit not in self._stopped:
            instruction, offset = queue[0]
            try:
                self._execute(instruction, offset)
            except Fault as fault:
                if fault.code is None:
                    self._unordered |= "nothing orders" in str(fault)
                    return moved
                self._faults.add(MachineFault(fault.code.name, unit.name, offset))
                self._stopped.add(unit)
                return True
            queue.popleft()
            moved = True
        return moved

    def _dispatches(self) -> bool:
        """Take one instruction of the program; False if that has to wait."""
        if Unit.SEQUENCER in self._stopped:
            return False
        offset = self._offset
        try:
            instruction = self._accepted(offset)
            unit = instruction.opcode.unit
            if unit == Unit.SEQUENCER:
                if instruction.opcode == Opcode.BRANCH:
                    self._check_target(instruction)
                if instruction.opcode in (Opcode.END, Opcode.BRANCH) and any(self._queues.values()):
                    return False
                self._offset += INSTRUCTION_BYTES
                self._execute(instruction, offset)
                return True
        except Fault as fault:
            if fault.code is None:
                self._offset = offset
                return False
            self._faults.add(MachineFault(fault.code.name, Unit.SEQUENCER.name, offset))
            self._stopped.add(Unit.SEQUENCER)
            return True
        # The queue's places, the one in front of it and the one in Dispatch.
        if len(self._queues[unit]) > self._config.queue_commands + 1:
            return False
        self._queues[unit].append((instruction, offset))
        self._offset += INSTRUCTION_BYTES
        return True

    def _check_target(self, branch: Instruction) -> None:
        if branch.target % INSTRUCTION_BYTES or branch.target // INSTRUCTION_BYTES >= len(self._code) // 16:
            raise Fault(Error.ILLEGAL, "target")


def end_of(run: object) -> MachineFault | str:
    """What `run()` came to: OK, WATCHDOG where nobody is named, UNORDERED where it did not end, or the fault."""
    try:
        run()  # type: ignore[operator]
    except DeviceError as error:
        if error.fault is not None:
            return error.fault
        return WATCHDOG if str(error).startswith(WATCHDOG) else UNORDERED
    return OK
