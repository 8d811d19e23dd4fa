"""Elements picked or put by indices."""

import math

import numpy as np

from tosaic.compiler.importers.lowering.scatter import scatter
from tosaic.compiler.importers.lowering.sorting import ranked
from tosaic.compiler.importers.tflite.arithmetic import filled
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles
from tosaic.compiler.importers.tflite.values import OFFSET
from tosaic.compiler.ir import DType


@handles("GATHER")
def gather(node: TfliteNode) -> str:
    """numpy.take along an axis, after axes of the batch that go together."""
    low, batch_axes = node.low, node.option("BatchDims", 0)
    axis = node.axis(node.option("Axis", 0))
    known = low.data(node.x(1))
    if not batch_axes:
        if known is None:
            return low.gather(node.x(), axis, node.x(1))
        taken = low.take(node.x(), axis, known)
        shape = node.shape()
        return low.reshape(taken, (*shape[:axis], *known.shape, *shape[axis + 1 :]))
    if batch_axes != axis:
        node.unsupported(f"axis {axis} behind {batch_axes} axes of the batch", "gather along the next axis")
    shape, wanted = node.shape(), node.shape(1)
    batch = math.prod(shape[:axis])
    values = low.reshape(node.x(), (batch, shape[axis], math.prod(shape[axis + 1 :])))
    rows = low.gather_rows(values, low.reshape(node.x(1), (batch, math.prod(wanted[batch_axes:]))))
    return low.reshape(rows, (*wanted, *shape[axis + 1 :]))


@handles("GATHER_ND")
def gather_nd(node: TfliteNode) -> str:
    """Boxes at places that the last axis of the indices names."""
    low, shape, wanted = node.low, node.shape(), node.shape(1)
    named = wanted[-1]
    flat = low.reshape(node.x(), (math.prod(shape[:named]), *shape[named:]))
    return low.gather(flat, 0, _flat_indices(node, 1, shape[:named]))


def _flat_indices(node: TfliteNode, index: int, sizes: tuple[int, ...]) -> str:
    """Places of several axes as one number."""
    low, wanted = node.low, node.shape(index)
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    steps = low.constant(np.array(strides).reshape((1,) * (len(wanted) - 1) + (-1,)), DType.INT32)
    return low.reduce("SUM", low.mul(node.x(index), steps), [len(wanted) - 1], keep=False)


@handles("EMBEDDING_LOOKUP")
def embedding_lookup(node: TfliteNode) -> str:
    """Rows of a table: indices first, then the table."""
    table = node.x(1) if node.outputs[0].kind != "FLOAT32" else node.real(1)
    return node.low.gather(table, 0, node.x(0))


@handles("SCATTER_ND")
def scatter_nd(node: TfliteNode) -> str:
    """Updates added up at places of a tensor of zeros."""
    low, shape = node.low, tuple(node.integers(2))
    named = node.shape(0)[-1]
    count, inner = math.prod(node.shape(0)[:-1]), math.prod(shape[named:])
    dtype, x, kind = low.dtype(node.x(1)), node.x(1), node.value(1).kind
    if dtype.is_integer and dtype is not DType.BOOL:
        # Integers of 8 and 16 bits wrap.
        x = low.plus(low.cast(x, DType.INT32), OFFSET.get(kind, 0))
    zeros = filled(low, (1, math.prod(shape[:named]), inner), 0, low.dtype(x))
    places = low.reshape(_flat_indices(node, 0, shape[:named]), (1, count))
    total = scatter(low, zeros, places, low.reshape(x, (1, count, inner)), "add")
    return low.reshape(low.cast(low.plus(total, -OFFSET.get(kind, 0)), dtype), shape)


@handles("ONE_HOT")
def one_hot(node: TfliteNode) -> str:
    """A row for each index: one value at the index, another elsewhere."""
    low, (depth,) = node.low, node.integers(1)
    shape = node.shape()
    axis = node.axis(node.option("Axis", -1), len(shape) + 1)
    line = [1] * (len(shape) + 1)
    line[axis] = depth
    indices = low.reshape(node.x(), (*shape[:axis], 1, *shape[axis:]))
    hit = low.equal(indices, low.constant(np.arange(depth).reshape(line), DType.INT32))
    return low.select(hit, node.x(2), node.x(3))


@handles("TOPK_V2")
def top_k(node: TfliteNode) -> list[str]:
    """The largest elements of each row in order, and their indices."""
    (count,) = node.integers(1)
    axis = len(node.shape()) - 1
    return list(ranked(node.low, node.x(), axis, count, descending=True))
