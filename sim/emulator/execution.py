"""One run of a core's program: instructions in program order, each of which a unit executes."""

import functools
from typing import Any

from tosaic.errors import DeviceError, MachineFault
from tosaic.hw.csr_map import WINDOW_ALIGNMENT
from tosaic.hw.isa import (
    CHECKED_FIELD,
    CORES_FIELD,
    INSTRUCTION_BYTES,
    ISA_HASH,
    Condition,
    Error,
    IllegalInstruction,
    Instruction,
    Opcode,
    Unit,
    decode,
)

from .array import Array
from .decode import decode as decode_weights
from .faults import Fault
from .state import CoreState
from .tokens import receivers
from .trace import Trace
from .transfer import check, load, store
from .vector import Vector

SEMAPHORE_MAX = 4095
_decode = functools.lru_cache(1 << 16)(decode)
"""Decodes an instruction, once: most are executed again, in a loop or in the next run."""


_WAITS = frozenset({Opcode.LOAD_WAIT, Opcode.ARRAY_WAIT, Opcode.VECTOR_WAIT, Opcode.STORE_WAIT})
_SIGNALS = frozenset({Opcode.LOAD_SIGNAL, Opcode.ARRAY_SIGNAL, Opcode.VECTOR_SIGNAL, Opcode.STORE_SIGNAL})
_EXECUTED_BY: dict[Opcode, str] = {
    **dict.fromkeys(Opcode, "_configure"),
    **dict.fromkeys(_WAITS, "_wait"),
    **dict.fromkeys(_SIGNALS, "_signal"),
    Opcode.BEGIN: "_begin",
    Opcode.END: "_end",
    Opcode.BRANCH: "_branch",
    Opcode.NOP: "_nothing",
    Opcode.VECTOR_MARK: "_nothing",
    Opcode.LOAD_PITCH: "_set_pitch",
    Opcode.STORE_PITCH: "_set_pitch",
    Opcode.LOAD_GO: "_load",
    Opcode.LOAD_CHECK: "_check",
    Opcode.LOAD_TENSOR: "_set_coding",
    Opcode.LOAD_STREAMS: "_set_coding",
    Opcode.LOAD_DECODE: "_load_decoded",
    Opcode.STORE_GO: "_store",
    Opcode.ARRAY_GO: "_array_go",
    Opcode.ARRAY_DEPTHWISE_GO: "_depthwise_go",
    Opcode.VECTOR_GO: "_vector_go",
}
"""What executes each instruction; those that are not named configure the array or the vector unit. Names, since
bound methods would keep an execution, with the memories of all samples, until the collector comes by."""


class Execution:
    """One run of one program, on core number `core`. `semaphores`: the counters of every core."""

    def __init__(self, state: CoreState, core: int = 0, semaphores: list[list[int]] | None = None):
        self._state, self._config, self._core = state, state.config, core
        self._array = Array(state)
        self._vector = Vector(state)
        self._pitches: dict[Unit, Instruction] = {}
        self._coding: dict[Opcode, Instruction] = {}
        """The last LOAD_TENSOR and LOAD_STREAMS."""
        self.trace = Trace(0)
        self._all_semaphores = semaphores or [[0] * state.config.semaphores]
        self._semaphores = self._all_semaphores[core]
        self._offset = 0
        """Program counter."""
        self._jumped = False
        self._program_bytes = 0
        self._code = b""
        self._decoded: dict[int, Instruction] = {}
        """Instructions of the program that were reached, by their offset."""
        self.done = False
        self._begins = state.domain.begin

    def advance(self, limit: int) -> bool:
        """Execute to END or up to a WAIT that lacks tokens; whether there was anything to execute."""
        moved = False
        while not self.done and not self._lacks_tokens():
            self.step(limit)
            moved = True
        return moved

    @property
    def counter(self) -> int:
        """Program counter."""
        return self._offset

    @property
    def following(self) -> Instruction:
        """What is executed next."""
        return self._decoded.get(self._offset) or self._decode(self._offset)

    @property
    def shared(self) -> tuple[object, ...]:
        """What copies of it may share."""
        return self.trace, self._decoded

    def setup(self) -> tuple[Any, ...]:
        """All that the rest of the run depends on beside memories and registers, to be compared."""
        tokens = [list(counters) for counters in self._all_semaphores]
        own = self._offset, dict(self._pitches), dict(self._coding), tokens, self._state.crc
        return own, self._array.setup(), self._vector.setup()

    def forget_registers(self) -> None:
        """What the units hold in registers may be anything."""
        self._array.forget_sums()
        self._vector.forget_registers()

    def _lacks_tokens(self) -> bool:
        following = self.following
        if following.opcode not in _WAITS or following.semaphore >= len(self._semaphores):
            return False
        return self._semaphores[following.semaphore] < following.count

    def open(self, address: int, size_bytes: int) -> None:
        memory = self._state.memory
        if address < 0 or size_bytes < 0 or address + size_bytes > len(memory):
            raise self._wrong_place(
                f"bytes {address}..{address + size_bytes - 1} leave the {len(memory)} bytes of external memory"
            )
        if address % WINDOW_ALIGNMENT:
            raise self._wrong_place(f"place, byte {address}, is not a multiple of {WINDOW_ALIGNMENT}")
        self._code = self._state.read_known(address, size_bytes) if size_bytes else b""
        self.protect(range(address, address + size_bytes))
        self._program_bytes = size_bytes
        self.trace = Trace(size_bytes // INSTRUCTION_BYTES, self._core, address)

    def protect(self, program: range) -> None:
        """A program lies in these bytes of external memory: STORE may not reach them."""
        if program and program not in self._state.programs:
            self._state.programs.append(program)

    def _wrong_place(self, how: str) -> DeviceError:
        return DeviceError(
            f"{Error.MEMORY_RANGE.name}: the program's {how}",
            fault=MachineFault(Error.MEMORY_RANGE.name, Unit.SEQUENCER.name, 0, self._core),
        )

    def step(self, limit: int) -> Instruction:
        """Execute the next instruction; DeviceError where it is wrong, or where `limit` were executed."""
        trace, offset = self.trace, self._offset
        instruction = self._decoded.get(offset) or self._decode(offset)
        if len(trace.instructions) >= limit:
            reason = f"not at its end after {limit} instructions: an endless loop?"
            raise self._error(Fault(None, reason), offset, instruction)
        self._offset += INSTRUCTION_BYTES
        try:
            self._execute(instruction, offset)
        except Fault as fault:
            raise self._error(fault, offset, instruction) from None
        if self._jumped:
            trace.jumps[len(trace.instructions)] = self._offset // INSTRUCTION_BYTES
            self._jumped = False
        trace.instructions.append(instruction)
        return instruction

    def _execute(self, instruction: Instruction, offset: int) -> None:
        if self._state.hazards:
            self._state.hazards.begin(instruction, offset, self._core)
        self._begins(self.trace.address + offset)
        getattr(self, _EXECUTED_BY[instruction.opcode])(instruction)

    def _nothing(self, _: Instruction) -> None:
        pass

    def _set_pitch(self, instruction: Instruction) -> None:
        self._pitches[instruction.opcode.unit] = instruction

    def _load(self, go: Instruction) -> None:
        self.trace.unpacked_rows.extend(load(self._state, go, self._pitches.get(Unit.LOAD)))

    def _check(self, wanted: Instruction) -> None:
        check(self._state, wanted)

    def _store(self, go: Instruction) -> None:
        store(self._state, go, self._pitches.get(Unit.STORE))

    def _set_coding(self, instruction: Instruction) -> None:
        if not self._config.cabac_engines:
            raise Fault(
                Error.ILLEGAL, f"configuration {self._config.name} has no decoder for compressed weights"
            )
        self._coding[instruction.opcode] = instruction

    def _load_decoded(self, go: Instruction) -> None:
        self.trace.decode_cycles.append(decode_weights(self._state, go, self._coding))

    def _array_go(self, go: Instruction) -> None:
        self._array.go(go)

    def _depthwise_go(self, go: Instruction) -> None:
        self._array.depthwise_go(go)

    def _vector_go(self, go: Instruction) -> None:
        self._vector.go(go)

    def _configure(self, instruction: Instruction) -> None:
        unit = self._array if instruction.opcode.unit == Unit.ARRAY else self._vector
        unit.configure(instruction)

    def _begin(self, begin: Instruction) -> None:
        if begin.isa_hash != ISA_HASH:
            raise Fault(
                Error.ISA_MISMATCH,
                f"the machine's instruction set is 0x{ISA_HASH:08x}; compile the program again",
            )
        if begin.config_hash != self._config.hash:
            raise Fault(
                Error.CONFIG_MISMATCH,
                f"the machine is configuration {self._config.name} (0x{self._config.hash:08x}); "
                "compile the program for it",
            )

    def _branch(self, branch: Instruction) -> None:
        self._check_branch(branch)
        taken = {
            Condition.ALWAYS: True,
            Condition.IF_CLEAR: not self._vector.flag,
            Condition.IF_SET: self._vector.flag,
            Condition.NEVER: False,
        }
        if taken[Condition(branch.condition)]:
            self._offset, self._jumped = branch.target, True

    def _check_branch(self, branch: Instruction) -> None:
        last = self._program_bytes // INSTRUCTION_BYTES * INSTRUCTION_BYTES - INSTRUCTION_BYTES
        if branch.target % INSTRUCTION_BYTES or branch.target > last:
            raise Fault(
                Error.ILLEGAL, f"the target must be a multiple of {INSTRUCTION_BYTES} and at most {last}"
            )
        self._require_idle()

    def _end(self, _: Instruction) -> None:
        self._require_idle()
        self.done = True

    def _require_idle(self) -> None:
        """The sequencer waits for the array here, which would wait for somebody to take its vectors."""
        left = self._state.accumulator_queue.vectors
        if left:
            raise Fault(
                None,
                f"{left} vectors of the array were never taken by a VECTOR_GO: the array would wait forever",
            )

    def _semaphore(self, instruction: Instruction) -> int:
        if instruction.semaphore >= len(self._semaphores):
            raise Fault(Error.ILLEGAL, f"there are {len(self._semaphores)} semaphores")
        return instruction.semaphore

    def _signal(self, signal: Instruction) -> None:
        semaphore = self._semaphore(signal)
        for core in receivers(signal, self._core):
            counters = self._all_semaphores[core]
            counters[semaphore] += signal.count
            if counters[semaphore] > SEMAPHORE_MAX:
                whose = "" if core == self._core else f" of core {core}"
                raise Fault(None, f"semaphore {semaphore}{whose} counts to {SEMAPHORE_MAX} only")

    def _wait(self, wait: Instruction) -> None:
        semaphore = self._semaphore(wait)
        if self._semaphores[semaphore] < wait.count:
            raise Fault(
                None,
                f"semaphore {semaphore} is {self._semaphores[semaphore]} and no earlier SIGNAL raises it to "
                f"{wait.count}: deadlock in program order",
            )
        self._semaphores[semaphore] -= wait.count

    def _decode(self, offset: int) -> Instruction:
        """The instruction at byte `offset`, as the sequencer sees it for the first time."""
        try:
            instruction = self._accepted(offset)
        except Fault as fault:
            raise self._error(fault, offset, None) from None
        self._decoded[offset] = instruction
        return instruction

    def _accepted(self, offset: int) -> Instruction:
        """The instruction at byte `offset`; Fault where the sequencer hands it to no unit."""
        raw = self._code[offset : offset + INSTRUCTION_BYTES]
        if len(raw) < INSTRUCTION_BYTES:
            raise Fault(Error.PROGRAM_END, f"{len(self._code)} bytes of program have no END")
        try:
            instruction = _decode(raw)
        except IllegalInstruction as error:
            raise Fault(Error.ILLEGAL, str(error)) from None
        if not offset and instruction.opcode != Opcode.BEGIN:
            raise Fault(Error.ILLEGAL, f"a program's first instruction is BEGIN, not {instruction}")
        if instruction.fields.get(CORES_FIELD, 0) >> self._config.core_mask_bits:
            raise Fault(Error.ILLEGAL, f"there are {self._config.cores} cores: {instruction}")
        checks = instruction.opcode is Opcode.LOAD_CHECK or instruction.fields.get(CHECKED_FIELD)
        if checks and not self._config.load_crc:
            raise Fault(
                Error.ILLEGAL,
                f"configuration {self._config.name} has no CRC of loads (load_crc): {instruction}",
            )
        return instruction

    def _error(self, fault: Fault, offset: int, instruction: Instruction | None) -> DeviceError:
        """Returns the error of a fault at byte `offset` for the user. The unit that executes the instruction finds
        it, or the sequencer where there is none."""
        name = fault.code.name if fault.code else "PROGRAM"
        text = f" ({instruction})" if instruction else ""
        where = f" of core {self._core}" if self._config.cores > 1 else ""
        unit = instruction.opcode.unit if instruction else Unit.SEQUENCER
        return DeviceError(
            f"{name} at program counter {offset}{where}{text}: {fault}",
            tensor_number=fault.tensor_number,
            fault=MachineFault(name, unit.name, offset, self._core),
        )
