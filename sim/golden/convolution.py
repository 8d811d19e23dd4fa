"""Computes CONV2D, CONV3D, DEPTHWISE_CONV2D and FULLY_CONNECTED (TOSA 0.30 sections 2.3.3 to 2.3.7)."""

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.arithmetic import (
    as_int64,
    dot,
    largest_sum,
    product_dtype,
    product_terms,
    scalar,
    wrap,
)
from tosaic.sim.golden.correlation import channel_terms, correlate, correlate_channels, correlation_terms
from tosaic.sim.golden.kernels import kernel
from tosaic.sim.golden.requirements import require_partial_sums, require_range
from tosaic.sim.golden.taps import TapWindow


@kernel("CONV2D")
def conv2d(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    window: TapWindow,
    out_dtype: DType,
) -> np.ndarray:
    """Maps input [N,IH,IW,IC], weight [OC,KH,KW,IC], bias [OC] or [1] to [N,OH,OW,OC] in int32 or int48."""
    image, taps = centred(input, input_zp), centred(weight, weight_zp)
    return _convolve(image, taps, bias, window, out_dtype)


@kernel("CONV3D")
def conv3d(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    window: TapWindow,
    out_dtype: DType,
) -> np.ndarray:
    """Maps input [N,ID,IH,IW,IC], weight [OC,KD,KH,KW,IC], bias [OC] or [1] to [N,OD,OH,OW,OC]."""
    image, taps = centred(input, input_zp), centred(weight, weight_zp)
    return _convolve(image, taps, bias, window, out_dtype)


def _convolve(
    image: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    window: TapWindow,
    out_dtype: DType,
) -> np.ndarray:
    """`image` and `weight` have their zero points subtracted."""
    held = product_dtype(image, weight, weight[0].size)
    sums = correlate(image.astype(held), weight.astype(held), window)
    require_partial_sums(
        _zeros(sums.shape),
        lambda: correlation_terms(image, weight, window),
        lambda: largest_sum(image, weight, weight[0].size),
        out_dtype,
    )
    return _with_bias(sums, bias, out_dtype)


def _zeros(shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(np.int64(0), shape)


def _with_bias(sums: np.ndarray, bias: np.ndarray, out_dtype: DType) -> np.ndarray:
    result = as_int64(sums) + as_int64(bias)
    require_range("the sum with the bias", result, out_dtype)
    return wrap(result, out_dtype)


@kernel("DEPTHWISE_CONV2D")
def depthwise_conv2d(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    window: TapWindow,
    out_dtype: DType,
) -> np.ndarray:
    """Maps input [N,H,W,C], weight [KH,KW,C,M], bias [C*M] or [1] to [N,OH,OW,C*M] in int32 or int48."""
    # int32 arithmetic wraps where the accumulator does; int48 sums are cut to width at the end.
    accumulator = np.int32 if out_dtype is DType.INT32 else np.int64
    image = centred(input, input_zp).astype(accumulator)
    taps = centred(weight, weight_zp).astype(accumulator)
    sums = correlate_channels(image, taps, window)
    require_partial_sums(
        _zeros(sums.shape),
        lambda: channel_terms(image, taps, window),
        lambda: largest_sum(image, taps, taps[..., 0, 0].size),
        out_dtype,
    )
    return _with_bias(sums, bias, out_dtype)


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
    """Maps input [N,IC], weight [OC,IC], bias [OC] or [1] to [N,OC] in int32 or int48."""
    rows, columns = centred(input, input_zp), centred(weight, weight_zp).T
    sums = dot(rows, columns)
    require_partial_sums(
        _zeros(sums.shape),
        lambda: product_terms(rows, columns),
        lambda: largest_sum(rows, columns, len(columns)),
        out_dtype,
    )
    return _with_bias(sums, bias, out_dtype)


def centred(values: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    """values - zero_point; int32 holds it for every type that convolutions accept."""
    return values.astype(np.int32) - np.int32(scalar(zero_point))
