"""Sampling of images [N, C, spatial...] at positions that are computed at run time."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.ir import DType


@dataclass(frozen=True)
class Sampler:
    """How values between elements and outside of the image are made up."""

    degree: int
    """0: the nearest element, 1: linear, 3: cubic with coefficient -0.75."""
    padding: str
    """How places outside are read: zeros, border or reflection."""
    corners: bool
    """Whether -1 and 1 are the centres of the outermost elements, or their outer edges."""


def grid_sample(low: Lowering, x: str, grid: str, how: Sampler) -> str:
    """x at the positions of `grid` [N, out..., axes], -1 to 1, the last spatial axis first: [N, C, out...]."""
    shape, points = low.shape(x), low.shape(grid)[1:-1]
    batch, channels, sizes = shape[0], shape[1], shape[2:]
    count, last = math.prod(points), len(sizes)
    rows = low.transpose(low.reshape(x, (batch, channels, math.prod(sizes))), (0, 2, 1))
    flat = low.reshape(grid, (batch, count, last))
    taps = [
        _taps(low, low.reshape(low.slice_axis(flat, 2, last - 1 - axis, 1), (batch, count)), size, how)
        for axis, size in enumerate(sizes)
    ]
    result = None
    for corner in itertools.product(*taps):
        index, weight = low.constant(np.zeros((1, 1)), DType.INT32), None
        for (position, share), size in zip(corner, sizes, strict=True):
            index = low.add(low.times(index, size), position)
            if share is not None:
                weight = share if weight is None else low.mul(weight, share)
        part = low.op("GATHER", rows, low.broadcast_to(index, (batch, count)))
        if weight is not None:
            part = low.mul(part, low.reshape(weight, (*low.shape(weight), 1)))
        result = part if result is None else low.add(result, part)
    assert result is not None
    return low.reshape(low.transpose(result, (0, 2, 1)), (batch, channels, *points))


def _taps(low: Lowering, place: str, size: int, how: Sampler) -> list[tuple[str, str | None]]:
    """Returns, for one axis, which elements are read and the share of each (None: all of it)."""
    scale = (size - 1) / 2 if how.corners else size / 2
    place = low.plus(low.times(place, scale), (size - 1) / 2)
    if how.degree == 0:
        place = low.round_half_even(place)
    place = _inside(low, place, size, how)
    if how.degree == 0:
        return [_tap(low, place, None, size, how)]
    first = low.op("FLOOR", place)
    fraction = low.sub(place, first)
    if how.degree == 1:
        shares = {0: low.plus(low.negate(fraction), 1), 1: fraction}
    else:
        shares = {step: _cubic(low, low.plus(fraction, -step), step) for step in (-1, 0, 1, 2)}
    taps = []
    for step, share in shares.items():
        position = low.plus(first, step)
        if how.padding == "reflection":
            position = _inside(low, position, size, how)
        taps.append(_tap(low, position, share, size, how))
    return taps


def _tap(low: Lowering, position: str, share: str | None, size: int, how: Sampler) -> tuple[str, str | None]:
    near = low.clamp(position, 0, size - 1)
    if how.padding == "zeros":
        one, zero = (low.constant(np.full((1, 1), value), low.dtype(position)) for value in (1, 0))
        inside = low.select(low.equal(near, position), one, zero)
        share = inside if share is None else low.mul(share, inside)
    return low.cast(near, DType.INT32), share


def _inside(low: Lowering, place: str, size: int, how: Sampler) -> str:
    """Positions outside the image brought to its border, or mirrored there."""
    if how.padding == "border" and how.degree < 3:
        return low.clamp(place, 0, size - 1)
    if how.padding != "reflection":
        return place  # a cubic goes on beyond the border, between repetitions of the last element
    first, span = (0.0, size - 1.0) if how.corners else (-0.5, float(size))
    if span == 0:
        return low.times(place, 0)
    moved = low.plus(place, -first)
    turns = low.op("FLOOR", low.times(moved, 1 / (2 * span)))
    wave = low.sub(moved, low.times(turns, 2 * span))
    # A triangle: up to `span` and down again.
    return low.plus(low.minimum(wave, low.plus(low.negate(wave), 2 * span)), first)


_SHARPNESS = -0.75
"""The coefficient of the cubic, as in ONNX and PyTorch."""


def _cubic(low: Lowering, distance: str, step: int) -> str:
    """The share of an element at `distance`: up to 1 for the inner two, up to 2 for the outer ones."""
    d = low.op("ABS", distance)
    a = _SHARPNESS
    cubic = (a + 2, -(a + 3), 0, 1) if step in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
    result = low.times(d, cubic[0])
    for coefficient in cubic[1:3]:
        result = low.mul(low.plus(result, coefficient), d)
    return low.plus(result, cubic[3])
