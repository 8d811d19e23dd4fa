"""Regions of interest (4.6): coordinates are computed at run time, so each dimension is a product with a run-time
matrix of shares, or a maximum under a run-time mask."""

import math
from collections.abc import Iterator

import numpy as np

from tosaic.compiler.importers.lowering.matrix import batched
from tosaic.compiler.importers.lowering.rounding import round_half_up
from tosaic.compiler.importers.nnef.tosa.node import NnefNode
from tosaic.compiler.importers.nnef.tosa.registry import handles
from tosaic.compiler.ir import DType


def _crops(node: NnefNode) -> str:
    """The feature maps of each region's batch item: [N, C, spatial...]."""
    low = node.low
    index = low.reshape(node.tensor("batch_index"), (node.shape("rois")[0],))
    return low.gather(node.tensor("input"), 0, index)


def _bounds(node: NnefNode) -> Iterator[tuple[int, str, str]]:
    """Yields, for each spatial dimension, its number in the input and where the regions begin and end, [N, 1, 1]."""
    low, rois = node.low, node.tensor("rois")
    regions, columns = low.shape(rois)
    for i in range(columns // 2):
        node.check_size(
            node.shape("input")[i + 2] * node["output_size"][i], f"the points of dimension {i + 2}"
        )
        first, last = (
            low.reshape(low.slice_axis(rois, 1, column, 1), (regions, 1, 1))
            for column in (i, columns // 2 + i)
        )
        yield i + 2, first, last


def _mixed(node: NnefNode, x: str, axis: int, shares: str) -> str:
    """Replaces a dimension of x [N, ...] by its product with shares [N, results, extent]."""
    low, shape = node.low, node.low.shape(x)
    before, after = math.prod(shape[1:axis]), math.prod(shape[axis + 1 :])
    columns = low.transpose(low.reshape(x, (shape[0], before, shape[axis], after)), (0, 2, 1, 3))
    product = batched(low, shares, low.reshape(columns, (shape[0], shape[axis], before * after)))
    results = low.shape(shares)[1]
    y = low.transpose(low.reshape(product, (shape[0], results, before, after)), (0, 2, 1, 3))
    return low.reshape(y, (*shape[:axis], results, *shape[axis + 1 :]))


@handles("roi_resample")
def roi_resample(node: NnefNode) -> str:
    """Linear interpolation at points of each region; outside of the feature map its edge is repeated."""
    low, x = node.low, _crops(node)
    for axis, first, last in _bounds(node):
        extent, count = low.shape(x)[axis], node["output_size"][axis - 2]
        points = np.arange(count, dtype=np.float64).reshape(1, count, 1)
        size = low.sub(last, first)
        if node["method"] == "symmetric":
            steps, start, length = (points + 0.5) / count, low.plus(first, -0.5), size
        elif node["method"] == "asymmetric":
            steps, start, length = points / count, first, size
        else:
            steps, start, length = points / max(count - 1, 1), first, low.plus(size, -1.0)
        at = low.add(start, low.mul(length, low.constant(steps, DType.FP32)))
        inside = low.clamp(at, 0.0, float(extent - 1))
        grid = low.constant(np.arange(extent).reshape(1, 1, extent), DType.FP32)
        # 1 - distance, where that is positive: the shares of the two neighbours.
        away = low.op("ABS", low.sub(inside, grid))
        x = _mixed(node, x, axis, low.clamp(low.plus(low.negate(away), 1.0), 0.0, math.inf))
    return x


def _cells(node: NnefNode, axis: int, first: str, last: str) -> str:
    """Which elements of a dimension each cell has: [N, cells, extent]."""
    low, count, extent = node.low, node["output_size"][axis - 2], node.shape("input")[axis]
    begin, end = (low.cast(round_half_up(low, bound), DType.INT32) for bound in (first, last))
    cells = low.constant([[[count]]], DType.INT32)
    size = low.sub(end, begin)
    stride = low.div(size, cells)
    length = low.div(low.plus(size, count - 1), cells)
    numbers = low.constant(np.arange(count).reshape(1, count, 1), DType.INT32)
    start = low.add(begin, low.mul(stride, numbers))
    grid = low.constant(np.arange(extent).reshape(1, 1, extent), DType.INT32)
    below = low.greater(low.add(start, length), grid)
    return low.binary("LOGICAL_AND", low.greater_equal(grid, start), below)


@handles("avg_roi_pool")
def avg_roi_pool(node: NnefNode) -> str:
    """The mean of each cell."""
    low, x = node.low, _crops(node)
    for axis, first, last in _bounds(node):
        members = low.cast(_cells(node, axis, first, last), DType.FP32)
        counts = low.reduce("SUM", members, [2])
        x = _mixed(node, x, axis, low.mul(members, low.op("RECIPROCAL", counts)))
    return x


@handles("max_roi_pool")
def max_roi_pool(node: NnefNode) -> str:
    """The largest element of each cell, one dimension after the other."""
    low, x = node.low, _crops(node)
    for axis, first, last in _bounds(node):
        members = _cells(node, axis, first, last)
        regions, count, extent = low.shape(members)
        shape = low.shape(x)
        before, after = math.prod(shape[1:axis]), math.prod(shape[axis + 1 :])
        candidates = low.select(
            low.reshape(members, (regions, 1, count, extent, 1)),
            low.reshape(x, (regions, before, 1, extent, after)),
            low.constant(np.full((1,) * 5, -math.inf), DType.FP32),
        )
        x = low.reshape(low.reduce("MAX", candidates, [3]), (*shape[:axis], count, *shape[axis + 1 :]))
    return x
