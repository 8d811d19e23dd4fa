"""ARGMAX and MATMUL on floats (TOSA 0.30 sections 2.3.1 and 2.3.8)."""

import numpy as np

from tosaic.sim.golden.kernels import float_kernel


@float_kernel("ARGMAX")
def argmax(input: np.ndarray, *, axis: int, nan_mode: str = "PROPAGATE") -> np.ndarray:
    """Index (int32) of the largest element along `axis`, the lowest one of several.

    nan_mode PROPAGATE takes NaN for larger than every number, IGNORE passes over it.
    """
    if nan_mode == "IGNORE":
        input = np.where(np.isnan(input), -np.inf, input)
    return np.argmax(input, axis=axis)


@float_kernel("MATMUL")
def matmul(a: np.ndarray, b: np.ndarray, a_zp: np.ndarray, b_zp: np.ndarray) -> np.ndarray:
    """a [N,H,C] times b [N,C,W] to [N,H,W]; the zero points are 0."""
    return np.matmul(a, b)
