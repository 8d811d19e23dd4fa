"""Reductions, arg-max, products of vectors and cumulative sums."""

from collections.abc import Callable, Sequence

import numpy as np

from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue
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
def reduce_nd(node: CoreMlNode) -> CoreMlValue:
    """Reduces `axes`, or all; the reduced axes stay with one element, or go."""
    low, p, rank = node.low, node.params, node.rank()
    axes = list(range(rank)) if p.reduceAll else sorted({node.axis(axis) for axis in p.axes})
    node.require(bool(axes), "it names no axes")
    result = _REDUCTIONS[node.kind](low, node.x(), axes)
    kept = [size for axis, size in enumerate(low.shape(result)) if p.keepDims or axis not in axes]
    return node.out(result, kept or [1])


@handles("reduce")
def reduce_legacy(node: CoreMlNode) -> CoreMlValue:
    """Reduces C, H, W, or several of them, which stay with one element. LOGSUM is the sum of the logarithms."""
    low, p = node.low, node.params
    node.require(p.axis in range(5) and p.mode in range(10), f"axis {p.axis} or mode {p.mode} is not known")
    ends = ((-3, -2, -1), (-2, -1), (-3,), (-2,), (-1,))[p.axis]
    node.need_rank(-min(ends))
    x = node.loose(rank=-min(ends))
    axes = [low.rank(x) + end for end in ends]
    if p.mode == 9:
        node.require(len(axes) == 1, "ARGMAX takes one axis")
        result = _arg_max(low, x, axes[0])
    elif _LEGACY[p.mode] == "LOGSUM":
        result = low.reduce("SUM", low.op("LOG", low.plus(x, p.epsilon or 1e-6)), axes)
    else:
        result = _REDUCTIONS[_SAME_AS[_LEGACY[p.mode]]](low, x, axes)
    shape = [1 if axis - node.rank() in ends else size for axis, size in enumerate(node.shape())]
    return node.out(result, shape)


def _arg_max(low: Lowering, x: str, axis: int) -> str:
    """The index of the first largest element, as a float; the axis stays with one element."""
    shape = low.shape(x)
    where = low.cast(low.op("ARGMAX", x, axis=axis), DType.FP32)
    return low.reshape(where, (*shape[:axis], 1, *shape[axis + 1 :]))


@handles("argMax", "argMin")
def arg_extreme(node: CoreMlNode) -> CoreMlValue:
    """Finds the place of the extreme along one axis, which stays with one element or goes."""
    low, axis = node.low, node.axis(node.params.axis)
    x = node.x() if node.kind == "argMax" else low.negate(node.x())
    result = _arg_max(low, x, axis)
    shape = list(low.shape(result))
    if node.params.removeDim and len(shape) > 1:
        del shape[axis]
    return node.out(result, shape)


@handles("dot")
def dot(node: CoreMlNode) -> CoreMlValue:
    """The product of two vectors along axis -3, divided by their lengths for the cosine."""
    low = node.low
    node.need_rank(3)
    shape = node.shape()
    node.require(shape == node.shape(1) and shape[-2:] == (1, 1), "its inputs must be alike and end in 1, 1")
    a, b = low.aligned(node.loose(0, 3), node.loose(1, 3))
    axis = [low.rank(a) - 3]
    result = low.reduce("SUM", low.mul(a, b), axis)
    if node.params.cosineSimilarity:
        lengths = low.mul(_sum_square(low, a, axis), _sum_square(low, b, axis))
        result = low.mul(result, low.op("RSQRT", lengths))
    return node.out(result, (*shape[:-3], 1, 1, 1))


@handles("cumSum")
def cumulative_sum(node: CoreMlNode) -> CoreMlValue:
    """A product with a triangle of ones. The axis may be a second input."""
    low, p, rank = node.low, node.params, node.rank()
    axis = node.axis(node.whole_numbers(1)[0] if len(node.inputs) == 2 else p.axis)
    size = node.shape()[axis]
    if size > 1 << 12:
        node.unsupported(f"{size} elements in the axis; up to {1 << 12} are summed", "sum in parts")
    triangle = np.triu(np.ones((size, size), np.float32), 1 if p.excludeFinalSum else 0)
    order = [a for a in range(rank) if a != axis] + [axis]
    sums = matmul(low, low.transpose(node.x(), order), node.constant(triangle.T if p.reverse else triangle))
    return node.out(low.transpose(sums, [int(a) for a in np.argsort(order)]))
