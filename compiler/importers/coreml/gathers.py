"""Layers that look elements up, or put them, at positions that may be computed at run time."""

import math

import numpy as np

from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.scatter import MAX_MASK, ScatterMode, scatter
from tosaic.compiler.ir import DType

_MODES: tuple[ScatterMode, ...] = ("update", "add", "sub", "mul", "div", "max", "min")


@handles("gather")
def gather(node: CoreMlNode) -> CoreMlValue:
    """numpy.take; negative indices count from the end."""
    low, axis, shape = node.low, node.axis(node.params.axis), node.shape()
    _in_range(node, 1, shape[axis])
    indices = node.indices(1, shape[axis])
    known = low.data(indices)
    if known is None:
        return node.out(low.gather(node.x(), axis, indices))
    return node.out(low.take(node.x(), axis, known), (*shape[:axis], *known.shape, *shape[axis + 1 :]))


def _in_range(node: CoreMlNode, index: int, size: int) -> None:
    """Raises ModelError where indices that are known lie outside."""
    known = node.low.data(node.x(index))
    if known is not None:
        inside = bool(((-size <= known) & (known < size)).all())
        node.require(inside, f"an index in {node.input_names[index]!r} is not in {-size} .. {size - 1}")


def _rows(node: CoreMlNode, x: str, axis: int) -> str:
    """[outer, axis, 1]: one axis behind all others."""
    low = node.low
    order = [a for a in range(low.rank(x)) if a != axis] + [axis]
    moved = low.transpose(x, order)
    return low.reshape(moved, (math.prod(low.shape(moved)[:-1]), low.shape(moved)[-1], 1))


def _back(node: CoreMlNode, rows: str, shape: tuple[int, ...], axis: int) -> str:
    """The reverse of `_rows`."""
    low = node.low
    order = [a for a in range(len(shape)) if a != axis] + [axis]
    moved = low.reshape(rows, [shape[a] for a in order])
    return low.transpose(moved, [int(a) for a in np.argsort(order)])


@handles("gatherAlongAxis")
def gather_along(node: CoreMlNode) -> CoreMlValue:
    """numpy.take_along_axis."""
    low, axis, shape, wanted = node.low, node.axis(node.params.axis), node.shape(), node.shape(1)
    alike = len(wanted) == len(shape) and all(a == axis or n == shape[a] for a, n in enumerate(wanted))
    node.require(alike, f"shapes {list(shape)} and {list(wanted)} differ beside axis {axis}")
    _in_range(node, 1, shape[axis])
    values = _rows(node, node.x(), axis)
    indices = _rows(node, node.indices(1, shape[axis]), axis)
    taken = low.op("GATHER", values, low.reshape(indices, low.shape(indices)[:2]))
    return node.out(_back(node, taken, wanted, axis))


def _flat_tuples(node: CoreMlNode, index: int) -> tuple[str, int, tuple[int, ...]]:
    """Tuples of indices as positions in the joined leading axes: [count], their number of rows, the rest's shape."""
    low, shape, wanted = node.low, node.shape(), node.shape(index)
    depth = wanted[-1]
    node.require(depth <= len(shape), f"tuples of {depth} indices for rank {len(shape)}")
    sizes = np.array(shape[:depth])
    line = (1,) * (len(wanted) - 1) + (depth,)
    strides = np.cumprod([1, *shape[:depth][:0:-1]])[::-1]
    tuples = node.indices(index)
    wrapped = low.add(tuples, low.constant(sizes.reshape(line), DType.INT32))
    tuples = low.select(low.is_negative(tuples), wrapped, tuples)
    flat = low.reduce(
        "SUM", low.mul(tuples, low.constant(strides.reshape(line), DType.INT32)), [len(wanted) - 1]
    )
    return low.reshape(flat, (math.prod(wanted[:-1]),)), math.prod(shape[:depth]), shape[depth:]


@handles("gatherND")
def gather_nd(node: CoreMlNode) -> CoreMlValue:
    """Tuples of indices in the last axis."""
    low = node.low
    flat, rows, rest = _flat_tuples(node, 1)
    taken = low.gather(low.reshape(node.x(), (rows, math.prod(rest))), 0, flat)
    return node.out(taken, (*node.shape(1)[:-1], *rest) or (1,))


# --- scatters -------------------------------------------------------------------------------------------------


@handles("scatter")
def scatter_slices(node: CoreMlNode) -> CoreMlValue:
    """Slices of an axis are replaced or combined; indices of any shape."""
    low, axis, shape = node.low, node.axis(node.params.axis), node.shape()
    index_rank = node.rank(1)
    wanted = (*shape[:axis], *node.shape(1), *shape[axis + 1 :])
    node.require(math.prod(node.shape(2)) == math.prod(wanted), f"the updates must have shape {list(wanted)}")
    updates = low.reshape(node.x(2), wanted)
    # The axis, and those of the indices, to the front.
    order = [axis, *(a for a in range(len(shape)) if a != axis)]
    front = [*range(axis, axis + index_rank)]
    moved = low.transpose(updates, front + [a for a in range(len(wanted)) if a not in front])
    container = low.transpose(node.x(), order)
    turned = low.shape(container)
    count, inner = math.prod(node.shape(1)), math.prod(turned[1:])
    _in_range(node, 1, shape[axis])
    result = _scattered(
        node,
        low.reshape(container, (1, shape[axis], inner)),
        low.reshape(node.indices(1, shape[axis]), (1, count)),
        low.reshape(moved, (1, count, inner)),
    )
    return node.out(low.transpose(low.reshape(result, turned), [int(a) for a in np.argsort(order)]))


@handles("scatterAlongAxis")
def scatter_along(node: CoreMlNode) -> CoreMlValue:
    """numpy.put_along_axis."""
    low, axis, shape = node.low, node.axis(node.params.axis), node.shape()
    node.require(node.shape(1) == node.shape(2), "indices and updates must have one shape")
    alike = len(node.shape(1)) == len(shape) and all(
        a == axis or n == shape[a] for a, n in enumerate(node.shape(1))
    )
    node.require(alike, f"indices of shape {list(node.shape(1))} do not fit {list(shape)}")
    _in_range(node, 1, shape[axis])
    indices = _rows(node, node.indices(1, shape[axis]), axis)
    result = _scattered(
        node,
        _rows(node, node.x(), axis),
        low.reshape(indices, low.shape(indices)[:2]),
        _rows(node, node.x(2), axis),
    )
    return node.out(_back(node, result, shape, axis))


@handles("scatterND")
def scatter_nd(node: CoreMlNode) -> CoreMlValue:
    """Tuples of indices in the last axis of the second input."""
    low, shape = node.low, node.shape()
    flat, rows, rest = _flat_tuples(node, 1)
    count, inner = low.shape(flat)[0], math.prod(rest)
    node.require(math.prod(node.shape(2)) == count * inner, "the updates do not fit the indices")
    result = _scattered(
        node,
        low.reshape(node.x(), (1, rows, inner)),
        low.reshape(flat, (1, count)),
        low.reshape(node.x(2), (1, count, inner)),
    )
    return node.out(result, shape)


def _scattered(node: CoreMlNode, container: str, indices: str, updates: str) -> str:
    mode = node.params.mode
    node.require(mode in range(len(_MODES)), f"mode {mode} is not known")
    return scatter(node.low, container, indices, updates, _MODES[mode])


@handles("oneHot")
def one_hot(node: CoreMlNode) -> CoreMlValue:
    """Lowers the one-hot layer: its "on" value stands where the index equals the position along a new axis."""
    low, p = node.low, node.params
    size = node.whole_numbers(1)[0] if len(node.inputs) == 2 else int(p.oneHotVectorSize)
    node.require(0 < size <= MAX_MASK, f"oneHotVectorSize is {size}")
    shape = node.shape()
    axis = node.axis(p.axis, len(shape) + 1)
    line = [1] * (len(shape) + 1)
    line[axis] = size
    indices = low.reshape(node.indices(0, size), (*shape[:axis], 1, *shape[axis:]))
    hit = low.equal(indices, low.constant(np.arange(size).reshape(line), DType.INT32))
    ones = (1,) * (len(shape) + 1)
    on, off = (node.constant(np.full(ones, value)) for value in (p.onValue, p.offValue))
    return node.out(low.select(hit, on, off))


@handles("reverseSeq")
def reverse_sequences(node: CoreMlNode) -> CoreMlValue:
    """The first `length` elements of the sequence axis backwards, for each element of the batch axis."""
    low, shape = node.low, node.shape()
    batch, sequence = node.axis(node.params.batchAxis), node.axis(node.params.sequenceAxis)
    node.require(batch != sequence, "batchAxis and sequenceAxis are one")
    node.require(math.prod(node.shape(1)) == shape[batch], f"it needs {shape[batch]} lengths")
    order = [batch, sequence, *(a for a in range(len(shape)) if a not in (batch, sequence))]
    moved = low.transpose(node.x(), order)
    count = shape[sequence]
    positions = low.constant(np.arange(count)[None, :], DType.INT32)
    lengths = low.reshape(node.indices(1), (shape[batch], 1))
    mirrored = low.sub(low.sub(lengths, low.constant([[1]], DType.INT32)), positions)
    indices = low.select(low.greater(lengths, positions), mirrored, positions)
    rows = low.reshape(moved, (shape[batch], count, math.prod(shape) // shape[batch] // count))
    taken = low.reshape(low.op("GATHER", rows, indices), [shape[a] for a in order])
    return node.out(low.transpose(taken, [int(a) for a in np.argsort(order)]))
