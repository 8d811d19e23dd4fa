"""CLAMP, ERF, SIGMOID and TANH on floats (TOSA 0.30 section 2.4, ERF of 1.0)."""

import math

import numpy as np

from tosaic.sim.golden.floating.nan_mode import larger, smaller
from tosaic.sim.golden.kernels import float_kernel

_erf = np.frompyfunc(math.erf, 1, 1)


@float_kernel("CLAMP")
def clamp(input: np.ndarray, *, min_val: float, max_val: float, nan_mode: str = "PROPAGATE") -> np.ndarray:
    """Returns min(max(input, min_val), max_val)."""
    return smaller(nan_mode)(larger(nan_mode)(input, min_val), max_val)


@float_kernel("ERF")
def erf(input: np.ndarray) -> np.ndarray:
    """The error function."""
    return np.asarray(_erf(input), np.float64)


@float_kernel("SIGMOID")
def sigmoid(input: np.ndarray) -> np.ndarray:
    """Returns 1 / (1 + e^-input)."""
    return 1.0 / (1.0 + np.exp(-input))


@float_kernel("TANH")
def tanh(input: np.ndarray) -> np.ndarray:
    """The hyperbolic tangent."""
    return np.tanh(input)
