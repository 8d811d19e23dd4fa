"""Where the axes of an image stand, and what lies around it."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tosaic.compiler.importers.lowering.lowering import Lowering

PadMode = Literal["edge", "reflect", "symmetric", "wrap"]
"""What numpy.pad calls them."""


def channels_last(low: Lowering, x: str) -> str:
    """Transposes [N, C, spatial...] to [N, spatial..., C]."""
    return low.transpose(x, [0, *range(2, low.rank(x)), 1])


def channels_first(low: Lowering, x: str) -> str:
    """Transposes [N, spatial..., C] to [N, C, spatial...]."""
    return low.transpose(x, [0, low.rank(x) - 1, *range(1, low.rank(x) - 1)])


def extend(low: Lowering, x: str, pads: Sequence[tuple[int, int]], mode: PadMode) -> str:
    """Adds copies of elements before and after each axis; negative amounts cut off what then stands there.

    Only `wrap` cuts first: it repeats what is left, as PyTorch's circular padding and ONNX Runtime do.
    """
    for axis, (before, after) in enumerate(pads):
        if not before and not after:
            continue
        size = low.shape(x)[axis]
        low.make_room((size + max(before, 0) + max(after, 0),), np.int64)
        indices, cut = np.arange(size), slice(max(-before, 0), None if after >= 0 else after)
        if mode == "wrap":
            indices, cut = indices[cut], slice(None)
        indices = np.pad(indices, (max(before, 0), max(after, 0)), mode=mode)
        x = low.take(x, axis, indices[cut])
    return x
