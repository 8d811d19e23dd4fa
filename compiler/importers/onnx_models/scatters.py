"""Operators that put elements at indices, and TopK."""

import math

import numpy as np

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.scatter import ScatterMode, known_to_differ, scatter
from tosaic.compiler.importers.lowering.sorting import ranked
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import handles
from tosaic.compiler.importers.onnx_models.values import OnnxValue
from tosaic.compiler.ir import DType

_MODES: dict[str, ScatterMode] = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@handles("ScatterElements", "Scatter")
def scatter_elements(node: OnnxNode) -> OnnxValue:
    """numpy.put_along_axis; the indices may cover a corner of the other axes."""
    low, axis, shape, wanted = node.low, node.axis(), node.shape(), node.shape(1)
    if len(wanted) != len(shape) or node.shape(2) != wanted:
        raise ValueError(f"indices {list(wanted)} and updates {list(node.shape(2))} for data {list(shape)}")
    indices = _from_the_front(node, np.array(shape[axis]))
    # As positions in the flat tensor, or, where that makes a smaller mask, row by row.
    order = [a for a in range(len(shape)) if a != axis] + [axis]
    whole = all(wanted[a] == shape[a] for a in order[:-1])
    if whole:
        rows = math.prod(shape) // shape[axis]
        places = low.reshape(low.transpose(indices, order), (rows, wanted[axis]))
        box = (rows, shape[axis], 1)
    else:
        strides = np.cumprod([1, *shape[:0:-1]])[::-1]
        low.make_room((len(wanted) + 2, *wanted), np.int64)
        others = sum(np.indices(wanted, sparse=True)[a] * int(strides[a]) for a in order[:-1])
        base = low.constant(np.broadcast_to(others, wanted), DType.INT32)
        places = low.reshape(low.add(low.times(indices, int(strides[axis])), base), (1, math.prod(wanted)))
        box = (1, math.prod(shape), 1)
        order = list(range(len(shape)))
    turned = [shape[a] for a in order]
    result = _put(node, order, box, places)
    return _result(node, low.transpose(low.reshape(result, turned), [int(a) for a in np.argsort(order)]))


@handles("ScatterND")
def scatter_nd(node: OnnxNode) -> OnnxValue:
    """Tuples of indices in the last axis of the second input."""
    low, shape, wanted = node.low, node.shape(), node.shape(1)
    depth = wanted[-1]
    joined, rest = shape[:depth], shape[depth:]
    if depth > len(shape) or node.shape(2) != (*wanted[:-1], *rest):
        raise ValueError(f"indices {list(wanted)} and updates {list(node.shape(2))} for data {list(shape)}")
    tuples = _from_the_front(node, np.array(joined))
    strides = np.cumprod([1, *joined[:0:-1]])[::-1]
    weights = low.constant(strides.reshape((1,) * (len(wanted) - 1) + (depth,)), DType.INT32)
    flat = low.reduce("SUM", low.mul(tuples, weights), [len(wanted) - 1])
    places = low.reshape(flat, (1, math.prod(wanted[:-1])))
    result = _put(node, list(range(len(shape))), (1, math.prod(joined), math.prod(rest)), places)
    return _result(node, low.reshape(result, shape))


@handles("TensorScatter")
def tensor_scatter(node: OnnxNode) -> OnnxValue:
    """A cache with new rows along an axis, from an index of each sequence on."""
    low, shape = node.low, node.shape()
    axis, mode = node.axis(-2), node.attr("mode", "linear")
    if mode not in ("linear", "circular"):
        raise ValueError(f"mode {mode!r}")
    if not 0 < axis < len(shape):
        raise ValueError(f"axis {axis} of {list(shape)}")
    first = node.wide(2) if node.has(2) else low.constant(np.zeros(shape[0]), DType.INT32)
    data, new = (node.raw(i) for i in (0, 1))
    return node.out_raw(written_rows(low, data, new, axis, first, circular=mode == "circular"))


def written_rows(low: Lowering, data: str, new: str, axis: int, first: str, circular: bool = False) -> str:
    """`data` with the rows of `new` along `axis`, from position `first` [batch] on; past the end it begins again.

    ValueError where known positions leave an axis that is not circular.
    """
    shape, added = low.shape(data), low.shape(new)
    size, count = shape[axis], added[axis]
    if added != (*shape[:axis], count, *shape[axis + 1 :]) or count > size or low.shape(first) != shape[:1]:
        raise ValueError(f"{list(added)} at {list(low.shape(first))} positions of {list(shape)}")
    known = low.data(first)
    if known is not None and not circular and not (0 <= known.min() <= known.max() <= size - count):
        raise ValueError(f"{count} rows from {known.min()} to {known.max()} on of {size}")
    if known is not None and len(set(known.tolist())) == 1 and 0 <= known[0] <= size - count:
        start = int(known[0])
        parts = [low.slice_axis(data, axis, 0, start)] if start else []
        parts.append(new)
        if start + count < size:
            parts.append(low.slice_axis(data, axis, start + count, size - start - count))
        return low.concat(parts, axis) if len(parts) > 1 else new
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    places = low.add(
        low.reshape(first, (shape[0], 1)), low.constant(np.arange(count).reshape(1, count), DType.INT32)
    )
    if circular:
        whole = low.scalar(size, places)
        places = low.sub(places, low.mul(low.div(places, whole), whole))
        places = low.select(low.is_negative(places), low.add(places, whole), places)
    rows = low.broadcast_to(low.reshape(places, (shape[0], 1, count)), (shape[0], before // shape[0], count))
    # Neighbours on an axis that is long enough: no place twice, as SCATTER wants it.
    result = low.op(
        "SCATTER",
        low.reshape(data, (before, size, after)),
        low.reshape(rows, (before, count)),
        low.reshape(new, (before, count, after)),
    )
    return low.reshape(result, shape)


def _from_the_front(node: OnnxNode, sizes: np.ndarray) -> str:
    """The indices as int32, negative ones counted from the end; `sizes` are those of their last axis, or one."""
    low, known = node.low, node.value(1).data
    if known is not None:
        if known.size and not ((-sizes <= known) & (known < sizes)).all():
            raise ValueError(f"indices from {known.min()} to {known.max()} on axes of {sizes.tolist()}")
        return low.constant(np.where(known < 0, known + sizes, known), DType.INT32)
    x = node.wide(1)
    line = low.constant(sizes.reshape((1,) * (low.rank(x) - 1) + (-1,)), DType.INT32)
    return low.select(low.is_negative(x), low.add(x, line), x)


def _put(node: OnnxNode, order: list[int], box: tuple[int, int, int], places: str) -> str:
    """Updates at their places, both with their axes in `order`: the data as [N, K, C] of `box`."""
    low, mode = node.low, _MODES[node.attr("reduction", "none")]
    arithmetic = mode != "update"
    data, updates = (node.wide(i) if arithmetic else node.raw(i) for i in (0, 2))
    if mode == "mul" and not low.dtype(data).is_float and not known_to_differ(low, places):
        node.unsupported(
            "TOSA reduces integers by no product", "make the indices constant, and different from each other"
        )
    count = low.shape(places)[1]
    return scatter(
        low,
        low.reshape(low.transpose(data, order), box),
        places,
        low.reshape(low.transpose(updates, order), (box[0], count, box[2])),
        mode,
    )


def _result(node: OnnxNode, tensor: str) -> OnnxValue:
    return node.out_raw(tensor) if node.attr("reduction", "none") == "none" else node.out(tensor)


@handles("TopK")
def top_k(node: OnnxNode) -> list[OnnxValue]:
    """The K largest or smallest elements, sorted, and their indices; among equals the first goes first."""
    count, axis = int(node.const(1).reshape(-1)[0]), node.axis(-1)
    if not 0 < count <= node.shape()[axis]:
        raise ValueError(f"K is {count}, of {node.shape()[axis]}")
    values, indices = ranked(node.low, node.raw(), axis, count, bool(node.attr("largest", 1)))
    return [node.out_raw(values), node.out_raw(indices, "int64")]
