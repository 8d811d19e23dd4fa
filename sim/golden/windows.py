"""Views of an image as sliding windows, and the cutting of large work into pieces that fit in memory."""

import math
from collections.abc import Iterator, Sequence

import numpy as np


def pad_spatial(image: np.ndarray, pad: Sequence[int], value: int = 0) -> np.ndarray:
    """`image` [N, spatial..., C] with each spatial axis extended by `value`; `pad` is before, after per axis."""
    if not any(pad):
        return image
    widths = [(0, 0), *zip(pad[0::2], pad[1::2], strict=True), (0, 0)]
    return np.pad(image, widths, constant_values=value)


def sliding_windows(
    image: np.ndarray, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> np.ndarray:
    """A view [N, out..., kernel..., C] of the already padded `image` [N, in..., C].

    Element [n, o..., k..., c] is image[n, o*stride + k*dilation, c] for each spatial axis.
    """
    spatial = range(1, 1 + len(kernel))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(image, reach, axis=tuple(spatial))
    steps = [slice(None, None, s) for s in stride]
    taps = [slice(None, None, d) for d in dilation]
    view = view[(slice(None), *steps, slice(None), *taps)]
    return np.moveaxis(view, 1 + len(kernel), -1)


def blocks(shape: Sequence[int], limit: int) -> Iterator[tuple[slice, ...]]:
    """Cut the index space `shape` into boxes of at most max(1, `limit`) points, in C order."""
    axis = len(shape)
    while axis > 0 and math.prod(shape[axis - 1 :]) <= limit:
        axis -= 1
    if axis == 0:
        yield tuple(slice(0, size) for size in shape)
        return
    axis -= 1  # the axis that is cut: the axes after it fit whole, it does not
    step = max(1, limit // max(1, math.prod(shape[axis + 1 :])))
    whole = tuple(slice(0, size) for size in shape[axis + 1 :])
    for outer in np.ndindex(*shape[:axis]):
        single = tuple(slice(i, i + 1) for i in outer)
        for start in range(0, shape[axis], step):
            yield (*single, slice(start, min(start + step, shape[axis])), *whole)
