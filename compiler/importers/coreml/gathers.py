"""Layers that look elements up, or put them, at positions that may be computed at run time."""

import math

import numpy as np

from tosaic.compiler.importers.coreml.layer import Blob, Layer
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.scatter import MAX_MASK, ScatterMode, scatter
from tosaic.compiler.ir import DType

_MODES: tuple[ScatterMode, ...] = ("update", "add", "sub", "mul", "div", "max", "min")


@handles("gather")
def gather(layer: Layer) -> Blob:
    """numpy.take; negative indices count from the end."""
    low, axis, shape = layer.low, layer.axis(layer.params.axis), layer.shape()
    _in_range(layer, 1, shape[axis])
    indices = layer.indices(1, shape[axis])
    known = low.data(indices)
    if known is None:
        return layer.out(low.gather(layer.x(), axis, indices))
    return layer.out(low.take(layer.x(), axis, known), (*shape[:axis], *known.shape, *shape[axis + 1 :]))


def _in_range(layer: Layer, index: int, size: int) -> None:
    """ModelError where indices that are known lie outside."""
    known = layer.low.data(layer.x(index))
    if known is not None:
        inside = bool(((-size <= known) & (known < size)).all())
        layer.require(inside, f"an index in {layer.input_names[index]!r} is not in {-size} .. {size - 1}")


def _rows(layer: Layer, x: str, axis: int) -> str:
    """[outer, axis, 1]: one axis behind all others."""
    low = layer.low
    order = [a for a in range(low.rank(x)) if a != axis] + [axis]
    moved = low.transpose(x, order)
    return low.reshape(moved, (math.prod(low.shape(moved)[:-1]), low.shape(moved)[-1], 1))


def _back(layer: Layer, rows: str, shape: tuple[int, ...], axis: int) -> str:
    """The reverse of `_rows`."""
    low = layer.low
    order = [a for a in range(len(shape)) if a != axis] + [axis]
    moved = low.reshape(rows, [shape[a] for a in order])
    return low.transpose(moved, [int(a) for a in np.argsort(order)])


@handles("gatherAlongAxis")
def gather_along(layer: Layer) -> Blob:
    """numpy.take_along_axis."""
    low, axis, shape, wanted = layer.low, layer.axis(layer.params.axis), layer.shape(), layer.shape(1)
    alike = len(wanted) == len(shape) and all(a == axis or n == shape[a] for a, n in enumerate(wanted))
    layer.require(alike, f"shapes {list(shape)} and {list(wanted)} differ beside axis {axis}")
    _in_range(layer, 1, shape[axis])
    values = _rows(layer, layer.x(), axis)
    indices = _rows(layer, layer.indices(1, shape[axis]), axis)
    taken = low.op("GATHER", values, low.reshape(indices, low.shape(indices)[:2]))
    return layer.out(_back(layer, taken, wanted, axis))


def _flat_tuples(layer: Layer, index: int) -> tuple[str, int, tuple[int, ...]]:
    """Tuples of indices as positions in the joined leading axes: [count], their number of rows, the rest's shape."""
    low, shape, wanted = layer.low, layer.shape(), layer.shape(index)
    depth = wanted[-1]
    layer.require(depth <= len(shape), f"tuples of {depth} indices for rank {len(shape)}")
    sizes = np.array(shape[:depth])
    line = (1,) * (len(wanted) - 1) + (depth,)
    strides = np.cumprod([1, *shape[:depth][:0:-1]])[::-1]
    tuples = layer.indices(index)
    wrapped = low.add(tuples, low.constant(sizes.reshape(line), DType.INT32))
    tuples = low.select(low.is_negative(tuples), wrapped, tuples)
    flat = low.reduce(
        "SUM", low.mul(tuples, low.constant(strides.reshape(line), DType.INT32)), [len(wanted) - 1]
    )
    return low.reshape(flat, (math.prod(wanted[:-1]),)), math.prod(shape[:depth]), shape[depth:]


@handles("gatherND")
def gather_nd(layer: Layer) -> Blob:
    """Tuples of indices in the last axis."""
    low = layer.low
    flat, rows, rest = _flat_tuples(layer, 1)
    taken = low.gather(low.reshape(layer.x(), (rows, math.prod(rest))), 0, flat)
    return layer.out(taken, (*layer.shape(1)[:-1], *rest) or (1,))


# --- scatters -------------------------------------------------------------------------------------------------


@handles("scatter")
def scatter_slices(layer: Layer) -> Blob:
    """Slices of an axis are replaced or combined; indices of any shape."""
    low, axis, shape = layer.low, layer.axis(layer.params.axis), layer.shape()
    index_rank = layer.rank(1)
    wanted = (*shape[:axis], *layer.shape(1), *shape[axis + 1 :])
    layer.require(
        math.prod(layer.shape(2)) == math.prod(wanted), f"the updates must have shape {list(wanted)}"
    )
    updates = low.reshape(layer.x(2), wanted)
    # The axis, and those of the indices, to the front.
    order = [axis, *(a for a in range(len(shape)) if a != axis)]
    front = [*range(axis, axis + index_rank)]
    moved = low.transpose(updates, front + [a for a in range(len(wanted)) if a not in front])
    container = low.transpose(layer.x(), order)
    turned = low.shape(container)
    count, inner = math.prod(layer.shape(1)), math.prod(turned[1:])
    _in_range(layer, 1, shape[axis])
    result = _scattered(
        layer,
        low.reshape(container, (1, shape[axis], inner)),
        low.reshape(layer.indices(1, shape[axis]), (1, count)),
        low.reshape(moved, (1, count, inner)),
    )
    return layer.out(low.transpose(low.reshape(result, turned), [int(a) for a in np.argsort(order)]))


@handles("scatterAlongAxis")
def scatter_along(layer: Layer) -> Blob:
    """numpy.put_along_axis."""
    low, axis, shape = layer.low, layer.axis(layer.params.axis), layer.shape()
    layer.require(layer.shape(1) == layer.shape(2), "indices and updates must have one shape")
    alike = len(layer.shape(1)) == len(shape) and all(
        a == axis or n == shape[a] for a, n in enumerate(layer.shape(1))
    )
    layer.require(alike, f"indices of shape {list(layer.shape(1))} do not fit {list(shape)}")
    _in_range(layer, 1, shape[axis])
    indices = _rows(layer, layer.indices(1, shape[axis]), axis)
    result = _scattered(
        layer,
        _rows(layer, layer.x(), axis),
        low.reshape(indices, low.shape(indices)[:2]),
        _rows(layer, layer.x(2), axis),
    )
    return layer.out(_back(layer, result, shape, axis))


@handles("scatterND")
def scatter_nd(layer: Layer) -> Blob:
    """Tuples of indices in the last axis of the second input."""
    low, shape = layer.low, layer.shape()
    flat, rows, rest = _flat_tuples(layer, 1)
    count, inner = low.shape(flat)[0], math.prod(rest)
    layer.require(math.prod(layer.shape(2)) == count * inner, "the updates do not fit the indices")
    result = _scattered(
        layer,
        low.reshape(layer.x(), (1, rows, inner)),
        low.reshape(flat, (1, count)),
        low.reshape(layer.x(2), (1, count, inner)),
    )
    return layer.out(result, shape)


def _scattered(layer: Layer, container: str, indices: str, updates: str) -> str:
    mode = layer.params.mode
    layer.require(mode in range(len(_MODES)), f"mode {mode} is not known")
    return scatter(layer.low, container, indices, updates, _MODES[mode])


@handles("oneHot")
def one_hot(layer: Layer) -> Blob:
    """On where the index equals the position along a new axis."""
    low, p = layer.low, layer.params
    size = layer.whole_numbers(1)[0] if len(layer.inputs) == 2 else int(p.oneHotVectorSize)
    layer.require(0 < size <= MAX_MASK, f"oneHotVectorSize is {size}")
    shape = layer.shape()
    axis = layer.axis(p.axis, len(shape) + 1)
    line = [1] * (len(shape) + 1)
    line[axis] = size
    indices = low.reshape(layer.indices(0, size), (*shape[:axis], 1, *shape[axis:]))
    hit = low.equal(indices, low.constant(np.arange(size).reshape(line), DType.INT32))
    ones = (1,) * (len(shape) + 1)
    on, off = (layer.constant(np.full(ones, value)) for value in (p.onValue, p.offValue))
    return layer.out(low.select(hit, on, off))


@handles("reverseSeq")
def reverse_sequences(layer: Layer) -> Blob:
    """The first `length` elements of the sequence axis backwards, for each element of the batch axis."""
    low, shape = layer.low, layer.shape()
    batch, sequence = layer.axis(layer.params.batchAxis), layer.axis(layer.params.sequenceAxis)
    layer.require(batch != sequence, "batchAxis and sequenceAxis are one")
    layer.require(math.prod(layer.shape(1)) == shape[batch], f"it needs {shape[batch]} lengths")
    order = [batch, sequence, *(a for a in range(len(shape)) if a not in (batch, sequence))]
    moved = low.transpose(layer.x(), order)
    count = shape[sequence]
    positions = low.constant(np.arange(count)[None, :], DType.INT32)
    lengths = low.reshape(layer.indices(1), (shape[batch], 1))
    mirrored = low.sub(low.sub(lengths, low.constant([[1]], DType.INT32)), positions)
    indices = low.select(low.greater(lengths, positions), mirrored, positions)
    rows = low.reshape(moved, (shape[batch], count, math.prod(shape) // shape[batch] // count))
    taken = low.reshape(low.op("GATHER", rows, indices), [shape[a] for a in order])
    return layer.out(low.transpose(taken, [int(a) for a in np.argsort(order)]))
