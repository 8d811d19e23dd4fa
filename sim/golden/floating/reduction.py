"""Reductions of floats along one axis, which keeps size 1 (TOSA 0.30 section 2.9)."""

import numpy as np

from tosaic.sim.golden.floating.nan_mode import larger, smaller
from tosaic.sim.golden.kernels import float_kernel


@float_kernel("REDUCE_MAX")
def reduce_max(input: np.ndarray, *, axis: int, nan_mode: str = "PROPAGATE") -> np.ndarray:
    """Largest element along `axis`."""
    return larger(nan_mode).reduce(input, axis=axis, keepdims=True)


@float_kernel("REDUCE_MIN")
def reduce_min(input: np.ndarray, *, axis: int, nan_mode: str = "PROPAGATE") -> np.ndarray:
    """Smallest element along `axis`."""
    return smaller(nan_mode).reduce(input, axis=axis, keepdims=True)


@float_kernel("REDUCE_PRODUCT")
def reduce_product(input: np.ndarray, *, axis: int) -> np.ndarray:
    """Product of the elements along `axis`."""
    return np.prod(input, axis=axis, keepdims=True)


@float_kernel("REDUCE_SUM")
def reduce_sum(input: np.ndarray, *, axis: int) -> np.ndarray:
    """Sum of the elements along `axis`."""
    return np.sum(input, axis=axis, keepdims=True)
