"""Memory of terms: a cell for each byte, which says of which term it is which byte."""

from collections.abc import Iterator

import numpy as np

from . import field
from .algebra import Algebra, UndecidedError
from .values import DIGITS, Terms, select

CONSTANTS = 256
"""Terms 0..255 are the bytes as unsigned numbers; 256..511 the same bytes as signed ones, which no cell names."""
CELL = np.dtype(np.int32)
"""8 * term + number of the byte."""
_FITS_SIGNED, _FITS_UNSIGNED = 1, 2


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
        self._low, self._high = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._kind, self._width = np.zeros(size, np.uint8), np.ones(size, np.uint8)
        self._degree = np.ones(size, np.uint16)
        self._fits = np.zeros(size, np.uint8)
        """Terms of one byte that are signed or unsigned ones as they are."""
        numbers = np.concatenate([np.arange(256), np.arange(256).astype(np.uint8).view(np.int8)])
        self._field[:, : 2 * CONSTANTS] = field.of_integers(numbers)
        self._low[: 2 * CONSTANTS] = self._high[: 2 * CONSTANTS] = numbers
        self._fits[:CONSTANTS], self._fits[CONSTANTS : 2 * CONSTANTS] = _FITS_UNSIGNED, _FITS_SIGNED

    def store(self, terms: Terms, width: int) -> np.ndarray:
        """Cells [..., width] of terms of that many bytes, which fit them."""
        known = terms.low == terms.high
        if known.all():
            cells = _constants(terms.low, width)
            self._place_digits(cells, terms, width)
            return cells
        if terms.degree > np.iinfo(self._degree.dtype).max:
            raise UndecidedError("a product of more than 65535 values")
        start = self._reserve(terms.size)
        if not self._writers or self._writers[-1][1] != self.writer:
            self._writers.append((start, self.writer))
        own = slice(start, self.count)
        self._field[:, own] = terms.field.reshape(len(terms.field), -1)
        self._low[own], self._high[own], self._width[own] = terms.low.ravel(), terms.high.ravel(), width
        self._degree[own] = terms.degree
        if width == 1:
            signed = (terms.low >= -128) & (terms.high <= 127)
            unsigned = (terms.low >= 0) & (terms.high <= 255)
            self._fits[own] = (_FITS_SIGNED * signed + _FITS_UNSIGNED * unsigned).ravel()
        if terms.kind is not None and terms.base is not None:
            self._base = np.zeros_like(self._field) if self._base is None else self._base
            self._kind[own], self._base[:, own] = terms.kind.ravel(), terms.base.reshape(len(terms.base), -1)
        ids = np.arange(start, self.count).reshape(terms.shape)
        cells = (8 * ids[..., None] + np.arange(width)).astype(CELL)
        if known.any():
            cells[known] = _constants(terms.low[known], width)
        if terms.digits is not None:
            self._place_digits(cells, terms, width)
        return cells

    def marks(self, cells: np.ndarray) -> np.ndarray:
        """uint64 [seeds, ...]: equal for bytes that are equal, and else not, but by accident."""
        ids = cells >> 3
        numbers = 8 * self._width[ids].astype(np.int64) + (cells & 7)
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
        size = self._low.size
        while size < self.count:
            size *= 2
        if size > self._low.size:
            for name in ("_low", "_high", "_kind", "_width", "_degree", "_fits"):
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

    def _of(self, ids: np.ndarray) -> Terms:
        degree = 1 if self._algebra.degree == 1 else int(self._degree[ids].max(initial=1))
        terms = Terms(np.take(self._field, ids, axis=1), self._low[ids], self._high[ids], degree=degree)
        if self._base is not None:
            terms.kind, terms.base = self._kind[ids], np.take(self._base, ids, axis=1)
        return self._algebra.facts.applied(terms)

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
        whole = (self._width[ids] == width) & (first & 7 == 0)
        whole &= (cells == first[..., None] + np.arange(width, dtype=CELL)).all(axis=-1)
        terms, signed = self._of(ids), bool(np.issubdtype(dtype, np.signedinteger))
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

    def bytes(self, cells: np.ndarray, *, signed: bool) -> Terms:
        """Returns the terms of single cells."""
        ids = cells >> 3
        if signed:
            ids += CONSTANTS * (ids < CONSTANTS)
        terms = self._of(ids)
        flag = _FITS_SIGNED if signed else _FITS_UNSIGNED
        fits = self._fits[ids] & flag != 0
        if not fits.all():
            terms = select(fits, terms, self._parts(cells, signed=signed))
        if not signed or not fits.all():
            terms.digits = np.zeros(terms.shape, DIGITS)
            terms.digits["0"], terms.digits["signed"] = cells, int(signed)
        return terms

    def _parts(self, cells: np.ndarray, *, signed: bool) -> Terms:
        """Bytes that are parts of wider terms, or of the other sign."""
        ids, number = cells >> 3, cells & 7
        width = self._width[ids]
        whole = self._of(ids).plain()
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
