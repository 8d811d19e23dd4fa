"""CAST from and to floats (TOSA 0.30 section 2.13.1)."""

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.kernels import float_kernel


@float_kernel("CAST")
def cast(input: np.ndarray, *, out_dtype: DType) -> np.ndarray:
    """Converts to a float: the nearest one; or to an integer: the nearest, ties to even, clipped to its
    range.

    NaN has no nearest integer: unpredictable, here 0.
    """
    if out_dtype.is_float:
        return input.astype(np.float64)
    if out_dtype is DType.BOOL:
        return input != 0
    nearest_integer = np.where(np.isnan(input), 0.0, np.rint(input))
    return np.clip(nearest_integer, out_dtype.min, out_dtype.max)
