"""Functions of 16-bit integers: a TABLE where its lines meet TFLite's kernel everywhere, else element by element."""

import math
from collections.abc import Callable

import numpy as np

from tosaic.compiler.importers.lowering.rescaling import rescaled
from tosaic.compiler.importers.tflite.multipliers import round_half_away
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.ir import DType

_VALUES = 1 << 16
_STEP_BITS = 7
"""A TABLE has an entry for each 128 values, and lines between."""
_UNIT = 3 * 4096
"""Units of the kernel's argument in 1: its sigmoid table of 256 entries reaches to 32 / 3."""
_SIGMOID_ENTRIES = 256
_SIGMOID_STEPS = 24
"""Entries of the sigmoid table in 1."""


def looked_up(node: TfliteNode, results: np.ndarray, x: str = "") -> str:
    """`results` for the 65,536 values of a 16-bit tensor (input 0 without one), from the lowest on."""
    x = x or node.x()
    entries = np.append(results[:: 1 << _STEP_BITS], results[-1])
    # The last entry is behind the last value: the line through the last block's ends, as far as it is one.
    last = results[-(1 << _STEP_BITS) :]
    entries[-1] = np.clip(2 * last[64] - last[0], -(1 << 15), (1 << 15) - 1)
    if np.array_equal(_interpolated(entries), results):
        return rounded_table(node, entries, x)
    return gathered(node, results, x, DType.INT16)


def gathered(node: TfliteNode, results: np.ndarray, x: str, dtype: DType) -> str:
    """`results` for the values of an integer tensor from the lowest on, half of which are below zero."""
    low, shape = node.low, node.low.shape(x)
    low.make_room(results.shape, dtype.numpy)
    values = low.constant(results.reshape(1, -1, 1), dtype)
    places = low.plus(low.cast(low.reshape(x, (1, math.prod(shape))), DType.INT32), len(results) // 2)
    return low.reshape(low.op("GATHER", values, places), shape)


def _interpolated(entries: np.ndarray) -> np.ndarray:
    """What a TABLE of 513 entries gives for all values, rounded to 16 bits."""
    place, fraction = np.divmod(np.arange(_VALUES), 1 << _STEP_BITS)
    wide = (entries[place] << _STEP_BITS) + (entries[place + 1] - entries[place]) * fraction
    return (wide + (1 << (_STEP_BITS - 1))) >> _STEP_BITS


def populated(
    function: Callable[[np.ndarray], np.ndarray],
    scale: float,
    out_scale: float,
    zero: int = 0,
    out_zero: int = 0,
    real: type[np.floating] = np.float32,
) -> np.ndarray:
    """LUTPopulate: 513 values of a function; a curve that bends between two shares the error of the middle among them.

    In float32, as the interpreter computes it, or in float64.
    """
    least, most = DType.INT16.min, DType.INT16.max
    lowest, highest = (real(scale) * real(bound - zero) for bound in (least, most))
    out_low, out_high = (real(out_scale) * real(bound - out_zero) for bound in (least, most))
    step = (highest - lowest) / real(_VALUES >> _STEP_BITS)
    inverse = real(_VALUES) / (out_high - out_low)

    def at(x: np.ndarray) -> np.ndarray:
        return function(x.astype(np.float64)).astype(real) * inverse

    count = np.arange((_VALUES >> _STEP_BITS) + 1).astype(real)
    here = lowest + count * step
    with np.errstate(all="ignore"):
        sample = round_half_away(at(here)).astype(real)
        halves = round_half_away((at(lowest + (count + 1) * step) + sample) / real(2)).astype(real)
        error = halves - round_half_away(at(here + step / real(2))).astype(real)
        entries = sample - round_half_away(error / real(2))
        entries[-1] = round_half_away(at(np.array(highest)))
    return np.where(np.isnan(entries), 0, np.clip(entries, least, most)).astype(np.int64)


def lines(node: TfliteNode, entries: np.ndarray) -> str:
    """TFLite's lines between 513 entries; steep ones wrap in its 16 bits, where TOSA's TABLE does not allow them."""
    slopes = np.diff(entries)
    if np.array_equal(slopes.astype(np.int16), slopes):
        return rounded_table(node, entries)
    place, fraction = np.divmod(np.arange(_VALUES), 1 << _STEP_BITS)
    rises = (
        slopes.astype(np.int16).astype(np.int64)[place] * fraction + (1 << (_STEP_BITS - 1))
    ) >> _STEP_BITS
    return looked_up(node, (entries[place] + rises).astype(np.int16).astype(np.int64))


def rounded_table(node: TfliteNode, entries: np.ndarray, x: str = "") -> str:
    """A TABLE of 513 entries, whose 7 bits of fraction are rounded away, ties upward."""
    low = node.low
    wide = low.op("TABLE", x or node.x(), low.constant(entries, DType.INT16))
    return rescaled(low, wide, [(1 << 30, 30 + _STEP_BITS)], DType.INT16)


def logistic(node: TfliteNode) -> np.ndarray:
    """TFLite's 16-bit kernel for all inputs: lines between 256 points of the sigmoid."""
    x = _arguments(node, (0,))
    place, fraction = np.divmod(np.abs(x), 1 << 9)
    lines = (_between(place) << 9) + fraction * (_between(place + 1) - _between(place))
    size = np.where(place >= _SIGMOID_ENTRIES - 1, 0x7FFF << 10, lines)
    return np.where(x >= 0, size + (1 << 9), (1 << 25) - size + (1 << 9) - 1) >> 10


def tanh(node: TfliteNode) -> np.ndarray:
    """The same by 2 * sigmoid(2 x) - 1."""
    x = _arguments(node, (0, 1))
    place, fraction = np.divmod(np.abs(x), 1 << 8)
    lines = (_between(place) << 8) + fraction * (_between(place + 1) - _between(place))
    size = np.where(place >= _SIGMOID_ENTRIES - 1, 0xFFFF << 8, lines)
    half = 1 << 23
    return np.where(x >= 0, size - half + (1 << 7), -size + half + (1 << 7) - 1) >> 8


def _arguments(node: TfliteNode, plain_shifts: tuple[int, ...]) -> np.ndarray:
    """The 65,536 inputs in the kernel's units; scales that are powers of two take another way."""
    x, scale = np.arange(-(_VALUES // 2), _VALUES // 2), float(node.value().scale)
    fraction, exponent = np.frexp(scale)
    shift = 12 + int(exponent) - 1
    if fraction == 0.5 and shift in plain_shifts:
        return x * (3 << shift)
    multiplier, shift = scale * _UNIT, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2.0, shift + 1
    return (x * int(multiplier) + ((1 << shift) >> 1)) >> shift


def _between(place: np.ndarray) -> np.ndarray:
    """The sigmoid table's entries, in 1/65536: half of the line's largest error is added where it starts."""
    inside = np.minimum(place, _SIGMOID_ENTRIES - 1)
    points = [65536 / (1 + np.exp(-(inside + part) / _SIGMOID_STEPS)) for part in (0, 0.5, 1)]
    bend = points[1] - (points[0] + points[2]) / 2
    entries = np.floor(points[0] + bend / 2 + 0.5).astype(np.int64)
    return np.where(inside == _SIGMOID_ENTRIES - 1, (1 << 16) - 1, entries)
