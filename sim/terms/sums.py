"""Terms' sums, products and random functions, and what is counted while computing."""

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from . import field
from .axioms import WIDE, UndecidedError
from .hashing import RandomFunctions
from .noted import Indexed, Lookups, Name, PathFacts, TermIntervals, names_of, values_at
from .smallest import SmallestKeys
from .values import (
    CHOSEN,
    DIFFERENCE,
    LARGEST,
    PLAIN,
    RING,
    RING_SUM,
    SMALLEST,
    Terms,
    aligned,
    constant,
    everywhere,
    spread,
    thin,
    unknown_digits,
)

EXACT_FLOAT32 = 1 << 24
"""Sums of integers are exact in float32 as long as none is larger."""
MOST_COMPARED = 1 << 14
"""Elements of which it is noted that another one is never less."""


@dataclasses.dataclass(frozen=True)
class Options:
    """How terms are evaluated."""

    seeds: int = 2
    """Random points. They count as one in a field of as many times 61 bits."""
    keyed: bool = False
    without: frozenset[str] = frozenset()
    """Axioms that are not used: to see who needs them."""


class RandomPoints:
    """The random points, and what was counted while computing."""

    def __init__(
        self,
        options: Options | None = None,
        entropy: int | None = None,
        *,
        facts: PathFacts | None = None,
        shared_intervals: bool = False,
    ):
        """`entropy`: with the same number, all is the same again. `shared_intervals`: what is known of the graph's
        terms holds for the program's, too."""
        self.options = options or Options()
        self.seeds = self.options.seeds
        self.rng = np.random.default_rng(entropy)
        self._functions = RandomFunctions(self.rng, self.seeds, keyed=self.options.keyed)
        self.axioms = collections.Counter[str]()
        self.lemmas = collections.Counter[str]()
        self.values = 0
        """Random values that were handed out or hashed, for one seed."""
        self.degree = 1
        """The largest of all terms."""
        self.assumed = 0
        """Values of which only a REQUIRE says that they fit their type."""
        self._required = dict[bytes, tuple[int, int]]()
        """The interval in which a REQUIRE wants a term, by the term's values."""
        self._required_values: tuple[int, np.ndarray] | None = None
        """How many are in `_required`, and the values of their first seed, in order."""
        self._wrapped_ends = dict[bytes, tuple[int, int]]()
        """The interval that a REQUIRE leaves to low 32 bits, by the term's values."""
        self._at_most = set[bytes]()
        """Values of a term and of another one that it never exceeds."""
        self.lookups, self.indexed = Lookups(), Indexed()
        self.intervals, self.facts = TermIntervals(shared_intervals), facts or PathFacts()
        self.evaluations = 0
        """Graphs that were evaluated, those of branches and of each turn of a loop, too."""
        self.smallest = SmallestKeys()

    def uses(self, axiom: str) -> bool:
        """Whether the axiom is on."""
        return axiom not in self.options.without

    def note(self, axiom: str, count: int) -> None:
        """The axiom made this many terms what they are."""
        if count:
            self.axioms[axiom] += int(count)

    @contextlib.contextmanager
    def supposing(self, facts: Mapping[Name, int]) -> Iterator[None]:
        """In this block, these are facts; what REQUIREs tell in it is forgotten behind it."""
        before = self.facts, self._required, self._wrapped_ends, self.lookups, self.intervals
        self.facts = PathFacts({**self.facts.values, **facts})
        self._required, self._wrapped_ends = dict(self._required), dict(self._wrapped_ends)
        self._required_values = None
        self.lookups, self.intervals = self.lookups.copy(), self.intervals.copy()
        try:
            yield
        finally:
            self.facts, self._required, self._wrapped_ends, self.lookups, self.intervals = before
            self._required_values = None

    def suppose(self, facts: Mapping[Name, int]) -> None:
        """From now on, these are facts."""
        self.facts = PathFacts({**self.facts.values, **facts})

    # Values.

    def marks(self, values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """uint64 [seeds, ...]: random functions of field values [seeds, ...] and numbers [...]."""
        self.values += numbers.size
        return self._functions.value("MARK", (numbers.astype(np.int64),), (values,))

    def fresh(self, shape: Iterable[int], low: int | np.ndarray, high: int | np.ndarray) -> Terms:
        """Anything from `low` to `high`."""
        shape = tuple(shape)
        values = self.rng.integers(0, int(field.PRIME), (self.seeds, *shape), dtype=np.uint64)
        self.values += values[0].size
        low, high = (spread(np.asarray(end, np.int64), shape) for end in (low, high))
        return Terms(values, low, high)

    def constant(self, values: object) -> Terms:
        """Integers."""
        return constant(values, self.seeds)

    def function(
        self,
        name: str,
        arguments: list[Terms],
        ends: tuple[np.ndarray | int, np.ndarray | int],
        concrete: Callable[..., np.ndarray],
        integers: tuple[np.ndarray, ...] = (),
    ) -> Terms:
        """A random function of the name, of `integers` and of terms, in the interval `ends`; `concrete` computes it
        where all arguments are constants."""
        arguments = aligned(*arguments)
        known, lows = np.ones((1,) * arguments[0].ndim, bool), [thin(each.low) for each in arguments]
        for each, own in zip(arguments, lows, strict=True):
            known = known & (own == thin(each.high))
        if known.all():
            return self.constant(concrete(*(each.low for each in arguments)))
        values = self._functions.value(name, integers, tuple(each.field for each in arguments))
        shape = values.shape[1:]
        self.lemmas[name.split(":")[0]] += values[0].size
        self.values += values[0].size
        low, high = (np.asarray(end, np.int64) for end in ends)
        if known.any():
            computed = concrete(*lows)
            low, high = np.where(known, computed, low), np.where(known, computed, high)
        return self.settled(Terms(values, spread(low, shape), spread(high, shape)))

    def listed(self, entries: Sequence[Terms]) -> np.ndarray:
        """uint64 [seeds, ..]: a random function of lists, each of the same number of terms."""
        self.values += sum(each.size for each in entries)
        count = np.asarray(len(entries), np.int64)
        return self._functions.value("LIST", (count,), tuple(each.field for each in entries))

    def settled(self, terms: Terms) -> Terms:
        """The same, where constants have the constant's value."""
        low, high = terms.ends
        same = low == high
        if same.any():
            terms.field = np.where(same, field.of_integers(np.where(same, low, 0)), terms.field)
            if terms.kind is not None:
                terms.kind = np.where(same, PLAIN, terms.kind).astype(np.uint8)
            if terms.digits is not None:
                terms.digits = np.where(same, unknown_digits(), terms.digits)
        return terms

    # Sums and products.

    def add(self, a: Terms, b: Terms) -> Terms:
        """a + b."""
        if b.size == 1 and b.ndim <= a.ndim and b.is_number(0):
            return a
        a, b = aligned(a, b)
        degree = max(a.degree, b.degree)
        values, a_ends, b_ends = field.add(a.field, b.field), a.ends, b.ends
        low, high = (spread(one + other, values.shape[1:]) for one, other in zip(a_ends, b_ends, strict=True))
        result = Terms(values, low, high, degree=degree)
        if a.digits is not None and b.digits is not None:
            result.digits = self._joined_digits(a.digits, b.digits)
        for part, other in ((a, b), (b, a)):
            if part.kind is not None and part.base is not None and (part.kind == CHOSEN).any():
                self._bound_choice(result, part, other)
        result = self._in_ring(result, a, b, field.add)
        for part, other in ((a, b), (b, a)):
            if self.smallest.on and other.constant and other.size == 1:
                result = self._changed_keys(result, part, field.add, other)
        return result

    def _in_ring(
        self, result: Terms, a: Terms, b: Terms, do: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> Terms:
        """The sum or difference, with the same of what its operands are modulo 2^32."""
        if (a.kind is None and b.kind is None) or not self.uses("ring"):
            return result
        bases, inside = [], np.zeros(result.shape, bool)
        for part in (a, b):
            if part.kind is None or part.base is None:
                bases.append(part.field)
                continue
            own = (part.kind == RING) | (part.kind == RING_SUM)
            bases.append(np.where(own, part.base, part.field))
            inside |= own
        if inside.any():
            kind = np.zeros((), np.uint8) if result.kind is None else result.kind
            base = result.field if result.base is None else result.base
            result.kind = np.where(inside, RING_SUM, kind).astype(np.uint8)
            result.base = np.where(inside, do(*bases), base)
        return result

    def _bound_choice(self, result: Terms, part: Terms, other: Terms) -> None:
        """Bounds the `result` of part + other, with part = c * (a - b) and other = b."""
        if part.base is None or not self.uses("choice"):
            return
        chosen = (part.kind == CHOSEN) & (part.base == other.field).all(axis=0)
        low = np.minimum(other.low, part.low + other.high)
        high = np.maximum(other.high, part.high + other.low)
        result.low = np.where(chosen, np.maximum(low, result.low), result.low)
        result.high = np.where(chosen, np.minimum(high, result.high), result.high)
        self.note("choice", chosen.sum())

    def subtract(self, a: Terms, b: Terms) -> Terms:
        """a - b."""
        if b.size == 1 and b.ndim <= a.ndim and b.is_number(0):
            return a
        a, b = aligned(a, b)
        degree = max(a.degree, b.degree)
        values, a_ends, b_ends = field.subtract(a.field, b.field), a.ends, b.ends
        pairs = zip(a_ends, reversed(b_ends), strict=True)
        low, high = (spread(one - other, values.shape[1:]) for one, other in pairs)
        result = Terms(values, low, high, degree=degree)
        if a.constant and b.constant:
            return result
        if self._at_most and b.kind is not None and (b.kind == LARGEST).any():
            self._bound_difference(result, a, b)
        result.kind = everywhere(DIFFERENCE, result.shape)
        result.base = np.broadcast_to(b.field, result.field.shape)
        return self._in_ring(result, a, b, field.subtract)

    def at_most(self, a: Terms, b: Terms) -> None:
        """Each of a is one of those of which b is the largest."""
        if a.size <= MOST_COMPARED and self.uses("largest"):
            every = np.ones(np.broadcast_shapes(a.shape, b.shape), bool)
            pairs = zip(
                names_of(a.broadcast(every.shape), every),
                names_of(b.broadcast(every.shape), every),
                strict=True,
            )
            self._at_most.update(one + other for one, other in pairs)

    def _bound_difference(self, result: Terms, a: Terms, b: Terms) -> None:
        """The `result` a - b is 0 at most, where b is the largest of some of which a is one."""
        assert b.kind is not None
        asked = (b.kind == LARGEST) & (result.high > 0)
        if asked.any():
            names = zip(
                names_of(a.broadcast(result.shape), asked),
                names_of(b.broadcast(result.shape), asked),
                strict=True,
            )
            known = np.zeros(result.shape, bool)
            known[asked] = [one + other in self._at_most for one, other in names]
            result.high = np.where(known, 0, result.high)
            self.note("largest", known.sum())

    def multiply(self, a: Terms, b: Terms, limit: int = WIDE) -> Terms:
        """a * b, below `limit` in magnitude."""
        if b.is_number(1) and b.size == 1 and b.ndim <= a.ndim:
            return a
        a, b = aligned(a, b)
        if largest(a) * largest(b) > limit and (a.largest.astype(np.float64) * b.largest).max() > limit:
            raise UndecidedError(f"a product of more than {limit.bit_length() - 1} bits")
        ends = [x * y for x in a.ends for y in b.ends]
        constants = a.constant or b.constant
        degree = max(a.degree, b.degree) if constants else a.degree + b.degree
        self.degree = max(self.degree, degree)
        values, low, high = field.multiply(a.field, b.field), ends[0], ends[0]
        for end in ends[1:]:
            low, high = np.minimum(low, end), np.maximum(high, end)
        shape = values.shape[1:]
        result = Terms(values, spread(low, shape), spread(high, shape), degree=degree)
        if a.digits is not None and b.size == 1 and b.constant:
            result.digits = _shifted_digits(a.digits, int(b.low.reshape(-1)[0]))
        for part, other in ((a, b), (b, a)):
            positive = other.constant and other.size == 1 and int(other.low.reshape(-1)[0]) > 0
            if self.smallest.on and positive:
                result = self._changed_keys(result, part, field.multiply, other)
            if part.kind is not None and part.base is not None and (part.kind == DIFFERENCE).any():
                chosen = (part.kind == DIFFERENCE) & (other.low >= 0) & (other.high <= 1)
                result.kind = np.where(chosen, CHOSEN, PLAIN).astype(np.uint8)
                result.base = np.broadcast_to(part.base, result.field.shape)
                break
        for part, number in ((a, b), (b, a)):
            result = self._product_in_ring(result, part, number)
        return result

    def _product_in_ring(self, result: Terms, part: Terms, number: Terms) -> Terms:
        """The product, where `number` is one, with the same of what `part` is modulo 2^32."""
        if part.kind is None or part.base is None or not self.uses("ring"):
            return result
        inside = ((part.kind == RING) | (part.kind == RING_SUM)) & (number.low == number.high)
        if inside.any():
            kind = np.zeros((), np.uint8) if result.kind is None else result.kind
            base = result.field if result.base is None else result.base
            result.kind = np.where(inside, RING_SUM, kind).astype(np.uint8)
            result.base = np.where(inside, field.multiply(part.base, number.field), base)
        return result

    def _changed_keys(
        self, result: Terms, part: Terms, do: Callable[[np.ndarray, np.ndarray], np.ndarray], number: Terms
    ) -> Terms:
        """The `result` of `do(part, number)`, which increases with `part`: the smallest of what it makes of the same
        set."""
        if part.kind is None or not self.uses("keys"):
            return result
        own = np.broadcast_to(part.kind == SMALLEST, result.shape)
        if not own.any():
            return result
        other, base = field.of_integers(number.low.reshape(1, 1)), part.broadcast(result.shape).base
        assert base is not None
        result = result.with_kind().copy()
        assert result.kind is not None and result.base is not None
        for place, name in zip(np.argwhere(own), values_at(base, own), strict=True):
            found = self.smallest.changed(name, lambda members: do(members, other), self._set_of)
            if found is not None:
                result.kind[tuple(place)] = SMALLEST
                result.base[(slice(None), *place)] = found
                self.note("keys", 1)
        return result

    def _set_of(self, members: np.ndarray) -> np.ndarray:
        """uint64 [seeds]: the set of members [seeds, n]."""
        self.values += members.shape[1]
        return field.total(self._functions.value("MEMBER", (), (members,)))

    def scaled(self, a: Terms, factor: int) -> Terms:
        """a * factor."""
        return self.multiply(a, self.constant(np.int64(factor)))

    def plus(self, a: Terms, number: int) -> Terms:
        """a + number."""
        if not number or a.kind is not None:
            return self.add(a, self.constant(np.int64(number))) if number else a
        values, ends = field.add(a.field, np.asarray(number % int(field.PRIME), np.uint64)), a.ends
        low, high = (spread(end + number, a.shape) for end in ends)
        return Terms(values, low, high, degree=a.degree)

    def linear(self, planes: np.ndarray, weights: np.ndarray, degree: int = 1) -> Terms:
        """Sums [n, m] of operands' `planes` [planes, n, depth] times integers [depth, m] of up to 2^21."""
        n, depth = planes.shape[1:]
        held = weights.astype(np.float64)
        magnitudes = np.abs(held)
        most = int(magnitudes.sum(axis=0).max(initial=0))
        if most > 1 << 22:
            half = depth // 2
            parts = [(planes[:, :, own], weights[own]) for own in (slice(half), slice(half, None))]
            return self.add(*(self.linear(each, w, degree) for each, w in parts))
        halves = (planes[:-2].reshape(-1, depth) @ held).reshape(-1, n, held.shape[1])
        ends = _interval_sums(planes[-2], held, most), _interval_sums(planes[-1], magnitudes, most)
        return self._of_sums(halves, *ends, degree)

    def planes(self, terms: Terms) -> np.ndarray:
        """float64 [2 * seeds + 2, *shape]: halves of the field's values, centre and width of the intervals, twice."""
        result = np.empty((2 * self.seeds + 2, *terms.shape))
        for seed, values in enumerate(terms.field):
            result[2 * seed], result[2 * seed + 1] = field.halves(values)
        low, high = terms.ends
        result[-2], result[-1] = low + high, high - low
        return result

    def of_planes(self, sums: np.ndarray, degree: int = 1) -> Terms:
        """Terms of sums of planes times integers, the last plane times their magnitudes."""
        return self._of_sums(sums[:-2], sums[-2], sums[-1], degree)

    def _of_sums(self, halves: np.ndarray, centre: np.ndarray, width: np.ndarray, degree: int) -> Terms:
        values = field.joined(halves[0::2], halves[1::2])
        centre, width = thin(centre).astype(np.int64), thin(width).astype(np.int64)
        low, high = (spread(end >> 1, values.shape[1:]) for end in (centre - width, centre + width))
        return Terms(values, low, high, degree=degree)

    def matmul(self, a: Terms, b: Terms) -> Terms:
        """Products of terms [n, depth] and [depth, m]."""
        if b.constant:
            return self.linear(self.planes(a), b.low, a.degree)
        if a.constant:
            result = self.linear(self.planes(_transposed(b)), a.low.T, b.degree)
            return _transposed(result)
        if largest(a) * largest(b) * a.shape[1] >= 1 << 53:
            raise UndecidedError("a matrix product of more than 53 bits")
        values = np.zeros((self.seeds, a.shape[0], b.shape[1]), np.uint64)
        for first in range(0, a.shape[1], 1 << 11):
            own = slice(first, first + (1 << 11))
            for seed in range(self.seeds):
                left, right = _thirds(a.field[seed][:, own]), _thirds(b.field[seed][own])
                for i, x in enumerate(left):
                    for j, y in enumerate(right):
                        part = field.of_integers((x @ y).astype(np.int64))
                        part = field.shifted(part, 21 * (i + j) % field.BITS) if i + j else part
                        values[seed] = field.add(values[seed], part)
        most = [np.maximum(np.abs(each.low), np.abs(each.high)).astype(np.float64) for each in (a, b)]
        bound = (most[0] @ most[1]).astype(np.int64)
        degree = a.degree + b.degree
        self.degree = max(self.degree, degree)
        return self.settled(Terms(values, -bound, bound, degree=degree))

    # Bytes of sums.

    def _joined_digits(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = np.broadcast_arrays(a, b)
        result = np.zeros(a.shape, a.dtype)
        bad = (a["signed"] > 0) | (b["signed"] > 0)
        for name in "0123":
            bad = bad | (a[name] < 0) | (b[name] < 0) | ((a[name] > 0) & (b[name] > 0))
            result[name] = np.where(a[name] > 0, a[name], b[name])
        for name in "0123":
            result[name] = np.where(bad, -1, result[name])
        return result


def _shifted_digits(digits: np.ndarray, factor: int) -> np.ndarray | None:
    """Returns the digits of a number times a power of 256; None where the factor is none."""
    if factor not in (1 << 8, 1 << 16, 1 << 24):
        return None
    places = (factor.bit_length() - 1) // 8
    result, lost = np.zeros(digits.shape, digits.dtype), digits["signed"] > 0
    for k in range(4):
        if k + places < 4:
            result[str(k + places)] = digits[str(k)]
        else:
            lost = lost | (digits[str(k)] != 0)
    for name in "0123":
        result[name] = np.where(lost, -1, result[name])
    return result


def _interval_sums(ends: np.ndarray, factors: np.ndarray, most: int) -> np.ndarray:
    """Products [n, m] of [n, depth] and [depth, m], whose columns' magnitudes add up to `most`."""
    low, high = (ends.min(), ends.max()) if ends.size else (0, 0)
    if ends.size and low == high:
        return spread((low * factors.sum(axis=0))[None], (len(ends), factors.shape[1]))
    if max(-low, high) * most <= EXACT_FLOAT32:
        return ends.astype(np.float32) @ factors.astype(np.float32)
    return ends @ factors


def _transposed(terms: Terms) -> Terms:
    return terms.each(lambda part, _: np.swapaxes(part, -1, -2))


def largest(terms: Terms) -> int:
    """Magnitude."""
    low, high = terms.ends
    return max(abs(int(low.min(initial=0))), abs(int(high.max(initial=0))))


def _thirds(values: np.ndarray) -> list[np.ndarray]:
    mask = np.uint64((1 << 21) - 1)
    parts = (values & mask, (values >> np.uint64(21)) & mask, values >> np.uint64(42))
    return [part.astype(np.float64) for part in parts]
