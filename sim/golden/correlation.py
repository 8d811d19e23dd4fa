"""The sums of products of the convolutions, in the type of their arguments: one pass per kernel tap."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tosaic.sim.golden.requirements import Terms
from tosaic.sim.golden.taps import TapWindow, convolution_taps, strided_overlap


def correlate(image: np.ndarray, weight: np.ndarray, window: TapWindow) -> np.ndarray:
    """Maps image [N,I...,IC], weight [OC,K...,IC] of one type to [N,O...,OC]: a matrix product per tap.

    Positions outside the image add nothing.
    """
    out_channels, *kernel_shape, in_channels = weight.shape
    in_shape = image.shape[1:-1]
    out_shape = _out_shape(in_shape, kernel_shape, window)
    taps = np.ascontiguousarray(np.moveaxis(weight, 0, -1))  # [K..., IC, OC]
    sums = np.zeros((image.shape[0], *out_shape, out_channels), dtype=image.dtype)
    for tap, outputs, inputs in convolution_taps(in_shape, out_shape, kernel_shape, window):
        read = image[(slice(None), *inputs)]
        products = read.reshape(-1, in_channels) @ taps[tap]
        sums[(slice(None), *outputs)] += products.reshape(*read.shape[:-1], out_channels)
    return sums


def correlate_channels(image: np.ndarray, weight: np.ndarray, window: TapWindow) -> np.ndarray:
    """Maps image [N,IH,IW,C], weight [KH,KW,C,M] of one type to [N,OH,OW,C*M]: each channel by itself."""
    *kernel_shape, channels, multiplier = weight.shape
    in_shape = image.shape[1:3]
    out_shape = _out_shape(in_shape, kernel_shape, window)
    sums = np.zeros((image.shape[0], *out_shape, channels, multiplier), dtype=image.dtype)
    wide = image[..., None]
    for tap, outputs, inputs in convolution_taps(in_shape, out_shape, kernel_shape, window):
        sums[(slice(None), *outputs)] += wide[(slice(None), *inputs)] * weight[tap]
    return sums.reshape(*sums.shape[:3], channels * multiplier)


@dataclass(frozen=True)
class Spread:
    """Where the taps of a transposed convolution are added; attributes of TOSA: a positive `out_pad` adds."""

    out_pad: Sequence[int]
    stride: Sequence[int]


def correlate_transposed(image: np.ndarray, weight: np.ndarray, spread: Spread) -> np.ndarray:
    """image [N,IH,IW,IC], weight [OC,KH,KW,IC] of one type to [N,OH,OW,OC]: each pixel spreads its kernel.

    OH = (IH-1)*stride_y + out_pad_top + out_pad_bottom + KH, OW alike.
    """
    batch, in_y, in_x, in_channels = image.shape
    out_channels, kernel_y, kernel_x, _ = weight.shape
    (top, bottom, left, right), stride = spread.out_pad, spread.stride
    out_y = (in_y - 1) * stride[0] + top + bottom + kernel_y
    out_x = (in_x - 1) * stride[1] + left + right + kernel_x
    sums = np.zeros((batch, out_y, out_x, out_channels), dtype=image.dtype)
    for ky in range(kernel_y):
        rows, rows_out = strided_overlap(in_y, out_y, stride[0], top + ky)
        for kx in range(kernel_x):
            columns, columns_out = strided_overlap(in_x, out_x, stride[1], left + kx)
            read = image[:, rows, columns]
            products = read.reshape(-1, in_channels) @ weight[:, ky, kx].T
            sums[:, rows_out, columns_out] += products.reshape(*read.shape[:-1], out_channels)
    return sums


def correlation_terms(image: np.ndarray, weight: np.ndarray, window: TapWindow) -> Terms:
    """Yields the terms that `correlate` adds up, one tap and one input channel after the other."""
    in_shape, kernel_shape = image.shape[1:-1], weight.shape[1:-1]
    out_shape = _out_shape(in_shape, kernel_shape, window)
    taps = np.moveaxis(weight, 0, -1)  # [K..., IC, OC]
    for tap, outputs, inputs in convolution_taps(in_shape, out_shape, kernel_shape, window):
        read = image[(slice(None), *inputs)].astype(np.int64)
        for channel, column in enumerate(taps[tap]):
            yield (slice(None), *outputs), read[..., channel, None] * column


def channel_terms(image: np.ndarray, weight: np.ndarray, window: TapWindow) -> Terms:
    """Yields the terms that `correlate_channels` adds up, one tap after the other."""
    in_shape, kernel_shape = image.shape[1:3], weight.shape[:2]
    out_shape = _out_shape(in_shape, kernel_shape, window)
    wide = image.astype(np.int64)[..., None]
    for tap, outputs, inputs in convolution_taps(in_shape, out_shape, kernel_shape, window):
        products = wide[(slice(None), *inputs)] * weight[tap]
        yield (slice(None), *outputs), products.reshape(*products.shape[:3], -1)


def transposed_terms(image: np.ndarray, weight: np.ndarray, spread: Spread) -> Terms:
    """Yields the terms that `correlate_transposed` adds up: the last taps first, as they meet the first pixels."""
    out_pad, stride = spread.out_pad, spread.stride
    in_y, in_x = image.shape[1:3]
    kernel_y, kernel_x = weight.shape[1:3]
    out_y = (in_y - 1) * stride[0] + out_pad[0] + out_pad[1] + kernel_y
    out_x = (in_x - 1) * stride[1] + out_pad[2] + out_pad[3] + kernel_x
    for ky in reversed(range(kernel_y)):
        rows, rows_out = strided_overlap(in_y, out_y, stride[0], out_pad[0] + ky)
        for kx in reversed(range(kernel_x)):
            columns, columns_out = strided_overlap(in_x, out_x, stride[1], out_pad[2] + kx)
            read = image[:, rows, columns].astype(np.int64)
            for channel in range(weight.shape[-1]):
                products = read[..., channel, None] * weight[:, ky, kx, channel]
                yield (slice(None), rows_out, columns_out), products


def _out_shape(in_shape: Sequence[int], kernel_shape: Sequence[int], window: TapWindow) -> tuple[int, ...]:
    """Spatial output sizes: idiv_check(I - 1 + pads - (K - 1) * dilation, stride) + 1."""
    padded = (size + window.pad[2 * axis] + window.pad[2 * axis + 1] for axis, size in enumerate(in_shape))
    axes = zip(padded, kernel_shape, window.stride, window.dilation, strict=True)
    return tuple((size - 1 - (taps - 1) * d) // s + 1 for size, taps, s, d in axes)
