"""What stays on the grid of an encoded tensor without a pair of its own: its elements, bounded or moved."""

import math

from tosaic.compiler.ir import Graph, Operator, Trait, operators_with
from tosaic.compiler.quantizer.encoding import Encoding
from tosaic.compiler.quantizer.plan import REORDERING, Forced

_ON_GRID = 1e-3
"""A bound this many steps beside an integer is that integer: models write their scales in float32."""
_BOUNDS = operators_with(Trait.BOUNDS)


def keep_grids(graph: Graph, forced: Forced) -> None:
    """Adds to `forced` the SLICEs of encoded tensors, and what bounds leave of them: max(q, zero point) for a Relu.

    A bound between two integers keeps no grid. Where markers alone read a result, they round it once themselves.
    """
    for op in graph.operators:
        if op.op not in (*_BOUNDS, "SLICE") or op.outputs[0] in forced:
            continue
        source, bounds = _bounded(graph, op)
        encoding = moved_encoding(graph, source, forced) if source else None
        readers = graph.consumers(op.outputs[0])
        if encoding is None or (readers and all(reader.op == "CUSTOM" for reader in readers)):
            continue
        if all(_on_grid(bound, encoding) for bound in bounds):
            forced[op.outputs[0]] = encoding


def moved_encoding(graph: Graph, name: str, forced: Forced) -> Encoding | None:
    """The encoding of a tensor that is encoded, or holds the elements of one that is."""
    while name not in forced:
        op = graph.producer(name)
        if op is None or op.op not in REORDERING:
            return None
        name = op.inputs[0]
    return forced[name]


def _bounded(graph: Graph, op: Operator) -> tuple[str, list[float]]:
    """The tensor that an operator bounds (or slices), and the bounds; no tensor where none is a single constant."""
    if op.op == "SLICE":
        return op.inputs[0], []
    if op.op == "CLAMP":
        return op.inputs[0], [float(op.attributes["min_val"]), float(op.attributes["max_val"])]
    for source, other in (op.inputs, op.inputs[::-1]):
        data = graph.tensors[other].data
        if (
            data is not None
            and data.size == 1
            and graph.tensors[source].shape == graph.tensors[op.outputs[0]].shape
        ):
            return source, [float(data.reshape(-1)[0])]
    return "", []


def _on_grid(bound: float, encoding: Encoding) -> bool:
    """Whether a bound is an integer of the encoding, or bounds none of them."""
    if not math.isfinite(bound):
        return True
    level = encoding.zero_point + bound / encoding.scale
    inside = encoding.dtype.min < level < encoding.dtype.max
    return not inside or abs(level - round(level)) < _ON_GRID
