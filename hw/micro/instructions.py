"""What the coprocessor adds to the core's RV32IC: the products of the M extension, and instructions of its own for the
array's sums of products. A compiler calls it all rv32i with the extensions c and zmmul.

All are R-type: funct7, rs2, rs1, funct3, rd, opcode. `firmware/coprocessor.h` gives them to C.
"""

import enum

COLUMNS = 4
"""Weights in a word, and accumulators."""
OPCODE_OP = 0x33
FUNCT7_MULDIV = 1
OPCODE_CUSTOM_0 = 0x0B


class Multiply(enum.IntEnum):
    """funct3 of the products of OPCODE_OP with FUNCT7_MULDIV. There is no division."""

    MUL = 0
    MULH = 1
    MULHSU = 2
    MULHU = 3


class Sums(enum.IntEnum):
    """funct3 of OPCODE_CUSTOM_0. There are COLUMNS accumulators of 32 bits, which wrap."""

    SETUP = (
        0  # input_zp = rs1[8:0] (signed), unsigned_input = rs1[9], weight_zp = rs2[8:0] (signed); sums = 0
    )
    ADD = 1  # sum[c] += (byte n of rs2 - input_zp) * (signed byte c of rs1 - weight_zp); n = funct7[1:0]
    TAKE = 2  # rd = sum[n], n = funct7[1:0]; and sum[n] = 0
