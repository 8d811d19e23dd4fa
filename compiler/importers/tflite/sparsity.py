"""Sparse constants: values at the leaves of a tree of dense and compressed levels (TFLite's SparsityParameters)."""

import math
from typing import Any

import numpy as np

from tosaic.compiler.importers.lowering.allowance import Allowance

_SPARSE_CSR = 1
_INDEX_VECTORS = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}


def dense(values: np.ndarray, sparsity: Any, shape: tuple[int, ...], allowance: Allowance) -> np.ndarray:
    """The tensor of `shape` with `values` in their places and zeros elsewhere."""
    order = [int(axis) for axis in sparsity.TraversalOrderAsNumpy()]
    blocks = [int(axis) for axis in sparsity.BlockMapAsNumpy()] if sparsity.BlockMapLength() else []
    if sparsity.DimMetadataLength() != len(order) or len(order) != len(shape) + len(blocks):
        raise ValueError(f"{sparsity.DimMetadataLength()} levels of a sparse tensor of rank {len(shape)}")
    levels = [sparsity.DimMetadata(i) for i in range(len(order))]
    block_sizes = {
        blocks[axis - len(shape)]: levels[i].DenseSize() for i, axis in enumerate(order) if axis >= len(shape)
    }
    # Of each node of the current level: its place in the tree, and its coordinate on each axis seen so far.
    nodes = np.zeros(1, np.int64)
    coordinates: dict[int, np.ndarray] = {}
    for level, axis in zip(levels, order, strict=True):
        nodes, parents, inner = _children(level, nodes, math.prod(shape))
        coordinates = {known: column[parents] for known, column in coordinates.items()}
        coordinates[axis] = inner
    allowance.check(math.prod(shape) * values.itemsize, "a dense constant")
    result = np.zeros(tuple(shape), values.dtype)
    place = []
    for axis in range(len(shape)):
        at = coordinates[axis]
        if axis in block_sizes:
            at = at * block_sizes[axis] + coordinates[len(shape) + blocks.index(axis)]
        place.append(at)
    result[tuple(place)] = values[nodes]
    return result


def _children(level: Any, nodes: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The next level's nodes, the position of each one's parent in `nodes`, and their coordinates on this axis."""
    if level.Format() != _SPARSE_CSR:
        size = level.DenseSize()
        if size < 1 or size * len(nodes) > limit:
            raise ValueError(f"a dense level of {size} in a sparse tensor of {limit} elements")
        inner = np.tile(np.arange(size), len(nodes))
        parents = np.repeat(np.arange(len(nodes)), size)
        return nodes[parents] * size + inner, parents, inner
    segments, indices = indices_of(level)
    counts = segments[nodes + 1] - segments[nodes]
    if (counts < 0).any() or counts.sum() > len(indices):
        raise ValueError("the segments of a sparse tensor go backwards")
    parents = np.repeat(np.arange(len(nodes)), counts)
    first = np.cumsum(counts) - counts
    children = segments[nodes][parents] + np.arange(len(parents)) - first[parents]
    return children, parents, indices[children]


def indices_of(level: Any) -> tuple[np.ndarray, np.ndarray]:
    """Where each node's children begin and end, and their coordinates."""
    return (
        _vector(level.ArraySegments(), level.ArraySegmentsType()),
        _vector(level.ArrayIndices(), level.ArrayIndicesType()),
    )


def _vector(table: Any, kind: int) -> np.ndarray:
    """A vector of indices; the schema's union has three widths."""
    # Imported with the reader, which has found the package.
    import tflite

    vector = getattr(tflite, _INDEX_VECTORS[kind])()
    vector.Init(table.Bytes, table.Pos)
    return np.array(vector.ValuesAsNumpy(), np.int64)
