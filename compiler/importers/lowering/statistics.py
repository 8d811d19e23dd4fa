"""Softmax and the normalizations: chains of reductions and elementwise operators."""

from collections.abc import Sequence

import numpy as np

from tosaic.compiler.importers.lowering.lowering import Lowering


def softmax(low: Lowering, x: str, axes: Sequence[int]) -> str:
    """exp(x) / sum(exp(x)) over axes, shifted by the maximum so that nothing overflows."""
    powers = low.op("EXP", low.sub(x, low.reduce("MAX", x, axes)))
    return low.div(powers, low.reduce("SUM", powers, axes))


def log_softmax(low: Lowering, x: str, axes: Sequence[int]) -> str:
    """The logarithm of softmax."""
    shifted = low.sub(x, low.reduce("MAX", x, axes))
    return low.sub(shifted, low.op("LOG", low.reduce("SUM", low.op("EXP", shifted), axes)))


def log_sum_exp(low: Lowering, x: str, axes: Sequence[int]) -> str:
    """log(sum(exp(x))), shifted by the maximum so that nothing overflows."""
    largest = low.reduce("MAX", x, axes)
    return low.add(low.op("LOG", low.reduce("SUM", low.op("EXP", low.sub(x, largest)), axes)), largest)


def standardize(low: Lowering, x: str, axes: Sequence[int], epsilon: float) -> tuple[str, str, str]:
    """(x - mean) / sqrt(variance + epsilon), the mean, and the reciprocal of that square root."""
    mean = low.mean(x, axes)
    centred = low.sub(x, mean)
    variance = low.mean(low.mul(centred, centred), axes)
    inverse = low.op("RSQRT", low.plus(variance, epsilon))
    return low.mul(centred, inverse), mean, inverse


def batch_normalize(
    low: Lowering, x: str, mean: str, variance: str, offset: str, scale: str, epsilon: float
) -> str:
    """offset + scale * (x - mean) / sqrt(variance + epsilon); the statistics broadcast to x.

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
