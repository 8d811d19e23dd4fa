"""Tensors that a TRANSPOSE makes, as another order of their source's elements."""

import dataclasses
import math

from tosaic.compiler.ir import Graph, GraphIndex, Operator
from tosaic.compiler.machine import KIND, Kind

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Strided:
    """Where a tensor's elements are in another one: `strides` in elements, one per axis; 0 for axes of length 1."""

    source: str
    strides: Shape
    transpose: Operator
    between: tuple[Operator, ...]
    """The RESHAPEs and IDENTITYs from the TRANSPOSE to the tensor."""


def strided(graph: Graph, index: GraphIndex, name: str) -> Strided | None:
    """`name` as elements of what is transposed; None where it comes from no TRANSPOSE, or its axes have no stride."""
    between, maker = [], index.producer(name)
    while maker is not None and KIND.get(maker.op) is Kind.RENAMING:
        between.append(maker)
        maker = index.producer(maker.inputs[0])
    if maker is None or maker.op != "TRANSPOSE":
        return None
    source = maker.inputs[0]
    shape, order = graph.tensors[source].shape, maker.attributes["perms"]
    dense = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    axes = [(shape[axis], dense[axis]) for axis in order]
    strides = _under(axes, graph.tensors[name].shape)
    return None if strides is None else Strided(source, strides, maker, tuple(between))


def _under(axes: list[tuple[int, int]], shape: Shape) -> Shape | None:
    """The strides of the same elements under another shape; `axes` are (length, stride)."""
    runs: list[tuple[int, int]] = []
    for count, stride in axes:
        if runs and runs[-1][1] == count * stride:
            runs[-1] = (runs[-1][0] * count, stride)
        elif count != 1:
            runs.append((count, stride))
    found = []
    for size in reversed(shape):
        if size == 1:
            found.append(0)
            continue
        count, stride = runs.pop()
        if count % size:
            return None
        found.append(stride)
        if count > size:
            runs.append((count // size, stride * size))
    return tuple(found[::-1])


def is_multiplied(graph: Graph, index: GraphIndex, name: str) -> bool:
    """Whether a MATMUL reads a tensor, under this shape or another: of a TRANSPOSE it finds the elements without it."""
    return any(
        reader.op == "MATMUL"
        or (KIND.get(reader.op) is Kind.RENAMING and is_multiplied(graph, index, reader.outputs[0]))
        for reader in index.consumers(name)
    )
