"""Functions of reals as TFLite's float kernels compute them, each step in float32, in NumPy: what tables are made of.

Where scales are powers of two, the last bit of a function decides which way a tie goes. A library function is what C
gives: its result in float64, rounded.
"""

import math
from collections.abc import Callable

import numpy as np

from tosaic.compiler.importers.tflite.multipliers import round_half_away

_HALF, _ONE, _TWO = np.float32(0.5), np.float32(1), np.float32(2)
_ROOT_HALF = np.float32(math.sqrt(0.5))
_ROOT_2_BY_PI = np.float32(math.sqrt(2 / math.pi))
_CUBIC = np.float32(0.044715)


def _rounded(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(function(x.astype(np.float64)), np.float64).astype(np.float32)


def to_int32(x: np.ndarray) -> np.ndarray:
    """Rounded, halves away from zero; what is no number of 32 bits, the lowest one, as on x86 (C leaves it open)."""
    limit = 1 << 31
    with np.errstate(invalid="ignore"):
        inside = np.abs(x) < limit
    return np.where(inside, round_half_away(np.where(inside, x, 0)), -limit).astype(np.int64)


def of(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """A function of reals with its results in float32."""
    return lambda x: _rounded(function, x)


def exp(x: np.ndarray) -> np.ndarray:
    """The exponential."""
    return _rounded(np.exp, x)


def logistic(x: np.ndarray) -> np.ndarray:
    """Returns 1 / (1 + exp(-x))."""
    return _ONE / (_ONE + exp(-x))


def tanh(x: np.ndarray) -> np.ndarray:
    """The hyperbolic tangent by expm1, as C libraries have it."""
    size = np.abs(x.astype(np.float32))
    small = _rounded(np.expm1, -_TWO * np.minimum(size, _ONE))
    large = _rounded(np.expm1, _TWO * size)
    return np.copysign(np.where(size < 1, -small / (small + _TWO), _ONE - _TWO / (large + _TWO)), x).astype(
        np.float32
    )


def inverse_root(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x) of what is positive."""
    return _ONE / np.sqrt(np.where(x > 0, x, 1).astype(np.float32))


def gelu(x: np.ndarray) -> np.ndarray:
    """Returns x times the normal distribution function, by erfc."""
    x = x.astype(np.float32)
    return _HALF * x * _rounded(np.vectorize(math.erfc), x * -_ROOT_HALF)


def gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    """Computes GELU's approximation."""
    x = x.astype(np.float32)
    return _HALF * x * (_ONE + tanh(_ROOT_2_BY_PI * (x + _CUBIC * x * x * x)))
