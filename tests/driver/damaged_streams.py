"""Programs whose compressed weights are damaged, stream by stream."""

from collections.abc import Iterator

import numpy as np

from tosaic.compiler.program import Program
from tosaic.hw.isa import Opcode
from tosaic.sim.program import decode_program


def damaged_memories(program: Program, address: int, size_bytes: int) -> Iterator[tuple[np.ndarray, str]]:
    """Yields, for each LOAD_DECODE of the instructions at `address`, the program's memory with its stream damaged,
    and the name of its weights."""
    number = 0
    for instruction in decode_program(program.image[address:][:size_bytes]):
        if instruction.opcode == Opcode.LOAD_TENSOR:
            number = instruction.tensor
        if instruction.opcode == Opcode.LOAD_DECODE:
            memory = program.memory()
            # A stream that starts with 511 is illegal whatever comes behind.
            memory[instruction.memory_address : instruction.memory_address + 2] = 0xFF
            yield memory, program.weights[number].name
