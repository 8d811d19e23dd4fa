"""Resampling along one axis after the other: whole positions by moves, all others as products with a matrix."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.ir import DType
from tosaic.compiler.ir.building import sizes

_LARGEST_SCALE = 1 << 11
"""RESIZE's largest scale of level 8K."""
_RESIZED_CHANNELS = 4
"""Channels below which products with matrices take fewer cycles on the machine."""
_SHARE_ERROR = 1e-6
"""Error of a share in float32 or float64 that is still the fraction that it stands for."""


@dataclass(frozen=True)
class Filter:
    """How samples between elements are made: `linear` or `cubic`."""

    kind: str
    cubic_coefficient: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False

    @property
    def support(self) -> int:
        """Half of the kernel's width, in elements."""
        return 1 if self.kind == "linear" else 2

    def __call__(self, distance: np.ndarray) -> np.ndarray:
        """Returns the weight of an element at a distance."""
        t, a = np.abs(distance), self.cubic_coefficient
        if self.kind == "linear":
            return np.clip(1 - t, 0, 1)
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def nearest_positions(positions: np.ndarray, size: int, rounding: str) -> np.ndarray:
    """Whole positions inside the axis. `rounding`: round_prefer_floor, round_prefer_ceil, floor or ceil."""
    rounded = {
        "round_prefer_floor": np.ceil(positions - 0.5),
        "round_prefer_ceil": np.floor(positions + 0.5),
        "floor": np.floor(positions),
        "ceil": np.ceil(positions),
    }[rounding]
    return np.clip(rounded, 0, size - 1).astype(np.int64)


def filter_matrix(
    low: Lowering, positions: np.ndarray, size: int, scale: float, kernel: Filter
) -> np.ndarray:
    """[size, outputs]: weights of the elements for samples at `positions`; the edges are repeated."""
    stretch = min(scale, 1.0) if kernel.antialias else 1.0
    reach = math.ceil(kernel.support / stretch)
    low.make_room((len(positions), max(size, 6 * reach)), np.float64)
    taps = np.floor(positions)[:, None] + np.arange(-reach, reach + 2)
    weights = kernel((positions[:, None] - taps) * stretch)
    if kernel.exclude_outside:
        weights = np.where((taps < 0) | (taps >= size), 0.0, weights)
    weights /= weights.sum(1, keepdims=True)
    matrix = np.zeros((size, len(positions)))
    columns = np.broadcast_to(np.arange(len(positions))[:, None], taps.shape)
    np.add.at(matrix, (np.clip(taps, 0, size - 1).astype(np.int64), columns), weights)
    return matrix


def pick(low: Lowering, x: str, axis: int, positions: np.ndarray) -> str:
    """Elements at whole positions; a whole factor is a TILE."""
    shape = low.shape(x)
    factor = len(positions) // shape[axis]
    if factor and np.array_equal(positions, np.repeat(np.arange(shape[axis]), factor)):
        split = low.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        multiples = [1] * low.rank(split)
        multiples[axis + 1] = factor
        wide = low.tile(split, multiples)
        return low.reshape(wide, (*shape[:axis], shape[axis] * factor, *shape[axis + 1 :]))
    return low.take(x, axis, positions)


def mix(low: Lowering, x: str, axis: int, matrix: np.ndarray) -> str:
    """Replaces an axis by its product with a matrix [size, outputs]."""
    order = [a for a in range(low.rank(x)) if a != axis] + [axis]
    product = matmul(low, low.transpose(x, order), low.constant(matrix, low.dtype(x)))
    return low.transpose(product, [int(a) for a in np.argsort(order)])


def mix_axes(low: Lowering, x: str, matrices: Mapping[int, np.ndarray]) -> str:
    """Replaces axes by their products with matrices [size, outputs]. Where these interpolate an image by whole factors
    it is one RESIZE, which does both axes with one rounding once it is quantized."""
    steps = {axis: _whole_factor(matrix) for axis, matrix in matrices.items()}
    planes = set(matrices) <= {2, 3}
    if matrices and low.rank(x) == 4 and None not in steps.values() and (planes or set(matrices) <= {1, 2}):
        channels = low.shape(x)[1 if planes else 3]
        if channels >= _RESIZED_CHANNELS and low.dtype(x).is_float:
            image = low.transpose(x, [0, 2, 3, 1]) if planes else x
            image = _resized(low, image, [steps.get(axis + planes) or (1, 1, 0) for axis in (1, 2)])
            return low.transpose(image, [0, 3, 1, 2]) if planes else image
    for axis, matrix in matrices.items():
        x = mix(low, x, axis, matrix)
    return x


def _whole_factor(matrix: np.ndarray) -> tuple[int, int, int] | None:
    """RESIZE's scale (numerator, denominator) and offset of an axis whose matrix interpolates by a whole factor, from
    the first element on or between the middles of elements; None of another one."""
    size, count = matrix.shape
    factor, rest = divmod(count, size)
    if rest or factor < 2:
        return None
    for scale, step, offset in ((factor, 1, 0), (2 * factor, 2, 1 - factor)):
        places, distance = np.divmod(np.arange(count) * step + offset, scale)
        wanted = np.zeros(matrix.shape)
        for place, share in ((places, scale - distance), (places + 1, distance)):
            np.add.at(wanted, (np.clip(place, 0, size - 1), np.arange(count)), share / scale)
        if scale <= _LARGEST_SCALE and np.allclose(matrix, wanted, rtol=0, atol=_SHARE_ERROR):
            return scale, step, offset
    return None


def _resized(low: Lowering, image: str, steps: Sequence[tuple[int, int, int]]) -> str:
    """A RESIZE of an image [N, H, W, C] by scales and offsets of both axes."""
    counts = [
        size * scale // step for size, (scale, step, _) in zip(low.shape(image)[1:3], steps, strict=True)
    ]
    borders = [
        (count - 1) * step - (size - 1) * scale + offset
        for count, size, (scale, step, offset) in zip(counts, low.shape(image)[1:3], steps, strict=True)
    ]
    (sy, dy, oy), (sx, dx, ox) = steps
    parameters = (sizes([sy, dy, sx, dx]), sizes([oy, ox]), sizes(borders))
    return low.op("RESIZE", image, *parameters, mode="BILINEAR", dtype=low.dtype(image))


def fill_outside(low: Lowering, x: str, axis: int, outside: np.ndarray, value: float) -> str:
    """Puts `value` where `outside` holds along an axis."""
    if not outside.any():
        return x
    line = [1] * low.rank(x)
    line[axis] = len(outside)
    return low.select(low.constant(outside.reshape(line), DType.BOOL), low.scalar(value, x), x)
