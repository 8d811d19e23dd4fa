"""Hand-written programs: instructions into a memory image."""

from collections.abc import Sequence

import numpy as np

from tosaic.hw.config import Config
from tosaic.hw.isa import (
    FIELDS,
    INSTRUCTION_BYTES,
    ISA_HASH,
    STREAM_DIMS,
    Condition,
    Instruction,
    Opcode,
    encode,
    make,
)


class Assembler:
    """Collects instructions; fields that are not given are 0."""

    def __init__(self, config: Config):
        self.config = config
        self.instructions: list[Instruction] = []
        self.emit(Opcode.BEGIN, isa_hash=ISA_HASH, config_hash=config.hash)

    def emit(self, opcode: Opcode, **fields: int) -> None:
        """Append one instruction."""
        values = {field.name: 0 for field in FIELDS[opcode]} | fields
        self.instructions.append(make(opcode, **values))

    def vector_dims(self, stream: int, dims: Sequence[tuple[int, int]] = ()) -> None:
        """All VECTOR_DIMS of a stream, whose first dimensions are `dims`: (turns, stride in bytes) each."""
        dims = [*dims, *[(1, 0)] * (STREAM_DIMS - len(dims))]
        for pair in range(STREAM_DIMS // 2):
            (count_low, stride_low), (count_high, stride_high) = dims[2 * pair : 2 * pair + 2]
            self.emit(
                Opcode.VECTOR_DIMS,
                stream=stream,
                pair=pair,
                count_low=count_low,
                stride_low=stride_low,
                count_high=count_high,
                stride_high=stride_high,
            )

    def pass_token(self, signal: Opcode, wait: Opcode, semaphore: int) -> None:
        """Make the unit of `wait` wait until that of `signal` has completed everything so far."""
        self.emit(signal, semaphore=semaphore, count=1)
        self.emit(wait, semaphore=semaphore, count=1)

    @property
    def offset(self) -> int:
        """Byte offset of the next instruction."""
        return len(self.instructions) * INSTRUCTION_BYTES

    def lead_here(self, branch: int) -> None:
        """Let the branch that is instruction number `branch` lead to the next instruction."""
        condition = self.instructions[branch].condition
        self.instructions[branch] = make(Opcode.BRANCH, target=self.offset, condition=condition)

    def fence(self) -> None:
        """Wait until all units are idle."""
        self.emit(Opcode.BRANCH, condition=Condition.NEVER)

    def place(self, memory: np.ndarray, address: int) -> int:
        """Write END-terminated code into `memory` at `address`; returns its size in bytes."""
        code = b"".join(map(encode, [*self.instructions, make(Opcode.END)]))
        memory[address : address + len(code)] = np.frombuffer(code, np.uint8)
        return len(code)
