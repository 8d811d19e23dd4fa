"""Operators that both sides have, by a formula that both share."""

from collections.abc import Callable

import numpy as np

from .algebra import WIDE, Algebra
from .values import Terms, aligned, select


def multiplied(algebra: Algebra, x: Terms, b: Terms, shift: int) -> Terms:
    """x * b, shifted right and rounded."""
    if not shift:
        return algebra.multiply(x, b, 2 * WIDE)
    x, b = aligned(x, b)
    one, result = np.ones(1, np.int64), None
    known = [(each.low == each.high) & algebra.uses("products") for each in (x, b)]
    if not (known[0] | known[1]).all():
        result = algebra.rescale(algebra.multiply(x, b, 2 * WIDE), one, one * shift, double=False)
    for term, number, own in ((b, x, known[0]), (x, b, known[1])):
        if own.any():
            # Of each element: lanes that no store writes may hold anything.
            algebra.note("products", own.sum())
            scaled = algebra.rescale(term, np.where(own, number.low, 0), one * shift, double=False)
            result = scaled if result is None else select(np.broadcast_to(own, scaled.shape), scaled, result)
    assert result is not None
    return result


def shifted(algebra: Algebra, name: str, x: Terms, count: Terms | int) -> Terms:
    """ASR (rounded down), ASRR (halves up), LSL and LSR, by a number or by terms; those of the low 32 bits."""
    if isinstance(count, int):
        if name == "LSL":
            return algebra.shifted_left(x, count) if count < 32 else algebra.constant(np.zeros(x.shape))
        if name == "ASR":
            return algebra.shifted_right(x, count)
        if name == "ASRR":
            one = np.ones(1, np.int64)
            return algebra.rescale(x, one, one * count, double=False)
        positive = x.low >= 0
        if name == "LSR" and positive.any():
            whole = algebra.shifted_right(x, count)
            rest = None if positive.all() else shifted(algebra, name, x, algebra.constant(np.int64(count)))
            return whole if rest is None else select(positive, whole, rest)
        count = algebra.constant(np.int64(count))
    concrete = _SHIFTS[name]
    if name == "LSL":

        def low_bits(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
            return (concrete(values, counts) << 16) >> 16

        return algebra.function(name, [x.plain(), count.plain()], (-(1 << 47), (1 << 47) - 1), low_bits)
    # Shifted right, numbers come nearer to 0.
    nearer = np.minimum(x.low, 0), np.maximum(x.high, 0)
    ends = (0, (1 << 32) - 1) if name == "LSR" else nearer
    return algebra.function(name, [x.plain(), count.plain()], ends, concrete)


def _rounded_down(values: np.ndarray, count: np.ndarray) -> np.ndarray:
    return values >> (count & 63)


def _halves_up(values: np.ndarray, count: np.ndarray) -> np.ndarray:
    count = count & 63
    return (values >> count) + np.where(count > 0, (values >> np.maximum(count - 1, 0)) & 1, 0)


def _left(values: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.where(count & 63 > 31, 0, values << (count & 31))


def _right(values: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.where(count & 63 > 31, 0, (values & 0xFFFFFFFF) >> (count & 31))


_SHIFTS = {"ASR": _rounded_down, "ASRR": _halves_up, "LSL": _left, "LSR": _right}


def named(
    algebra: Algebra, name: str, x: Terms, b: Terms, concrete: Callable[..., np.ndarray] | None = None
) -> Terms:
    """CLZ and ABS of x, EQ, GT and GE of both."""
    own = concrete or _NAMED[name]
    if name == "CLZ":
        return algebra.function(name, [algebra.wrap(x, 32)], (0, 32), own)
    if name == "ABS":
        ends = np.maximum(np.abs(x.low), np.abs(x.high))
        least = np.where((x.low <= 0) & (x.high >= 0), 0, np.minimum(np.abs(x.low), np.abs(x.high)))
        return algebra.function(name, [x.plain()], (least, ends), own)
    ends = _known_ends(name, *aligned(x, b)) if algebra.uses("intervals") else (0, 1)
    return algebra.function(name, [x.plain(), b.plain()], ends, own)


def _known_ends(name: str, x: Terms, b: Terms) -> tuple[np.ndarray, np.ndarray]:
    """The interval of a comparison of numbers whose intervals are known."""
    if name == "EQ":
        return np.zeros((), np.int64), ((x.low <= b.high) & (b.low <= x.high)).astype(np.int64)
    pairs = ((x.low, b.high), (x.high, b.low))
    low, high = (one > other if name == "GT" else one >= other for one, other in pairs)
    return low.astype(np.int64), high.astype(np.int64)


def _zeros(values: np.ndarray) -> np.ndarray:
    return 32 - np.frexp((values & 0xFFFFFFFF).astype(np.float64))[1].astype(np.int64)


_NAMED: dict[str, Callable[..., np.ndarray]] = {
    "CLZ": _zeros,
    "ABS": np.abs,
    "EQ": lambda a, b: (a == b).astype(np.int64),
    "GT": lambda a, b: (a > b).astype(np.int64),
    "GE": lambda a, b: (a >= b).astype(np.int64),
}
