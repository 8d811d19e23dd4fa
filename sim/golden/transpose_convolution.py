"""TRANSPOSE_CONV2D (TOSA 0.30 section 2.3.11, with the sign of out_pad of 1.0: positive adds)."""

from collections.abc import Sequence

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.arithmetic import as_int64, dot, scalar, wrap
from tosaic.sim.golden.kernels import kernel


@kernel("TRANSPOSE_CONV2D")
def transpose_conv2d(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    out_pad: Sequence[int],
    stride: Sequence[int],
    out_dtype: DType,
) -> np.ndarray:
    """input [N,IH,IW,IC], weight [OC,KH,KW,IC], bias [OC] or [1] to [N,OH,OW,OC] in int32 or int48.

    OH = (IH-1)*stride_y + out_pad_top + out_pad_bottom + KH, OW alike.
    """
    batch, in_y, in_x, in_channels = input.shape
    out_channels, kernel_y, kernel_x, _ = weight.shape
    top, bottom, left, right = out_pad
    stride_y, stride_x = stride
    out_y = (in_y - 1) * stride_y + top + bottom + kernel_y
    out_x = (in_x - 1) * stride_x + left + right + kernel_x
    values = (as_int64(input) - scalar(input_zp)).reshape(-1, in_channels).astype(np.float64)
    weights = (as_int64(weight) - scalar(weight_zp)).astype(np.float64)
    sums = np.zeros((batch, out_y, out_x, out_channels), dtype=np.int64)
    for ky in range(kernel_y):
        rows_in, rows_out = _overlap(in_y, stride_y, top + ky, out_y)
        for kx in range(kernel_x):
            columns_in, columns_out = _overlap(in_x, stride_x, left + kx, out_x)
            products = dot(values, weights[:, ky, kx].T).reshape(batch, in_y, in_x, out_channels)
            sums[:, rows_out, columns_out] += products[:, rows_in, columns_in]
    return wrap(sums + as_int64(bias), out_dtype)


def _overlap(in_size: int, stride: int, offset: int, out_size: int) -> tuple[slice, slice]:
    """Input indices i, and the output indices i*stride + offset they reach, that lie inside the output."""
    first = max(0, -(offset // stride))
    end = max(first, min(in_size, (out_size - 1 - offset) // stride + 1))
    start = first * stride + offset
    return slice(first, end), slice(start, start + (end - first) * stride, stride)
