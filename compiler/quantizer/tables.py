"""Functions as TOSA's tables: 256 entries for int8, 513 interpolated ones for int16, in pieces where needed."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.quantizer.encoding import Encoding, multiplier_and_shift

Function = Callable[[np.ndarray], np.ndarray]

INTERPOLATION = 128
"""An int16 table's result is 2^7 times its entries: 7 bits of the input interpolate."""
_ENTRIES, _STEPS = 513, 512
_PIECES = 7
_TOLERANCE = 2.0**-13
_BENT = 2.0**-9
"""An error of half a step of 8 bits."""
_SURROUNDINGS = (1 / 8, 1 / 32, 1 / 128)
"""Shares of a range that may get a table of their own."""
_EXTENSION, _RATIO_EXTENSION = 1.0, 8.0
_FLAT_TIGHT = 2.0**-14
_WIDEST_RATIO = 2.0**24
_HALF = 32768
_FLAT_EXPONENTS = 8
"""Powers of two among which the edge of a function's slope is looked for."""
_FAR = 32.0
"""Edges may lie this much beyond what was seen, which leaves it 2^10 steps to each side."""
_SMALL = 2.0**-6
"""A table of a whole sigmoid leaves results below this share of its largest less than 9 bits."""
_INFINITE = 1e30
_FINEST = 2.0**-27
"""A step inside less than this part of the range is as good as one at a point: int32 inputs resolve no more."""


@dataclass(frozen=True)
class TableSegment:
    """One int16 table: `centre` is the real at input 0, `step` the real of one input unit.

    Entries are int16, at `scale` each; the interpolated int32 result has the scale `scale / 128`.
    """

    low: float
    high: float
    centre: float
    step: float
    entries: np.ndarray
    scale: float

    @property
    def bound(self) -> int:
        """Largest magnitude of the result."""
        return int(np.abs(self.entries.astype(np.int64)).max()) * INTERPOLATION


_BYTES = np.arange(DType.INT8.min, DType.INT8.max + 1)


def int8_table(function: Function, source: Encoding, target: Encoding) -> np.ndarray:
    """The 256 entries for inputs -128..127."""
    return target.quantize(function(source.dequantize(_BYTES)))


def float32_table(function: Function, source: Encoding, target: Encoding) -> np.ndarray:
    """The same as ONNX computes it: all reals in float32, so that ties and jumps are where its runtimes have them."""
    reals = function((_BYTES - source.zero_point).astype(np.float32) * np.float32(source.scale))
    return Encoding(target.dtype, 1.0, target.zero_point).quantize(
        reals.astype(np.float32) / np.float32(target.scale)
    )


def rescaled_bytes(ratio: float, source_zero: int, target: Encoding) -> np.ndarray:
    """What RESCALE makes of -128..127."""
    multiplier, shift = multiplier_and_shift(ratio)
    products = (_BYTES.astype(np.int64) - source_zero) * multiplier + (1 << shift - 1)
    return np.clip((products >> shift) + target.zero_point, target.dtype.min, target.dtype.max)


def pieces(function: Function, low: float, high: float, tight: bool = False) -> list[TableSegment]:
    """Tables that together hold the function on low..high and somewhat beyond, in rising order.

    Where the input is positive over a wide range (reciprocals, roots, logarithms) the range is split geometrically, so
    that each piece is as precise as the function needs there. `tight` tables of sigmoids end where these are flat for 8
    bits, and so have finer steps; they are no longer equal for all.
    """
    least = high / _WIDEST_RATIO
    if 0 <= low < least and (_is_power_like(function, least, high) or is_log_like(function, least, high)):
        # What is smaller counts as that small: a norm of nothing is finite by its epsilon.
        low = least
    flat = _flat_beyond(function, low, high)
    if flat is not None:
        flat = _least_edge(function, flat) if tight else flat
        return [_piece(function, -flat, flat)]
    relative = low > 0 and _is_power_like(function, low, high)
    if relative or (low > 0 and is_log_like(function, low, high)):
        low, high = low / _RATIO_EXTENSION, high * _RATIO_EXTENSION
    else:
        low, high = _extended(function, low, high)
        low, high = _trimmed(function, low, high)
        largest = max(-low, high)
        whole = np.abs(function(_grid(-largest, largest))).max()
        keeps = whole * _SMALL <= np.abs(function(_grid(low, high))).max()
        if low < high and keeps and _error(function, -largest, largest, relative) <= _TOLERANCE:
            # Nothing needs to be subtracted from the input.
            low, high = -largest, largest
    if low <= 0:
        return [_piece(function, a, b) for a, b in _parted(function, low, high)]
    found = [(low, high)]
    while len(found) < _PIECES:
        worst = max(found, key=lambda span: _error(function, span[0], span[1], relative))
        if _error(function, worst[0], worst[1], relative) <= _TOLERANCE or worst[1] / worst[0] < 1.5:
            break
        index, middle = found.index(worst), math.sqrt(worst[0] * worst[1])
        found[index : index + 1] = [(worst[0], middle), (middle, worst[1])]
    return [_piece(function, a, b) for a, b in found]


def _parted(function: Function, low: float, high: float) -> list[tuple[float, float]]:
    """low..high in parts whose tables hold what bends within a few steps of one (x / (1 + |x|) over a wide range): the
    surroundings of the point that is worst get a table of their own. A jump is no better in parts, and stays in one."""
    whole = float(np.abs(function(_grid(low, high))).max())
    if not low < high or whole == 0:
        return [(low, high)]

    def error(span: tuple[float, float]) -> float:
        return _error(function, *span, relative=False) * float(np.abs(function(_grid(*span))).max()) / whole

    found = [(low, high)]
    while len(found) < _PIECES:
        worst = max(found, key=error)
        if error(worst) <= _BENT:
            break
        tried = [_around(function, *worst, share) for share in _SURROUNDINGS]
        index = found.index(worst)
        found[index : index + 1] = min(tried, key=lambda spans: max(map(error, spans)))
    return found if max(map(error, found)) < error((low, high)) / 2 else [(low, high)]


def _around(function: Function, low: float, high: float, share: float) -> list[tuple[float, float]]:
    """low..high, parted at the ends of a share of it around the point where interpolation is worst."""
    knots, middle = function(_grid(low, high)), _grid(low, high)[:-1] + (high - low) / _STEPS / 2
    worst = middle[np.abs((knots[:-1] + knots[1:]) / 2 - function(middle)).argmax()]
    edges = [edge for side in (-1, 1) if low < (edge := float(worst + side * share * (high - low))) < high]
    return list(itertools.pairwise([low, *edges, high]))


def is_counted(span: tuple[float, float]) -> bool:
    """Whether one table holds a value for each of the whole numbers in a span."""
    return -_STEPS / 2 <= span[0] and span[1] <= _STEPS / 2 - 1


def counted(function: Function, low: float, high: float) -> TableSegment:
    """The function at whole numbers, as precise as values between `low` and `high` need; nothing is interpolated."""
    numbers = np.arange(-_STEPS // 2, _STEPS // 2 + 1)
    values = np.clip(function(numbers), -_INFINITE, _INFINITE)
    seen = np.abs(values[(numbers >= low) & (numbers <= high)])
    # A reciprocal of 0 saturates.
    scale = float(seen.max(initial=0, where=seen < _INFINITE)) / (_HALF - 1) or 1.0
    entries = np.clip(np.rint(values / scale), -_HALF, _HALF - 1).astype(np.int16)
    return TableSegment(float(numbers[0]), float(numbers[-1]), 0.0, 1.0 / INTERPOLATION, entries, scale)


def of_whole_numbers(values: np.ndarray, first: int, scale: float) -> TableSegment:
    """Integers for the whole numbers from `first` on, in steps of `scale`."""
    entries = np.zeros(_ENTRIES, np.int16)
    start = first + _STEPS // 2
    entries[start : start + len(values)] = values
    last = float(first + len(values) - 1)
    return TableSegment(float(first), last, 0.0, 1.0 / INTERPOLATION, entries, scale)


def _flat_beyond(function: Function, seen_low: float, seen_high: float) -> float | None:
    """A power of two beyond which, to both sides, the function (a sigmoid, a tanh) stays as it is, if one table holds
    it from there to there. Its tables are then equal whatever range was seen: the machine loads one for all.
    None where it has no such ends, or where they are far beyond what was seen, for which steps would be coarse, or
    where only small results were seen (probabilities of what never happens)."""
    largest = max(-seen_low, seen_high)
    seen = float(np.abs(function(np.linspace(seen_low, seen_high, 65))).max())
    for exponent in range(-_FLAT_EXPONENTS, _FLAT_EXPONENTS + 1):
        edge = 2.0**exponent
        low, inner_low, inner_high, high = function(edge * np.array([-_FAR, -1.0, 1.0, _FAR]))
        allowed = abs(high - low) * 2.0**-17
        if max(abs(low - inner_low), abs(high - inner_high)) < allowed:
            fits = edge <= _FAR * largest and _error(function, -edge, edge, False) <= _TOLERANCE
            fits &= seen >= _SMALL * max(abs(low), abs(high))
            return edge if fits else None
    return None


def _least_edge(function: Function, edge: float) -> float:
    """The least edge within a given one beyond which a function is flat but for a fraction of a step of 8 bits."""
    ends = function(np.array([-edge, edge]))
    tried = np.linspace(edge / 4, edge, 97)
    off = np.maximum(np.abs(function(-tried) - ends[0]), np.abs(function(tried) - ends[1]))
    return float(tried[np.argmax(off < abs(ends[1] - ends[0]) * _FLAT_TIGHT)])


def _is_power_like(function: Function, low: float, high: float) -> bool:
    """Whether the function keeps its sign and changes by ratios with its positive input: its result is a factor."""
    values = function(np.geomspace(low / _RATIO_EXTENSION, high * _RATIO_EXTENSION, 65))
    if not np.all(np.isfinite(values)) or np.any(values == 0) or len(set(np.sign(values))) != 1:
        return False
    slopes = np.diff(np.log(np.abs(values))) / math.log(high / low * _RATIO_EXTENSION**2) * 64
    return bool(0.3 <= np.abs(slopes).max() <= 4.0)


def is_log_like(function: Function, low: float, high: float) -> bool:
    """Whether the function of a positive input rises or falls as a logarithm does, equally for each ratio (or not at
    all, below a floor), over more than one table of equal steps holds."""
    steps = np.diff(function(np.geomspace(low, high, 65)))
    if not np.all(np.isfinite(steps)) or not (np.all(steps >= 0) or np.all(steps <= 0)):
        return False
    sizes = np.abs(steps)
    moving = sizes[sizes > sizes.max() / 8]
    even = len(moving) > 8 and sizes.max() <= 2 * moving.min()
    return bool(even and _error(function, low, high, False) > _TOLERANCE)


def _extended(function: Function, low: float, high: float) -> tuple[float, float]:
    """Somewhat more than was seen, as far as the function's values stay near those that were seen."""
    seen = function(np.linspace(low, high, 257))
    span = float(seen.max() - seen.min())
    floor, ceiling = float(seen.min()) - span / 4, float(seen.max()) + span / 4
    width = (high - low) or abs(high) or 1.0

    def reach(edge: float, direction: float) -> float:
        inside = 0.0
        for part in np.linspace(0, _EXTENSION, 17)[1:]:
            value = float(function(np.array([edge + direction * part * width]))[0])
            if not floor <= value <= ceiling:
                break
            inside = float(part)
        return edge + direction * inside * width

    return reach(low, -1.0), reach(high, 1.0)


def _trimmed(function: Function, low: float, high: float) -> tuple[float, float]:
    """The part of low..high outside of which the function is as at the part's edge: inputs saturate there."""
    finest = (high - low) * _FINEST
    while high - low > finest:
        points = np.linspace(low, high, 4097)
        values = function(points)
        span = float(values.max() - values.min())
        if span == 0:
            break
        first = np.flatnonzero(np.abs(values - values[0]) > span * 2.0**-17)
        last = np.flatnonzero(np.abs(values - values[-1]) > span * 2.0**-17)
        start, end = int(max(first[0] - 1, 0)), int(min(last[-1] + 1, len(points) - 1))
        if start >= end or (points[end] - points[start]) > 0.75 * (high - low):
            break
        low, high = float(points[start]), float(points[end])
    return low, high


def _grid(low: float, high: float) -> np.ndarray:
    return low + (high - low) * np.arange(_ENTRIES) / _STEPS


def _error(function: Function, low: float, high: float, relative: bool) -> float:
    """Returns the largest error of the interpolation on low..high, relative to the value or to the largest one."""
    knots = function(_grid(low, high))
    parts = np.arange(1, 8) / 8
    between = (low + (high - low) * (np.arange(_STEPS)[:, None] + parts) / _STEPS).reshape(-1)
    wanted = function(between)
    got = (knots[:-1, None] * (1 - parts) + knots[1:, None] * parts).reshape(-1)
    size = np.abs(wanted) if relative else np.abs(knots).max()
    return float((np.abs(got - wanted) / np.maximum(size, 1e-30)).max())


def _piece(function: Function, low: float, high: float) -> TableSegment:
    if high <= low:
        low, high = low - max(abs(low), 1e-6) / 2, high + max(abs(high), 1e-6) / 2
    # The last input, 32767, is one short of the last knot.
    step = (high - low) / (2 * _HALF - 1)
    centre = low + step * _HALF
    knots = np.clip(_grid(low, low + step * 2 * _HALF), low, high)
    values = function(knots)
    scale = float(np.abs(values).max()) / (_HALF - 1) or 1.0
    entries = np.clip(np.rint(values / scale), -_HALF, _HALF - 1).astype(np.int16)
    return TableSegment(low, high, centre, step, entries, scale)
