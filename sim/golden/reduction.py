"""Reductions along one axis, which keeps size 1 (TOSA 0.30 section 2.9)."""

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.kernels import kernel
from tosaic.sim.golden.requirements import is_strict, require_range


@kernel("REDUCE_ALL")
def reduce_all(input: np.ndarray, *, axis: int) -> np.ndarray:
    """Returns True where every bool along `axis` is true."""
    return np.all(input, axis=axis, keepdims=True)


@kernel("REDUCE_ANY")
def reduce_any(input: np.ndarray, *, axis: int) -> np.ndarray:
    """Returns True where any bool along `axis` is true."""
    return np.any(input, axis=axis, keepdims=True)


@kernel("REDUCE_MAX")
def reduce_max(input: np.ndarray, *, axis: int) -> np.ndarray:
    """Largest element along `axis`."""
    return np.max(input, axis=axis, keepdims=True)


@kernel("REDUCE_MIN")
def reduce_min(input: np.ndarray, *, axis: int) -> np.ndarray:
    """Smallest element along `axis`."""
    return np.min(input, axis=axis, keepdims=True)


@kernel("REDUCE_SUM")
def reduce_sum(input: np.ndarray, *, axis: int) -> np.ndarray:
    """Sum along `axis`, int32; an overflow is unpredictable, here the low 32 bits."""
    if is_strict():
        require_range("each partial sum", np.cumsum(input, axis=axis, dtype=np.int64), DType.INT32)
    return np.sum(input, axis=axis, keepdims=True, dtype=np.int64).astype(input.dtype)
