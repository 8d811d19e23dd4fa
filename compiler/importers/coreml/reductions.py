"""Reductions, arg-max, products of vectors and cumulative sums."""

from collections.abc import Callable, Sequence

import numpy as np

from tosaic.compiler.importers.coreml.layer import Blob, Layer
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering import Lowering, statistics
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.ir import DType

Reduction = Callable[[Lowering, str, Sequence[int]], str]


def _l1(low: Lowering, x: str, axes: Sequence[int]) -> str:
    return low.reduce("SUM", low.op("ABS", x), axes)


def _sum_square(low: Lowering, x: str, axes: Sequence[int]) -> str:
    return low.reduce("SUM", low.mul(x, x), axes)


_REDUCTIONS: dict[str, Reduction] = {
    "reduceL1": _l1,
    "reduceL2": lambda low, x, axes: low.sqrt(_sum_square(low, x, axes)),
    "reduceMax": lambda low, x, axes: low.reduce("MAX", x, axes),
    "reduceMin": lambda low, x, axes: low.reduce("MIN", x, axes),
    "reduceSum": lambda low, x, axes: low.reduce("SUM", x, axes),
    "reduceProd": lambda low, x, axes: low.reduce("PRODUCT", x, axes),
    "reduceMean": lambda low, x, axes: low.mean(x, axes),
    "reduceLogSum": lambda low, x, axes: low.op("LOG", low.reduce("SUM", x, axes)),
    "reduceSumSquare": _sum_square,
    "reduceLogSumExp": statistics.log_sum_exp,
}
_LEGACY = "SUM AVG PROD LOGSUM SUMSQUARE L1 L2 MAX MIN".split()
_SAME_AS = {
    "SUM": "reduceSum",
    "AVG": "reduceMean",
    "PROD": "reduceProd",
    "SUMSQUARE": "reduceSumSquare",
    "L1": "reduceL1",
    "L2": "reduceL2",
    "MAX": "reduceMax",
    "MIN": "reduceMin",
}


@handles(*_REDUCTIONS)
def reduce_nd(layer: Layer) -> Blob:
    """Over `axes`, or all; the reduced axes stay with one element, or go."""
    low, p, rank = layer.low, layer.params, layer.rank()
    axes = list(range(rank)) if p.reduceAll else sorted({layer.axis(axis) for axis in p.axes})
    layer.require(bool(axes), "it names no axes")
    result = _REDUCTIONS[layer.kind](low, layer.x(), axes)
    kept = [size for axis, size in enumerate(low.shape(result)) if p.keepDims or axis not in axes]
    return layer.out(result, kept or [1])


@handles("reduce")
def reduce_legacy(layer: Layer) -> Blob:
    """Over C, H, W, or several of them, which stay with one element. LOGSUM is the sum of the logarithms."""
    low, p = layer.low, layer.params
    layer.require(p.axis in range(5) and p.mode in range(10), f"axis {p.axis} or mode {p.mode} is not known")
    ends = ((-3, -2, -1), (-2, -1), (-3,), (-2,), (-1,))[p.axis]
    layer.need_rank(-min(ends))
    x = layer.loose(rank=-min(ends))
    axes = [low.rank(x) + end for end in ends]
    if p.mode == 9:
        layer.require(len(axes) == 1, "ARGMAX takes one axis")
        result = _arg_max(low, x, axes[0])
    elif _LEGACY[p.mode] == "LOGSUM":
        result = low.reduce("SUM", low.op("LOG", low.plus(x, p.epsilon or 1e-6)), axes)
    else:
        result = _REDUCTIONS[_SAME_AS[_LEGACY[p.mode]]](low, x, axes)
    shape = [1 if axis - layer.rank() in ends else size for axis, size in enumerate(layer.shape())]
    return layer.out(result, shape)


def _arg_max(low: Lowering, x: str, axis: int) -> str:
    """The index of the first largest element, as a float; the axis stays with one element."""
    shape = low.shape(x)
    where = low.cast(low.op("ARGMAX", x, axis=axis), DType.FP32)
    return low.reshape(where, (*shape[:axis], 1, *shape[axis + 1 :]))


@handles("argMax", "argMin")
def arg_extreme(layer: Layer) -> Blob:
    """Along one axis, which stays with one element or goes."""
    low, axis = layer.low, layer.axis(layer.params.axis)
    x = layer.x() if layer.kind == "argMax" else low.negate(layer.x())
    result = _arg_max(low, x, axis)
    shape = list(low.shape(result))
    if layer.params.removeDim and len(shape) > 1:
        del shape[axis]
    return layer.out(result, shape)


@handles("dot")
def dot(layer: Layer) -> Blob:
    """The product of two vectors along axis -3, divided by their lengths for the cosine."""
    low = layer.low
    layer.need_rank(3)
    shape = layer.shape()
    layer.require(
        shape == layer.shape(1) and shape[-2:] == (1, 1), "its inputs must be alike and end in 1, 1"
    )
    a, b = low.aligned(layer.loose(0, 3), layer.loose(1, 3))
    axis = [low.rank(a) - 3]
    result = low.reduce("SUM", low.mul(a, b), axis)
    if layer.params.cosineSimilarity:
        lengths = low.mul(_sum_square(low, a, axis), _sum_square(low, b, axis))
        result = low.mul(result, low.op("RSQRT", lengths))
    return layer.out(result, (*shape[:-3], 1, 1, 1))


@handles("cumSum")
def cumulative_sum(layer: Layer) -> Blob:
    """A product with a triangle of ones. The axis may be a second input."""
    low, p, rank = layer.low, layer.params, layer.rank()
    axis = layer.axis(layer.whole_numbers(1)[0] if len(layer.inputs) == 2 else p.axis)
    size = layer.shape()[axis]
    if size > 1 << 12:
        layer.unsupported(f"{size} elements in the axis; up to {1 << 12} are summed", "sum in parts")
    triangle = np.triu(np.ones((size, size), np.float32), 1 if p.excludeFinalSum else 0)
    order = [a for a in range(rank) if a != axis] + [axis]
    sums = matmul(low, low.transpose(layer.x(), order), layer.constant(triangle.T if p.reverse else triangle))
    return layer.out(low.transpose(sums, [int(a) for a in np.argsort(order)]))
