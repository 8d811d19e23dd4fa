"""What makes terms equal that are written otherwise, and what random functions stand for."""

INT32 = (-(1 << 31), (1 << 31) - 1)
WIDE = 1 << 61
"""Intervals stay within this magnitude."""
AXIOMS = {
    "intervals": "a CLAMP, or a wrap to a width, that changes no value is nothing; numbers from intervals apart are in "
    "their order",
    "scales": "RESCALE by (m * 2^k, s + k) is RESCALE by (m, s), and with a shift of 0 a product; by "
    "(q * 2^s + e, s) it is a product with q where |e * x| < 2^(s-1)",
    "clamps": "a CLAMP of a CLAMP is a CLAMP",
    "sets": "MAX and MIN are associative, commutative and idempotent",
    "products": "MUL by a constant c with shift s is RESCALE by (c, s)",
    "bytes": "an integer is the sum of 256^k times its bytes, the highest one signed",
    "planes": "x XOR 128 has the low byte of x - 256 * (x ASR 8) - 128",
    "booleans": "of 0 and 1, AND is a product, OR a + b - a * b, XOR a + b - 2 * a * b",
    "wraps": "the low bits of the low bits; (x * 2^k) ASR k, of the low 32 bits: the low 32 - k bits of x",
    "ring": "the low 32 bits of a sum, or of a product with a number, are those of the sum or product of the low 32 "
    "bits",
    "choice": "of c in 0..1, b + c * (a - b) lies in the interval of a or in that of b",
    "largest": "none of some numbers is more than their maximum",
    "keys": "of i - x_i * 2^k, i < 2^k, the smallest has the index of the first maximum in its low k bits; c > 0 "
    "times the smallest, plus d, is the smallest of all times c, plus d",
    "division": "INTDIV, where REQUIRE holds, is two products with a reciprocal of 30 bits, and what is left tells the "
    "last unit",
    "lookups": "what a chain of operators makes of a number of few values is an entry of the table of all results",
}
"""The laws, by name."""


LEMMAS = {
    "RESCALE": "RESCALE, ARITHMETIC_RIGHT_SHIFT with round and a shifted MUL are (x * m * 2^-s) with halves up",
    "CLAMP": "CLAMP limits to an interval",
    "MAX": "MAXIMUM is the larger one",
    "MIN": "MINIMUM is the smaller one",
    "TABLE8": "TABLE of int8 is entry x + 128",
    "TABLE16": "TABLE of int16 interpolates between entries (x + 32768) >> 7 and the next",
    "ASR": "ARITHMETIC_RIGHT_SHIFT rounds down",
    "ASRR": "ARITHMETIC_RIGHT_SHIFT with round, by a number computed at run time, rounds halves up",
    "LSL": "LOGICAL_LEFT_SHIFT is a product with a power of 2",
    "LSR": "LOGICAL_RIGHT_SHIFT is that of the unsigned number",
    "PICK": "GATHER at an index that is computed at run time is that entry of a list",
    "PUT": "SCATTER at an index that is computed at run time changes the row of that number",
    "CLZ": "CLZ counts the leading zeros of 32 bits",
    "ABS": "ABS is the magnitude",
    "EQ": "EQUAL compares",
    "GT": "GREATER compares",
    "GE": "GREATER_EQUAL compares",
    "AND": "BITWISE_AND is that of two's complement",
    "OR": "BITWISE_OR is that of two's complement",
    "XOR": "BITWISE_XOR is that of two's complement",
    "U8": "a byte as an unsigned number",
    "BYTE": "a byte of a wider integer",
    "WRAP8": "the low 8 bits as a signed number",
    "WRAP16": "the low 16 bits as a signed number",
    "WRAP32": "the low 32 bits as a signed number",
    "WRAP48": "the low 48 bits as a signed number",
}
"""The function that golden's and the emulator's operator both are wherever REQUIRE holds, by its name."""


class UnknownConditionError(Exception):
    """An operator takes a branch where a term of 0 or 1, with these values of all seeds, is 1: either way must be
    looked at."""

    def __init__(self, operator: str, name: tuple[int, ...]):
        super().__init__(f"a condition of {operator} that is computed at run time")
        self.operator, self.name = operator, name


class UndecidedError(Exception):
    """The method does not reach this: nothing is known."""
