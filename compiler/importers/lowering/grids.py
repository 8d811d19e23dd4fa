"""Pseudo-quantization: reals on the grid that integers would have."""

import math

import numpy as np

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.importers.lowering.rounding import round_half_up, sign
from tosaic.compiler.ir import DType


def linear_grid(low: Lowering, x: str, bottom: str, top: str, bits: int) -> str:
    """x on 2^bits equal steps from bottom to top, ties upward; all of equal rank.

    The quantizer knows the chain that constant ends of one element give (`quantizer.grids`).
    """
    steps = 2.0**bits - 1
    known = [low.data(bottom), low.data(top)]
    if known[0] is not None and known[1] is not None:
        dtype = low.dtype(x)
        minimum, maximum = (value.astype(np.float64) for value in known if value is not None)
        span = maximum - minimum
        with np.errstate(divide="ignore", invalid="ignore"):
            scale, back = low.constant(steps / span, dtype), low.constant(span / steps, dtype)
        if minimum.size == maximum.size == 1 and minimum.item() <= maximum.item():
            inside = low.clamp(x, minimum.item(), maximum.item())
        else:
            inside = low.maximum(low.minimum(x, top), bottom)
    else:
        inside = low.maximum(low.minimum(x, top), bottom)
        distance = low.sub(top, bottom)
        scale, back = low.times(low.op("RECIPROCAL", distance), steps), low.times(distance, 1.0 / steps)
    grid = round_half_up(low, low.mul(low.sub(inside, bottom), scale))
    return low.add(low.mul(grid, back), bottom)


def logarithmic_grid(low: Lowering, x: str, top: str, bits: int) -> str:
    """x as the nearest of 2^bits powers of two up to that of `top`, with its sign; both of equal rank."""
    largest = _exponent(low, top)
    least = low.plus(largest, -(2.0**bits - 1))
    exponent = low.times(low.op("LOG", low.op("ABS", x)), 1 / math.log(2))
    inside = low.maximum(low.minimum(exponent, largest), least)
    two = low.scalar(2.0, x)
    return low.mul(sign(low, x), low.binary("POW", two, round_half_up(low, inside)))


def _exponent(low: Lowering, top: str) -> str:
    """Returns ceil(log2(top)), exactly."""
    data = low.data(top)
    if data is not None:
        fraction, exponent = np.frexp(data.astype(np.float64))
        return low.constant(exponent - (fraction == 0.5), DType.FP32)
    # The logarithm may be a little too large or too small; the power of its nearest whole number tells.
    near = round_half_up(low, low.times(low.op("LOG", top), 1 / math.log(2)))
    enough = low.greater_equal(low.binary("POW", low.scalar(2.0, near), near), top)
    return low.select(enough, near, low.plus(near, 1.0))
