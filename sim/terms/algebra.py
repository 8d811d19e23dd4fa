"""What both sides compute with: sums and products in the field, all else as random functions with a few axioms.

An axiom is a law of integers that makes terms equal which are written otherwise; `tests/proofs/test_prove_axioms.py`
proves each. A lemma says that golden's and the emulator's operator are the function that a random one stands for.
"""

import dataclasses
import functools

import numpy as np

from . import field
from .axioms import INT32, WIDE, UndecidedError
from .hashing import digest
from .noted import names_of, values_at
from .sums import Options, RandomPoints, largest
from .values import (
    CHOSEN,
    CLAMPED,
    DIFFERENCE,
    FLIPPED,
    LARGEST,
    LEFT,
    LEFT_RING,
    LEFT_WRAPPED,
    PLAIN,
    RING,
    RING_SUM,
    SMALLEST,
    WRAPPED,
    Terms,
    aligned,
    count,
    everywhere,
    select,
    spread,
    thin,
)

MOST_KEPT = 1 << 12
"""Scales of more elements are not kept."""
MORE_BITS = 3
"""Keys of an ARGMAX have that many numbers of bits for the index: what the index needs, or up to 2 more."""
__all__ = ["INT32", "WIDE", "Algebra", "Options", "UndecidedError", "rescaled"]


class Algebra(RandomPoints):
    """The operators of both sides."""

    # Widths.

    def require(self, terms: Terms, ends: tuple[int, int]) -> Terms:
        """The specification demands that a value lies in an interval: it does where the graph's result is defined.
        Returns what is known then."""
        low, high = terms.ends
        outside = (low < ends[0]) | (high > ends[1])
        if not outside.any():
            return terms
        outside = spread(outside, terms.shape)
        if ((terms.low > ends[1]) | (terms.high < ends[0])).any():
            raise UndecidedError("the specification leaves a result open for every input")
        for name in names_of(terms, outside):
            before = self._required.get(name, ends)
            self._required[name] = max(ends[0], before[0]), min(ends[1], before[1])
        self.assumed += int(outside.sum())
        return self._ring_sums_within(self.settled(_within(terms, ends)), outside, ends)

    def _ring_sums_within(self, terms: Terms, outside: np.ndarray, limits: tuple[int, int]) -> Terms:
        """What fits 32 bits is its low 32 bits, and those of all that is equal modulo 2^32."""
        if terms.kind is None or terms.base is None or not self.uses("ring"):
            return terms
        ring = outside & (terms.kind == RING_SUM)
        if not ring.any() or limits[0] < INT32[0] or limits[1] > INT32[1]:
            return terms
        self.note("ring", ring.sum())
        low, high = (np.full(terms.shape, end) for end in (-WIDE, WIDE))
        wrapped = self._wrapped(Terms(terms.base, low, high, degree=terms.degree), 32)
        wrapped.low, wrapped.high = terms.low, terms.high
        ends = zip(terms.low[ring].tolist(), terms.high[ring].tolist(), strict=True)
        self._wrapped_ends.update(zip(names_of(wrapped, ring), ends, strict=True))
        return select(ring, wrapped, terms)

    def wrap(self, terms: Terms, bits: int) -> Terms:
        """The low bits, signed: the same number where it fits, or where REQUIRE says so."""
        ends = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        if bits == 8 and terms.kind is not None and terms.base is not None:
            flipped = thin(terms.kind) == FLIPPED
            if flipped.any():
                flipped = spread(flipped, terms.shape)
                self.note("planes", flipped.sum())
                low, high = (np.full(terms.shape, end, np.int64) for end in ends)
                terms = select(flipped, Terms(terms.base, low, high, degree=terms.degree), terms)
        low, high = terms.ends
        outside = (low < ends[0]) | (high > ends[1])
        if not outside.any() and self.uses("intervals"):
            return terms
        outside = spread(outside, terms.shape)
        if bits <= 32 and terms.kind is not None and terms.base is not None and self.uses("ring"):
            ring = outside & (terms.kind == RING_SUM)
            if ring.any():
                # Any number may be what it is modulo 2^32.
                self.note("ring", ring.sum())
                low, high = (np.full(terms.shape, end) for end in (-WIDE, WIDE))
                terms = select(ring, Terms(terms.base, low, high, degree=terms.degree), terms)
        required = self._which_required(terms, outside, ends)
        if required is not None:
            terms = self.settled(select(required, _within(terms, ends), terms))
            outside = outside & ~required
            if not outside.any():
                return terms
        wrapped = self._wrapped(terms, bits)
        if self._wrapped_ends and bits == 32:
            known = [self._wrapped_ends.get(name, ends) for name in names_of(wrapped, outside)]
            wrapped.low, wrapped.high = np.array(wrapped.low), np.array(wrapped.high)
            wrapped.low[outside], wrapped.high[outside] = np.array(known, np.int64).T
        return select(outside, wrapped, terms) if self.uses("intervals") else wrapped

    def _wrapped(self, terms: Terms, bits: int) -> Terms:
        """The low bits of terms that may not fit."""
        shift, ends = 64 - bits, (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

        def low_bits(values: np.ndarray) -> np.ndarray:
            return (values << shift) >> shift

        before, known = terms.field, terms.low == terms.high
        if terms.kind is not None and terms.base is not None and self.uses("wraps"):
            again = ((terms.kind == WRAPPED) | (terms.kind == RING)) & ~known
            before = np.where(again, terms.base, before)
            self.note("wraps", again.sum())
        whole = Terms(before, terms.low, terms.high, degree=terms.degree)
        result = self.function(f"WRAP{bits}", [whole], ends, low_bits)
        kind, base = np.where(known, PLAIN, RING if bits >= 32 else WRAPPED).astype(np.uint8), before
        if bits >= 32 and terms.kind is not None and terms.base is not None:
            left = (terms.kind >= LEFT) & (terms.kind < LEFT_WRAPPED) | (terms.kind >= LEFT_RING)
            now = LEFT_WRAPPED if bits == 32 else LEFT_RING
            kind = np.where(left, now + terms.kind % LEFT, kind).astype(np.uint8)
            base = np.where(left, terms.base, before)
        result.kind, result.base = kind, base
        return result

    def _which_required(self, terms: Terms, which: np.ndarray, ends: tuple[int, int]) -> np.ndarray | None:
        """Returns which of the chosen terms a REQUIRE wants within these ends; None: none."""
        if not self._required:
            return None
        values, known = terms.field[0][which], self._first_required()
        there = known[np.minimum(np.searchsorted(known, values), len(known) - 1)] == values
        if not there.any():
            return None
        # Of terms without axes it is a scalar of NumPy's.
        which = np.array(which)
        which[which] = there
        found = np.zeros(terms.shape, bool)
        wanted = [self._required.get(name) for name in names_of(terms, which)]
        found[which] = [each is not None and ends[0] <= each[0] and each[1] <= ends[1] for each in wanted]
        return found if found.any() else None

    def _first_required(self) -> np.ndarray:
        """The values of the first seed of terms in `_required`, in order."""
        count = len(self._required)
        if self._required_values is None or self._required_values[0] != count:
            names = np.frombuffer(b"".join(self._required), np.uint64).reshape(count, -1)
            self._required_values = count, np.unique(names[:, 0])
        return self._required_values[1]

    def limits_of(self, terms: Terms) -> tuple[np.ndarray, np.ndarray] | None:
        """The intervals of terms, as narrow as REQUIREs want them; None where they want nothing."""
        names = names_of(terms, np.ones(terms.shape, bool)) if self._required else []
        wanted = [self._required.get(name) for name in names]
        if not any(wanted):
            return None
        ends = [
            own or each
            for own, each in zip(wanted, zip(terms.low.flat, terms.high.flat, strict=True), strict=True)
        ]
        low, high = (np.array(end).reshape(terms.shape) for end in zip(*ends, strict=True))
        return np.maximum(low, terms.low), np.minimum(high, terms.high)

    # Operators.

    def rescale(self, a: Terms, multiplier: np.ndarray, shift: np.ndarray, *, double: bool) -> Terms:
        """(a * multiplier * 2^-shift), rounded; `double`: with the second rounding of shifts above 31."""
        scale = _Scale.of(multiplier, shift, a.ndim, double, self.uses("scales"))
        if largest(a) * scale.largest + (1 << 30) >= 1 << 63:
            raise UndecidedError("a product to scale of more than 63 bits")
        m, s = scale.m, scale.s
        if scale.is_product:
            self.note("scales", a.size)
            return (
                a
                if (m == 1).all()
                else self.multiply(a, self.constant(m if m.size > 1 else m.reshape(-1)[0]))
            )
        if scale.is_reduced:
            self.note("scales", a.size)
        low, high = a.ends
        if low.shape == high.shape and low.ndim >= m.ndim:
            low, high = scale.rescaled(np.stack((low, high)))
        else:
            low, high = scale.rescaled(low), scale.rescaled(high)
        ends = np.minimum(low, high), np.maximum(low, high)
        result = self.function("RESCALE", [a.plain()], ends, scale.rescaled, integers=(m, s, scale.twice))
        if not scale.factor.any():
            return result
        factor, exact = scale.factor, _is_whole(a, scale)
        if exact.any():
            self.note("scales", count(exact, result.shape))
            zero = self.constant(np.zeros((1,) * a.ndim))
            product = self.multiply(select(exact, a, zero), self.constant(factor))
            result = select(np.broadcast_to(exact, result.shape), product, result)
        return result

    def clamp(self, a: Terms, low: int, high: int) -> Terms:
        """Raises terms to at least `low`, then lowers them to at most `high`."""
        own_ends = a.ends
        inside = (own_ends[0] >= low) & (own_ends[1] <= high)
        self.note("intervals", count(inside, a.shape))
        if inside.all() and self.uses("intervals"):
            return a
        required = (
            None if not self._required else self._which_required(a, spread(~inside, a.shape), (low, high))
        )
        if required is not None and self.uses("intervals"):
            self.note("intervals", required.sum())
            return self.clamp(self.settled(select(required, _within(a, (low, high)), a)), low, high)
        if low > high:
            return self.constant(np.full(a.shape, high))
        base = a.field
        if a.kind is not None and a.base is not None and self.uses("clamps"):
            again = thin(a.kind) == CLAMPED
            self.note("clamps", count(again, a.shape))
            base = np.where(again, a.base, base) if again.any() else base
        ends = [np.minimum(np.maximum(end, low), high) for end in own_ends]
        values = self._functions.value("CLAMP", self._functions.pair(*ends), (base,))
        self.lemmas["CLAMP"] += a.size
        self.values += a.size
        least, most = (spread(end, a.shape) for end in ends)
        kind = everywhere(CLAMPED, a.shape)
        result = self.settled(Terms(values, least, most, kind=kind, base=base))
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
        members = self._member(a, kind), self._member(b, kind)
        base = field.add(*members)
        if kind == SMALLEST and self.smallest.on:
            self._note_keys(base, (a, b), members)
        if not self.uses("sets"):
            base = self._functions.value("PAIR", (), (a.field, b.field))
        pick = np.maximum if kind == LARGEST else np.minimum
        name = "MAX" if kind == LARGEST else "MIN"
        values = self._functions.value(name, (), (base,))
        self.lemmas[name] += a.size
        self.values += 2 * a.size
        kinds = everywhere(kind, shape)
        whole = self.settled(Terms(values, pick(a.low, b.low), pick(a.high, b.high), kind=kinds, base=base))
        # Where one is never the other's better, or both are one.
        first, second = (a.low >= b.high), (b.low >= a.high)
        if kind == SMALLEST:
            first, second = (a.high <= b.low), (b.high <= a.low)
        first = first | (a.field == b.field).all(axis=0)
        if first.any() or second.any():
            whole = select(first, a, select(second, b, whole))
        self.note("sets", whole.size)
        return whole

    def _member(self, terms: Terms, kind: int) -> np.ndarray:
        alone = self._functions.value("MEMBER", (), (terms.field,))
        if terms.kind is None or terms.base is None:
            return alone
        return np.where(terms.kind == kind, terms.base, alone)

    def _note_keys(
        self, base: np.ndarray, parts: tuple[Terms, Terms], members: tuple[np.ndarray, ...]
    ) -> None:
        """Of which terms those of the sets `base` are the smallest."""
        every = np.ones(parts[0].shape, bool)
        for part, own in zip(parts, members, strict=True):
            alone = every if part.kind is None else part.kind != SMALLEST
            values = np.stack([np.broadcast_to(each, part.shape)[alone] for each in part.field])
            self.smallest.alone(values_at(own, alone), values)
        self.smallest.joined(*(values_at(each, every) for each in (base, *members)))

    def first_largest(self, values: Terms, axis: int) -> Terms:
        """The index along an axis of the first of the largest."""
        values = values.along(axis, lambda x, at: np.moveaxis(x, at, -1)).plain()
        count, shape = values.shape[-1], values.shape[:-1]
        known = (values.low == values.high).all(axis=-1)
        computed = np.argmax(values.low, axis=-1)
        if known.all() or count == 1:
            return self.constant(computed)
        bits, self.smallest.on = (count - 1).bit_length(), True
        sets = [self._keys(values, bits + more) for more in range(MORE_BITS)]
        ends = np.where(known, computed, 0), np.where(known, computed, count - 1)
        result = self.settled(Terms(self._functions.value("ARGMAX", (), (sets[0],)), *ends))
        self.values += result.size
        if self.uses("keys"):
            for more, own in enumerate(sets):
                names = values_at(own, np.ones(shape, bool))
                for place, name in zip(np.ndindex(shape), names, strict=True):
                    self.smallest.note_index(name, bits + more, result[place])
        return result

    def _keys(self, values: Terms, bits: int) -> np.ndarray:
        """uint64 [seeds, ...]: the sets of i - x_i * 2^bits of values [.., n]."""
        places = self.constant(np.arange(values.shape[-1]))
        keys = self.add(self.multiply(values, self.constant(np.int64(-(1 << bits)))), places)
        self.values += keys.size
        return field.total(self._functions.value("MEMBER", (), (keys.field,)))

    def _index_of_key(self, keys: Terms, bits: int, otherwise: Terms) -> Terms:
        """The low bits of keys, where they are an index that the graph computes."""
        if keys.kind is None or keys.base is None or not (own := keys.kind == SMALLEST).any():
            return otherwise
        result = otherwise.copy()
        for place, name in zip(np.argwhere(own), values_at(keys.base, own), strict=True):
            found = self.smallest.index(name, bits)
            if found is not None:
                self.note("keys", 1)
                result[tuple(place)] = found
        return result

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
                low, high = (np.broadcast_to(end, a.shape) for end in ends)
                before = Terms(a.base, low, high, degree=a.degree)
                if kind >= LEFT_WRAPPED:
                    before.low, before.high = (np.full(a.shape, end) for end in (-WIDE, WIDE))
                    before = self._wrapped(before, 32 - bits)
                result = select(own, before, result)
        return result

    def shifted_left(self, a: Terms, bits: int) -> Terms:
        """a * 2^bits."""
        result = self.multiply(a, self.constant(np.int64(1 << bits)), 2 * WIDE)
        if bits:
            result.kind, result.base = np.full(result.shape, LEFT + bits, np.uint8), a.field
            if a.kind is not None and a.base is not None and self.uses("wraps"):
                ring = a.kind == RING
                result.kind = np.where(ring, LEFT_RING + bits, result.kind).astype(np.uint8)
                result.base = np.where(ring, a.base, a.field)
        return result

    def exclusive_or(self, a: Terms, number: int) -> Terms:
        """a XOR a number."""
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
        a, b = aligned(*((b, a) if b.constant and not a.constant else (a, b)))
        if name == "AND" and self.smallest.on and a.constant and a.size == 1 and b.kind is not None:
            mask = int(a.low.reshape(-1)[0])
            if mask & (mask + 1) == 0:
                whole = self.bitwise(name, a, b.plain())
                return self._index_of_key(b, mask.bit_length(), whole)
        a, b = a.plain(), b.plain()
        if name == "AND" and (a.is_number(255) or a.is_number(65535)):
            return self.unsigned(b, 8 if a.is_number(255) else 16)
        ends = [np.where(end < 0, ~end, end) for end in (a.low, a.high, b.low, b.high)]
        most = np.maximum(np.maximum(ends[0], ends[1]), np.maximum(ends[2], ends[3]))
        bits = np.frexp(most.astype(np.float64))[1]
        limit = np.int64(1) << np.minimum(bits, 62).astype(np.int64)
        low, high = -limit, limit - 1
        if name == "AND":
            for own in (a, b):
                low = np.where(own.low >= 0, 0, low)
                high = np.where(own.low >= 0, np.minimum(own.high, high), high)
        # In one order: they are commutative.
        later = a.field[0] > b.field[0]
        result = self.function(name, [select(later, b, a), select(later, a, b)], (low, high), concrete)
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
            return self.wrap(terms, 8)
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
        small = (terms.low == terms.high) | (terms.low >= 0) & (terms.high <= 255)
        low, high = (np.where(small, own & 255, end) for own, end in ((terms.low, 0), (terms.high, 255)))
        return Terms(rest.field, low, high, degree=rest.degree)


def rescaled(values: np.ndarray, multiplier: np.ndarray, shift: np.ndarray, double: bool) -> np.ndarray:
    """TOSA's apply_scale on int64."""
    product = values * multiplier
    if double:
        product = product + np.where(shift > 31, np.where(values >= 0, 1 << 30, -(1 << 30)), 0)
    return (product >> shift) + np.where(shift > 0, (product >> np.maximum(shift - 1, 0)) & 1, 0)


@dataclasses.dataclass(frozen=True)
class _Scale:
    """Multipliers and shifts of a RESCALE, and what follows from them."""

    multiplier: np.ndarray
    shift: np.ndarray
    double: bool
    m: np.ndarray
    """Multipliers without powers of 2 that shifts take away again."""
    s: np.ndarray
    """Shifts that are left."""
    twice: np.ndarray
    """int64: where it is rounded twice."""
    factor: np.ndarray
    """The whole number next to m / 2^s; 0 where it does not tell."""
    is_simplified: bool
    """Whether the axiom "scales" is on."""

    @staticmethod
    def of(multiplier: np.ndarray, shift: np.ndarray, rank: int, double: bool, simplified: bool) -> "_Scale":
        """Multipliers and shifts, for terms of so many axes."""
        multiplier, shift = (np.atleast_1d(np.asarray(own, np.int64)) for own in (multiplier, shift))
        if multiplier.shape != shift.shape:
            multiplier, shift = np.broadcast_arrays(multiplier, shift)
        # Terms without axes stay so.
        shape = (1,) * rank if multiplier.size == 1 else multiplier.shape
        make = _scale if multiplier.size <= MOST_KEPT else _scale.__wrapped__
        return make(multiplier.tobytes(), shift.tobytes(), shape, double, simplified)

    @functools.cached_property
    def largest(self) -> int:
        """The largest multiplier."""
        return int(np.abs(self.multiplier).max())

    @functools.cached_property
    def is_product(self) -> bool:
        """Whether nothing is shifted."""
        return self.is_simplified and bool((self.s == 0).all())

    @functools.cached_property
    def is_reduced(self) -> bool:
        """Whether powers of 2 were taken away."""
        return bool((self.s != self.shift).any())

    def rescaled(self, values: np.ndarray) -> np.ndarray:
        """TOSA's apply_scale on int64."""
        return rescaled(values, self.multiplier, self.shift, self.double)


@functools.lru_cache(1 << 12)
def _scale(
    multipliers: bytes, shifts: bytes, shape: tuple[int, ...], double: bool, simplified: bool
) -> _Scale:
    """What the bytes of int64 multipliers and shifts say."""
    multiplier, shift = (np.frombuffer(own, np.int64).reshape(shape) for own in (multipliers, shifts))
    twice = double & (shift > 31)
    taken = np.zeros_like(shift)
    if simplified:
        zeros = np.log2(np.maximum(multiplier & -multiplier, 1)).astype(np.int64)
        taken = np.where(twice | (multiplier == 0), 0, np.minimum(zeros, shift))
    m, s = multiplier >> taken, shift - taken
    factor = np.where(twice, 0, m + ((np.int64(1) << s) >> 1) >> s) if simplified else taken
    return _Scale(multiplier, shift, double, m, s, twice.astype(np.int64), factor, simplified)


def _is_whole(a: Terms, scale: _Scale) -> np.ndarray:
    """Where a * m / 2^s is `factor` * a when rounded: m is factor * 2^s + e, with e * a below half of 2^s."""
    half = (np.int64(1) << scale.s) >> 1
    rest = np.abs(scale.m - (scale.factor << scale.s))
    low, high = a.ends
    exact = rest * np.maximum(np.abs(low), np.abs(high)) < np.maximum(half, 1)
    return exact & (scale.factor != 0)


def _within(terms: Terms, ends: tuple[int, int]) -> Terms:
    low, high = (spread(np.clip(end, *ends), terms.shape) for end in terms.ends)
    kind = terms.kind
    if kind is not None:
        # The intervals of a and b follow from that of a - b, but from no narrower one.
        kind = np.where((kind == DIFFERENCE) | (kind == CHOSEN), PLAIN, kind).astype(np.uint8)
    return dataclasses.replace(terms, low=low, high=high, kind=kind)
