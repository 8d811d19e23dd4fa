"""Computes AVG_POOL2D and MAX_POOL2D (TOSA 0.30 sections 2.3.2 and 2.3.9)."""

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.arithmetic import (
    apply_scale_32,
    as_int64,
    clip,
    magnitude,
    reciprocal_scale,
    scalar,
    wrap,
)
from tosaic.sim.golden.kernels import kernel as register
from tosaic.sim.golden.requirements import Terms, require_partial_sums


@register("AVG_POOL2D")
def avg_pool2d(
    input: np.ndarray,
    input_zp: np.ndarray,
    output_zp: np.ndarray,
    *,
    kernel: Sequence[int],
    stride: Sequence[int],
    pad: Sequence[int],
    out_dtype: DType,
) -> np.ndarray:
    """input [N,IH,IW,C] to [N,OH,OW,C] of the same type: means over the positions inside the input."""
    image = pad_spatial(as_int64(input) - scalar(input_zp), pad)
    exact = reduce_windows(np.add, image, kernel, stride)
    require_partial_sums(
        np.broadcast_to(np.int64(0), exact.shape),
        lambda: _window_terms(image, exact.shape, kernel, stride),
        lambda: magnitude(image) * kernel[0] * kernel[1],
        DType.INT32,
    )
    sums = wrap(exact, DType.INT32)
    count = window_sizes(input, kernel, stride, pad)
    means = apply_scale_32(sums, *reciprocal_scale(count), double_round=False)
    return clip(means + scalar(output_zp), out_dtype)


@register("MAX_POOL2D")
def max_pool2d(
    input: np.ndarray, *, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int]
) -> np.ndarray:
    """Maps input [N,IH,IW,C] to [N,OH,OW,C] of the same type: largest element, padding never wins."""
    image = pad_spatial(input, pad, value=np.iinfo(input.dtype).min)
    return reduce_windows(np.maximum, image, kernel, stride)


def _window_terms(
    image: np.ndarray, out_shape: tuple[int, ...], kernel: Sequence[int], stride: Sequence[int]
) -> Terms:
    """Yields the terms that the windows of the padded `image` add up, one position after the other."""
    height, width = ((size - 1) * step + 1 for size, step in zip(out_shape[1:3], stride, strict=True))
    for y, x in np.ndindex(*kernel):
        yield (), image[:, y : y + height : stride[0], x : x + width : stride[1]]


def pad_spatial(image: np.ndarray, pad: Sequence[int], value: float = 0) -> np.ndarray:
    """`image` [N,H,W,C] extended by `value`; `pad` is [top, bottom, left, right]."""
    return np.pad(image, ((0, 0), tuple(pad[:2]), tuple(pad[2:]), (0, 0)), constant_values=value)


def reduce_windows(
    combine: Callable[[np.ndarray, np.ndarray], np.ndarray],
    image: np.ndarray,
    kernel: Sequence[int],
    stride: Sequence[int],
) -> np.ndarray:
    """Combine each kernel window of the padded `image` [N,H,W,C]: first along y, then along x.

    The order is free because `combine` is associative and commutative (on floats, sums are rounded in float64).
    """
    for axis, size, step in zip((1, 2), kernel, stride, strict=True):
        outputs = (image.shape[axis] - size) // step + 1
        taken = [
            image[(slice(None),) * axis + (slice(tap, tap + (outputs - 1) * step + 1, step),)]
            for tap in range(size)
        ]
        image = reduce(combine, taken)
    return image


def window_sizes(
    input: np.ndarray, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int]
) -> np.ndarray:
    """Returns how many positions of each window lie inside the input, int64 [1,OH,OW,1]."""
    inside = pad_spatial(np.ones((1, *input.shape[1:3], 1), dtype=np.int64), pad)
    return reduce_windows(np.add, inside, kernel, stride)
