"""Softmax and the normalizations: chains of reductions and elementwise operators."""

import math
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.importers.lowering.convolution import convolve
from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.importers.lowering.windows import AxisWindow


def softmax(low: Lowering, x: str, axes: Sequence[int]) -> str:
    """exp(x) / sum(exp(x)) over axes, shifted by the maximum so that nothing overflows."""
    powers = low.op("EXP", low.sub(x, low.reduce("MAX", x, axes)))
    return low.div(powers, low.reduce("SUM", powers, axes))


def log_softmax(low: Lowering, x: str, axes: Sequence[int]) -> str:
    """The logarithm of softmax."""
    shifted = low.sub(x, low.reduce("MAX", x, axes))
    return low.sub(shifted, low.op("LOG", low.reduce("SUM", low.op("EXP", shifted), axes)))


def log_sum_exp(low: Lowering, x: str, axes: Sequence[int]) -> str:
    """Returns log(sum(exp(x))), shifted by the maximum so that nothing overflows."""
    largest = low.reduce("MAX", x, axes)
    return low.add(low.op("LOG", low.reduce("SUM", low.op("EXP", low.sub(x, largest)), axes)), largest)


def standardize(low: Lowering, x: str, axes: Sequence[int], epsilon: float) -> tuple[str, str, str]:
    """Returns (x - mean) / sqrt(variance + epsilon), the mean, and the reciprocal of that square root."""
    mean = low.mean(x, axes)
    centred = low.sub(x, mean)
    variance = low.mean(low.mul(centred, centred), axes)
    inverse = low.op("RSQRT", low.plus(variance, epsilon))
    return low.mul(centred, inverse), mean, inverse


def batch_normalize(
    low: Lowering, x: str, mean: str, variance: str, offset: str, scale: str, epsilon: float
) -> str:
    """Returns offset + scale * (x - mean) / sqrt(variance + epsilon); the statistics broadcast to x.

    A factor and a summand, both constants, when all statistics are.
    """
    known = [low.data(tensor) for tensor in (mean, variance, offset, scale)]
    if all(value is not None for value in known):
        with np.errstate(divide="ignore", invalid="ignore"):
            m, v, o, s = (value.astype(np.float64) for value in known if value is not None)
            factor = s / np.sqrt(v + epsilon)
            summand = o - m * factor
        dtype = low.dtype(x)
        return low.add(low.mul(x, low.constant(factor, dtype)), low.constant(summand, dtype))
    factor_t = low.mul(scale, low.op("RSQRT", low.plus(variance, epsilon)))
    return low.add(low.mul(low.sub(x, mean), factor_t), offset)


def local_response(low: Lowering, x: str, size: int, alpha: float, beta: float, bias: float) -> str:
    """x [N, spatial..., C] / (bias + alpha * sum of squares of `size` neighbouring channels)^beta.

    floor((size - 1) / 2) channels before and the rest after.
    """
    shape = low.shape(x)
    channels = shape[-1]
    low.make_room((channels, channels), np.int64)
    distance = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    # Row: output channel.
    band = (distance >= -((size - 1) // 2)) & (distance <= size // 2)
    weight = low.constant(band.astype(np.float32).reshape(channels, 1, 1, channels), low.dtype(x))
    flat = low.reshape(low.mul(x, x), (shape[0], 1, math.prod(shape[1:-1]), channels))
    sums = convolve(low, flat, weight, None, [AxisWindow(1), AxisWindow(1)])
    base = low.plus(low.times(sums, alpha), bias)
    power = low.binary("POW", base, low.scalar(-beta, base))
    return low.mul(x, low.reshape(power, shape))
