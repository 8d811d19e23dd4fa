"""Resampling of images [N, H, W, C]."""

import numpy as np

from tosaic.compiler.importers.lowering.rescaling import rescaled
from tosaic.compiler.importers.lowering.resize import Filter, filter_matrix, mix_axes, pick
from tosaic.compiler.importers.tflite.fixed_point_graph import shifted_down
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles
from tosaic.compiler.importers.tflite.values import OFFSET
from tosaic.compiler.ir import DType

_FRACTION_BITS = 10
"""TFLite's integer kernel counts positions in 1/1024."""
_MOST_BITS = 32
_BYTE = 8
_MOST_SCALE = 1 << 11
"""RESIZE's largest scale of level 8K."""


def _corners(node: TfliteNode) -> tuple[bool, bool]:
    return bool(node.option("AlignCorners", False)), bool(node.option("HalfPixelCenters", False))


def _ratio(size: int, count: int, align: bool) -> tuple[int, int]:
    """Distance of the results in elements, as a fraction."""
    return (size - 1, count - 1) if align and count > 1 else (size, count)


@handles("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(node: TfliteNode) -> str:
    """Each result is an element; positions are computed in float32, as by TFLite."""
    align, half = _corners(node)
    x = node.x()
    for axis, count in enumerate(node.integers(1), 1):
        size = node.shape()[axis]
        over, under = _ratio(size, count, align)
        positions = (np.arange(count, dtype=np.float32) + np.float32(0.5 * half)) * (
            np.float32(over) / np.float32(under)
        )
        whole = np.floor(positions + np.float32(0.5)) if align else np.floor(positions)
        x = pick(node.low, x, axis, np.clip(whole, 0, size - 1).astype(np.int64))
    return x


@handles("RESIZE_BILINEAR")
def resize_bilinear(node: TfliteNode) -> str:
    """A product with a matrix for each axis; of integers as TFLite's kernel has it, in fixed point."""
    if node.is_quantized:
        return _integers(node)
    if not node.is_float:
        node.unsupported("integers without a scale", "use float32")
    align, half = _corners(node)
    low, matrices = node.low, dict[int, np.ndarray]()
    for axis, count in enumerate(node.integers(1), 1):
        size = node.shape()[axis]
        if size == count:
            continue
        over, under = _ratio(size, count, align)
        low.make_room((4, count), np.float64)
        shift = 0.5 if half else 0.0
        positions = (np.arange(count) + shift) * (over / under) - shift
        matrices[axis] = filter_matrix(
            low, np.clip(positions, 0, size - 1), size, under / over if over else 1.0, Filter("linear")
        )
    return mix_axes(low, node.x(), matrices)


def _integers(node: TfliteNode) -> str:
    low, (height, width) = node.low, node.integers(1)
    align, half = _corners(node)
    axes = [
        _FixedAxis(size, count, align, half)
        for size, count in zip(node.shape()[1:3], (height, width), strict=True)
    ]
    if node.value().kind != "INT16" and all(axis.is_exact for axis in axes):
        return _resized(node, axes)
    bits = sum(axis.weight_bits for axis in axes)
    x = low.cast(node.x(), DType.INT32)
    element_bits = 16 if node.value().kind == "INT16" else 8
    if element_bits + bits + 1 > _MOST_BITS:
        return _in_two_parts(node, x, axes, bits)
    # One more bit in front of the last rounding: see `_rounded`.
    return _rounded(node, _mixed(node, x, axes, 2), bits + 1)


def _mixed(node: TfliteNode, x: str, axes: "list[_FixedAxis]", factor: int = 1) -> str:
    """The weighted sums of neighbours, times `factor` and the axes' powers of two."""
    low = node.low
    for number, axis in enumerate(axes, 1):
        times = factor if number == 2 else 1
        lower, upper = low.take(x, number, axis.lower), low.take(x, number, axis.upper)
        line = [1] * low.rank(x)
        line[number] = len(axis.lower)
        near = low.constant(((1 << axis.weight_bits) - axis.weight).reshape(line) * times, DType.INT32)
        far = low.constant(axis.weight.reshape(line) * times, DType.INT32)
        x = low.add(low.mul(lower, near), low.mul(upper, far))
    return x


def _in_two_parts(node: TfliteNode, x: str, axes: "list[_FixedAxis]", bits: int) -> str:
    """16-bit elements by their upper and lower bytes, where the sums of whole ones leave 32 bits."""
    low = node.low
    upper = shifted_down(node, x, _BYTE)
    lower = _mixed(node, low.sub(x, low.times(upper, 1 << _BYTE)), axes)
    # The sums in 1/256 without their last byte, which only tells ties apart.
    sums = low.add(_mixed(node, upper, axes), shifted_down(node, lower, _BYTE))
    raised = low.plus(sums, 1 << (bits - _BYTE - 1))
    rest = low.binary("BITWISE_AND", raised, low.scalar((1 << (bits - _BYTE)) - 1, raised))
    last = low.binary("BITWISE_AND", lower, low.scalar((1 << _BYTE) - 1, lower))
    tie = low.equal(low.binary("BITWISE_OR", rest, last), low.scalar(0, rest))
    y = shifted_down(node, raised, bits - _BYTE)
    # Ties go away from zero.
    y = low.select(low.op("LOGICAL_AND", tie, low.is_negative(sums)), low.plus(y, -1), y)
    return low.cast(y, DType.INT16)


class _FixedAxis:
    """Positions of the results of one axis, and the elements on both sides, as TFLite's integer kernel has them."""

    def __init__(self, size: int, count: int, align: bool, half: bool) -> None:
        self.size, self.count, self.half = size, count, half
        over, under = _ratio(size, count, align)
        one = 1 << _FRACTION_BITS
        step = (one * over + under // 2) // under
        self.position = np.arange(count, dtype=np.int64) * step
        if half:
            self.position += step // 2 - one // 2
        divided = np.where(self.position >= 0, self.position // one, 0)
        raised = self.position + one - 1
        self.lower = np.maximum(divided, 0)
        self.upper = np.minimum(np.where(raised >= 0, raised // one, 0), size - 1)
        weight = self.position - (self.lower << _FRACTION_BITS)
        shared = int(np.gcd.reduce(np.append(weight, one)))
        self.weight = weight // shared
        """The upper element's part, of 2^weight_bits."""
        self.weight_bits = (one // shared).bit_length() - 1
        common = np.gcd(over, under) if over else under
        self.under, self.over = int(under // common), int(over // common)
        exact = step * under == one * over and (not half or step % 2 == 0)
        self.is_exact = bool(exact and over and (2 * (1 + half)) * self.under <= _MOST_SCALE)

    def resize(self, factor: int) -> tuple[int, int, int, int]:
        """Returns RESIZE's numerator, denominator, offset and border, all times a factor."""
        half = 2 if self.half else 1
        numerator, denominator = half * self.under, half * self.over
        offset = self.over - self.under if self.half else 0
        border = (self.count - 1) * denominator - (self.size - 1) * numerator + offset
        return numerator * factor, denominator * factor, offset * factor, border * factor


def _resized(node: TfliteNode, axes: "list[_FixedAxis]") -> str:
    """Resizes by TOSA's RESIZE, where the fractions are exact."""
    low = node.low
    (ny, dy, oy, by), (nx, dx, ox, bx) = axes[0].resize(2), axes[1].resize(1)
    sizes = [[ny, dy, nx, dx], [oy, ox], [by, bx]]
    wide = low.op(
        "RESIZE",
        node.x(),
        *(low.build.shape(values) for values in sizes),
        mode="BILINEAR",
        dtype=DType.INT32,
    )
    return _rounded(node, wide, (ny * nx).bit_length() - 1)


def _rounded(node: TfliteNode, wide: str, bits: int) -> str:
    """wide / 2^bits, ties away from zero, which is upward for unsigned integers.

    `wide` is even: the first of RESCALE's two roundings then only breaks ties.
    """
    rounding = "SINGLE_ROUND" if node.value().kind in OFFSET else "DOUBLE_ROUND"
    return rescaled(node.low, wide, [(1 << 30, 30 + bits)], node.result_type(), rounding=rounding)
