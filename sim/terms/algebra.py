"""What both sides compute with: sums and products in the field, all else as random functions with a few axioms.

An axiom is a law of integers that makes terms equal which are written otherwise; `tests/proofs/test_prove_axioms.py`
proves each. A lemma says that golden's and the emulator's operator are the function that a random one stands for.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterable

import numpy as np

from . import field
from .hashing import RandomFunctions, digest
from .values import (
    CHOSEN,
    CLAMPED,
    DIFFERENCE,
    FLIPPED,
    LARGEST,
    LEFT,
    LEFT_WRAPPED,
    PLAIN,
    SMALLEST,
    WRAPPED,
    Terms,
    aligned,
    constant,
    select,
)

INT32 = (-(1 << 31), (1 << 31) - 1)
WIDE = 1 << 61
"""Intervals stay within this magnitude."""
AXIOMS = {
    "intervals": "a CLAMP, or a wrap to a width, that changes no value is nothing",
    "scales": "RESCALE by (m * 2^k, s + k) is RESCALE by (m, s), and with a shift of 0 a product",
    "clamps": "a CLAMP of a CLAMP is a CLAMP",
    "sets": "MAX and MIN are associative, commutative and idempotent",
    "products": "MUL by a constant c with shift s is RESCALE by (c, s)",
    "bytes": "an integer is the sum of 256^k times its bytes, the highest one signed",
    "planes": "x XOR 128 has the low byte of x - 256 * (x ASR 8) - 128",
    "booleans": "of 0 and 1, AND is a product, OR a + b - a * b, XOR a + b - 2 * a * b",
    "complement": "x XOR -1 is -1 - x",
    "wraps": "the low bits of the low bits; (x * 2^k) ASR k, of the low 32 bits: the low 32 - k bits of x",
    "choice": "of c in 0..1, b + c * (a - b) lies in the interval of a or in that of b",
    "order": "x - MAX(.., x, ..) is at most 0",
}
"""By name: the law."""


LEMMAS = {
    "RESCALE": "RESCALE, ARITHMETIC_RIGHT_SHIFT with round and a shifted MUL are (x * m * 2^-s) with halves up",
    "CLAMP": "CLAMP limits to an interval",
    "MAX": "MAXIMUM is the larger one",
    "MIN": "MINIMUM is the smaller one",
    "TABLE8": "TABLE of int8 is entry x + 128",
    "TABLE16": "TABLE of int16 interpolates between entries (x + 32768) >> 7 and the next",
    "ASR": "ARITHMETIC_RIGHT_SHIFT rounds down",
    "ASRR": "ARITHMETIC_RIGHT_SHIFT with round, by a number computed at run time, rounds halves up",
    "LSL": "LOGICAL_LEFT_SHIFT is a product with a power of 2",
    "LSR": "LOGICAL_RIGHT_SHIFT is that of the unsigned number",
    "CLZ": "CLZ counts the leading zeros of 32 bits",
    "ABS": "ABS is the magnitude",
    "EQ": "EQUAL compares",
    "GT": "GREATER compares",
    "GE": "GREATER_EQUAL compares",
    "AND": "BITWISE_AND is that of two's complement",
    "OR": "BITWISE_OR is that of two's complement",
    "XOR": "BITWISE_XOR is that of two's complement",
    "S8": "a byte as a signed number",
    "U8": "a byte as an unsigned number",
    "BYTE": "a byte of a wider integer",
    "WRAP8": "the low 8 bits as a signed number",
    "WRAP16": "the low 16 bits as a signed number",
    "WRAP32": "the low 32 bits as a signed number",
    "WRAP48": "the low 48 bits as a signed number",
}
"""By function: what golden's and the emulator's operator both are, wherever REQUIRE holds."""


class UndecidedError(Exception):
    """The method does not reach this: nothing is known."""


@dataclasses.dataclass(frozen=True)
class Options:
    """How terms are evaluated."""

    seeds: int = 2
    """Random points. They count as one in a field of as many times 61 bits."""
    keyed: bool = False
    without: frozenset[str] = frozenset()
    """Axioms that are not used: to see who needs them."""


class Algebra:
    """The random points, and what was counted while computing."""

    def __init__(self, options: Options | None = None, entropy: int | None = None):
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
        self._required = set[bytes]()
        self._members: dict[bytes, set[bytes]] = {}

    def uses(self, axiom: str) -> bool:
        """Whether the axiom is on."""
        return axiom not in self.options.without

    def note(self, axiom: str, count: int) -> None:
        """The axiom made this many terms what they are."""
        if count:
            self.axioms[axiom] += int(count)

    # Values.

    def fresh(self, shape: Iterable[int], low: int, high: int) -> Terms:
        """Anything from `low` to `high`."""
        shape = tuple(shape)
        values = self.rng.integers(0, int(field.PRIME), (self.seeds, *shape), dtype=np.uint64)
        ends = (np.full(shape, end, np.int64) for end in (low, high))
        self.values += values[0].size
        return Terms(values, *ends)

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
        known = np.ones((1,) * arguments[0].ndim, bool)
        for each in arguments:
            known = known & (each.low == each.high)
        if known.all():
            return self.constant(concrete(*(each.low for each in arguments)))
        values = self._functions.value(name, integers, tuple(each.field for each in arguments))
        shape = values.shape[1:]
        self.lemmas[name.split(":")[0]] += values[0].size
        self.values += values[0].size
        low, high = (np.broadcast_to(np.asarray(end, np.int64), shape) for end in ends)
        if known.any():
            computed = concrete(*(each.low for each in arguments))
            low, high = np.where(known, computed, low), np.where(known, computed, high)
        return self.settled(Terms(values, low, high))

    def settled(self, terms: Terms) -> Terms:
        """The same, where constants have the constant's value."""
        same = terms.low == terms.high
        if same.any():
            terms.field = np.where(same, field.of_integers(np.where(same, terms.low, 0)), terms.field)
            if terms.kind is not None:
                terms.kind = np.where(same, PLAIN, terms.kind).astype(np.uint8)
        return terms

    # Sums and products.

    def add(self, a: Terms, b: Terms) -> Terms:
        """a + b."""
        if b.is_number(0) and b.ndim <= a.ndim and b.size == 1:
            return a
        a, b = aligned(a, b)
        degree = max(a.degree, b.degree)
        result = Terms(field.add(a.field, b.field), a.low + b.low, a.high + b.high, degree=degree)
        if a.digits is not None and b.digits is not None:
            result.digits = self._joined_digits(a.digits, b.digits)
        for part, other in ((a, b), (b, a)):
            if part.kind is not None and part.base is not None and (part.kind == CHOSEN).any():
                self._bound_choice(result, part, other)
        return result

    def _bound_choice(self, result: Terms, part: Terms, other: Terms) -> None:
        """Of part = c * (a - b) and other = b."""
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
        if b.is_number(0) and b.ndim <= a.ndim and b.size == 1:
            return a
        a, b = aligned(a, b)
        high = self._below(a, b, a.high - b.low)
        degree = max(a.degree, b.degree)
        result = Terms(field.subtract(a.field, b.field), a.low - b.high, high, degree=degree)
        if a.constant and b.constant:
            return result
        result.kind = np.full(result.shape, DIFFERENCE, np.uint8)
        result.base = np.broadcast_to(b.field, result.field.shape)
        return result

    def multiply(self, a: Terms, b: Terms, limit: int = WIDE) -> Terms:
        """a * b, below `limit` in magnitude."""
        if b.is_number(1) and b.size == 1 and b.ndim <= a.ndim:
            return a
        a, b = aligned(a, b)
        if _largest(a) * _largest(b) > limit:
            raise UndecidedError(f"a product of more than {limit.bit_length() - 1} bits")
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        constants = a.constant or b.constant
        degree = max(a.degree, b.degree) if constants else a.degree + b.degree
        self.degree = max(self.degree, degree)
        low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
        result = Terms(field.multiply(a.field, b.field), low, high, degree=degree)
        if a.digits is not None and b.size == 1 and b.constant:
            result.digits = _shifted_digits(a.digits, int(b.low.reshape(-1)[0]))
        for part, other in ((a, b), (b, a)):
            if part.kind is not None and part.base is not None and (part.kind == DIFFERENCE).any():
                chosen = (part.kind == DIFFERENCE) & (other.low >= 0) & (other.high <= 1)
                result.kind = np.where(chosen, CHOSEN, PLAIN).astype(np.uint8)
                result.base = np.broadcast_to(part.base, result.field.shape)
                return result
        return result

    def scaled(self, a: Terms, factor: int) -> Terms:
        """a * factor."""
        return self.multiply(a, self.constant(np.int64(factor)))

    def plus(self, a: Terms, number: int) -> Terms:
        """a + number."""
        return self.add(a, self.constant(np.int64(number))) if number else a

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
        sums = np.empty((len(planes), n, held.shape[1]))
        np.matmul(planes[:-1].reshape(-1, depth), held, out=sums[:-1].reshape(-1, held.shape[1]))
        np.matmul(planes[-1], magnitudes, out=sums[-1])
        return self.of_planes(sums, degree)

    def planes(self, terms: Terms) -> np.ndarray:
        """float64 [2 * seeds + 2, *shape]: halves of the field's values, centre and width of the intervals, twice."""
        result = np.empty((2 * self.seeds + 2, *terms.shape))
        for seed, values in enumerate(terms.field):
            result[2 * seed], result[2 * seed + 1] = field.halves(values)
        result[-2], result[-1] = terms.low + terms.high, terms.high - terms.low
        return result

    def of_planes(self, sums: np.ndarray, degree: int = 1) -> Terms:
        """Terms of sums of planes times integers, the last plane times their magnitudes."""
        values = field.joined(sums[0:-2:2], sums[1:-2:2])
        centre, width = sums[-2].astype(np.int64), sums[-1].astype(np.int64)
        return Terms(values, (centre - width) >> 1, (centre + width) >> 1, degree=degree)

    def matmul(self, a: Terms, b: Terms) -> Terms:
        """Products of terms [n, depth] and [depth, m]."""
        if b.constant:
            return self.linear(self.planes(a), b.low, a.degree)
        if a.constant:
            result = self.linear(self.planes(_transposed(b)), a.low.T, b.degree)
            return _transposed(result)
        if _largest(a) * _largest(b) * a.shape[1] >= 1 << 53:
            raise UndecidedError("a matrix product of more than 53 bits")
        result = np.zeros((self.seeds, a.shape[0], b.shape[1]), np.uint64)
        for first in range(0, a.shape[1], 1 << 11):
            own = slice(first, first + (1 << 11))
            for seed in range(self.seeds):
                left, right = _thirds(a.field[seed][:, own]), _thirds(b.field[seed][own])
                for i, x in enumerate(left):
                    for j, y in enumerate(right):
                        part = field.of_integers((x @ y).astype(np.int64))
                        part = field.shifted(part, 21 * (i + j) % field.BITS) if i + j else part
                        result[seed] = field.add(result[seed], part)
        most = [np.maximum(np.abs(each.low), np.abs(each.high)).astype(np.float64) for each in (a, b)]
        bound = (most[0] @ most[1]).astype(np.int64)
        degree = a.degree + b.degree
        self.degree = max(self.degree, degree)
        return self.settled(Terms(result, -bound, bound, degree=degree))

    # Widths.

    def require(self, terms: Terms, ends: tuple[int, int]) -> Terms:
        """The specification demands that a value lies in an interval: it does where the graph's result is defined.
        Returns what is known then."""
        outside = (terms.low < ends[0]) | (terms.high > ends[1])
        if not outside.any():
            return terms
        if ((terms.low > ends[1]) | (terms.high < ends[0])).any():
            raise UndecidedError("the specification leaves a result open for every input")
        self._required |= set(_names(terms, outside))
        self.assumed += int(outside.sum())
        return _within(terms, ends)

    def wrap(self, terms: Terms, bits: int) -> Terms:
        """The low bits, signed: the same number where it fits, or where REQUIRE says so."""
        ends = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        if bits == 8 and terms.kind is not None and terms.base is not None:
            flipped = terms.kind == FLIPPED
            if flipped.any():
                self.note("planes", flipped.sum())
                full = (np.full(terms.shape, end, np.int64) for end in ends)
                terms = select(flipped, Terms(terms.base, *full), terms)
        outside = (terms.low < ends[0]) | (terms.high > ends[1])
        if not outside.any() and self.uses("intervals"):
            return terms
        required = outside & self._is_required(terms, outside)
        if required.any():
            terms = select(required, _within(terms, ends), terms)
            outside = outside & ~required
            if not outside.any():
                return terms
        wrapped = self._wrapped(terms, bits)
        return select(outside, wrapped, terms) if self.uses("intervals") else wrapped

    def _wrapped(self, terms: Terms, bits: int) -> Terms:
        """The low bits of terms that may not fit."""
        shift, ends = 64 - bits, (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

        def low_bits(values: np.ndarray) -> np.ndarray:
            return (values << shift) >> shift

        before, known = terms.field, terms.low == terms.high
        if terms.kind is not None and terms.base is not None and self.uses("wraps"):
            again = (terms.kind == WRAPPED) & ~known
            before = np.where(again, terms.base, before)
            self.note("wraps", again.sum())
        whole = Terms(before, terms.low, terms.high, degree=terms.degree)
        result = self.function(f"WRAP{bits}", [whole], ends, low_bits)
        kind, base = np.where(known, PLAIN, WRAPPED).astype(np.uint8), before
        if bits == 32 and terms.kind is not None and terms.base is not None:
            left = (terms.kind >= LEFT) & (terms.kind < LEFT_WRAPPED)
            kind = np.where(left, terms.kind + (LEFT_WRAPPED - LEFT), kind).astype(np.uint8)
            base = np.where(left, terms.base, before)
        result.kind, result.base = kind, base
        return result

    def _is_required(self, terms: Terms, which: np.ndarray) -> np.ndarray:
        found = np.zeros(terms.shape, bool)
        if self._required:
            found[which] = [name in self._required for name in _names(terms, which)]
        return found

    # Operators.

    def rescale(self, a: Terms, multiplier: np.ndarray, shift: np.ndarray, *, double: bool) -> Terms:
        """(a * multiplier * 2^-shift), rounded; `double`: with the second rounding of shifts above 31."""
        multiplier, shift = np.broadcast_arrays(np.atleast_1d(multiplier), np.atleast_1d(shift))
        multiplier, shift = multiplier.astype(np.int64), shift.astype(np.int64)
        if _largest(a) * int(np.abs(multiplier).max()) + (1 << 30) >= 1 << 63:
            raise UndecidedError("a product to scale of more than 63 bits")
        twice = np.asarray(double & (shift > 31))
        taken = np.zeros_like(shift)
        if self.uses("scales"):
            zeros = np.log2(np.maximum(multiplier & -multiplier, 1)).astype(np.int64)
            taken = np.where(twice | (multiplier == 0), 0, np.minimum(zeros, shift))
        m, s = multiplier >> taken, shift - taken
        if (s == 0).all() and self.uses("scales"):
            self.note("scales", a.size)
            return a if (m == 1).all() else self.multiply(a, self.constant(m if m.size > 1 else m[0]))
        if taken.any():
            self.note("scales", a.size)

        def concrete(values: np.ndarray) -> np.ndarray:
            return rescaled(values, multiplier, shift, double)

        ends = concrete(a.low), concrete(a.high)
        name, parts = "RESCALE", (m, s, twice.astype(np.int64))
        result = self.function(
            name, [a.plain()], (np.minimum(*ends), np.maximum(*ends)), concrete, integers=parts
        )
        exact = (s == 0) & self.uses("scales")
        if exact.any():
            product = self.multiply(a, self.constant(m))
            result = select(np.broadcast_to(exact, result.shape), product, result)
        return result

    def clamp(self, a: Terms, low: int, high: int) -> Terms:
        """At least `low`, then at most `high`."""
        inside = (a.low >= low) & (a.high <= high)
        self.note("intervals", inside.sum())
        if inside.all() and self.uses("intervals"):
            return a
        if low > high:
            return self.constant(np.full(a.shape, high))
        base = a.field
        if a.kind is not None and a.base is not None and self.uses("clamps"):
            again = a.kind == CLAMPED
            self.note("clamps", again.sum())
            base = np.where(again, a.base, base)
        ends = np.clip(a.low, low, high), np.clip(a.high, low, high)
        values = self._functions.value("CLAMP", self._functions.pair(*ends), (base,))
        self.lemmas["CLAMP"] += a.size
        self.values += a.size
        kind = np.full(a.shape, CLAMPED, np.uint8)
        result = self.settled(Terms(values, *ends, kind=kind, base=base))
        return select(inside, a, result) if inside.any() and self.uses("intervals") else result

    def extreme(self, a: Terms, b: Terms, kind: int) -> Terms:
        """The larger (LARGEST) or the smaller (SMALLEST) of two."""
        for term, number in ((a, b), (b, a)):
            if number.constant and number.size == 1:
                limit = int(number.low.reshape(-1)[0])
                return self.clamp(term, *((limit, WIDE) if kind == LARGEST else (-WIDE, limit)))
        a, b = aligned(a, b)
        shape = np.broadcast_shapes(a.shape, b.shape)
        a, b = a.broadcast(shape), b.broadcast(shape)
        base = field.add(self._member(a, kind), self._member(b, kind))
        if not self.uses("sets"):
            base = self._functions.value("PAIR", (), (a.field, b.field))
        pick = np.maximum if kind == LARGEST else np.minimum
        name = "MAX" if kind == LARGEST else "MIN"
        values = self._functions.value(name, (), (base,))
        self.lemmas[name] += a.size
        self.values += 2 * a.size
        kinds = np.full(shape, kind, np.uint8)
        whole = self.settled(Terms(values, pick(a.low, b.low), pick(a.high, b.high), kind=kinds, base=base))
        # Where one is never the other's better, or both are one.
        first, second = (a.low >= b.high), (b.low >= a.high)
        if kind == SMALLEST:
            first, second = (a.high <= b.low), (b.high <= a.low)
        first = first | (a.field == b.field).all(axis=0)
        if first.any() or second.any():
            whole = select(first, a, select(second, b, whole))
        self.note("sets", whole.size)
        if kind == LARGEST:
            self._remember(whole, a, b)
        return whole

    def _member(self, terms: Terms, kind: int) -> np.ndarray:
        alone = self._functions.value("MEMBER", (), (terms.field,))
        if terms.kind is None or terms.base is None:
            return alone
        return np.where(terms.kind == kind, terms.base, alone)

    def _remember(self, whole: Terms, a: Terms, b: Terms) -> None:
        """Of maxima that are few: what they are not less than."""
        if whole.size > 4096:
            return
        names = (_names(each, np.ones(each.shape, bool)) for each in (whole, a, b))
        for own, one, other in zip(*names, strict=True):
            there = self._members.setdefault(own, set())
            there |= {one, other} | self._members.get(one, set()) | self._members.get(other, set())

    def _below(self, a: Terms, b: Terms, high: np.ndarray) -> np.ndarray:
        """`high`, the upper end of a - b, or 0 where b is a maximum with a in it."""
        if not self._members or a.size > 1 << 16 or not self.uses("order"):
            return high
        names = (_names(each.broadcast(high.shape), np.ones(high.shape, bool)) for each in (a, b))
        known = np.array([x in self._members.get(y, ()) for x, y in zip(*names, strict=True)], bool)
        known = known.reshape(high.shape)
        self.note("order", known.sum())
        return np.where(known, np.minimum(high, 0), high)

    def table(self, a: Terms, entries: np.ndarray) -> Terms:
        """Entry a + 128 of 256."""

        def concrete(values: np.ndarray) -> np.ndarray:
            return entries[(values + 128) & 255]

        ends = int(entries.min()), int(entries.max())
        return self.function(f"TABLE8:{digest(entries)}", [a], ends, concrete)

    def interpolated(self, a: Terms, entries: np.ndarray) -> Terms:
        """TABLE of int16: between entries of 513, to 16.7 bits."""

        def concrete(values: np.ndarray) -> np.ndarray:
            index = ((values + 32768) >> 7) & 511
            return (entries[index] << 7) + (entries[index + 1] - entries[index]) * (values & 127)

        ends = int(entries.min()) << 7, int(entries.max()) << 7
        return self.function(f"TABLE16:{digest(entries)}", [a], ends, concrete)

    def shifted_right(self, a: Terms, bits: int) -> Terms:
        """a >> bits, rounded down."""
        if not bits:
            return a

        def concrete(values: np.ndarray) -> np.ndarray:
            return values >> bits

        ends = concrete(a.low), concrete(a.high)
        result = self.function("ASR", [a.plain()], ends, concrete, integers=(np.asarray(bits, np.int64),))
        if a.kind is None or a.base is None or not self.uses("wraps"):
            return result
        for kind in (LEFT + bits, LEFT_WRAPPED + bits):
            own = (a.kind == kind) & (a.low != a.high)
            if bits < 32 and own.any():
                self.note("wraps", own.sum())
                before = Terms(a.base, *(np.broadcast_to(end, a.shape) for end in ends), degree=a.degree)
                if kind >= LEFT_WRAPPED:
                    before.low, before.high = (np.full(a.shape, end) for end in (-WIDE, WIDE))
                    before = self._wrapped(before, 32 - bits)
                result = select(own, before, result)
        return result

    def shifted_left(self, a: Terms, bits: int) -> Terms:
        """a * 2^bits."""
        result = self.scaled(a, 1 << bits)
        if bits:
            result.kind = np.full(result.shape, LEFT + bits, np.uint8)
            result.base = a.field
        return result

    def exclusive_or(self, a: Terms, number: int) -> Terms:
        """a XOR a number."""
        if number == -1 and self.uses("complement"):
            self.note("complement", a.size)
            return self.subtract(self.constant(np.int64(-1)), a.plain()).plain()
        result = self.bitwise("XOR", a, self.constant(np.int64(number)))
        if number != 128 or not self.uses("planes"):
            return result
        rest = self.subtract(a.plain(), self.plus(self.scaled(self.shifted_right(a, 8), 256), 128))
        short = (a.low >= -(1 << 15)) & (a.high < 1 << 15) & (result.low != result.high)
        kind = np.where(short, FLIPPED, PLAIN).astype(np.uint8)
        return Terms(result.field, result.low, result.high, kind, rest.field, degree=rest.degree)

    def bitwise(self, name: str, a: Terms, b: Terms) -> Terms:
        """AND, OR or XOR: as narrow as the wider operand."""
        concrete = {"AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor}[name]
        # In one order: they are commutative.
        a, b = aligned(*((b, a) if b.constant and not a.constant else (a, b)))
        a, b = a.plain(), b.plain()
        if name == "AND" and (a.is_number(255) or a.is_number(65535)):
            return self.unsigned(b, 8 if a.is_number(255) else 16)
        ends = [np.where(end < 0, ~end, end) for end in (a.low, a.high, b.low, b.high)]
        most = np.maximum(np.maximum(ends[0], ends[1]), np.maximum(ends[2], ends[3]))
        bits = np.frexp(most.astype(np.float64))[1]
        limit = np.int64(1) << np.minimum(bits, 62).astype(np.int64)
        result = self.function(name, [a, b], (-limit, limit - 1), concrete)
        both = (a.low >= 0) & (a.high <= 1) & (b.low >= 0) & (b.high <= 1)
        if both.any() and self.uses("booleans"):
            self.note("booleans", both.sum())
            result = select(both, self._boolean(name, a, b), result)
        return result

    def unsigned(self, a: Terms, bits: int) -> Terms:
        """The low 8 or 16 bits as an unsigned number."""
        fits = (a.low >= 0) & (a.high < 1 << bits)
        if fits.all():
            return a
        if bits == 8:
            return select(fits, a, self.turned(a.plain(), signed=False))
        parts = [self.byte(a, k, 2, signed=False) for k in range(2)]
        return select(fits, a, self.add(parts[0], self.scaled(parts[1], 256)))

    def _boolean(self, name: str, a: Terms, b: Terms) -> Terms:
        small = ((a.low >= 0) & (a.high <= 1), (b.low >= 0) & (b.high <= 1))
        zero = self.constant(np.zeros((1,) * a.ndim))
        a, b = select(small[0], a, zero), select(small[1], b, zero)
        both = self.multiply(a, b)
        if name == "AND":
            return both
        result = self.subtract(self.add(a, b), both if name == "OR" else self.scaled(both, 2))
        return dataclasses.replace(result, low=np.maximum(result.low, 0), high=np.minimum(result.high, 1))

    def choice(self, condition: Terms, one: Terms, other: Terms) -> Terms:
        """`one` where the condition is 1, `other` where it is 0."""
        difference = self.multiply(condition, self.subtract(one.plain(), other.plain()))
        result = self.add(other.plain(), difference)
        # Where the condition is a constant.
        for always, term in ((condition.low == 1, one), (condition.high == 0, other)):
            result.low = np.where(always, term.low, result.low)
            result.high = np.where(always, term.high, result.high)
        return result

    def turned(self, terms: Terms, *, signed: bool) -> Terms:
        """The low byte as a signed or an unsigned number."""
        if signed:
            return self.function("S8", [terms], (-128, 127), lambda v: ((v & 255) ^ 128) - 128)
        return self.function("U8", [terms], (0, 255), lambda v: v & 255)

    def byte(self, terms: Terms, number: int, width: int, *, signed: bool) -> Terms:
        """Byte `number` of terms of `width` bytes as a signed or an unsigned number. The lowest is what is left."""
        ends = (-128, 127) if signed else (0, 255)
        part = self._byte(terms.plain(), number, width)
        fits = (part.low >= ends[0]) & (part.high <= ends[1])
        return part if fits.all() else select(fits, part, self.turned(part, signed=signed))

    def _byte(self, terms: Terms, number: int, width: int) -> Terms:
        if number == width - 1:
            return self.shifted_right(terms, 8 * number)
        if number:

            def concrete(values: np.ndarray) -> np.ndarray:
                return (values >> (8 * number)) & 255

            return self.function(f"BYTE:{number}", [terms], (0, 255), concrete)
        rest = terms
        for k in range(1, width):
            rest = self.subtract(rest, self.scaled(self._byte(terms, k, width), 1 << 8 * k))
        known = terms.low == terms.high
        low, high = (np.where(known, terms.low & 255, end) for end in (0, 255))
        return Terms(rest.field, low, high, degree=rest.degree)

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
    """Of a number times a power of 256; None where it is none."""
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


def rescaled(values: np.ndarray, multiplier: np.ndarray, shift: np.ndarray, double: bool) -> np.ndarray:
    """TOSA's apply_scale on int64."""
    product = values * multiplier
    if double:
        product = product + np.where(shift > 31, np.where(values >= 0, 1 << 30, -(1 << 30)), 0)
    return (product >> shift) + np.where(shift > 0, (product >> np.maximum(shift - 1, 0)) & 1, 0)


def _names(terms: Terms, which: np.ndarray) -> list[bytes]:
    """The values of all seeds, of those of the terms that are chosen."""
    values = np.stack([np.broadcast_to(own, terms.shape)[which] for own in terms.field], axis=-1)
    return [row.tobytes() for row in values]


def _transposed(terms: Terms) -> Terms:
    return terms.each(lambda part, _: np.swapaxes(part, -1, -2))


def _largest(terms: Terms) -> int:
    """Magnitude."""
    return max(abs(int(terms.low.min(initial=0))), abs(int(terms.high.max(initial=0))))


def _within(terms: Terms, ends: tuple[int, int]) -> Terms:
    low, high = np.clip(terms.low, *ends), np.clip(terms.high, *ends)
    return dataclasses.replace(terms, low=low, high=high)


def _thirds(values: np.ndarray) -> list[np.ndarray]:
    mask = np.uint64((1 << 21) - 1)
    parts = (values & mask, (values >> np.uint64(21)) & mask, values >> np.uint64(42))
    return [part.astype(np.float64) for part in parts]
