"""Sliding windows (4.3): from NNEF's attributes to `Window`s, and what lies around the input."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tosaic.compiler.importers.lowering.layout import PadMode, extend
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.importers.nnef.tosa.node import MAX_NUMBER, NnefNode
from tosaic.compiler.importers.nnef.window_shapes import automatic_padding

COPIES: dict[str, PadMode] = {"replicate": "edge", "reflect": "reflect", "reflect-even": "symmetric"}
"""Borders that are made of copies, as numpy.pad calls them."""


def windows_of(node: NnefNode, upscaled: Sequence[int], sizes: Sequence[int]) -> list[AxisWindow]:
    """A window per dimension; padding belongs to the up-scaled space."""
    count = len(sizes)
    strides, dilations = node["stride"] or [1] * count, node["dilation"] or [1] * count
    paddings = node["padding"] or [
        automatic_padding(*item) for item in zip(upscaled, sizes, strides, dilations, strict=True)
    ]
    windows = [
        AxisWindow(size, stride, dilation, before, after)
        for size, stride, dilation, (before, after) in zip(sizes, strides, dilations, paddings, strict=True)
    ]
    for extent, w in zip(upscaled, windows, strict=True):
        if extent + max(w.before, 0) + max(w.after, 0) > MAX_NUMBER or max(w.extent, w.stride) > MAX_NUMBER:
            node.unsupported(f"the window {w} on {extent} elements leaves 32 bits", "use smaller numbers")
    return windows


def full_size(node: NnefNode) -> list[int]:
    """`size` for every dimension: what is missing at its end is 1."""
    return [*node["size"], *[1] * (len(node.shape("input")) - len(node["size"]))]


def bordered(node: NnefNode, x: str, windows: Sequence[AxisWindow]) -> tuple[str, list[AxisWindow]]:
    """x with copies around it, and windows without padding, where the border is made of copies.

    `windows` belong to the last axes of x.
    """
    mode = COPIES.get(node["border"])
    if mode is None:
        return x, list(windows)
    low = node.low
    rank = low.rank(x)
    # Only what a window reaches.
    sizes = low.shape(x)[rank - len(windows) :]
    exact = [w.exact(size) for w, size in zip(windows, sizes, strict=True)]
    pads = [(0, 0)] * (rank - len(windows)) + [(w.before, w.after) for w in exact]
    check_copies(node, low.shape(x), pads)
    return extend(low, x, pads, mode), [replace(w, before=0, after=0) for w in exact]


def check_copies(node: NnefNode, shape: Sequence[int], pads: Sequence[tuple[int, int]]) -> None:
    """Raises UnsupportedError where a reflection would need elements that are not there."""
    shortest = {"reflect": 1, "reflect-even": 0}.get(node["border"])
    for axis, (extent, pair) in enumerate(zip(shape, pads, strict=True)):
        if shortest is not None and max(pair) > extent - shortest:
            node.unsupported(
                f"the border {node['border']!r} of {max(pair)} elements is wider than dimension {axis} of {extent}",
                "pad less, or use the border 'replicate'",
            )


def border_indices(node: NnefNode, indices: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """The elements that stand at indices in and around 0 .. extent, and where there is one; zeros are elsewhere."""
    border = node["border"]
    inside = (indices >= 0) & (indices < extent)
    clipped = np.clip(indices, 0, extent - 1)
    if border not in COPIES:
        return clipped, inside
    if border != "replicate":
        edge = 1 if border == "reflect" else 0
        mirrored = np.where(indices < 0, edge - 1 - indices, 2 * extent - 1 - edge - indices)
        wrong = ~inside & ((mirrored < 0) | (mirrored >= extent))
        if wrong.any():
            node.unsupported(
                f"the border {border!r} reaches index {indices[wrong][0]} of {extent} elements",
                "use 'replicate'",
            )
        clipped = np.where(inside, clipped, mirrored)
    return clipped, np.ones_like(inside)


def check_not_empty(node: NnefNode, shape: Sequence[int], windows: Sequence[AxisWindow]) -> None:
    """Raises UnsupportedError where border 'ignore' leaves a window without any element."""
    for axis, (extent, window) in enumerate(zip(shape, windows, strict=True)):
        node.check_size(window.outputs(extent) * window.kernel, f"the windows of dimension {axis}")
        positions = window.positions(extent) - window.before
        if not np.all(np.any((positions >= 0) & (positions < extent), axis=1)):
            node.unsupported(
                f"a window lies in the ignored border of dimension {axis} alone", "pad less than the window"
            )


def volume(windows: Sequence[AxisWindow]) -> int:
    """Elements of a window."""
    return math.prod(w.kernel for w in windows)
