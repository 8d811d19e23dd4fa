"""Reductions (4.4) and matrix products (4.7)."""

import math

from tosaic.compiler.importers.lowering.matrix import matmul as lower_matmul
from tosaic.compiler.importers.nnef.tosa.node import NnefNode
from tosaic.compiler.importers.nnef.tosa.registry import handles


@handles("sum_reduce")
def sum_reduce(node: NnefNode) -> str:
    """The sum, or the mean."""
    low, x = node.low, node.tensor("input")
    return low.mean(x, node["axes"]) if node["normalize"] else low.reduce("SUM", x, node["axes"])


@handles("max_reduce")
def max_reduce(node: NnefNode) -> str:
    """The largest element."""
    return node.low.reduce("MAX", node.tensor("input"), node["axes"])


@handles("min_reduce")
def min_reduce(node: NnefNode) -> str:
    """The smallest element."""
    return node.low.reduce("MIN", node.tensor("input"), node["axes"])


@handles("argmax_reduce", "argmin_reduce")
def argmax_reduce(node: NnefNode) -> str:
    """The first of equal extremes; several axes count as one, in row-major order."""
    low, x = node.low, node.tensor("input")
    axes = sorted(node["axes"])
    if node.operation.name == "argmin_reduce":
        x = low.negate(x)
    rest = [axis for axis in range(low.rank(x)) if axis not in axes]
    shape = low.shape(x)
    count = math.prod(shape[axis] for axis in axes)
    rows = low.reshape(low.transpose(x, rest + axes), (math.prod(shape) // count, count))
    return low.reshape(low.op("ARGMAX", rows, axis=1), node.result.shape)


@handles("matmul")
def matmul(node: NnefNode) -> str:
    """Batch dimensions broadcast; ranks are equal, so their alignment makes no difference."""
    low, a, b = node.low, node.tensor("A"), node.tensor("B")
    swapped = [*range(low.rank(a) - 2), low.rank(a) - 1, low.rank(a) - 2]
    a = low.transpose(a, swapped) if node["transposeA"] else a
    b = low.transpose(b, swapped) if node["transposeB"] else b
    return lower_matmul(low, a, b)
