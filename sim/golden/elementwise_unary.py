"""Elementwise operators with one input (TOSA 0.30 section 2.6)."""

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.arithmetic import as_int64, bit_length, clip, scalar, wrap, zero_extend
from tosaic.sim.golden.kernels import kernel
from tosaic.sim.golden.requirements import require_range


@kernel("ABS")
def abs_(input1: np.ndarray) -> np.ndarray:
    """|input1|, int32. The minimum has no absolute value in int32: unpredictable, here it wraps to itself."""
    result = np.abs(as_int64(input1))
    require_range("the absolute value", result, DType.INT32)
    return wrap(result, DType.INT32)


@kernel("BITWISE_NOT")
def bitwise_not(input1: np.ndarray) -> np.ndarray:
    """Returns ~input1."""
    return np.bitwise_not(input1)


@kernel("CLZ")
def clz(input1: np.ndarray) -> np.ndarray:
    """Number of leading zeros of the 32 bits of input1; 32 for 0."""
    return (32 - bit_length(zero_extend(input1))).astype(np.int32)


@kernel("LOGICAL_NOT")
def logical_not(input1: np.ndarray) -> np.ndarray:
    """Returns !input1, bool."""
    return np.logical_not(input1)


@kernel("NEGATE")
def negate(
    input1: np.ndarray, input1_zp: np.ndarray, output_zp: np.ndarray, *, out_dtype: DType
) -> np.ndarray:
    """output_zp - (input1 - input1_zp), clipped to the type; zero points are 0 except for int8.

    The int32 minimum is unpredictable, here it clips to the maximum.
    """
    negated = -(as_int64(input1) - scalar(input1_zp))
    require_range("the negated value", negated, DType.INT32)
    return clip(negated + scalar(output_zp), out_dtype)
