"""Box filters, pools and sampling by index (4.3.2, 4.3.3, 4.9.3), over any dimensions."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tosaic.compiler.importers.lowering import Lowering, pooling
from tosaic.compiler.importers.lowering.taps import fold_taps, window_taps
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.importers.nnef.tosa.node import NnefNode
from tosaic.compiler.importers.nnef.tosa.registry import handles
from tosaic.compiler.importers.nnef.tosa.windows import (
    bordered,
    check_not_empty,
    full_size,
    volume,
    windows_of,
)
from tosaic.compiler.ir import DType

Pool = Callable[[str, list[AxisWindow]], str]


def _prepared(node: NnefNode) -> tuple[str, list[AxisWindow]]:
    """The input with its copied borders, and a window per dimension."""
    x = node.tensor("input")
    windows = windows_of(node, node.low.shape(x), full_size(node))
    for axis, (size, window) in enumerate(zip(node.low.shape(x), windows, strict=True)):
        if window.dilation > 1 or max(window.before, window.after) >= window.kernel:
            node.check_size(window.outputs(size) * window.kernel, f"the windows of dimension {axis}")
    return bordered(node, x, windows)


def _check_taps(node: NnefNode, upscaled: Sequence[int], windows: Sequence[AxisWindow]) -> None:
    """The elements of all windows side by side, and what folds them, are tables."""
    for axis, (size, window) in enumerate(zip(upscaled, windows, strict=True)):
        node.check_size(window.outputs(size) * window.kernel, f"the windows of dimension {axis}")


def _pooled(low: Lowering, x: str, windows: Sequence[AxisWindow], pool: Pool) -> str:
    """A separable pool over the dimensions whose windows do anything, up to three at a time, as images."""
    rank = low.rank(x)
    busy = [axis for axis, window in enumerate(windows) if window != AxisWindow(1)]
    if 3 <= rank <= 5 and busy and busy[0] >= 2:
        # Spatial dimensions stay together, so that layouts of neighbours cancel.
        busy = list(range(2, rank))
    while busy:
        axes, busy = busy[:3], busy[3:]
        rest = [axis for axis in range(rank) if axis not in axes]
        perms = rest[:-1] + axes + rest[-1:]
        moved = low.transpose(x, perms)
        shape = low.shape(moved)
        batch = math.prod(shape[: len(rest) - 1]) if rest else 1
        spatial = shape[max(len(rest) - 1, 0) : max(len(rest) - 1, 0) + len(axes)]
        image = low.reshape(moved, (batch, *spatial, shape[-1] if rest else 1))
        result = pool(image, [windows[axis] for axis in axes])
        whole = (*shape[: max(len(rest) - 1, 0)], *low.shape(result)[1:-1], *shape[-1:][: len(rest)])
        x = low.transpose(low.reshape(result, whole), [int(axis) for axis in np.argsort(perms)])
    return x


def _with_zeros(
    low: Lowering, x: str, windows: Sequence[AxisWindow], value: float = 0.0
) -> tuple[str, list[AxisWindow]]:
    """The padding that windows reach as elements, and windows without padding."""
    exact = [w.exact(size) for w, size in zip(windows, low.shape(x), strict=True)]
    return low.pad(x, [(w.before, w.after) for w in exact], value), [
        replace(w, before=0, after=0) for w in exact
    ]


@handles("box")
def box(node: NnefNode) -> str:
    """Sums, or means of all of the window or (border 'ignore') of what lies inside."""
    low, (x, windows) = node.low, _prepared(node)
    if node["normalize"] and node["border"] == "ignore":
        check_not_empty(node, low.shape(x), windows)
        return _pooled(low, x, windows, lambda part, w: pooling.average_pool(low, part, w))
    if volume(windows) == 1:
        x, windows = _with_zeros(low, x, windows)
        return _pooled(low, x, windows, lambda part, w: pooling.max_pool(low, part, w))
    mean = _pooled(low, x, windows, lambda part, w: pooling.average_pool(low, part, w, count_padding=True))
    return mean if node["normalize"] else low.times(mean, volume(windows))


@handles("max_pool")
def max_pool(node: NnefNode) -> str:
    """Zeros take part where the border is 'constant'."""
    low, (x, windows) = node.low, _prepared(node)
    if node["border"] == "constant":
        x, windows = _with_zeros(low, x, windows)
    elif node["border"] == "ignore":
        check_not_empty(node, low.shape(x), windows)
    return _pooled(low, x, windows, lambda part, w: pooling.max_pool(low, part, w))


@handles("argmax_pool")
def argmax_pool(node: NnefNode) -> str:
    """The first of equal maxima, counted in row-major order inside the window."""
    low, (x, windows) = node.low, _prepared(node)
    if low.dtype(x) is DType.INT32:
        node.unsupported("the elements are integers", "TOSA's ARGMAX takes floats: use tensor<scalar>")
    x = low.cast(x, DType.FP32)
    if node["border"] == "ignore":
        check_not_empty(node, low.shape(x), windows)
    x, windows = _with_zeros(low, x, windows, -math.inf if node["border"] == "ignore" else 0.0)
    _check_taps(node, low.shape(x), windows)
    return low.reshape(low.op("ARGMAX", window_taps(low, x, windows), axis=1), _positions(node))


def _positions(node: NnefNode) -> Sequence[int]:
    """Returns places in the shape of the index."""
    result = node.operation.results["index"]
    assert not isinstance(result, list)
    return result.shape


@handles("max_pool_with_index")
def max_pool_with_index(node: NnefNode) -> list[str]:
    """Two results that are computed apart; what nothing reads goes away."""
    return [max_pool(node), argmax_pool(node)]


@handles("sample")
def sample(node: NnefNode) -> str:
    """The elements that indices name; an index outside of the window is an error of the run."""
    low, (x, windows) = node.low, _prepared(node)
    x, windows = _with_zeros(low, x, windows)
    _check_taps(node, low.shape(x), windows)
    taps = window_taps(low, x, windows)
    count = low.shape(taps)[0]
    taken = low.op(
        "GATHER", low.reshape(taps, (*low.shape(taps), 1)), low.reshape(node.tensor("index"), (count, 1))
    )
    return low.reshape(taken, node.result.shape)


@handles("desample")
def desample(node: NnefNode) -> str:
    """Each element goes to the place in its window that its index names; sums where several meet."""
    low, shape = node.low, node.result.shape
    windows = windows_of(node, shape, full_size(node))
    x, index = node.tensor("input"), node.tensor("index")
    count, taps = math.prod(low.shape(x)), volume(windows)
    for size, outputs, window in zip(low.shape(x), shape, windows, strict=True):
        node.check_size(
            size * window.kernel * outputs if window != AxisWindow(1) else 0, "the matrix of a dimension"
        )
    node.check_size(taps, "the window")
    places = low.constant(np.arange(taps).reshape(1, taps), DType.INT32)
    here = low.equal(low.broadcast_to(low.reshape(index, (count, 1)), (count, taps)), places)
    value = low.reshape(x, (count, 1))
    spread = low.select(here, value, low.scalar(0, value))
    return fold_taps(low, spread, low.shape(x), windows, shape)
