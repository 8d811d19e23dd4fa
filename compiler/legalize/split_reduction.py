"""Reductions of tensors that do not fit the activation memory, as reductions of pieces.

A tensor is [outer, axis, inner] to a reduction. Pieces along the axis leave partial results, which are reduced in turn:
every reduction is associative, int32 sums because they wrap. Pieces along the others are joined.
"""

import math

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine import ELEMENT, KIND, Kind
from tosaic.hw.config import Config

_MAX_EXTENT = 1 << 15
"""Elements along the axis that one reduction repeats over; with int16 values ARGMAX's keys then fit 32 bits."""
_RESULT_BYTES = 4
"""Of a result's element, which may be cast to int32 on the way out."""
_TOGETHER = 64
"""Elements along the axis that are reduced each by itself at first."""


def split_reduction(new: Rewriting, config: Config, *, fused: bool = False) -> bool:
    """Rewrites a REDUCE_* or ARGMAX that does not fit. With `fused`, elements that are computed on their way in take
    the memory of what they are computed from."""
    graph, operator = new.graph, new.operator
    source, target = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
    if source.dtype not in ELEMENT or target.dtype not in ELEMENT:
        return False
    axis, size = operator.attributes["axis"], ELEMENT[source.dtype].bytes
    extent = source.shape[axis]
    source_bytes = _bytes_read(new, operator.inputs[0]) if fused else math.prod(source.shape) * size
    both_bytes = source_bytes + math.prod(target.shape) * _RESULT_BYTES
    # Parameters and tables of what is fused with it have a place beside it.
    if both_bytes <= config.am_bytes // 4 * 3 and extent <= _MAX_EXTENT:
        return False
    whole = operator.inputs[0]
    outer, inner = math.prod(source.shape[:axis]), math.prod(source.shape[axis + 1 :])
    data = new.reshape(whole, (outer, extent, inner))
    # Not too small either: every piece is a layer of its own.
    limit = max(1, config.am_bytes // 4 // _RESULT_BYTES)
    shape = [outer, extent, inner]
    # One piece along the axis must hold two elements of it, or the pieces' results are as many as there were.
    if extent > 1 and outer * inner <= limit // 2:
        along, step = 1, min(_MAX_EXTENT, max(1, limit // (outer * inner)))
    elif outer > 1 and extent * inner <= limit or inner == 1:
        along, step = 0, max(1, limit // (extent * inner))
    elif outer > 1 and extent * inner > limit and outer >= inner:
        along, step = 0, max(1, outer // 2)
    else:
        along, step = 2, max(1, min(inner // 2, limit // extent or 1))
    if step >= shape[along]:
        step = -(-shape[along] // 2)
    pieces = []
    firsts = list(range(0, shape[along], step))
    if along == 1 and step > _TOGETHER:
        step -= step % _TOGETHER
        whole_rows = extent - extent % _TOGETHER
        firsts = [*range(0, whole_rows, step), *([whole_rows] if whole_rows < extent else [])]
    for first, stop in zip(firsts, [*firsts[1:], shape[along]], strict=True):
        start, count = [0, 0, 0], list(shape)
        start[along], count[along] = first, stop - first
        pieces.append((first, new.slice(data, tuple(start), tuple(count))))
    if along != 1:
        _joined(new, pieces, along, (outer, inner))
    elif operator.op == "ARGMAX":
        _best_index(new, pieces, (outer, inner))
    else:
        _reduced(new, pieces, (outer, inner))
    return True


def _bytes_read(new: Rewriting, name: str) -> int:
    """Bytes of the smallest tensor that `name` is computed from, lane by lane or by another reduction of one layer
    with it."""
    graph, least = new.graph, 1 << 62
    while True:
        tensor = graph.tensors[name]
        if tensor.dtype in ELEMENT:
            least = min(least, math.prod(tensor.shape) * ELEMENT[tensor.dtype].bytes)
        maker = next((operator for operator in graph.operators if name in operator.outputs), None)
        if (
            maker is None
            or KIND.get(maker.op) not in (Kind.ELEMENTWISE, Kind.REDUCTION)
            or name in graph.outputs
        ):
            return least
        if graph.tensors[maker.inputs[0]].data is not None or len(graph.consumers(name)) != 1:
            return least
        name = maker.inputs[0]


def _reduced(new: Rewriting, pieces: list[tuple[int, str]], sizes: tuple[int, int]) -> None:
    """The reduction of the pieces' reductions."""
    operator, (outer, inner) = new.operator, sizes
    target, dtype = new.graph.tensors[operator.outputs[0]], new.graph.tensors[operator.inputs[0]].dtype
    partial = []
    for _, piece in pieces:
        extent = new.shape(piece)[1]
        # Side by side, rows of the axis fill the vector unit's lanes.
        together = _TOGETHER if extent % _TOGETHER == 0 and extent >= 4 * _TOGETHER else 1
        data = new.reshape(piece, (outer, extent // together, together * inner))
        part = new.add(
            operator.op, [data], (outer, 1, together * inner), dtype, **operator.attributes | {"axis": 1}
        )
        partial.append(new.reshape(part, (outer, together, inner)))
    count = sum(new.shape(part)[1] for part in partial)
    stacked = new.add("CONCAT", partial, (outer, count, inner), dtype, axis=1)
    last = new.add(operator.op, [stacked], (outer, 1, inner), dtype, **operator.attributes | {"axis": 1})
    new.reshape(last, target.shape, target.name)


def _joined(new: Rewriting, pieces: list[tuple[int, str]], along: int, sizes: tuple[int, int]) -> None:
    """The results of pieces along another axis than the reduced one, one behind the other."""
    operator = new.operator
    target = new.graph.tensors[operator.outputs[0]]
    parts = []
    for _, piece in pieces:
        outer, _, inner = new.shape(piece)
        shape = (outer, inner) if operator.op == "ARGMAX" else (outer, 1, inner)
        part = new.add(operator.op, [piece], shape, target.dtype, **{**operator.attributes, "axis": 1})
        parts.append(new.reshape(part, (outer, inner)))
    whole = new.add("CONCAT", parts, sizes, target.dtype, axis=0 if along == 0 else 1)
    new.reshape(whole, target.shape, target.name)


def _best_index(new: Rewriting, pieces: list[tuple[int, str]], sizes: tuple[int, int]) -> None:
    """ARGMAX piece by piece: a later piece wins if its maximum is greater."""
    operator = new.operator
    target, dtype = new.graph.tensors[operator.outputs[0]], new.graph.tensors[operator.inputs[0]].dtype
    best = index = None
    for first, piece in pieces:
        value = new.add("REDUCE_MAX", [piece], (sizes[0], 1, sizes[1]), dtype, axis=1, nan_mode="PROPAGATE")
        value = new.add("CAST", [new.reshape(value, sizes)], sizes, DType.INT32)
        place = new.add("ARGMAX", [piece], sizes, DType.INT32, **{**operator.attributes, "axis": 1})
        offset = new.constant(np.array([[first]]), DType.INT32)
        place = new.add("ADD", [place, offset], sizes, DType.INT32)
        if best is None or index is None:
            best, index = value, place
            continue
        later = new.add("GREATER", [value, best], sizes, DType.BOOL)
        index = new.add("SELECT", [later, place, index], sizes, DType.INT32)
        best = new.add("MAXIMUM", [value, best], sizes, DType.INT32)
    assert index is not None
    new.reshape(index, target.shape, target.name)
