"""Reductions over axes, and the index of the largest element."""

import math

import numpy as np

from tosaic.compiler.importers.lowering.rescaling import ONE, rescaled
from tosaic.compiler.importers.tflite.fixed_point_graph import divided_by_power, high_product, inverse_root
from tosaic.compiler.importers.tflite.multipliers import (
    quantized_multiplier,
    rescale,
    short_multiplier,
    widened,
)
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles
from tosaic.compiler.importers.tflite.tables import centred
from tosaic.compiler.ir import DType

_REDUCTIONS = {
    "SUM": "SUM",
    "REDUCE_PROD": "PRODUCT",
    "REDUCE_MAX": "MAX",
    "REDUCE_MIN": "MIN",
    "REDUCE_ANY": "ANY",
    "REDUCE_ALL": "ALL",
}
_GRID_BITS = 7
_LONGEST_ROW = (1 << 29) // 255**2
"""Elements whose squares have a sum of 29 bits."""


def _axes(node: TfliteNode) -> list[int]:
    return sorted({node.axis(axis) for axis in node.integers(1)})


@handles(*_REDUCTIONS)
def reduction(node: TfliteNode) -> str:
    """Lowers reductions; of quantized tensors the extremes keep their grid, and sums are scaled."""
    low, axes, keep = node.low, _axes(node), bool(node.option("KeepDims", False))
    if node.is_quantized and node.kind == "SUM":
        return _scaled_sum(node, axes, keep, 1)
    if node.is_quantized and node.kind == "REDUCE_PROD":
        return _scaled_product(node, axes, keep)
    return low.reduce(_REDUCTIONS[node.kind], node.x(), axes, keep)


@handles("MEAN")
def mean(node: TfliteNode) -> str:
    """Lowers the mean; for quantized tensors the multiplier has the number of elements in it, as in TFLite."""
    low, axes, keep = node.low, _axes(node), bool(node.option("KeepDims", False))
    count = math.prod(node.shape()[axis] for axis in axes)
    if node.is_quantized:
        return _scaled_sum(node, axes, keep, count)
    if not node.is_float:
        total = low.reduce("SUM", node.x(), axes, keep)
        return low.div(total, low.scalar(count, total))
    y = low.mean(node.x(), axes)
    return y if keep else low.reshape(y, [n for i, n in enumerate(node.shape()) if i not in axes])


def _scaled_sum(node: TfliteNode, axes: list[int], keep: bool, count: int) -> str:
    """The sum of (q - zero point), or their mean, on the result's grid."""
    value, result = node.value(), node.result()
    same = (value.scale, value.zero_point) == (result.scale, result.zero_point)
    if node.kind == "SUM" and same:
        node.unsupported(
            "a sum on the grid of its terms, which wraps in TFLite's kernel", "quantize the model again"
        )
    significand, exponent = quantized_multiplier(float(value.scale) / float(result.scale))
    if count > 1:
        shift = min(count.bit_length() - 1, 32, 31 + exponent)
        significand, exponent = (significand << shift) // count, exponent - shift
    total, low = widened(node, value), node.low
    # Axis by axis: joining axes would move the 32-bit elements.
    for axis in axes:
        total = low.op("REDUCE_SUM", total, axis=axis)
    y = rescale(node, total, [(significand, exponent)], node.result_type(), 0, result.zero_point)
    return y if keep else low.reshape(y, [n for i, n in enumerate(node.shape()) if i not in axes])


def _scaled_product(node: TfliteNode, axes: list[int], keep: bool) -> str:
    """The product of (q - zero point), which TFLite's kernel scales after each factor, and once more in the end."""
    low, value, result, shape = node.low, node.value(), node.result(), node.shape()
    count = math.prod(shape[axis] for axis in axes)
    ratio = float(value.scale) / float(result.scale) ** (1.0 / count)
    significand, shift = short_multiplier(quantized_multiplier(ratio))
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    factor = int(np.abs(centred(value)).max())
    largest, bound = factor, 0
    for _ in range(count - 1):
        bound = max(bound, largest * factor)
        largest = (largest * factor * significand >> shift) + 1
    if max(bound, largest) >= 1 << 31:
        node.unsupported(f"a product of {count} integers that leaves 32 bits", "leave it in float32")
    scale = [(significand << 16, shift + 16)]
    x = low.reshape(
        low.transpose(widened(node, value), [*axes, *rest]), (count, *(shape[axis] for axis in rest))
    )
    total = low.slice_axis(x, 0, 0, 1)
    for place in range(1, count):
        product = low.mul(total, low.slice_axis(x, 0, place, 1))
        total = rescaled(low, product, scale, DType.INT32)
    y = rescaled(low, total, scale, node.result_type(), zeros=(0, result.zero_point))
    kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
    return low.reshape(y, kept if keep else [shape[axis] for axis in rest])


@handles("ARG_MAX", "ARG_MIN")
def arg_extreme(node: TfliteNode) -> str:
    """The first index of the largest or smallest element of an axis."""
    low, x = node.low, node.x()
    axis = node.axis(node.integers(1)[0])
    if low.dtype(x) is DType.INT32:
        node.unsupported("TOSA's ARGMAX has no 32-bit integers", "use float32")
    if node.kind == "ARG_MIN":
        x = low.negate(x) if node.is_float else low.op("BITWISE_NOT", x)
    return low.op("ARGMAX", x, axis=axis)


@handles("CUMSUM")
def cumulative_sum(node: TfliteNode) -> str:
    """Sums of all elements up to each: one after the other at doubling distances."""
    low, x = node.low, node.x()
    axis = node.axis(node.integers(1)[0])
    size, exclusive, reverse = node.shape()[axis], node.option("Exclusive"), node.option("Reverse")

    def shifted(tensor: str, distance: int) -> str:
        pads = [(0, 0)] * len(node.shape())
        pads[axis] = (-distance, distance) if reverse else (distance, -distance)
        return low.pad(tensor, pads)

    if exclusive:
        x = shifted(x, 1) if size > 1 else low.mul(x, low.scalar(0, x))
    for step in range(int(np.ceil(np.log2(max(size, 1))))):
        x = low.add(x, shifted(x, 1 << step))
    return x


@handles("L2_NORMALIZATION")
def l2_normalization(node: TfliteNode) -> str:
    """x by the root of the sum of the squares of its row."""
    low, x = node.low, node.x()
    if node.is_quantized:
        return _integer_l2_normalization(node)
    squares = low.reduce("SUM", low.mul(x, x), [low.rank(x) - 1])
    return low.mul(x, low.op("RSQRT", low.maximum(squares, low.scalar(1e-12, squares))))


def _integer_l2_normalization(node: TfliteNode) -> str:
    """Normalizes on a grid of 1/128; uint8 and int8 round at different places."""
    low, value, result = node.low, node.value(), node.result()
    depth = node.shape()[-1]
    if depth > _LONGEST_ROW:
        node.unsupported(f"rows of {depth} elements, {_LONGEST_ROW} at most", "leave it in float32")
    x = widened(node, value)
    squares = low.reduce("SUM", low.mul(x, x), [low.rank(x) - 1])
    significand, right = inverse_root(node, squares)
    shift = low.scalar(_GRID_BITS, right)
    if value.kind == "UINT8":
        left, rest = shift, right
    else:
        left = low.maximum(low.sub(shift, right), low.scalar(0, right))
        rest = low.maximum(low.sub(right, shift), low.scalar(0, right))
    product = high_product(node, low.binary("LOGICAL_LEFT_SHIFT", x, left), significand)
    return rescaled(
        low, divided_by_power(node, product, rest), [ONE], DType.INT8, zeros=(0, result.zero_point)
    )
