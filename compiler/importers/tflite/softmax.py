"""Softmax: of reals by the shared lowering, of int8 in gemmlowp's fixed point, step by step as TFLite's kernel."""

import numpy as np

from tosaic.compiler.importers.lowering.rescaling import ONE, rescaled
from tosaic.compiler.importers.lowering.statistics import log_softmax as lower_log_softmax
from tosaic.compiler.importers.lowering.statistics import softmax as lower_softmax
from tosaic.compiler.importers.tflite import fixed_point, fixed_point_graph
from tosaic.compiler.importers.tflite.multipliers import Multiplier, quantized_multiplier, rescale, widened
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles
from tosaic.compiler.importers.tflite.wide_curves import populated, rounded_table
from tosaic.compiler.ir import DType

_DIFFERENCE_BITS = 5
"""Integer bits of the scaled difference to the largest element."""
_SUM_BITS = 12
"""Integer bits of the sum of exponentials."""
_LOGARITHM_SHIFT = 31 - _DIFFERENCE_BITS - 4
"""Bits of the shift from the argument to the result of LOG_SOFTMAX, which has four integer bits."""
_TABLE_STEP = 1 << 7
_ENTRIES, _ORIGIN = 513, 256
_MOST_SHIFT = 31
_EXP_REACH, _STEPS, _HIGHEST = 10.0, (1 << 16) - 1, DType.INT16.max
"""The 16-bit kernel's table of exponentials: its reach, the steps between the lowest and the highest integer,
and the latter.
"""
_MANY = 1 << 9
"""Elements of a row from which on the result's shift may be larger."""


@handles("SOFTMAX")
def softmax(node: TfliteNode) -> str:
    """Lowers softmax over the last axis."""
    beta = node.option("Beta", 1.0)
    if not node.is_quantized:
        return lower_softmax(node.low, node.low.times(node.x(), beta), [len(node.shape()) - 1])
    return _wide(node, beta) if node.value().kind == "INT16" else _integers(node, beta)


@handles("LOG_SOFTMAX")
def log_softmax(node: TfliteNode) -> str:
    """The logarithm of softmax."""
    if node.is_quantized:
        return _integer_log_softmax(node)
    return lower_log_softmax(node.low, node.x(), [len(node.shape()) - 1])


def _exponentials(node: TfliteNode, beta: float) -> np.ndarray:
    """exp(scale * d) for the differences d from -255 to 0, with no integer bits; 0 below what the kernel looks at."""
    significand, left_shift = _scaled_difference(node, beta)
    differences = np.arange(-255, 1)
    radius = fixed_point.input_radius(_DIFFERENCE_BITS, left_shift)
    inside = np.maximum(differences, -radius)
    arguments = fixed_point.doubling_high_product(inside << max(left_shift, 0), significand)
    powers = fixed_point.exp_of_negative(arguments, _DIFFERENCE_BITS)
    return np.where(differences >= -radius, powers, 0)


def _scaled_difference(node: TfliteNode, beta: float) -> Multiplier:
    """What makes a difference an argument of the exponential."""
    scale = float(beta) * float(node.value().scale) * (1 << (31 - _DIFFERENCE_BITS))
    return quantized_multiplier(min(scale, float((1 << 31) - 1)))


def _integers(node: TfliteNode, beta: float) -> str:
    low = node.low
    axis = [len(node.shape()) - 1]
    x = widened(node, node.value())
    difference = low.sub(x, low.reduce("MAX", x, axis))
    powers = _looked_up(node, difference, _exponentials(node, beta))
    total = low.reduce("SUM", fixed_point_graph.shifted(node, powers, _SUM_BITS), axis)
    zeros = low.op("CLZ", total)
    half_denominator = low.binary("LOGICAL_LEFT_SHIFT", total, low.plus(zeros, -1))
    reciprocal = fixed_point_graph.reciprocal(node, half_denominator)
    # The reciprocal has one bit less than TFLite's, which is doubled.
    product = fixed_point_graph.high_product(node, powers, reciprocal, 30)
    bits = 16 if node.result().kind == "INT16" else 8
    distance = low.sub(low.scalar(_SUM_BITS + 31 - bits, zeros), zeros)
    if node.shape()[-1] >= _MANY:
        # The sum may be so large that nothing is left of the product.
        lost = low.greater(distance, low.scalar(_MOST_SHIFT, distance))
        product = low.select(lost, low.scalar(0, product), product)
        distance = low.minimum(distance, low.scalar(_MOST_SHIFT, distance))
    y = low.binary("ARITHMETIC_RIGHT_SHIFT", product, distance, round=True)
    dtype = node.result_type()
    return rescaled(low, y, [ONE], dtype, zeros=(0, dtype.min))


def _integer_log_softmax(node: TfliteNode) -> str:
    """Computes LOG_SOFTMAX on a grid of 1/16 below zero, from the logarithm of the sum of the exponentials."""
    low, axis, value = node.low, [len(node.shape()) - 1], node.value()
    if value.kind == "INT16":
        node.unsupported(
            "TFLite has no kernel of it for int16", "quantize it to int8, or leave it in float32"
        )
    x = widened(node, value)
    difference = low.sub(x, low.reduce("MAX", x, axis))
    powers = _looked_up(node, difference, _exponentials(node, 1.0))
    logarithm = fixed_point_graph.logarithm(
        node,
        low.reduce("SUM", fixed_point_graph.shifted(node, powers, _SUM_BITS), axis),
        _SUM_BITS,
        _DIFFERENCE_BITS,
    )
    significand, left_shift = _scaled_difference(node, 1.0)
    reverse = quantized_multiplier((1 << (31 - left_shift)) / significand)
    lowest = low.plus(logarithm, -(1 << 31))
    least = rescale(node, lowest, [reverse], DType.INT32)
    radius = fixed_point.input_radius(_DIFFERENCE_BITS, left_shift)
    least = low.maximum(least, low.scalar(max(-radius - 1, -(1 << 31)), least))
    argument = rescale(node, difference, [(significand, left_shift)], DType.INT32)
    steps = fixed_point_graph.divided_by_power(
        node, low.sub(argument, logarithm), low.scalar(_LOGARITHM_SHIFT, argument)
    )
    bottom = low.scalar(DType.INT8.min - DType.INT8.max, steps)
    inside = low.select(low.greater(difference, least), steps, bottom)
    return rescaled(low, inside, [ONE], DType.INT8, zeros=(0, DType.INT8.max))


def _looked_up(node: TfliteNode, difference: str, values: np.ndarray) -> str:
    """31-bit values by differences from -255 to 0, from tables of 15, 8 and 8 bits.

    A table multiplies by 128; its slopes must fit 16 bits, so that no part has more than 15.
    """
    low = node.low
    places = rescaled(low, difference, [(1 << 30, 23)], DType.INT16)
    parts = []
    for shift, mask in ((16, (1 << 15) - 1), (8, 255), (0, 255)):
        entries = np.zeros(_ENTRIES, np.int64)
        entries[_ORIGIN - len(values) + 1 : _ORIGIN + 1] = (values >> shift) & mask
        wide = low.op("TABLE", places, low.constant(entries, DType.INT16), dtype=DType.INT32)
        step = shift - 7
        if step > 0:
            parts.append(low.binary("LOGICAL_LEFT_SHIFT", wide, low.scalar(step, wide)))
        else:
            parts.append(fixed_point_graph.shifted(node, wide, -step))
    return low.add(low.add(parts[0], parts[1]), parts[2])


def _wide(node: TfliteNode, beta: float) -> str:
    """16-bit integers: the exponential and the reciprocal from tables with lines between their points."""
    low, axis = node.low, [len(node.shape()) - 1]
    x = low.cast(node.x(), DType.INT32)
    difference = low.sub(x, low.reduce("MAX", x, axis))
    # The table reaches from -10 to 0.
    ratio = float(node.value().scale) * float(beta) / (_EXP_REACH / _STEPS)
    steps = rescale(node, difference, [quantized_multiplier(ratio)], DType.INT32)
    places = low.maximum(low.plus(steps, _HIGHEST), low.scalar(DType.INT16.min, steps))
    exponential = populated(np.exp, _EXP_REACH / _STEPS, 2 / _STEPS, _HIGHEST, real=np.float64)
    powers = low.cast(rounded_table(node, exponential, low.cast(places, DType.INT16)), DType.INT32)
    total = low.reduce("SUM", powers, axis)
    zeros = low.op("CLZ", total)
    normal = fixed_point_graph.shifted(node, low.binary("LOGICAL_LEFT_SHIFT", total, low.plus(zeros, -1)), 14)
    place = low.minimum(low.plus(normal, -(_HIGHEST + 1) * 3), low.scalar(_HIGHEST, normal))
    inverse = populated(lambda v: 1 / (1 + v), 1 / _STEPS, 2 / _STEPS, DType.INT16.min, real=np.float64)
    reciprocal = low.cast(rounded_table(node, inverse, low.cast(place, DType.INT16)), DType.INT32)
    distance = low.sub(low.scalar(31, zeros), zeros)
    y = low.binary("ARITHMETIC_RIGHT_SHIFT", low.mul(powers, reciprocal), distance, round=True)
    return low.cast(low.minimum(y, low.scalar(_HIGHEST, y)), DType.INT16)
