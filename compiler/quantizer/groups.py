"""Weights of four bits in groups: input channels in groups of 16 to 256, each with a scale of its own for each output.

In a float graph they are reals (MatMulNBits, blocked DequantizeLinear, exports by GPTQ are decoded at import), and
their grids are found by their values: weight = scale * (q - zero_point), q from -8 to 7. Or they are made here of any
weights, with error feedback.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.quantizer.feedback import round_with_feedback

GROUPS = (32, 64, 128)
"""Input channels that may share a scale where weights are rounded to four bits."""
LEAST_DEPTH = 32
"""Products of fewer input channels have no groups."""
MOST_ROWS = 4
"""Rows that a matrix is multiplied with: at 8 bytes per cycle groups of 64 take 0.57 of the cycles of int8 for one row,
0.6 for four; those with zero points 0.71 and 0.81."""
FACTOR_MAX = 127
"""A group's scale is one of this many parts of its output channel's largest one."""
_LOWEST, _HIGHEST = -8, 7
_FOUND_SIZES = (256, 128, 64, 32, 16)
_TOLERANCE = 0.02
"""Weights that were rounded to float16 are this share of a step off."""
_LEAST_STEP = 0.03
"""A step is a larger share of the largest of 16 levels."""
_COARSER = 7
"""Levels that no weight of a group has may lie between two that some have."""
_CHUNK = 1 << 20
_GLANCE = 4
"""Output channels that tell whether a closer look pays."""
_CUTS = np.linspace(1.0, 0.7, 7)
"""Shares of a group's largest weight that its scale is tried for: the largest ones may be cut."""


@dataclass(frozen=True)
class GroupGrid:
    """weight[n, k] = scales[n, g] * (integers[n, k] - zero_points[n, g]), g = k // size."""

    size: int
    scales: np.ndarray
    integers: np.ndarray
    zero_points: np.ndarray

    @property
    def wide(self) -> np.ndarray:
        """The integers less their zero points, -15 to 15."""
        return self.integers - self._spread(self.zero_points)

    @property
    def is_by_channel(self) -> bool:
        """Whether one scale for each output channel is all there is."""
        return self.scales.shape[1] == 1 and not self.zero_points.any()

    @property
    def reals(self) -> np.ndarray:
        """The weights."""
        return self.wide * self._spread(self.scales)

    def spans(self) -> Iterator[tuple[int, int]]:
        """First input channel and number of each group."""
        depth = self.integers.shape[1]
        for first in range(0, depth, self.size):
            yield first, min(self.size, depth - first)

    def _spread(self, of_groups: np.ndarray) -> np.ndarray:
        return np.repeat(of_groups, self.size, 1)[:, : self.integers.shape[1]]


def takes_groups(graph: Graph, op: Operator) -> bool:
    """Whether a convolution is a product of few rows with a constant matrix: of more rows the sums of groups would take
    longer to scale than their weights to load."""
    weight = graph.tensors[op.inputs[1]].data if op.op == "CONV2D" else None
    if weight is None or weight.shape[1:3] != (1, 1) or weight.shape[3] < LEAST_DEPTH:
        return False
    rows = math.prod(graph.tensors[op.inputs[0]].shape[:-1])
    return rows <= MOST_ROWS and rows == math.prod(graph.tensors[op.outputs[0]].shape[:-1])


def has_groups(graph: Graph, op: Operator) -> bool:
    """Whether a convolution's weights seem to have four bits, by a few of them."""
    weight = graph.tensors[op.inputs[1]].data
    if weight is None or not takes_groups(graph, op):
        return False
    rows = weight.reshape(len(weight), -1)
    picked = np.unique(np.linspace(0, len(rows) - 1, _GLANCE).astype(int))
    return group_grid(rows[picked]) is not None


def group_grid(rows: np.ndarray) -> GroupGrid | None:
    """The grid in the largest groups that weights [output channel, input channel] lie on; None for others, and for
    weights that are 0, 1 and -1 times a number."""
    depth = rows.shape[1]
    step = max(1, _CHUNK // depth)
    for size in (depth, *(size for size in _FOUND_SIZES if size < depth)):
        if _found(rows[:1], size) is None:
            continue
        parts = [_found(rows[first : first + step], size) for first in range(0, len(rows), step)]
        if all(part is not None for part in parts):
            scales, integers, zero_points = (
                np.concatenate(each)
                for each in zip(*(part for part in parts if part is not None), strict=True)
            )
            found = GroupGrid(size, scales, integers, zero_points)
            return found if np.abs(found.wide).max() > 1 else None
    return None


def _found(rows: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Scales, integers and zero points of rows in groups of a size."""
    if not np.all(np.isfinite(rows)):
        return None
    count, depth = -(-rows.shape[1] // size), rows.shape[1]
    blocks = np.pad(rows.astype(np.float64), ((0, 0), (0, count * size - depth))).reshape(
        len(rows), count, size
    )
    largest = np.abs(blocks).max(2, keepdims=True)
    largest[largest == 0] = 1.0
    # A zero stands for the zero point, which is a level, too.
    ordered = np.sort(np.concatenate([blocks, np.zeros((*blocks.shape[:2], 1))], 2), 2)
    between = np.diff(ordered, axis=2)
    between = np.where(between > _LEAST_STEP * largest, between, np.inf).min(2, keepdims=True)
    coarse = largest / np.where(np.isfinite(between), between, largest)
    scales, whole = largest.copy(), np.zeros_like(blocks)
    left = np.ones(blocks.shape[:2], bool)
    for finer in range(1, _COARSER + 1):
        levels = np.rint(coarse[left] * finer)
        tried, weights = largest[left] / levels, blocks[left]
        near = np.rint(weights / tried)
        squares = (near * near).sum(1, keepdims=True)
        fitted = np.where(squares > 0, (weights * near).sum(1, keepdims=True) / np.maximum(squares, 1), tried)
        span = np.maximum(near.max(1), 0) - np.minimum(near.min(1), 0)
        good = (np.abs(weights / fitted - near).max(1) < _TOLERANCE) & (span <= _HIGHEST - _LOWEST)
        places = np.argwhere(left)[good]
        scales[tuple(places.T)], whole[tuple(places.T)] = fitted[good], near[good]
        left[tuple(places.T)] = False
        if not left.any():
            break
    if left.any():
        return None
    return _placed(scales[..., 0], whole, depth)


def _placed(scales: np.ndarray, whole: np.ndarray, depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Levels as integers from -8 to 7: a negative scale turns those from -7 to 8, a zero point shifts all others."""
    low, high = whole.min(2), whole.max(2)
    turned = (high == -_LOWEST) & (low >= -_HIGHEST)
    sign = np.where(turned, -1.0, 1.0)
    scales, whole = scales * sign, whole * sign[..., None]
    low, high = whole.min(2), whole.max(2)
    zero_points = np.where(low < _LOWEST, _LOWEST - low, np.minimum(_HIGHEST - high, 0))
    integers = (whole + zero_points[..., None]).reshape(len(whole), -1)[:, :depth]
    return scales, integers.astype(np.int8), zero_points.astype(np.int64)


def rounded_in_groups(rows: np.ndarray, size: int, covariance: np.ndarray | None) -> GroupGrid:
    """Weights [output channel, input channel] rounded to four bits with a scale for each group of `size`.

    The scale of a group is the one with the least error on what calibration saw; with the `covariance` of the input
    channels the errors of a row make up for each other.
    """
    depth = rows.shape[1]
    count = -(-depth // size)
    power = np.ones(depth) if covariance is None else np.diag(covariance)
    room = count * size - depth
    weights = np.pad(rows, ((0, 0), (0, room))).reshape(len(rows), count, size)
    scales = _best_scales(weights, np.pad(power, (0, room)).reshape(count, size))
    unit = np.abs(scales).max(1, keepdims=True) / FACTOR_MAX
    factors = np.rint(scales / unit)
    factors[factors == 0] = 1.0
    spread = np.repeat(factors, size, 1)[:, :depth]
    if covariance is None:
        integers = np.clip(np.rint(rows / (unit * spread)), _LOWEST, _HIGHEST)
    else:
        integers = round_with_feedback(rows / unit, covariance, (_LOWEST, _HIGHEST), spread)
    return GroupGrid(size, factors * unit, integers.astype(np.int8), np.zeros(factors.shape, np.int64))


def _best_scales(weights: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Scales of groups [output channel, group, input channel]: the largest weight of each is -8 of them, or is cut."""
    place = np.abs(weights).argmax(2)[..., None]
    full = np.take_along_axis(weights, place, 2)[..., 0] / _LOWEST
    full[full == 0] = 1.0
    best, least = full, np.full(full.shape, np.inf)
    for cut in _CUTS:
        tried = full * cut
        near = np.clip(np.rint(weights / tried[..., None]), _LOWEST, _HIGHEST) * tried[..., None]
        error = ((near - weights) ** 2 * power).sum(2)
        best, least = np.where(error < least, tried, best), np.minimum(error, least)
    return best
