"""Arithmetic in the field of 2^61 - 1, on uint64 arrays of values below it."""

import numpy as np

BITS = 61
PRIME = np.uint64((1 << BITS) - 1)
_HALF = np.uint64((1 << 31) - 1)
_31, _61 = np.uint64(31), np.uint64(BITS)
_30, _31_BITS, _LOW_30 = np.int64(30), np.int64(31), np.int64((1 << 30) - 1)


def settle(values: np.ndarray) -> np.ndarray:
    """Returns values below 2 * PRIME as elements of the field."""
    return np.minimum(values, values - PRIME)


def reduce(values: np.ndarray) -> np.ndarray:
    """Returns any values below 2^64 as elements of the field."""
    return settle((values & PRIME) + (values >> _61))


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b."""
    return settle(a + b)


def subtract(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b."""
    difference = a - b
    return np.minimum(difference, difference + PRIME)


def of_integers(values: np.ndarray) -> np.ndarray:
    """Returns int64 values as elements of the field."""
    values = np.asarray(values, np.int64)
    if values.size and (values.max() >= 1 << 60 or values.min() <= -(1 << 60)):
        return np.remainder(values, np.int64(PRIME)).view(np.uint64)
    bits = values.view(np.uint64)
    return np.minimum(bits, bits + PRIME)


def shifted(values: np.ndarray, bits: int) -> np.ndarray:
    """Times 2^bits, for bits in 1..60: the bits go around."""
    return ((values << np.uint64(bits)) & PRIME) | (values >> np.uint64(BITS - bits))


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a * b."""
    a_high, a_low, b_high, b_low = a >> _31, a & _HALF, b >> _31, b & _HALF
    middle = shifted(reduce(a_high * b_low + a_low * b_high), 31)
    return reduce(reduce(a_low * b_low) + reduce(shifted(reduce(a_high * b_high), 1) + middle))


def halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(low 31 bits, the 30 above) as float64."""
    return (values & _HALF).astype(np.float64), (values >> _31).astype(np.float64)


def joined(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """low + 2^31 * high of integers in float64, up to 2^53 in magnitude."""
    result, more = low.astype(np.int64), high.astype(np.int64)
    # 2^61 is 1.
    result += more >> _30
    more &= _LOW_30
    more <<= _31_BITS
    result += more
    bits = result.view(np.uint64)
    return settle(np.minimum(bits, bits + PRIME))


def total(values: np.ndarray) -> np.ndarray:
    """The sum along the last axis, of up to 2^30 values."""
    low, high = (values & _HALF).sum(axis=-1), (values >> _31).sum(axis=-1)
    return add(reduce(low), shifted(reduce(high), 31))
