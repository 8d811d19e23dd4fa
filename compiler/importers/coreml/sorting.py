"""Largest elements and orders: TOSA sorts nothing, so each element's rank is counted."""

import math

import numpy as np

from tosaic.compiler.importers.coreml.layer import Blob, Layer
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.ir import DType

MAX_COMPARISONS = 1 << 24


@handles("topK")
def top_k(layer: Layer) -> list[Blob]:
    """The K largest (or smallest) elements and their indices; among equals the first goes first."""
    count = layer.whole_numbers(1)[0] if len(layer.inputs) == 2 else int(layer.params.K)
    axis = layer.axis(layer.params.axis)
    layer.require(0 < count <= layer.shape()[axis], f"K is {count}, of {layer.shape()[axis]}")
    values, indices = _ranked(layer, axis, count, descending=not layer.params.useBottomK)
    return [layer.out(values), layer.out(indices)]


@handles("argSort")
def arg_sort(layer: Layer) -> Blob:
    """The indices that sort an axis; among equals the first goes first."""
    axis = layer.axis(layer.params.axis)
    return layer.out(_ranked(layer, axis, layer.shape()[axis], layer.params.descending)[1])


def _ranked(layer: Layer, axis: int, count: int, descending: bool) -> tuple[str, str]:
    """The first `count` values of the sorted axis, and their indices as floats."""
    low, shape = layer.low, layer.shape()
    size, rows = shape[axis], math.prod(shape) // shape[axis]
    if rows * size * size > MAX_COMPARISONS:
        layer.unsupported(
            f"{rows} rows of {size} elements need {rows * size * size} comparisons, more than {MAX_COMPARISONS}",
            "sort outside of the model",
        )
    order = [a for a in range(len(shape)) if a != axis] + [axis]
    x = low.reshape(low.transpose(layer.x(), order), (rows, size))
    # Element j goes before element i when it is larger, or equal and j < i.
    mine, other = low.reshape(x, (rows, size, 1)), low.reshape(x, (rows, 1, size))
    first = low.constant((np.arange(size)[None, :] < np.arange(size)[:, None])[None], DType.BOOL)
    ahead = low.greater(other, mine) if descending else low.greater(mine, other)
    tied = low.binary("LOGICAL_AND", low.equal(mine, other), first)
    before = low.cast(low.binary("LOGICAL_OR", ahead, tied), DType.FP32)
    rank = low.reshape(low.reduce("SUM", before, [2]), (rows, 1, size))
    # The place of element i is its rank: indices are the sum of i over the one that has it.
    places = low.constant(np.arange(count, dtype=np.float32).reshape(1, count, 1), DType.FP32)
    hit = low.equal(rank, places)
    line = low.constant(np.arange(size, dtype=np.float32).reshape(1, 1, size), DType.FP32)
    indices = low.reshape(low.reduce("SUM", low.select(hit, line, low.scalar(0, line)), [2]), (rows, count))
    values = low.op("GATHER", low.reshape(x, (rows, size, 1)), low.cast(indices, DType.INT32))
    wanted = [count if a == axis else shape[a] for a in order]
    inverse = [int(a) for a in np.argsort(order)]
    return (
        low.transpose(low.reshape(values, wanted), inverse),
        low.transpose(low.reshape(indices, wanted), inverse),
    )
