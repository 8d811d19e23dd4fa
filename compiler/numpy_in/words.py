"""Integers of 64 bits as two words of 32: what `(x.astype(np.int64) * multiplier) >> shift` is made of.

A pair is the names of two int32 tensors, low word and high word.
"""

from tosaic.compiler.ir import DType
from tosaic.compiler.numpy_in.intervals import INT32
from tosaic.compiler.numpy_in.recording import Recorder

Words = tuple[str, str]


def product(record: Recorder, first: str, second: str) -> Words:
    """The whole product of two int32 tensors. MUL rounds at bit 31, which the low word has."""
    low = record.multiply(first, second)
    rounded = record.multiply(first, second, 32)
    half = record.elementwise("LOGICAL_RIGHT_SHIFT", low, record.number(31))
    return low, record.elementwise("SUB", rounded, half)


def add(record: Recorder, first: Words, second: Words) -> Words:
    """The sum modulo 2 to the 64."""
    low = record.elementwise("ADD", first[0], second[0])
    carry = _one(record, unsigned_greater(record, first[0], low))
    high = record.elementwise("ADD", first[1], second[1])
    return low, record.elementwise("ADD", high, carry)


def subtract(record: Recorder, first: Words, second: Words) -> Words:
    """The difference modulo 2 to the 64."""
    low = record.elementwise("SUB", first[0], second[0])
    borrow = _one(record, unsigned_greater(record, second[0], first[0]))
    high = record.elementwise("SUB", first[1], second[1])
    return low, record.elementwise("SUB", high, borrow)


def shifted(record: Recorder, words: Words, count: int) -> Words:
    """words >> count, of 0 to 63."""
    low, high = words
    sign = record.elementwise("ARITHMETIC_RIGHT_SHIFT", high, record.number(31), round=False)
    if count >= 32:
        far = record.number(count - 32)
        return record.elementwise("ARITHMETIC_RIGHT_SHIFT", high, far, round=False), sign
    if count == 0:
        return words
    down = record.elementwise("LOGICAL_RIGHT_SHIFT", low, record.number(count))
    over = record.elementwise("LOGICAL_LEFT_SHIFT", high, record.number(32 - count))
    top = record.elementwise("ARITHMETIC_RIGHT_SHIFT", high, record.number(count), round=False)
    return record.elementwise("BITWISE_OR", down, over), top


def unsigned_greater(record: Recorder, first: str, second: str) -> str:
    """Whether first > second, as integers without sign."""
    sign = record.number(INT32.low)
    return record.elementwise(
        "GREATER",
        record.elementwise("BITWISE_XOR", first, sign),
        record.elementwise("BITWISE_XOR", second, sign),
    )


def greater(record: Recorder, first: Words, second: Words) -> str:
    """Whether first > second."""
    above = record.elementwise("GREATER", first[1], second[1])
    level = record.elementwise("EQUAL", first[1], second[1])
    below = unsigned_greater(record, first[0], second[0])
    return record.elementwise("LOGICAL_OR", above, record.elementwise("LOGICAL_AND", level, below))


def equal(record: Recorder, first: Words, second: Words) -> str:
    low = record.elementwise("EQUAL", first[0], second[0])
    return record.elementwise("LOGICAL_AND", low, record.elementwise("EQUAL", first[1], second[1]))


def _one(record: Recorder, condition: str) -> str:
    return record.add("CAST", [condition], dtype=DType.INT32)
