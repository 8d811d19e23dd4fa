"""Lowers up-sampling (4.3.2 `debox`, 4.3.4) one dimension after the other, as moves or products with a matrix."""

import numpy as np

from tosaic.compiler.importers.lowering.resize import mix, pick
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.importers.nnef.tosa.node import NnefNode
from tosaic.compiler.importers.nnef.tosa.registry import handles
from tosaic.compiler.importers.nnef.tosa.windows import border_indices, full_size, windows_of


def _along(node: NnefNode, x: str, axis: int, matrix: np.ndarray) -> str:
    """The product of one dimension and a matrix [extent, results]; a choice of elements moves them."""
    if np.array_equal(matrix, np.eye(len(matrix))):
        return x
    if np.all(np.isin(matrix, (0, 1))) and np.all(matrix.sum(0) == 1):
        return pick(node.low, x, axis, matrix.argmax(0))
    return mix(node.low, x, axis, matrix)


@handles("debox")
def debox(node: NnefNode) -> str:
    """The reverse of box, which is separable."""
    x, shape = node.tensor("input"), node.result.shape
    for axis, window in enumerate(windows_of(node, shape, full_size(node))):
        x = _along(node, x, axis, _debox_matrix(node, window, node.shape("input")[axis], shape[axis]))
    return x


def _debox_matrix(node: NnefNode, window: AxisWindow, extent: int, results: int) -> np.ndarray:
    """[extent, results]: how often each element is in each sum."""
    node.check_size(extent * results, "the matrix of a dimension")
    node.check_size(window.kernel * results, "the windows of a dimension")
    reached = np.arange(results)[:, None] + window.before - np.arange(window.kernel) * window.dilation
    rows, taps = np.nonzero(reached % window.stride == 0)
    sources, there = border_indices(node, reached[rows, taps] // window.stride, extent)
    matrix = np.zeros((extent, results))
    np.add.at(matrix, (sources[there], rows[there]), 1.0)
    if not node["normalize"]:
        return matrix
    if node["border"] != "ignore":
        return matrix / window.kernel
    counts = matrix.sum(0)
    if not counts.all():
        node.unsupported("a result has no element of the input to be the mean of", "use larger windows")
    return matrix / counts


@handles("multilinear_upsample")
def multilinear_upsample(node: NnefNode) -> str:
    """Each spatial dimension on its own."""
    x = node.tensor("input")
    for axis, factor in enumerate(node["factor"], 2):
        extent = node.shape("input")[axis]
        node.check_size(extent * extent * factor, "the matrix of a dimension")
        x = _along(
            node, x, axis, _linear_matrix(node, sample_positions(node["method"], extent, factor), extent)
        )
    return x


def sample_positions(method: str, extent: int, factor: int) -> np.ndarray:
    """Where the results lie between the elements of a dimension (4.3.4)."""
    results = np.arange(extent * factor, dtype=np.float64)
    if method == "asymmetric":
        return results / factor
    if method == "symmetric":
        return (results - (factor - 1) / 2) / factor
    return results * (extent - 1) / max(extent * factor - 1, 1)


def _linear_matrix(node: NnefNode, positions: np.ndarray, extent: int) -> np.ndarray:
    """[extent, results]: shares of the two neighbours, which the border stands in for outside."""
    matrix = np.zeros((extent, len(positions)))
    below = np.floor(positions).astype(np.int64)
    above = positions - below
    for indices, shares in ((below, 1 - above), (below + 1, above)):
        (used,) = np.nonzero(shares)
        sources, there = border_indices(node, indices[used], extent)
        np.add.at(matrix, (sources[there], used[there]), shares[used][there])
    return matrix
