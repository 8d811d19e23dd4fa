"""What can be said about a program without executing it."""

from collections.abc import Iterable

from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES, IllegalInstruction, Instruction, Opcode, decode


def decode_program(code: bytes) -> list[Instruction]:
    """The instructions up to END, or up to the first that is none."""
    program: list[Instruction] = []
    for offset in range(0, len(code) - INSTRUCTION_BYTES + 1, INSTRUCTION_BYTES):
        try:
            instruction = decode(code[offset : offset + INSTRUCTION_BYTES])
        except IllegalInstruction:
            break
        program.append(instruction)
        if instruction.opcode == Opcode.END:
            break
    return program


def count_macs(config: Config, program: Iterable[Instruction]) -> int:
    """Multiply-accumulates of the array for valid pixels: every column and every byte of a step counts, those of
    padding too; a depthwise output counts one per lane and row that is not idle."""
    depth = outputs = macs = 0
    for instruction in program:
        match instruction.opcode:
            case Opcode.ARRAY_KERNEL:
                depth = instruction.ky_count * instruction.run_count * instruction.chunks * config.columns
            case Opcode.ARRAY_DEPTHWISE:
                outputs = instruction.out_width * instruction.out_height
            case Opcode.ARRAY_GO:
                macs += instruction.pixels * (1 + instruction.more_blocks) * depth * config.columns
            case Opcode.ARRAY_DEPTHWISE_GO:
                macs += outputs * (config.rows - instruction.idle_rows) * config.columns
    return macs
