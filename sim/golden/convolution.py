"""CONV2D, CONV3D, DEPTHWISE_CONV2D and FULLY_CONNECTED (TOSA 0.30 sections 2.3.3 to 2.3.7)."""

from collections.abc import Sequence

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.arithmetic import as_int64, dot, product_dtype, scalar, wrap
from tosaic.sim.golden.kernels import kernel
from tosaic.sim.golden.taps import convolution_taps


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
    image, taps = centred(input, input_zp), centred(weight, weight_zp)
    return _convolve(image, taps, bias, pad, stride, dilation, out_dtype)


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
    image, taps = centred(input, input_zp), centred(weight, weight_zp)
    return _convolve(image, taps, bias, pad, stride, dilation, out_dtype)


def _convolve(
    image: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    out_dtype: DType,
) -> np.ndarray:
    """One matrix product per kernel tap; `image` and `weight` have their zero points subtracted."""
    out_channels, *kernel_shape, in_channels = weight.shape
    in_shape = image.shape[1:-1]
    out_shape = _out_shape(in_shape, kernel_shape, pad, stride, dilation)
    held = product_dtype(image, weight, weight[0].size)
    image = image.astype(held)
    taps = np.moveaxis(weight, 0, -1).astype(held, order="C")  # [K..., IC, OC]
    sums: np.ndarray = np.zeros((image.shape[0], *out_shape, out_channels), dtype=held)
    for tap, outputs, inputs in convolution_taps(in_shape, out_shape, kernel_shape, pad, stride, dilation):
        read = image[(slice(None), *inputs)]
        products = read.reshape(-1, in_channels) @ taps[tap]
        sums[(slice(None), *outputs)] += products.reshape(*read.shape[:-1], out_channels)
    return wrap(as_int64(sums) + as_int64(bias), out_dtype)


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
    image = centred(input, input_zp).astype(accumulator)[..., None]
    taps = centred(weight, weight_zp).astype(accumulator)
    *kernel_shape, channels, multiplier = weight.shape
    in_shape = input.shape[1:3]
    out_shape = _out_shape(in_shape, kernel_shape, pad, stride, dilation)
    sums: np.ndarray = np.zeros((input.shape[0], *out_shape, channels, multiplier), dtype=accumulator)
    for tap, outputs, inputs in convolution_taps(in_shape, out_shape, kernel_shape, pad, stride, dilation):
        sums[(slice(None), *outputs)] += image[(slice(None), *inputs)] * taps[tap]
    totals = sums.reshape(*sums.shape[:3], channels * multiplier)
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
    sums = dot(centred(input, input_zp), centred(weight, weight_zp).T)
    return wrap(sums + as_int64(bias), out_dtype)


def centred(values: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    """values - zero_point; int32 holds it for every type that convolutions accept."""
    return values.astype(np.int32) - np.int32(scalar(zero_point))


def _out_shape(
    in_shape: Sequence[int],
    kernel_shape: Sequence[int],
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Spatial output sizes: idiv_check(I - 1 + pads - (K - 1) * dilation, stride) + 1."""
    padded = (size + pad[2 * axis] + pad[2 * axis + 1] for axis, size in enumerate(in_shape))
    axes = zip(padded, kernel_shape, stride, dilation, strict=True)
    return tuple((size - 1 - (taps - 1) * d) // s + 1 for size, taps, s, d in axes)
