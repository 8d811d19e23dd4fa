"""What fields of instructions say: the names of their values. Part of the instruction set (`isa.py`)."""

import enum


class Space(enum.IntEnum):
    """Where a load goes."""

    AM = 0
    WM = 1


class Condition(enum.IntEnum):
    """When a BRANCH is taken."""

    ALWAYS = 0
    IF_CLEAR = 1  # the flag is 0: the byte of the last VECTOR_TEST was 0, or there was none
    IF_SET = 2
    NEVER = 3  # a fence: only waits


class Op(enum.IntEnum):
    """Operation of a micro-op. x is A - a_zp (+ bias of the lane if `bias`); all arithmetic is two's complement of
    `vector_bits` bits, the product of MUL, RESCALE and TABLE16 of 64."""

    MOV = 0  # x
    ADD = 1  # x + B
    SUB = 2  # x - B
    MUL = 3  # shift == 0: x * B; else (x * B + (1 << (shift - 1))) >> shift
    RESCALE = (
        4  # TOSA apply_scale_32/16 of x by (multiplier, shift), double rounding if `round`; + B if B is used
    )
    MAX = 5
    MIN = 6
    AND = 7
    OR = 8
    XOR = 9
    ABS = 10  # |x|
    CLZ = 11  # leading zeros of the low 32 bits of x
    LSL = 12  # B outside 0..31 gives 0; only the low 6 bits of B count
    LSR = 13  # on the unsigned low 32 bits of x; B outside 0..31 gives 0
    ASR = 14  # arithmetic; `round` adds the last bit shifted out; the low 6 bits of B count
    EQ = 15  # 1 or 0
    GT = 16
    GE = 17
    TABLE8 = 18  # table[(x + 128) & 255], signed low half of the entry
    TABLE16 = 19  # e = table[((x + 32768) >> 7) & 511]; (lo(e) << 7) + (hi(e) - lo(e)) * (x & 127)


class Source(enum.IntEnum):
    """Where an operand comes from; at most one of A and B may be LOAD, only A may be ARRAY."""

    NONE = 0  # zero
    REGISTER = 1  # register a_index/b_index, this slot
    LOAD = 2  # load stream a_index/b_index (0..2), next address
    ARRAY = 3  # next vector out of the array (A only)
    IMMEDIATE = 4  # `immediate` in every lane
    ITERATION = 5  # number of the body's repetition, from 0


class Element(enum.IntEnum):
    """Element type of a memory stream."""

    INT8 = 0
    UINT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    INT48 = 5  # 8 bytes: loads take the low vector_bits, stores sign-extend; ILLEGAL where W is below 8

    @property
    def bytes(self) -> int:
        return (1, 1, 2, 2, 4, 8)[self]
