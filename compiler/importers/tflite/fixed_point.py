"""The fixed-point arithmetic of TFLite's reference kernels, in NumPy: what tables are computed by.

Values are int64 arrays that hold int32 numbers. A number "of n integer bits" has 31 - n bits of fraction.
"""

import math

import numpy as np

from tosaic.compiler.importers.tflite.multipliers import Multiplier

_LARGEST, _SMALLEST = (1 << 31) - 1, -(1 << 31)
_ONE = _LARGEST
"""1 with no integer bits, saturated."""
_TWO_BITS_ONE = 1 << 29
_48_OVER_17, _MINUS_32_OVER_17 = 1515870810, -1010580540
"""With two integer bits: where Newton's division starts."""
_EXP_MINUS_EIGHTH, _ONE_THIRD = 1895147668, 715827883
_POWERS = {-2: 1672461947, -1: 1302514674, 0: 790015084, 1: 290630308, 2: 39332535, 3: 720401, 4: 242}
"""exp(-2^k), with no integer bits."""


def doubling_high_product(a: np.ndarray, b: np.ndarray | int, bits: int = 31) -> np.ndarray:
    """SaturatingRoundingDoublingHighMul of signed numbers of bits + 1 bits: a * b / 2^bits, ties upward."""
    return np.minimum((np.asarray(a, np.int64) * b + (1 << (bits - 1))) >> bits, (1 << bits) - 1)


def divided_by_power(x: np.ndarray, exponent: int) -> np.ndarray:
    """RoundingDivideByPOT: x / 2^exponent, ties away from zero."""
    if exponent == 0:
        return x
    half = 1 << (exponent - 1)
    return np.where(x >= 0, (x + half) >> exponent, -((-x + half) >> exponent))


def times_power(x: np.ndarray, exponent: int) -> np.ndarray:
    """SaturatingRoundingMultiplyByPOT."""
    return np.clip(x << exponent, _SMALLEST, _LARGEST) if exponent >= 0 else divided_by_power(x, -exponent)


def multiplied(x: np.ndarray, multiplier: Multiplier) -> np.ndarray:
    """MultiplyByQuantizedMultiplier."""
    significand, exponent = multiplier
    return divided_by_power(doubling_high_product(x << max(exponent, 0), significand), max(-exponent, 0))


def exp_of_negative(a: np.ndarray, integer_bits: int) -> np.ndarray:
    """exp(a) for a <= 0, with no integer bits."""
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    inside = (a & (quarter - 1)) - quarter
    result = _exp_of_quarter(times_power(inside, integer_bits))
    rest = inside - a
    for exponent, factor in _POWERS.items():
        if integer_bits > exponent:
            has_bit = (rest & (1 << (fraction_bits + exponent))) != 0
            result = np.where(has_bit, doubling_high_product(result, factor), result)
    if integer_bits > 5:
        result = np.where(a < -(1 << (fraction_bits + 5)), 0, result)
    return np.where(a == 0, _ONE, result)


def _exp_of_quarter(a: np.ndarray) -> np.ndarray:
    """exp(a) for a from -1/4 to 0, by the first terms around -1/8."""
    x = a + (1 << 28)
    x2 = doubling_high_product(x, x)
    x3, x4 = doubling_high_product(x2, x), doubling_high_product(x2, x2)
    inner = doubling_high_product(times_power(x4, -2) + x3, _ONE_THIRD) + x2
    return _EXP_MINUS_EIGHTH + doubling_high_product(x + times_power(inner, -1), _EXP_MINUS_EIGHTH)


def _reciprocal(a: np.ndarray) -> np.ndarray:
    """2 / (1 + a) for a from 0 to 1, with two integer bits, by three steps of Newton's."""
    half_denominator = (a + _ONE + 1) // 2
    x = _48_OVER_17 + doubling_high_product(half_denominator, _MINUS_32_OVER_17)
    for _ in range(3):
        rest = _TWO_BITS_ONE - doubling_high_product(half_denominator, x)
        x = x + times_power(doubling_high_product(x, rest), 2)
    return x


def logistic(a: np.ndarray, integer_bits: int) -> np.ndarray:
    """1 / (1 + exp(-a)), with no integer bits."""
    positive = times_power(_reciprocal(exp_of_negative(-np.abs(a), integer_bits)), 1)
    return np.where(a == 0, 1 << 30, np.where(a > 0, positive, _ONE - positive))


def tanh(a: np.ndarray, integer_bits: int) -> np.ndarray:
    """tanh(a), with no integer bits."""
    powers = exp_of_negative(-np.abs(a), integer_bits + 1)
    size = times_power(_reciprocal(powers) - _TWO_BITS_ONE, 2)
    return np.where(a == 0, 0, np.where(a < 0, -size, size))


def input_radius(integer_bits: int, left_shift: int) -> int:
    """CalculateInputRadius: the largest integer that a left shift keeps inside of the fixed-point range."""
    return math.floor(((1 << integer_bits) - 1) * 2.0 ** (31 - integer_bits) / 2.0**left_shift)
