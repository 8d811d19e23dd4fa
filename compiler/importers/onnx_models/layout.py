"""Operators that move elements: shapes, slices, pads, gathers."""

import math

import numpy as np

from tosaic.compiler.importers.lowering.layout import extend
from tosaic.compiler.importers.lowering.slicing import reversed_sequences, strided
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import handles
from tosaic.compiler.importers.onnx_models.values import OFFSET, OnnxValue
from tosaic.compiler.ir import DType


@handles("Identity", "Dropout")
def identity(node: OnnxNode) -> list[OnnxValue]:
    """Dropout does nothing in inference; its mask is all true."""
    x = node.value(0)
    if node.op == "Identity":
        return [OnnxValue("", x.kind, x.shape, x.data, x.tensor)]
    if node.has(2) and node.const(2).any() or node.attr("is_test", 1) == 0:
        node.unsupported("training mode", "export the model for inference")
    return [
        OnnxValue("", x.kind, x.shape, x.data, x.tensor),
        node.out_constant(np.broadcast_to(np.ones((), bool), x.shape)),
    ]


@handles("Reshape")
def reshape(node: OnnxNode) -> OnnxValue:
    """0 copies an axis (unless allowzero), -1 is what is left."""
    shape = node.ints(1, "shape") or []
    old = node.shape()
    if not node.attr("allowzero", 0):
        shape = [old[i] if size == 0 else size for i, size in enumerate(shape)]
    if -1 in shape:
        shape[shape.index(-1)] = math.prod(old) // -math.prod(shape)
    if math.prod(shape) != math.prod(old):
        raise ValueError(f"{list(old)} has {math.prod(old)} elements, {shape} has {math.prod(shape)}")
    return node.out_raw(node.low.reshape(node.raw(), shape))


@handles("Flatten")
def flatten(node: OnnxNode) -> OnnxValue:
    """Two axes: those before `axis`, and the rest."""
    axis, shape = int(node.attr("axis", 1)), node.shape()
    axis = axis + len(shape) if axis < 0 else axis
    return node.out_raw(node.low.reshape(node.raw(), (math.prod(shape[:axis]), math.prod(shape[axis:]))))


@handles("Squeeze")
def squeeze(node: OnnxNode) -> OnnxValue:
    """Drops axes of one element."""
    shape = node.shape()
    axes = node.ints(1, "axes", [i for i, size in enumerate(shape) if size == 1]) or []
    dropped = {axis % len(shape) for axis in axes}
    return node.out_raw(
        node.low.reshape(node.raw(), [size for i, size in enumerate(shape) if i not in dropped])
    )


@handles("Unsqueeze")
def unsqueeze(node: OnnxNode) -> OnnxValue:
    """Inserts axes of one element; positions count in the result."""
    axes = node.ints(1, "axes") or []
    return node.out_raw(
        node.low.reshape(node.raw(), np.expand_dims(np.broadcast_to(0, node.shape()), tuple(axes)).shape)
    )


@handles("Transpose")
def transpose(node: OnnxNode) -> OnnxValue:
    """Lowers a transposition; without `perm` it reverses the axes."""
    perms = node.attr("perm") or list(range(len(node.shape())))[::-1]
    return node.out_raw(node.low.transpose(node.raw(), perms))


@handles("Expand")
def expand(node: OnnxNode) -> OnnxValue:
    """Broadcasts to the shape, which broadcasts too."""
    shape = np.broadcast_shapes(node.shape(), tuple(node.ints(1) or []))
    return node.out_raw(node.low.broadcast_to(node.raw(), shape))


@handles("Tile")
def tile(node: OnnxNode) -> OnnxValue:
    """Repeats along each axis."""
    return node.out_raw(node.low.tile(node.raw(), node.ints(1) or []))


@handles("Concat")
def concat(node: OnnxNode) -> OnnxValue:
    """Inputs one after the other."""
    parts = [node.raw(i) for i in range(len(node.inputs)) if 0 not in node.shape(i)]
    return node.out_raw(node.low.concat(parts, node.axis()))


@handles("Split")
def split(node: OnnxNode) -> list[OnnxValue]:
    """Parts of an axis; without sizes equal ones, the last may be shorter."""
    axis, count = node.axis(), len(node.output_names)
    size = node.shape()[axis]
    part = -(-size // count)
    sizes = node.ints(1, "split") or [*[part] * (count - 1), size - part * (count - 1)]
    shape = node.shape()
    starts = np.cumsum([0, *sizes[:-1]])
    return [
        node.out_raw(node.low.slice_axis(node.raw(), axis, int(start), length))
        if length
        else node.out_constant(np.zeros((*shape[:axis], 0, *shape[axis + 1 :]), node.kind()))
        for start, length in zip(starts, sizes, strict=True)
    ]


@handles("Slice")
def slice_(node: OnnxNode) -> OnnxValue:
    """Python's slices of named axes."""
    starts, ends = node.ints(1, "starts") or [], node.ints(2, "ends") or []
    axes = node.ints(3, "axes") or list(range(len(starts)))
    steps = node.ints(4, "steps") or [1] * len(starts)
    low, x = node.low, node.raw()
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis %= low.rank(x)
        size = low.shape(x)[axis]
        # ONNX lets the end of a backward slice go below -size: beyond the first element.
        bounds = slice(start, None if step < 0 and end < -size else end, step)
        picked = range(*bounds.indices(size))
        if not picked:
            node.unsupported(f"axis {axis} becomes empty ({start}:{end}:{step})", "TOSA has no empty tensors")
        x = strided(low, x, axis, picked)
    return node.out_raw(x)


@handles("Pad")
def pad(node: OnnxNode) -> OnnxValue:
    """Pads by a constant, edge, reflect and wrap; negative amounts cut."""
    low, x = node.low, node.raw()
    rank = low.rank(x)
    amounts = node.ints(1, "pads") or []
    axes = [axis % rank for axis in (node.ints(3) or range(rank))]
    pads = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pads[axis] = (amounts[i], amounts[len(axes) + i])
    mode = node.attr("mode", "constant")
    if mode == "constant":
        value = float(node.attr("value", 0.0))
        if node.has(2) and node.value(2).data is None:
            return node.out_raw(_padded_with(node, x, pads))
        if node.has(2):
            value = node.const(2).reshape(-1)[0].item()
        return node.out_raw(low.pad(x, pads, value - OFFSET.get(node.kind(), 0)))
    return node.out_raw(extend(low, x, pads, mode))


def _padded_with(node: OnnxNode, x: str, pads: list[tuple[int, int]]) -> str:
    """Padding by a value that is computed at run time: what lies outside is selected."""
    low = node.low
    zeros = low.pad(x, pads)
    shape = low.shape(zeros)
    low.make_room(shape, np.bool_)
    inside = np.zeros(shape, bool)
    sizes = zip(pads, shape, strict=True)
    inside[tuple(slice(max(before, 0), size - max(after, 0)) for (before, after), size in sizes)] = True
    value = low.reshape(node.raw(2), (1,) * len(shape))
    return low.select(low.constant(inside, DType.BOOL), zeros, value)


@handles(
    "Constant",
    "ConstantOfShape",
    "Range",
    "HannWindow",
    "HammingWindow",
    "BlackmanWindow",
    "MelWeightMatrix",
)
def known(node: OnnxNode) -> OnnxValue:
    """Operators that are folded when their inputs are known; this is what happens when they are not."""
    for index in range(len(node.inputs)):
        node.const(index)
    node.unsupported("its value cannot be computed", "store it as an initializer")


@handles("Shape", "Size")
def shape(node: OnnxNode) -> OnnxValue:
    """Shapes are known: constants."""
    sizes = node.shape()
    if node.op == "Size":
        return node.out_constant(np.array(math.prod(sizes), np.int64))
    return node.out_constant(np.array(sizes[slice(node.attr("start", 0), node.attr("end"))], np.int64))


@handles("EyeLike")
def eye_like(node: OnnxNode) -> OnnxValue:
    """Makes the identity matrix; only the shape of the input counts."""
    rows, columns = node.shape()
    kinds = {1: "float32", 6: "int32", 7: "int64", 10: "float16", 9: "bool"}
    dtype = kinds.get(node.attr("dtype", 0), node.kind())
    node.low.make_room((2 * rows, columns), np.float64)
    return node.out_constant(np.eye(rows, columns, k=int(node.attr("k", 0))).astype(dtype))


# --- gathers --------------------------------------------------------------------------------------------------


def _indices(node: OnnxNode, index: int, size: int) -> str | np.ndarray:
    """Indices from the front: as an array when known now, else int32 with negative ones wrapped."""
    data = node.value(index).data
    if data is not None:
        return np.where(data < 0, data + size, data)
    low, x = node.low, node.wide(index)
    return low.select(low.is_negative(x), low.plus(x, size), x)


@handles("Gather")
def gather(node: OnnxNode) -> OnnxValue:
    """Takes elements as numpy.take does."""
    low, axis = node.low, node.axis()
    indices = _indices(node, 1, node.shape()[axis])
    if isinstance(indices, str):
        return node.out_raw(low.gather(node.raw(), axis, indices))
    taken = low.take(node.raw(), axis, indices)
    shape = node.shape()
    return node.out_raw(low.reshape(taken, (*shape[:axis], *indices.shape, *shape[axis + 1 :])))


@handles("GatherElements")
def gather_elements(node: OnnxNode) -> OnnxValue:
    """numpy.take_along_axis, by indices into the flat tensor."""
    low, axis, shape = node.low, node.axis(), node.shape()
    indices, wanted = _indices(node, 1, shape[axis]), node.shape(1)
    strides = np.cumprod([1, *shape[:0:-1]])[::-1]
    low.make_room((len(wanted) + 2, *wanted), np.int64)
    grid = np.indices(wanted)
    base = sum(grid[a] * int(strides[a]) for a in range(len(shape)) if a != axis) + np.zeros(wanted, np.int64)
    if isinstance(indices, str):
        flat = low.add(low.times(indices, int(strides[axis])), low.constant(base, DType.INT32))
    else:
        flat = low.constant(base + indices * int(strides[axis]), DType.INT32)
    return node.out_raw(low.gather(low.reshape(node.raw(), (math.prod(shape),)), 0, flat))


@handles("GatherND")
def gather_nd(node: OnnxNode) -> OnnxValue:
    """Tuples of indices in the last axis, by indices into the tensor with those axes joined."""
    low, shape, batch_axes = node.low, node.shape(), int(node.attr("batch_dims", 0))
    wanted = node.shape(1)
    depth = wanted[-1]
    joined = shape[batch_axes : batch_axes + depth]
    strides = np.cumprod([1, *joined[:0:-1]])[::-1]
    batch = math.prod(shape[:batch_axes])
    rows = math.prod(joined)
    tuples = node.wide(1)
    sizes = low.constant(np.array(joined).reshape((1,) * (len(wanted) - 1) + (depth,)), DType.INT32)
    tuples = low.select(low.is_negative(tuples), low.add(tuples, sizes), tuples)
    weights = low.constant(strides.reshape((1,) * (len(wanted) - 1) + (depth,)), DType.INT32)
    flat = low.reduce("SUM", low.mul(tuples, weights), [len(wanted) - 1], keep=False)
    rest = shape[batch_axes + depth :]
    count = math.prod(wanted[batch_axes:-1])
    flat = low.reshape(flat, (batch, count))
    low.make_room((batch,), np.int64)
    offsets = low.constant(np.arange(batch)[:, None] * rows, DType.INT32)
    source = low.reshape(node.raw(), (batch * rows, math.prod(rest)))
    taken = low.gather(source, 0, low.add(flat, offsets))
    return node.out_raw(low.reshape(taken, (*wanted[:-1], *rest)))


@handles("ReverseSequence")
def reverse_sequence(node: OnnxNode) -> OnnxValue:
    """The first elements of each sequence backwards, as many as its length says."""
    time, batch = int(node.attr("time_axis", 0)), int(node.attr("batch_axis", 1))
    return node.out_raw(reversed_sequences(node.low, node.raw(), node.wide(1), batch, time))


@handles("OneHot")
def one_hot(node: OnnxNode) -> OnnxValue:
    """Lowers OneHot: "on" stands where the index, from the end when negative, equals the position."""
    low, depth = node.low, int(node.const(1).reshape(-1)[0])
    indices = node.wide(0)
    if low.dtype(indices).is_float:
        indices = low.cast(low.truncate(indices), DType.INT32)
    rank = low.rank(indices)
    axis = int(node.attr("axis", -1))
    axis = axis + rank + 1 if axis < 0 else axis
    indices = low.select(low.is_negative(indices), low.plus(indices, depth), indices)
    shape = low.shape(indices)
    line = [1] * (rank + 1)
    line[axis] = depth
    low.make_room((depth,), np.int64)
    positions = low.constant(np.arange(depth).reshape(line), DType.INT32)
    hit = low.equal(low.reshape(indices, (*shape[:axis], 1, *shape[axis:])), positions)
    values = node.raw(2)
    off, on = (low.reshape(low.slice_axis(values, 0, i, 1), (1,) * (rank + 1)) for i in (0, 1))
    return node.out_raw(low.select(hit, on, off), node.kind(2))


@handles("Trilu")
def trilu(node: OnnxNode) -> OnnxValue:
    """The upper or lower triangle of the last two axes, zero elsewhere."""
    low, x = node.low, node.raw()
    k = int(node.const(1, 0).reshape(-1)[0])
    rows, columns = node.shape()[-2:]
    low.make_room((rows, columns), np.int64)
    upper = np.arange(columns)[None] - np.arange(rows)[:, None]
    kept = upper >= k if node.attr("upper", 1) else upper <= k
    mask = low.constant(kept, DType.BOOL)
    if low.dtype(x) is DType.BOOL:
        return node.out_raw(low.binary("LOGICAL_AND", x, mask))
    zero = low.scalar(-OFFSET.get(node.kind(), 0), x)
    return node.out_raw(low.select(mask, x, zero))
