"""Arrays of terms: what an element is for all inputs, at random points of a field."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import field

PLAIN, CLAMPED, LARGEST, SMALLEST, FLIPPED, WRAPPED, DIFFERENCE, CHOSEN, RING, RING_SUM = range(10)
LEFT, LEFT_WRAPPED, LEFT_RING = 64, 128, 192
"""Plus k: 2^k times a term, the low 32 bits of it, and what is equal to it modulo 2^32."""
"""What the last step of a term was, as far as an axiom looks through it."""
DIGITS = np.dtype([("0", "i4"), ("1", "i4"), ("2", "i4"), ("3", "i4"), ("signed", "i4")])
"""The bytes that a sum of 256^k times unsigned bytes has: of each its cell, 0 for the byte 0, or -1: not known.
`signed` is the width of an element whose highest byte counts as a signed one."""


@dataclasses.dataclass
class Terms:
    """An array of terms. It has the shape, the indices and the copies of a NumPy array; an `Algebra` computes."""

    field: np.ndarray
    """uint64 [seeds, *shape]: the term's value at each seed's random point."""
    low: np.ndarray
    """int64 [*shape]: what holds for all inputs, low <= value <= high. Equal ones are a constant."""
    high: np.ndarray
    kind: np.ndarray | None = None
    """uint8 [*shape]; None: all PLAIN."""
    base: np.ndarray | None = None
    """uint64 [seeds, *shape]: of CLAMPED the term that was clamped, of LARGEST and SMALLEST the hash of its set,
    of FLIPPED (XOR 128) the signed low byte, of WRAPPED and of what is shifted left the term before it, of DIFFERENCE
    (a - b) and CHOSEN (0 or a - b) the term b, of RING (its low 32 bits or more) and of sums with it a term that is
    equal modulo 2^32."""
    digits: np.ndarray | None = None
    """DIGITS [*shape]; None: not known."""
    degree: int = 1
    """Largest degree of the terms as polynomials in independent random values."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.low.shape

    @property
    def size(self) -> int:
        return self.low.size

    @property
    def ndim(self) -> int:
        return self.low.ndim

    def __len__(self) -> int:
        return len(self.low)

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """`low` and `high`, each as `thin`."""
        return thin(self.low), thin(self.high)

    @property
    def constant(self) -> bool:
        """Whether all are constants."""
        if self.size and self.low.flat[0] != self.high.flat[0]:
            return False
        low, high = self.ends
        return bool((low == high).all())

    @property
    def largest(self) -> np.ndarray:
        """int64: the largest magnitude that each may have."""
        low, high = self.ends
        return spread(np.maximum(np.abs(low), np.abs(high)), self.shape)

    def is_number(self, number: int) -> bool:
        """Whether all are this constant."""
        if self.size and (self.low.flat[0] != number or self.high.flat[0] != number):
            return False
        low, high = self.ends
        return bool((low == number).all() and (high == number).all())

    def each(self, do: Callable[[np.ndarray, int], np.ndarray]) -> "Terms":
        """`do(array, axes in front of the shape)` on every part."""
        return Terms(
            do(self.field, 1),
            do(self.low, 0),
            do(self.high, 0),
            None if self.kind is None else do(self.kind, 0),
            None if self.base is None else do(self.base, 1),
            None if self.digits is None else do(self.digits, 0),
            self.degree,
        )

    def __getitem__(self, key: Any) -> "Terms":
        key = key if isinstance(key, tuple) else (key,)
        return self.each(lambda part, lead: part[(slice(None),) * lead + key])

    def __setitem__(self, key: Any, value: "Terms") -> None:
        key = key if isinstance(key, tuple) else (key,)
        lead = (slice(None), *key)
        self.field, self.low, self.high = _writable(self.field), _writable(self.low), _writable(self.high)
        self.field[lead], self.low[key], self.high[key] = value.field, value.low, value.high
        if self.kind is not None or value.kind is not None:
            own, other = self.with_kind(), value.with_kind()
            assert own.kind is not None and own.base is not None
            self.kind, self.base = _writable(own.kind), _writable(own.base)
            self.kind[key], self.base[lead] = other.kind, other.base  # type: ignore[index]
        if self.digits is not None or value.digits is not None:
            self.digits = self.with_digits().copy()
            self.digits[key] = value.with_digits()
        self.degree = max(self.degree, value.degree)

    def with_kind(self) -> "Terms":
        """The same with `kind` and `base` there."""
        if self.kind is not None:
            return self
        base = spread(np.zeros((1,) * self.field.ndim, np.uint64), self.field.shape)
        return dataclasses.replace(self, kind=everywhere(PLAIN, self.shape), base=base)

    def with_digits(self) -> np.ndarray:
        """`digits`, or ones that are not known."""
        if self.digits is not None:
            return self.digits
        return np.full(self.shape, unknown_digits(), DIGITS)

    def plain(self) -> "Terms":
        """The same without what axioms look at."""
        return Terms(self.field, self.low, self.high, degree=self.degree)

    def reshape(self, *shape: Any) -> "Terms":
        wanted = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if -1 in wanted:
            rest = -math.prod(wanted)
            wanted = tuple(self.size // rest if n == -1 else n for n in wanted) if rest else wanted
        return self.each(lambda part, lead: part.reshape(part.shape[:lead] + wanted))

    def astype(self, _: Any) -> "Terms":
        """Itself: terms are integers."""
        return self

    def copy(self) -> "Terms":
        return self.each(lambda part, _: part.copy())

    def broadcast(self, shape: tuple[int, ...]) -> "Terms":
        """Works like np.broadcast_to."""
        if self.shape == shape:
            return self

        def do(part: np.ndarray, lead: int) -> np.ndarray:
            own = part.shape[lead:]
            inside = part.reshape(part.shape[:lead] + (1,) * (len(shape) - len(own)) + own)
            return np.broadcast_to(inside, part.shape[:lead] + shape)

        return self.each(do)

    def along(self, axis: int, do: Callable[[np.ndarray, int], np.ndarray]) -> "Terms":
        """`do(array, axis)` on every part, with the axis where it is there."""
        axis %= self.ndim
        return self.each(lambda part, lead: do(part, axis + lead))

    def padded(self, widths: Sequence[tuple[int, int]], value: int) -> "Terms":
        """Works like np.pad with a constant."""
        inside = tuple(slice(before, before + n) for (before, _), n in zip(widths, self.shape, strict=True))
        shape = tuple(n + sum(width) for n, width in zip(self.shape, widths, strict=True))
        result = constant(np.broadcast_to(np.int64(value), shape), len(self.field)).copy()
        result[inside] = self
        return result

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.broadcast_to:
            return self.broadcast(tuple(args[1]))
        if function is np.concatenate:
            return concatenate(args[0], kwargs.get("axis", args[1] if len(args) > 1 else 0))
        return NotImplemented


def thin(part: np.ndarray) -> np.ndarray:
    """An array without what a view repeats: one element of each axis along which it shows the same again."""
    if 0 not in part.strides:
        return part
    return part[tuple([slice(0, 1) if step == 0 else slice(None) for step in part.strides])]


def spread(part: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Works like np.broadcast_to, in less time."""
    if part.shape == shape:
        return part
    more = len(shape) - part.ndim
    if (
        more < 0
        or not part.flags.c_contiguous
        or any(n not in (1, wanted) for n, wanted in zip(part.shape, shape[more:], strict=True))
    ):
        return np.broadcast_to(part, shape)
    strides = [0 if n == 1 else step for n, step in zip(part.shape, part.strides, strict=True)]
    result: np.ndarray = np.ndarray(shape, part.dtype, part, 0, (0,) * more + tuple(strides))
    result.flags.writeable = False
    return result


def everywhere(kind: int, shape: tuple[int, ...]) -> np.ndarray:
    """The same kind for all."""
    return np.broadcast_to(_KINDS[kind], shape) if 0 in shape else _repeated(_KINDS[kind], shape)


_KINDS = [np.full((), kind, np.uint8) for kind in range(256)]


def _repeated(element: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """One element everywhere."""
    result: np.ndarray = np.ndarray(shape, element.dtype, element, 0, (0,) * len(shape))
    result.flags.writeable = False
    return result


def count(where: np.ndarray, shape: tuple[int, ...]) -> int:
    """How many of that shape a `thin` mask chooses."""
    return int(where.sum()) * (math.prod(shape) // max(where.size, 1))


def _writable(part: np.ndarray) -> np.ndarray:
    return part if part.flags.writeable else part.copy()


def unknown_digits() -> np.ndarray:
    """DIGITS of one number of which none is known."""
    return np.full((), -1, np.int32).astype(DIGITS)


def constant(values: Any, seeds: int) -> Terms:
    """Terms that are integers."""
    values = np.asarray(values, np.int64)
    embedded = field.of_integers(values)
    return Terms(spread(embedded[None], (seeds, *values.shape)), values, values)


def concatenate(parts: Sequence[Terms], axis: int = 0) -> Terms:
    """Works like np.concatenate."""
    if len(parts) == 1:
        return parts[0]
    axis %= parts[0].ndim
    if any(part.kind is not None for part in parts):
        parts = [part.with_kind() for part in parts]
    if any(part.digits is None for part in parts):
        parts = [dataclasses.replace(part, digits=None) for part in parts]
    first = parts[0]
    return Terms(
        np.concatenate([part.field for part in parts], axis + 1),
        _joined_ends([part.low for part in parts], axis),
        _joined_ends([part.high for part in parts], axis),
        None if first.kind is None else np.concatenate([part.kind for part in parts], axis),
        None if first.base is None else np.concatenate([part.base for part in parts], axis + 1),
        None if first.digits is None else np.concatenate([part.digits for part in parts], axis),
        max(part.degree for part in parts),
    )


def _joined_ends(parts: list[np.ndarray], axis: int) -> np.ndarray:
    """Works like np.concatenate; the same ends stay a view."""
    first, *others = (thin(part) for part in parts)
    if first.shape[axis] == 1 and all(np.array_equal(first, other) for other in others):
        size = sum(part.shape[axis] for part in parts)
        return spread(first, (*parts[0].shape[:axis], size, *parts[0].shape[axis + 1 :]))
    return np.concatenate(parts, axis)


def select(where: np.ndarray, a: Terms, b: Terms) -> Terms:
    """Works like np.where."""
    values, few = np.where(where, a.field, b.field), thin(where)
    low, high = (np.where(few, *ends) for ends in zip(a.ends, b.ends, strict=True))
    if a.kind is not None or b.kind is not None:
        a, b = a.with_kind(), b.with_kind()
    digits = None
    if a.digits is not None or b.digits is not None:
        digits = np.where(where, a.with_digits(), b.with_digits())
    return Terms(
        values,
        spread(low, values.shape[1:]),
        spread(high, values.shape[1:]),
        None if a.kind is None or b.kind is None else np.where(where, a.kind, b.kind),
        None if a.base is None or b.base is None else np.where(where, a.base, b.base),
        digits,
        max(a.degree, b.degree),
    )


def aligned(*parts: Terms) -> list[Terms]:
    """Returns terms with equally many axes, added by NumPy's rules of broadcasting."""
    ranks = [part.low.ndim for part in parts]
    most = max(ranks)
    if min(ranks) == most:
        return list(parts)
    return [
        part if part.ndim == most else part.reshape((1,) * (most - part.ndim) + part.shape) for part in parts
    ]
