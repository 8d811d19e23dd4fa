"""Memory of terms: a cell for each byte, which says of which term it is which byte."""

from collections.abc import Iterator

import numpy as np

from . import field
from .algebra import Algebra, UndecidedError
from .values import DIGITS, Terms, select, spread

CONSTANTS = 256
"""Terms 0..255 are the bytes as unsigned numbers; 256..511 the same bytes as signed ones, which no cell names."""
CELL = np.dtype(np.int32)
"""8 * term + number of the byte."""


class TermSorts:
    """What many terms have in common: interval, width in bytes, and degree. A sort is a number of such; those from 0 on
    are bytes that are constants, of these `values`."""

    def __init__(self, values: np.ndarray):
        self._numbers = dict[tuple[int, int, int, int], int]()
        self._of_bytes = dict[int, np.ndarray]()
        """Of terms of one byte, by degree: int32 [2^18], the sort by the interval, or -1."""
        self.low = self.high = values
        self.width = self.degree = np.ones(len(values), np.int64)
        self.signed, self.unsigned = np.arange(len(values)) >= CONSTANTS, np.arange(len(values)) < CONSTANTS
        """Bytes that are signed or unsigned numbers as they are."""

    def of(self, low: np.ndarray, high: np.ndarray, width: int, degree: int) -> np.ndarray:
        """int32: the sort of terms of one width and degree in these intervals."""
        if low.size and low.min() == low.max() and high.min() == high.max():
            pair = int(low.flat[0]), int(high.flat[0])
            return self._found([pair], width, degree).reshape((1,) * low.ndim)
        if width > 1:
            low, high = np.broadcast_arrays(low, high)
            ends, places = np.unique(np.stack([low.ravel(), high.ravel()]), axis=1, return_inverse=True)
            return self._found(list(zip(*ends.tolist(), strict=True)), width, degree)[places].reshape(
                low.shape
            )
        known = self._of_bytes.setdefault(degree, np.full(1 << 18, -1, np.int32))
        places = (low + 128 << 9) + (high + 128)
        result = known[places]
        if (result < 0).any():
            new = np.unique(places[result < 0])
            pairs = [((place >> 9) - 128, (place & 511) - 128) for place in new.tolist()]
            known[new] = self._found(pairs, width, degree)
            result = known[places]
        return result

    def _found(self, pairs: list[tuple[int, int]], width: int, degree: int) -> np.ndarray:
        if new := [pair for pair in pairs if (*pair, width, degree) not in self._numbers]:
            self._add(new, width, degree)
        return np.array([self._numbers[*pair, width, degree] for pair in pairs], np.int32)

    def _add(self, pairs: list[tuple[int, int]], width: int, degree: int) -> None:
        first = len(self.low)
        self._numbers.update(((*pair, width, degree), first + n) for n, pair in enumerate(pairs))
        low, high = np.array(pairs, np.int64).T
        self.low, self.high = np.append(self.low, low), np.append(self.high, high)
        self.width = np.append(self.width, np.full(len(pairs), width))
        self.degree = np.append(self.degree, np.full(len(pairs), degree))
        self.signed = np.append(self.signed, (width == 1) & (low >= -128) & (high <= 127))
        self.unsigned = np.append(self.unsigned, (width == 1) & (low >= 0) & (high <= 255))


class Pool:
    """All terms that were ever stored."""

    def __init__(self, algebra: Algebra):
        self._algebra = algebra
        self.writer = -1
        """Address of the instruction whose terms are stored now."""
        self._writers: list[tuple[int, int]] = []
        """(first term, its writer)."""
        size, self.count = 1 << 22, 2 * CONSTANTS
        self._field = np.zeros((algebra.seeds, size), np.uint64)
        self._base: np.ndarray | None = None
        self._kind = np.zeros(size, np.uint8)
        numbers = np.concatenate([np.arange(256), np.arange(256).astype(np.uint8).view(np.int8)])
        self._field[:, : 2 * CONSTANTS] = field.of_integers(numbers)
        self._sort, self._sorts = np.zeros(size, np.int32), TermSorts(numbers)
        self._sort[: 2 * CONSTANTS] = np.arange(2 * CONSTANTS)

    def store(self, terms: Terms, width: int) -> np.ndarray:
        """Cells [..., width] of terms of that many bytes, which fit them."""
        low, high = terms.ends
        known = low == high
        if known.all():
            cells = _constants(terms.low, width)
            self._place_digits(cells, terms, width)
            return cells
        start = self._reserve(terms.size)
        if not self._writers or self._writers[-1][1] != self.writer:
            self._writers.append((start, self.writer))
        own = slice(start, self.count)
        self._field[:, own] = terms.field.reshape(len(terms.field), -1)
        sorts = self._sorts.of(low, high, width, terms.degree)
        self._sort[own] = sorts.reshape(-1) if sorts.size == 1 else spread(sorts, terms.shape).reshape(-1)
        if terms.kind is not None and terms.base is not None:
            self._base = np.zeros_like(self._field) if self._base is None else self._base
            self._kind[own], self._base[:, own] = terms.kind.ravel(), terms.base.reshape(len(terms.base), -1)
        cells = np.arange(8 * start, 8 * self.count, 8, CELL).reshape(*terms.shape, 1)
        if width > 1:
            cells = cells + np.arange(width, dtype=CELL)
        if known.any():
            np.copyto(cells, _constants(low, width), where=known[..., None])
        if terms.digits is not None:
            self._place_digits(cells, terms, width)
        return cells

    def marks(self, cells: np.ndarray) -> np.ndarray:
        """uint64 [seeds, ...]: equal for bytes that are equal, and else not, but by accident."""
        ids = cells >> 3
        numbers = 8 * self._sorts.width[self._sort[ids]] + (cells & 7)
        values = self._algebra.marks(np.take(self._field, ids, axis=1), numbers)
        return np.where(ids < CONSTANTS, ids.astype(np.uint64), values)

    def stored(self) -> Iterator[tuple[int, np.ndarray]]:
        """(address of the instruction, uint64 [seeds, terms]): what each GO stored that stored terms, in order."""
        ends = [first for first, _ in self._writers[1:]] + [self.count]
        for (first, writer), end in zip(self._writers, ends, strict=True):
            yield writer, self._field[:, first:end]

    def _place_digits(self, cells: np.ndarray, terms: Terms, width: int) -> None:
        """Puts the bytes from which terms were joined into the cells."""
        digits = terms.digits
        if digits is None or width > 4 or not self._algebra.uses("bytes"):
            return
        joined = (digits["0"] >= 0) & ((digits["signed"] == 0) | (digits["signed"] == width))
        # A byte of a term stays one, even where it can be but one number: the others lie beside it.
        late = np.zeros(terms.shape, bool)
        for k in range(width):
            late |= digits[str(k)] >= 8 * CONSTANTS
        joined &= late
        if not joined.any():
            return
        self._algebra.note("bytes", joined.sum())
        for k in range(width):
            cells[..., k] = np.where(joined, digits[str(k)], cells[..., k])

    def _reserve(self, count: int) -> int:
        start, self.count = self.count, self.count + count
        if self.count >= 1 << 28:
            raise UndecidedError("more than 2^28 terms")
        size = self._sort.size
        while size < self.count:
            size *= 2
        if size > self._sort.size:
            for name in ("_kind", "_sort"):
                old = getattr(self, name)
                new = np.zeros(size, old.dtype)
                new[:start] = old[:start]
                setattr(self, name, new)
            for name in ("_field", "_base"):
                old = getattr(self, name)
                if old is not None:
                    new = np.zeros((len(old), size), old.dtype)
                    new[:, :start] = old[:, :start]
                    setattr(self, name, new)
        return start

    def _of(self, ids: np.ndarray, sorts: np.ndarray, *, plain: bool = False) -> Terms:
        low, high = (spread(ends[sorts], ids.shape) for ends in (self._sorts.low, self._sorts.high))
        degree = 1 if self._algebra.degree == 1 else int(self._sorts.degree[sorts].max(initial=1))
        terms = Terms(np.take(self._field, ids, axis=1), low, high, degree=degree)
        if self._base is not None and not plain:
            terms.kind, terms.base = self._kind[ids], np.take(self._base, ids, axis=1)
        return self._algebra.facts.applied(terms)

    def _sorts_of(self, ids: np.ndarray) -> np.ndarray:
        """The sorts of terms; one element for all where it is one."""
        sorts = np.take(self._sort, ids)
        if sorts.size and (sorts == sorts.flat[0]).all():
            return sorts[(slice(0, 1),) * sorts.ndim]
        return sorts

    def load(self, cells: np.ndarray, dtype: np.dtype, low_bytes: int = 8) -> Terms:
        """Elements of `dtype` in cells [..., bytes]; of those that are no single term the `low_bytes` at most."""
        width = cells.shape[-1]
        if width == 1:
            return self.bytes(cells[..., 0], signed=bool(np.issubdtype(dtype, np.signedinteger)))
        if not (cells >= 8 * CONSTANTS).any():
            values = np.ascontiguousarray((cells >> 3).astype(np.uint8)).view(dtype)[..., 0]
            return self._algebra.constant(values.astype(np.int64))
        first, info = cells[..., 0], np.iinfo(dtype)
        ids = first >> 3
        sorts = self._sorts_of(ids)
        whole = (self._sorts.width[sorts] == width) & (first & 7 == 0)
        whole &= (cells == first[..., None] + np.arange(width, dtype=CELL)).all(axis=-1)
        terms, signed = self._of(ids, sorts), bool(np.issubdtype(dtype, np.signedinteger))
        if signed and whole.any():
            # The bits are the term's, whatever their sign was said to be.
            terms = self._algebra.wrap(terms, 8 * width) if width < 8 else terms
        whole &= (terms.low >= info.min) & (terms.high <= info.max)
        if not whole.all():
            joined = self._joined(cells[..., :low_bytes], signed=signed)
            terms = select(whole, terms, joined)
        if width <= 4 and not (signed and whole.all()):
            terms.digits = np.zeros(terms.shape, DIGITS)
            for k in range(width):
                terms.digits[str(k)] = cells[..., k]
            terms.digits["signed"] = width * signed
        return terms

    def bytes(self, cells: np.ndarray, *, signed: bool, plain: bool = False) -> Terms:
        """Returns the terms of single cells; `plain`: without what axioms look at."""
        ids = cells >> 3
        if signed:
            ids += CONSTANTS * (ids < CONSTANTS)
        sorts = self._sorts_of(ids)
        terms = self._of(ids, sorts, plain=plain)
        fits = (self._sorts.signed if signed else self._sorts.unsigned)[sorts]
        if not fits.all():
            fits = spread(fits, cells.shape)
            terms = select(fits, terms, self._parts(cells, signed=signed))
        if plain:
            return terms.plain()
        if not signed or not fits.all():
            terms.digits = np.zeros(terms.shape, DIGITS)
            terms.digits["0"], terms.digits["signed"] = cells, int(signed)
        return terms

    def _parts(self, cells: np.ndarray, *, signed: bool) -> Terms:
        """Bytes that are parts of wider terms, or of the other sign."""
        ids, number = cells >> 3, cells & 7
        sorts = self._sorts_of(ids)
        width = self._sorts.width[sorts]
        whole = self._of(ids, sorts, plain=True)
        result = self._algebra.turned(whole, signed=signed)
        for wide in (2, 4, 8):
            for k in range(wide):
                own = (width == wide) & (number == k)
                if own.any():
                    self._algebra.note("bytes", own.sum())
                    result = select(own, self._algebra.byte(whole, k, wide, signed=signed), result)
        return result

    def _joined(self, cells: np.ndarray, *, signed: bool) -> Terms:
        """Elements that are no single term: sums of bytes."""
        total, width = None, cells.shape[-1]
        for k in range(width):
            part = self.bytes(cells[..., k], signed=signed and k == width - 1).plain()
            part = self._algebra.scaled(part, 1 << 8 * k)
            total = part if total is None else self._algebra.add(total, part)
        assert total is not None
        self._algebra.note("bytes", total.size)
        return total


def _constants(values: np.ndarray, width: int) -> np.ndarray:
    raw = np.ascontiguousarray(values.astype("<i8")).view(np.uint8).reshape(*values.shape, 8)
    return raw[..., :width].astype(CELL) * 8
