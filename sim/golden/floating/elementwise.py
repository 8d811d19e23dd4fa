"""Elementwise operators on floats (TOSA 0.30 sections 2.5 and 2.6, SIN and COS of 1.0)."""

import numpy as np

from tosaic.sim.golden.floating.nan_mode import larger, smaller
from tosaic.sim.golden.kernels import float_kernel


@float_kernel("ADD")
def add(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 + input2."""
    return input1 + input2


@float_kernel("SUB")
def sub(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 - input2."""
    return input1 - input2


@float_kernel("MUL")
def mul(input1: np.ndarray, input2: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """input1 * input2; shift is 0."""
    return input1 * input2


@float_kernel("POW")
def pow_(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 to the power of input2."""
    return np.power(input1, input2)


@float_kernel("MAXIMUM")
def maximum(input1: np.ndarray, input2: np.ndarray, *, nan_mode: str = "PROPAGATE") -> np.ndarray:
    """The larger element."""
    return larger(nan_mode)(input1, input2)


@float_kernel("MINIMUM")
def minimum(input1: np.ndarray, input2: np.ndarray, *, nan_mode: str = "PROPAGATE") -> np.ndarray:
    """The smaller element."""
    return smaller(nan_mode)(input1, input2)


@float_kernel("ABS")
def abs_(input1: np.ndarray) -> np.ndarray:
    """Returns |input1|."""
    return np.abs(input1)


@float_kernel("CEIL")
def ceil(input1: np.ndarray) -> np.ndarray:
    """The smallest integer that is not less."""
    return np.ceil(input1)


@float_kernel("COS")
def cos(input1: np.ndarray) -> np.ndarray:
    """The cosine of an angle in radians."""
    return np.cos(input1)


@float_kernel("EXP")
def exp(input1: np.ndarray) -> np.ndarray:
    """Returns e to the power of input1."""
    return np.exp(input1)


@float_kernel("FLOOR")
def floor(input1: np.ndarray) -> np.ndarray:
    """The largest integer that is not greater."""
    return np.floor(input1)


@float_kernel("LOG")
def log(input1: np.ndarray) -> np.ndarray:
    """The natural logarithm; NaN for negative numbers."""
    return np.log(input1)


@float_kernel("NEGATE")
def negate(input1: np.ndarray, input1_zp: np.ndarray, output_zp: np.ndarray) -> np.ndarray:
    """-input1; the zero points are 0."""
    return np.negative(input1)


@float_kernel("RECIPROCAL")
def reciprocal(input1: np.ndarray) -> np.ndarray:
    """Returns 1 / input1."""
    return 1.0 / input1


@float_kernel("RSQRT")
def rsqrt(input1: np.ndarray) -> np.ndarray:
    """1 / sqrt(input1); NaN for negative numbers."""
    return 1.0 / np.sqrt(input1)


@float_kernel("SIN")
def sin(input1: np.ndarray) -> np.ndarray:
    """The sine of an angle in radians."""
    return np.sin(input1)
