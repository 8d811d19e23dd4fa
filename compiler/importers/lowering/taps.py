"""The elements of sliding windows side by side, and back."""

import math
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.windows import AxisWindow

_NONE = AxisWindow(1)


def window_taps(low: Lowering, x: str, windows: Sequence[AxisWindow]) -> str:
    """[positions, taps], both in row-major order: the elements of each window. One window per axis, no padding."""
    shape, taps = list(low.shape(x)), 1
    for axis, window in enumerate(windows):
        if window == _NONE:
            continue
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        low.make_room((window.outputs(shape[axis]), window.kernel), np.int64)
        positions = window.positions(shape[axis])
        taken = low.take(low.reshape(x, (before, shape[axis], after, taps)), 1, positions)
        split = low.reshape(taken, (before, *positions.shape, after, taps))
        x = low.transpose(split, (0, 1, 3, 4, 2))
        shape[axis], taps = len(positions), taps * window.kernel
    return low.reshape(x, (math.prod(shape), taps))


def fold_taps(
    low: Lowering, taps: str, positions: Sequence[int], windows: Sequence[AxisWindow], shape: Sequence[int]
) -> str:
    """The reverse: a tensor of `shape`, each element the sum of all taps that lie on it.

    `taps` is [product of positions, taps of a window]; taps in the padding of the windows are dropped.
    """
    sizes, x = list(positions), taps
    count = low.shape(taps)[1]
    for axis in reversed(range(len(windows))):
        window, size = windows[axis], sizes[axis]
        if window == _NONE:
            continue
        before, after = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
        count //= window.kernel
        split = low.reshape(x, (before, size, after, count, window.kernel))
        rows = low.transpose(split, (0, 2, 3, 1, 4))
        low.make_room((size, window.kernel), np.int64)
        places = np.arange(size)[:, None] * window.stride + np.arange(window.kernel) * window.dilation
        low.make_room((*places.shape, shape[axis]))
        hits = places.reshape(-1, 1) - window.before == np.arange(shape[axis])
        product = matmul(
            low,
            low.reshape(rows, (before, after * count, size * window.kernel)),
            low.constant(hits.astype(np.float64), low.dtype(x)),
        )
        x = low.transpose(low.reshape(product, (before, after, count, shape[axis])), (0, 3, 1, 2))
        sizes[axis] = shape[axis]
    return low.reshape(x, shape)
