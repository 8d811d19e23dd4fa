"""Instructions with one bit set that no field has, and opcodes that there are not, each of which is an error of the
sequencer; and branches that leave
their program by each bit of their target."""

from collections.abc import Iterator

import numpy as np

from tosaic.hw.check_byte import check_byte
from tosaic.hw.config import Config
from tosaic.hw.isa import (
    FIELDS,
    INSTRUCTION_BYTES,
    Condition,
    Field,
    Instruction,
    Opcode,
    encode,
    used_bits,
)
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

INSTRUCTION_BITS = 8 * INSTRUCTION_BYTES
TINY_BYTES = 1 << 8
CHECK_AT = 1
"""The check byte of an instruction."""


def tiny(*code: bytes) -> Stimulus:
    """A program of these instructions at the beginning of a small memory."""
    memory = np.zeros(TINY_BYTES, np.uint8)
    text = b"".join(code)
    memory[: len(text)] = np.frombuffer(text, np.uint8)
    return Stimulus(memory, 0, len(text))


def with_bit(instruction: bytes, bit: int) -> bytes:
    """The instruction with this bit changed, and its check byte made right again."""
    changed = bytearray(
        (int.from_bytes(instruction, "little") ^ 1 << bit).to_bytes(INSTRUCTION_BYTES, "little")
    )
    return with_check(changed)


def with_check(instruction: bytearray) -> bytes:
    """The instruction with its check byte right."""
    instruction[CHECK_AT] = check_byte(bytes(instruction))
    return bytes(instruction)


def own_code(opcode: Opcode, begin: Instruction) -> bytes:
    """The instruction with all its fields 0; BEGIN with those that it must have."""
    return encode(
        begin if opcode is Opcode.BEGIN else Instruction(opcode, {f.name: 0 for f in FIELDS[opcode]})
    )


def beyond_fields(config: Config) -> Iterator[tuple[Opcode, int]]:
    """Each bit behind the last field of some opcode, with one that ends closest before it; and, of each opcode, the
    first such bit and the last one."""
    ends = {opcode: used_bits(opcode, config.core_mask_bits, config.load_crc) for opcode in Opcode}
    ends = {opcode: end for opcode, end in ends.items() if end}
    chosen = {(opcode, bit) for opcode, end in ends.items() for bit in (end, INSTRUCTION_BITS - 1)}
    for bit in range(min(ends.values()), INSTRUCTION_BITS):
        chosen.add((max((o for o in ends if ends[o] <= bit), key=ends.__getitem__), bit))
    return iter(sorted(chosen))


def decoder_programs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """All end in an error of the sequencer."""
    begin = Assembler(config).instructions[0]
    end = own_code(Opcode.END, begin)
    for opcode, bit in beyond_fields(config):
        if bit < INSTRUCTION_BITS:
            wrong = with_bit(own_code(opcode, begin), bit)
            head = () if opcode is Opcode.BEGIN else (encode(begin),)
            yield f"{opcode.name} with bit {bit}", tiny(*head, wrong, end)
    for number in sorted(set(range(1 << 8)) - set(Opcode)):
        none = bytearray(encode(Instruction(Opcode.NOP, {})))
        none[0] = number
        yield f"opcode {number}", tiny(encode(begin), with_check(none), end)
    target: Field = FIELDS[Opcode.BRANCH][0]
    for bit in range(target.bits):
        leaves = encode(Instruction(Opcode.BRANCH, {"target": 1 << bit, "condition": Condition.ALWAYS}))
        if 1 << bit not in range(0, 3 * INSTRUCTION_BYTES, INSTRUCTION_BYTES):
            yield f"branch to {1 << bit}", tiny(encode(begin), leaves, end)


__all__ = ["decoder_programs", "tiny"]
