"""Computes ARGMAX and MATMUL (TOSA 0.30 sections 2.3.1 and 2.3.8)."""

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.arithmetic import as_int64, dot, largest_sum, product_terms, scalar, wrap
from tosaic.sim.golden.kernels import kernel
from tosaic.sim.golden.requirements import require_partial_sums


@kernel("ARGMAX")
def argmax(input: np.ndarray, *, axis: int) -> np.ndarray:
    """Index (int32) of the largest element along `axis`, which disappears; the lowest index wins."""
    return np.argmax(input, axis=axis).astype(np.int32)


@kernel("MATMUL")
def matmul(
    a: np.ndarray, b: np.ndarray, a_zp: np.ndarray, b_zp: np.ndarray, *, out_dtype: DType
) -> np.ndarray:
    """a [N,H,C] times b [N,C,W] to [N,H,W]; int8 to int32, int16 to int48."""
    left, right = as_int64(a) - scalar(a_zp), as_int64(b) - scalar(b_zp)
    sums = dot(left, right)
    require_partial_sums(
        np.broadcast_to(np.int64(0), sums.shape),
        lambda: product_terms(left, right),
        lambda: largest_sum(left, right, left.shape[-1]),
        out_dtype,
    )
    return wrap(sums, out_dtype)
