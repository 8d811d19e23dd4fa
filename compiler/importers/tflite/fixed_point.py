"""The fixed-point arithmetic of TFLite's reference kernels, in NumPy: what tables are computed by.

Values are int64 arrays that hold numbers of 32 bits, or of 16 (`bits` is 31 or 15, those without the sign). A number
"of n integer bits" has bits - n bits of fraction.
"""

import math

import numpy as np

from tosaic.compiler.importers.tflite.multipliers import Multiplier

_BITS = 31
_48_OVER_17, _MINUS_32_OVER_17 = 1515870810, -1010580540
"""Start values of Newton's division, with two integer bits."""
_EXP_MINUS_EIGHTH, _ONE_THIRD = 1895147668, 715827883
_POWERS = {-2: 1672461947, -1: 1302514674, 0: 790015084, 1: 290630308, 2: 39332535, 3: 720401, 4: 242}
"""exp(-2^k), with no integer bits."""


def _one(bits: int) -> int:
    """1 with no integer bits, saturated."""
    return (1 << bits) - 1


def _constant(value: int, bits: int) -> int:
    """A constant of 32 bits as one of `bits` + 1."""
    return int(divided_by_power(np.array(value), _BITS - bits))


def doubling_high_product(a: np.ndarray, b: np.ndarray | int, bits: int = 31) -> np.ndarray:
    """SaturatingRoundingDoublingHighMul of signed numbers of bits + 1 bits: a * b / 2^bits, ties upward."""
    return np.minimum((np.asarray(a, np.int64) * b + (1 << (bits - 1))) >> bits, (1 << bits) - 1)


def divided_by_power(x: np.ndarray, exponent: int | np.ndarray, bits: int = _BITS) -> np.ndarray:
    """RoundingDivideByPOT: x / 2^exponent, ties away from zero.

    The kernel does not mean to divide by more than 2^bits: its mask of the rest is -1 then, and of the exponent
    processors take five bits.
    """
    inside = np.minimum(exponent, bits)
    half = (np.int64(1) << inside) >> 1
    rounded = np.where(x >= 0, (x + half) >> inside, -((-x + half) >> inside))
    return np.where(exponent > bits, (x >> (exponent & _BITS)) + (x >= 0), rounded)


def times_power(x: np.ndarray, exponent: int, bits: int = _BITS) -> np.ndarray:
    """Computes TFLite's SaturatingRoundingMultiplyByPOT."""
    if exponent < 0:
        return divided_by_power(x, -exponent)
    return np.clip(x << exponent, -(1 << bits), (1 << bits) - 1)


def multiplied(x: np.ndarray, multiplier: Multiplier) -> np.ndarray:
    """Computes TFLite's MultiplyByQuantizedMultiplier."""
    significand, exponent = multiplier
    return divided_by_power(doubling_high_product(x << max(exponent, 0), significand), max(-exponent, 0))


def exp_of_negative(a: np.ndarray, integer_bits: int, bits: int = _BITS) -> np.ndarray:
    """exp(a) for a <= 0, with no integer bits."""
    fraction_bits = bits - integer_bits
    quarter = 1 << (fraction_bits - 2)
    inside = (a & (quarter - 1)) - quarter
    result = _exp_of_quarter(times_power(inside, integer_bits, bits), bits)
    rest = inside - a
    for exponent, factor in _POWERS.items():
        if integer_bits > exponent:
            has_bit = (rest & (1 << (fraction_bits + exponent))) != 0
            smaller = doubling_high_product(result, _constant(factor, bits), bits)
            result = np.where(has_bit, smaller, result)
    if integer_bits > 5:
        result = np.where(a < -(1 << (fraction_bits + 5)), 0, result)
    return np.where(a == 0, _one(bits), result)


def _exp_of_quarter(a: np.ndarray, bits: int) -> np.ndarray:
    """Returns exp(a) for a from -1/4 to 0, by the first terms around -1/8."""
    x, middle = a + (1 << (bits - 3)), _constant(_EXP_MINUS_EIGHTH, bits)
    x2 = doubling_high_product(x, x, bits)
    x3, x4 = doubling_high_product(x2, x, bits), doubling_high_product(x2, x2, bits)
    inner = doubling_high_product(times_power(x4, -2) + x3, _constant(_ONE_THIRD, bits), bits) + x2
    return middle + doubling_high_product(x + times_power(inner, -1), middle, bits)


def _reciprocal(a: np.ndarray, bits: int) -> np.ndarray:
    """2 / (1 + a) for a from 0 to 1, with two integer bits, by three steps of Newton's."""
    half_denominator = (a + _one(bits) + 1) // 2
    slope = _constant(_MINUS_32_OVER_17, bits)
    x = _constant(_48_OVER_17, bits) + doubling_high_product(half_denominator, slope, bits)
    for _ in range(3):
        rest = (1 << (bits - 2)) - doubling_high_product(half_denominator, x, bits)
        x = x + times_power(doubling_high_product(x, rest, bits), 2, bits)
    return x


def logistic(a: np.ndarray, integer_bits: int, bits: int = _BITS) -> np.ndarray:
    """1 / (1 + exp(-a)), with no integer bits."""
    powers = exp_of_negative(-np.abs(a), integer_bits, bits)
    positive = times_power(_reciprocal(powers, bits), 1, bits)
    return np.where(a == 0, 1 << (bits - 1), np.where(a > 0, positive, _one(bits) - positive))


def tanh(a: np.ndarray, integer_bits: int, bits: int = _BITS) -> np.ndarray:
    """tanh(a), with no integer bits."""
    powers = exp_of_negative(-np.abs(a), integer_bits + 1, bits)
    size = times_power(_reciprocal(powers, bits) - (1 << (bits - 2)), 2, bits)
    return np.where(a == 0, 0, np.where(a < 0, -size, size))


def input_radius(integer_bits: int, left_shift: int) -> int:
    """CalculateInputRadius: the largest integer that a left shift keeps inside of the fixed-point range."""
    return math.floor(((1 << integer_bits) - 1) * 2.0 ** (31 - integer_bits) / 2.0**left_shift)


def quotient(a: np.ndarray, b: np.ndarray, multiplier: Multiplier) -> np.ndarray:
    """DivElementwise: a / b times a multiplier, for b other than 0, which the kernel refuses.

    Below one half of a step it divides by more than 2^31: zero becomes one, and others the ends of the grid.
    """
    significand, exponent = multiplier
    a, b = np.where(b < 0, -a, a), np.where(b == 0, 1, np.abs(b))
    length = np.frexp(b.astype(np.float64))[1].astype(np.int64)
    fraction = (b << (_BITS + 1 - length)) - (1 << _BITS)
    inverse = times_power(_reciprocal(fraction, _BITS), 1)
    headroom = _BITS - np.frexp(np.where(a < 0, ~a, a).astype(np.float64))[1].astype(np.int64)
    scaled = doubling_high_product(doubling_high_product(a << headroom, inverse), significand)
    return divided_by_power(scaled, np.maximum(headroom + length - 1 - exponent, 0))
