"""Pooling of images [N, spatial..., C] of any rank up to 3."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.importers.lowering.windows import AxisWindow, fit, flat_pads
from tosaic.compiler.ir import DType

Pool = Callable[[str, Sequence[AxisWindow]], str]


def max_pool(low: Lowering, x: str, windows: Sequence[AxisWindow], ceil: bool = False) -> str:
    """The largest element of each window; padding takes no part."""
    lowest = -math.inf if low.dtype(x).is_float else low.dtype(x).min
    x, windows = fit(low, x, windows, ceil, lowest)
    if _plain(windows) and low.dtype(x) in (DType.INT8, DType.INT16, DType.FP16, DType.BF16, DType.FP32):
        return _by_planes(low, x, windows, lambda part, pair: _pool(low, "MAX_POOL2D", part, pair))
    return _by_axes(low, x, windows, "MAX", lowest)


def average_pool(
    low: Lowering, x: str, windows: Sequence[AxisWindow], ceil: bool = False, count_padding: bool = False
) -> str:
    """The mean of each window, over its elements; with `count_padding` zeros of the padding count too.

    What rounding up (`ceil`) adds at the end never counts.
    """
    if count_padding:
        sizes = low.shape(x)[1:-1]
        exact = [w.exact(size, ceil) for w, size in zip(windows, sizes, strict=True)]
        ends = [min(w.after, e.after) for w, e in zip(windows, exact, strict=True)]
        x = low.pad(x, [(0, 0), *((w.before, end) for w, end in zip(windows, ends, strict=True)), (0, 0)])
        exact = [replace(e, before=0, after=e.after - end) for e, end in zip(exact, ends, strict=True)]
    else:
        x, exact = fit(low, x, windows, ceil)
    if _plain(exact):
        return _by_planes(low, x, exact, lambda part, pair: _average(low, part, pair))
    sums = _by_axes(low, x, exact, "SUM", 0)
    counts = window_counts(low, low.shape(x)[1:-1], exact)
    return low.mul(sums, low.constant(1.0 / counts[None, ..., None], low.dtype(x)))


def sum_pool(low: Lowering, x: str, windows: Sequence[AxisWindow], ceil: bool = False) -> str:
    """The sum of each window."""
    x, windows = fit(low, x, windows, ceil)
    return _by_axes(low, x, windows, "SUM", 0)


def window_counts(low: Lowering, sizes: Sequence[int], windows: Sequence[AxisWindow]) -> np.ndarray:
    """How many elements (not padding) each window holds."""
    low.make_room([w.outputs(size) for size, w in zip(sizes, windows, strict=True)], np.float64)
    counts = np.ones(())
    for size, window in zip(sizes, windows, strict=True):
        low.make_room((window.outputs(size), window.kernel), np.int64)
        positions = window.positions(size) - window.before
        axis = ((positions >= 0) & (positions < size)).sum(1)
        counts = counts[..., None] * axis
    return counts


def _plain(windows: Sequence[AxisWindow]) -> bool:
    """Whether TOSA's pools take these windows: undilated, padding smaller than the kernel."""
    return all(w.dilation == 1 and max(w.before, w.after) < w.kernel for w in windows)


def _by_planes(low: Lowering, x: str, windows: Sequence[AxisWindow], pool: Pool) -> str:
    """A pool of one or three axes by pools of two: means and maxima of windows are separable."""
    shape = low.shape(x)
    if len(windows) == 2:
        return pool(x, windows)
    if len(windows) == 1:
        result = pool(low.reshape(x, (shape[0], 1, *shape[1:])), [AxisWindow(1), *windows])
        return low.reshape(result, (shape[0], *low.shape(result)[2:]))
    planes = pool(low.reshape(x, (shape[0] * shape[1], *shape[2:])), windows[1:])
    _, height, width, channels = low.shape(planes)
    columns = low.reshape(planes, (shape[0], shape[1], height * width, channels))
    result = pool(columns, [windows[0], AxisWindow(1)])
    return low.reshape(result, (shape[0], low.shape(result)[1], height, width, channels))


def _pool(
    low: Lowering, name: str, x: str, windows: Sequence[AxisWindow], *operands: str, **attributes: Any
) -> str:
    return low.op(
        name,
        x,
        *operands,
        kernel=[w.kernel for w in windows],
        stride=[w.stride for w in windows],
        pad=flat_pads(windows),
        **attributes,
    )


def _average(low: Lowering, x: str, windows: Sequence[AxisWindow]) -> str:
    accumulator = DType.FP32 if low.dtype(x).is_float else DType.INT32
    zeros = (low.zero_point(x), low.zero_point(x))
    return _pool(low, "AVG_POOL2D", x, windows, *zeros, acc_type=accumulator)


def _by_axes(low: Lowering, x: str, windows: Sequence[AxisWindow], reduction: str, padding: float) -> str:
    """Any windows: taps of one axis after the other are gathered and reduced."""
    sizes = low.shape(x)[1:-1]
    x = low.pad(x, [(0, 0), *((w.before, w.after) for w in windows), (0, 0)], padding)
    for axis, (size, window) in enumerate(zip(sizes, windows, strict=True), 1):
        low.make_room((window.outputs(size), window.kernel), np.int64)
        positions = window.positions(size)
        taken = low.take(x, axis, positions)
        shape = low.shape(taken)
        split = low.reshape(taken, (*shape[:axis], *positions.shape, *shape[axis + 1 :]))
        x = low.reduce(reduction, split, [axis + 1], keep=False)
    return x
