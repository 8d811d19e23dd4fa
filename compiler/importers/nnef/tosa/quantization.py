"""Pseudo-quantization (4.9.5): real values on the grid that integers would have."""

import math

import numpy as np

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.rounding import round_half_up, sign
from tosaic.compiler.importers.nnef.tosa.node import Node
from tosaic.compiler.importers.nnef.tosa.registry import handles
from tosaic.compiler.ir import DType


@handles("linear_quantize")
def linear_quantize(node: Node) -> str:
    """2^bits values from min to max, ties upward."""
    x, low, high = node.aligned("x", "min", "max")
    return linear_grid(node.low, x, low, high, node["bits"])


def linear_grid(low: Lowering, x: str, bottom: str, top: str, bits: int) -> str:
    """`linear_quantize` of tensors of equal rank."""
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


@handles("logarithmic_quantize")
def logarithmic_quantize(node: Node) -> str:
    """The nearest powers of two up to that of max, with the sign of x."""
    x, top = node.aligned("x", "max")
    return logarithmic_grid(node.low, x, top, node["bits"])


def logarithmic_grid(low: Lowering, x: str, top: str, bits: int) -> str:
    """`logarithmic_quantize` of tensors of equal rank."""
    largest = _exponent(low, top)
    least = low.plus(largest, -(2.0**bits - 1))
    exponent = low.times(low.op("LOG", low.op("ABS", x)), 1 / math.log(2))
    inside = low.maximum(low.minimum(exponent, largest), least)
    two = low.scalar(2.0, x)
    return low.mul(sign(low, x), low.binary("POW", two, round_half_up(low, inside)))


def _exponent(low: Lowering, top: str) -> str:
    """ceil(log2(top)), exactly."""
    data = low.data(top)
    if data is not None:
        fraction, exponent = np.frexp(data.astype(np.float64))
        return low.constant(exponent - (fraction == 0.5), DType.FP32)
    # The logarithm may be a little too large or too small; the power of its nearest whole number tells.
    near = round_half_up(low, low.times(low.op("LOG", top), 1 / math.log(2)))
    enough = low.greater_equal(low.binary("POW", low.scalar(2.0, near), near), top)
    return low.select(enough, near, low.plus(near, 1.0))


def quantized(low: Lowering, x: str, algorithm: str, parameters: dict[str, float], bits: int) -> str:
    """x after an algorithm of `graph.quant`, whose parameters are numbers."""
    top = low.scalar(parameters["max"], x)
    if algorithm == "linear_quantize":
        return linear_grid(low, x, low.scalar(parameters["min"], x), top, bits)
    return logarithmic_grid(low, x, top, bits)
