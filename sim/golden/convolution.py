"""CONV2D, CONV3D, DEPTHWISE_CONV2D and FULLY_CONNECTED (TOSA 0.30 sections 2.3.3 to 2.3.7)."""

import math
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.arithmetic import as_int64, dot, scalar, wrap
from tosaic.sim.golden.kernels import kernel
from tosaic.sim.golden.windows import blocks, pad_spatial, sliding_windows

# Elements of one piece of the unrolled input matrix: 64 MiB of doubles.
_UNROLLED_ELEMENTS = 1 << 23


@kernel("CONV2D")
def conv2d(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    out_dtype: DType,
) -> np.ndarray:
    """input [N,IH,IW,IC], weight [OC,KH,KW,IC], bias [OC] or [1] to [N,OH,OW,OC] in int32 or int48."""
    return _convolve(input, weight, bias, input_zp, weight_zp, pad, stride, dilation, out_dtype)


@kernel("CONV3D")
def conv3d(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    out_dtype: DType,
) -> np.ndarray:
    """input [N,ID,IH,IW,IC], weight [OC,KD,KH,KW,IC], bias [OC] or [1] to [N,OD,OH,OW,OC]."""
    return _convolve(input, weight, bias, input_zp, weight_zp, pad, stride, dilation, out_dtype)


def _convolve(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    out_dtype: DType,
) -> np.ndarray:
    # Padding contributes nothing to the sum, which after subtraction of the zero point is a zero.
    image = pad_spatial(_centred(input, input_zp), pad)
    out_channels, *kernel_shape, _ = weight.shape
    matrix = _centred(weight, weight_zp).reshape(out_channels, -1).T.astype(np.float64)
    windows = sliding_windows(image, kernel_shape, stride, dilation)
    positions = windows.shape[: 1 + len(kernel_shape)]
    taps = matrix.shape[0]
    result = np.empty((*positions, out_channels), dtype=out_dtype.numpy)
    for block in blocks(positions, _UNROLLED_ELEMENTS // taps):
        window = windows[block]
        unrolled = window.reshape(math.prod(window.shape[: len(positions)]), taps).astype(np.float64)
        sums = dot(unrolled, matrix) + as_int64(bias)
        result[block] = wrap(sums, out_dtype).reshape(*window.shape[: len(positions)], out_channels)
    return result


@kernel("DEPTHWISE_CONV2D")
def depthwise_conv2d(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    out_dtype: DType,
) -> np.ndarray:
    """input [N,H,W,C], weight [KH,KW,C,M], bias [C*M] or [1] to [N,OH,OW,C*M] in int32 or int48."""
    # int32 arithmetic wraps where the accumulator does; int48 sums are cut to width at the end.
    accumulator = np.int32 if out_dtype is DType.INT32 else np.int64
    image = pad_spatial(_centred(input, input_zp).astype(accumulator), pad)
    taps = _centred(weight, weight_zp).astype(accumulator)
    kernel_y, kernel_x, channels, multiplier = weight.shape
    windows = sliding_windows(image, (kernel_y, kernel_x), stride, dilation)
    batch, out_y, out_x = windows.shape[:3]
    sums = np.zeros((batch, out_y, out_x, channels, multiplier), dtype=accumulator)
    for ky, kx in np.ndindex(kernel_y, kernel_x):
        sums += windows[:, :, :, ky, kx, :, None] * taps[ky, kx]
    totals = sums.reshape(batch, out_y, out_x, channels * multiplier)
    return wrap(as_int64(totals) + as_int64(bias), out_dtype)


@kernel("FULLY_CONNECTED")
def fully_connected(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    out_dtype: DType,
) -> np.ndarray:
    """input [N,IC], weight [OC,IC], bias [OC] or [1] to [N,OC] in int32 or int48."""
    sums = dot(_centred(input, input_zp), _centred(weight, weight_zp).T)
    return wrap(sums + as_int64(bias), out_dtype)


def _centred(values: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    """values - zero_point; int32 holds it for every type that convolutions accept."""
    return values.astype(np.int32) - np.int32(scalar(zero_point))
