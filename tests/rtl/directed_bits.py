"""Each bit that a program's begin and an instruction's check must have, wrong; and programs at odd places."""

from collections.abc import Iterator

import numpy as np
from directed_decoder import CHECK_AT, tiny, with_bit

from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES, Instruction, Opcode, encode, used_bits
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

BYTE_BITS = 8
FIRST_FIELD_BIT = 16
"""Number of the first bit after an instruction's opcode and check byte."""
PLACE_BITS = range(5)
"""Bits of a program's place, which is a multiple of 32."""


def begin_bits(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """BEGIN with one bit of a field changed: another instruction set, or another configuration."""
    begin = encode(Assembler(config).instructions[0])
    end = encode(Instruction(Opcode.END, {}))
    for bit in range(FIRST_FIELD_BIT, used_bits(Opcode.BEGIN, config.core_mask_bits)):
        yield f"BEGIN with another bit {bit}", tiny(with_bit(begin, bit), end)


def check_bits(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """An instruction whose check byte has one bit changed."""
    begin, end = encode(Assembler(config).instructions[0]), encode(Instruction(Opcode.END, {}))
    for bit in range(BYTE_BITS):
        wrong = bytearray(encode(Instruction(Opcode.NOP, {})))
        wrong[CHECK_AT] ^= 1 << bit
        yield f"check byte with another bit {bit}", tiny(begin, bytes(wrong), end)


def odd_places(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """Programs of two instructions that begin behind each power of two bytes."""
    code = b"".join((encode(Assembler(config).instructions[0]), encode(Instruction(Opcode.END, {}))))
    for bit in PLACE_BITS:
        memory = np.zeros(1 << 8, np.uint8)
        memory[1 << bit :][: len(code)] = np.frombuffer(code, np.uint8)
        yield f"a program at {1 << bit}", Stimulus(memory, 1 << bit, 2 * INSTRUCTION_BYTES)


def wrong_bits(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """All of them; each ends in an error of the sequencer."""
    yield from begin_bits(config)
    yield from check_bits(config)
    yield from odd_places(config)


__all__ = ["wrong_bits"]
