"""The emulator's domain of terms: its memories hold cells of a pool, its units compute with an algebra."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tosaic.hw.isa import Element, Instruction, Op

from ..emulator.alu import Value, VectorParameters, operate
from ..emulator.streams import ELEMENT_DTYPES
from .algebra import INT32, Algebra, UndecidedError
from .functions import multiplied, named, shifted
from .indexed import origin_of, picked, put
from .pool import CELL, CONSTANTS, Pool
from .values import LARGEST, SMALLEST, Terms, aligned, select


@dataclasses.dataclass(frozen=True)
class _ArrayRead:
    """The operands that the array read last."""

    of: tuple[bool, int]
    """Whether they are unsigned, and the zero point."""
    cells: np.ndarray
    result: np.ndarray
    degree: int


class TermsDomain:
    """What the emulator asks for, of terms; one sample."""

    cell = word = CELL
    sum = np.dtype(np.float64)

    def __init__(self, algebra: Algebra):
        self.algebra, self.pool = algebra, Pool(algebra)
        self._degree = 1
        """Degree of the operands that the array read last."""
        self._read: _ArrayRead | None = None
        self._numbers = dict[int, Terms]()
        """Constants of one element."""

    def begin(self, address: int) -> None:
        self.pool.writer = address

    # Memory.

    def unwritten(self, shape: Sequence[int]) -> np.ndarray:
        """Anything may be there."""
        return self.pool.store(self.algebra.fresh(shape, -128, 127), 1)[..., 0]

    def cells(self, data: np.ndarray) -> np.ndarray:
        return data.astype(CELL) * 8

    def known(self, cells: np.ndarray) -> np.ndarray:
        if not (cells >= 8 * CONSTANTS).any():
            return (cells >> 3).astype(np.uint8)
        terms = self.pool.bytes(cells, signed=False)
        if not terms.constant:
            raise UndecidedError("a program, a parameter, an offset or a branch that is computed at run time")
        return terms.low.astype(np.uint8)

    def offsets(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        if (cells < 8 * CONSTANTS).all():
            return self.known(cells).view("<i4").astype(np.int64), None
        elements = cells.reshape(len(cells), -1, 4)
        return np.zeros(elements.shape[:2], np.int64), elements

    def looked_up(
        self, offsets: np.ndarray, read: Callable[[int], np.ndarray], used_bytes: int
    ) -> np.ndarray:
        shape, places = offsets.shape[:-1], self.pool.load(offsets, np.dtype(np.int32)).reshape(-1)
        cells = self.unwritten((places.size, read(0).shape[-1]))
        for low, high in np.unique(np.stack([places.low, places.high]), axis=1).T.tolist():
            own = np.flatnonzero((places.low == low) & (places.high == high))
            if low == high:
                cells[own] = read(low).reshape(places.size, -1)[own]
                continue
            step, turns, names = self._origin(places[own])
            tables = np.stack([read(at).reshape(places.size, -1)[own] for at in range(low, high + 1, step)])
            tables = tables[..., :used_bytes]
            found = np.zeros(tables.shape[1:], bool)
            cells[own, :used_bytes] = self._picked(cells[own, :used_bytes], tables, turns, found)
            if (tables < 8 * CONSTANTS).all():
                for number, (place, name) in enumerate(zip(own, names, strict=True)):
                    self._look_up(cells[place], self.known(tables[:, number]), name, found[number])
        return cells.reshape(*shape, -1)

    def _origin(self, offsets: Terms) -> tuple[int, Terms, list[bytes]]:
        found = origin_of(self.algebra, offsets)
        if found is None:
            raise UndecidedError("an offset that is computed at run time")
        return found

    def _look_up(self, cells: np.ndarray, table: np.ndarray, name: bytes, found: np.ndarray) -> None:
        """Puts what a curve makes of a term into those cells that are its results in a table [values, bytes], but where
        it was `found`."""
        at = 0
        while at < table.shape[1]:
            for width in (4, 2, 1):
                if at + width > table.shape[1] or found[at : at + width].any():
                    continue
                values = (
                    np.ascontiguousarray(table[:, at : at + width]).view(f"<i{width}")[:, 0].astype(np.int64)
                )
                if (values == values[0]).all():
                    terms: Terms | None = self.algebra.constant(values[:1])
                else:
                    terms = self.algebra.lookups.find(name, values)
                if terms is not None:
                    self.algebra.note("lookups", 1)
                    cells[at : at + width] = self.pool.store(terms, width)[0]
                    break
            at += width

    def _picked(self, cells: np.ndarray, tables: np.ndarray, turns: Terms, found: np.ndarray) -> np.ndarray:
        """The cells [n, bytes], with those of the entries `turns` [n] of tables [values, n, bytes] that the graph
        gathers, which are `found` then. Of what it does not, nothing is known."""
        for width in (4, 2, 1):
            end = found.shape[1] // width * width
            free = ~found[:, :end].reshape(len(found), -1, width).any(axis=2)
            if not free.any():
                continue
            elements = tables[..., :end].reshape(*tables.shape[:2], -1, width)
            rows = self.pool.load(elements, np.dtype(f"<i{width}"))
            terms = picked(self.algebra, turns.reshape(-1, 1), rows)
            free &= self.algebra.indexed.results_in(terms)
            self._take(cells[:, :end], terms, free, width)
            found[:, :end] |= np.repeat(free, width, axis=1)
        return cells

    def _take(self, cells: np.ndarray, terms: Terms, which: np.ndarray, width: int) -> None:
        """Stores the chosen ones of terms [.., elements] in cells [.., bytes]."""
        if which.any():
            own = cells.reshape(*which.shape, width)
            own[which] = self.pool.store(terms.plain(), width)[which]
            cells[...] = own.reshape(cells.shape)

    def placed(
        self, offset: np.ndarray, read: Callable[[int], np.ndarray], data: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        place = self.pool.load(offset.reshape(1, 4), np.dtype(np.int32))
        low, high = int(place.low[0]), int(place.high[0])
        if low == high:
            return np.array([low]), data[:, None]
        step, turns, _ = self._origin(place)
        offsets = np.arange(low, high + 1, step)
        before = np.concatenate([read(at) for at in offsets.tolist()])
        cells, found = self.unwritten(before.shape), np.zeros(data.shape[1], bool)
        for width in (4, 2, 1):
            end = len(found) // width * width
            free = ~found[:end].reshape(-1, width).any(axis=1)
            if not free.any():
                continue
            old, new = (
                self.pool.load(each[:, :end].reshape(len(each), -1, width), np.dtype(f"<i{width}"))
                for each in (before, data)
            )
            terms = put(self.algebra, turns.reshape(1, 1), np.arange(len(offsets))[:, None], new, old)
            same = (terms.field == old.field).all(axis=0)
            free &= (self.algebra.indexed.results_in(terms) | same).all(axis=0)
            self._take(cells[:, :end], terms, np.broadcast_to(free, terms.shape), width)
            found[:end] |= np.repeat(free, width)
        return offsets, cells[None]

    # The array.

    def operands(self, cells: np.ndarray, unsigned: bool, zero_point: int, dtype: np.dtype) -> np.ndarray:
        def planes(own: np.ndarray) -> np.ndarray:
            terms = self.pool.bytes(own, signed=not unsigned, plain=True)
            self._degree = terms.degree
            return self.algebra.planes(self.algebra.plus(terms, -zero_point))

        # Blocks of a layer's output channels read the same pixels, one after the other.
        read = self._read
        if read is not None and read.of == (unsigned, zero_point) and np.array_equal(read.cells, cells):
            self._degree = read.degree
            return read.result
        result = np.ascontiguousarray(_overlapping(cells, planes))
        # The one sample's axis is that of the planes.
        result = result.reshape(len(result), *cells.shape[1:])
        result.flags.writeable = False
        self._read = _ArrayRead((unsigned, zero_point), cells.copy(), result, self._degree)
        return result

    def weights(self, words: np.ndarray, zero_point: int) -> Any:
        if not (words >= 8 * CONSTANTS).any():
            return (words >> 3).astype(np.uint8).view(np.int8).astype(np.int16) - np.int16(zero_point)
        return self.algebra.plus(self.pool.bytes(words, signed=True).plain(), -zero_point)

    def exact_type(self, weights: Any, largest: int) -> np.dtype:
        return np.dtype(np.float64)

    def products(self, operands: np.ndarray, weights: Any, dtype: np.dtype) -> Terms:
        if isinstance(weights, Terms):
            sums = self.algebra.matmul(self.algebra.of_planes(operands, self._degree), weights[0])
        else:
            sums = self.algebra.linear(operands, weights[0], self._degree)
        return self.algebra.wrap(sums.reshape(1, *sums.shape), 32)

    def taps(self, weights: Any, dtype: np.dtype) -> Any:
        if isinstance(weights, Terms):
            return weights
        planes = np.repeat(weights.astype(np.float64), 2 * self.algebra.seeds + 2, axis=0)
        planes[-1] = np.abs(planes[-1])
        return planes

    def used_taps(self, taps: Any) -> np.ndarray:
        there = (taps.low != 0) | (taps.high != 0) if isinstance(taps, Terms) else taps != 0
        return there.any(axis=(0, 2))

    def weighted(self, operands: Sequence[np.ndarray], taps: Terms) -> Terms:
        total = self.algebra.constant(np.zeros((*operands[0].shape[1:-1], taps.shape[-1])))
        for number, own in enumerate(operands):
            product = self.algebra.multiply(self.algebra.of_planes(own, self._degree), taps[0, number])
            total = self.algebra.add(total, product)
        return self.algebra.wrap(total.reshape(1, -1, taps.shape[-1]), 32)

    def total(self, sums: np.ndarray) -> Terms:
        terms = self.algebra.of_planes(sums, self._degree)
        return self.algebra.wrap(terms.reshape(1, *terms.shape), 32)

    def integers(self, sums: np.ndarray) -> np.ndarray:
        return sums

    def accumulate(self, sums: Terms, before: Terms) -> Terms:
        return self.algebra.wrap(self.algebra.add(sums, before), 32)

    def accumulators(self, shape: Sequence[int]) -> Terms:
        return self.algebra.fresh(shape, *INT32)

    # The vector unit.

    def registers(self, shape: Sequence[int]) -> Terms:
        return self.algebra.fresh(shape, -(1 << 47), (1 << 47) - 1)

    def constant(self, number: int) -> Value:
        kept = self._numbers.get(number)
        if kept is None:
            kept = self._numbers[number] = self.algebra.constant(np.full(1, number))
        return _value(Terms(kept.field, kept.low, kept.high))

    def parameters(self, cells: np.ndarray, element: Element) -> Any:
        terms = self._elements(cells, element)
        return terms.low if terms.constant else terms

    def load(self, cells: np.ndarray, element: Element) -> Value:
        return _value(self._elements(cells, element))

    def _elements(self, cells: np.ndarray, element: Element) -> Terms:
        # Of INT48 the vector unit takes 48 bits.
        elements = cells.reshape(*cells.shape[:-1], -1, element.bytes)
        return self.pool.load(elements, ELEMENT_DTYPES[element], 6)

    def store(self, lanes: Terms, element: Element) -> np.ndarray:
        bits, (low, high) = 8 * element.bytes, lanes.ends
        # The bits are the term's, whatever their sign is said to be.
        fits = (low >= -(1 << (bits - 1))) & (high < 1 << min(bits, 62))
        if bits <= 32 and not fits.all():
            digits = lanes.digits
            lanes = (
                self.algebra.wrap(lanes, bits)
                if not fits.any()
                else select(fits, lanes, self.algebra.wrap(lanes, bits))
            )
            lanes.digits = digits
        elif bits == 8:
            lanes = self.algebra.wrap(lanes, 8) if lanes.kind is not None and low.min() < 0 else lanes
        cells = self.pool.store(lanes, element.bytes)
        return cells.reshape(*cells.shape[:-2], -1)

    def add(self, value: Value, other: Any) -> Value:
        lanes: Any = value.lanes
        if isinstance(other, int):
            return _value(self.algebra.plus(lanes, other))
        other = other if isinstance(other, Terms) else self.algebra.constant(other)
        return _value(self.algebra.add(lanes, other))

    def wrap(self, value: Value, bits: int) -> Value:
        return _value(self.algebra.wrap(value.lanes, bits))  # type: ignore[arg-type]

    def clamp(self, value: Value, low: int, high: int) -> Value:
        return _value(self.algebra.clamp(value.lanes, low, high))  # type: ignore[arg-type]

    def operate(self, uop: Instruction, x: Value, b: Value, parameters: VectorParameters) -> Value:
        operands = self._narrow(x.lanes), self._narrow(b.lanes)
        return _value(self._narrow(self.algebra.facts.applied(self._operation(uop, *operands, parameters))))

    def _narrow(self, lanes: Any) -> Any:
        """The lanes with the intervals that the graph's terms have, where these are shared."""
        lanes, count = self.algebra.intervals.narrow(lanes)
        self.algebra.note("intervals", count)
        return lanes if not count else self.algebra.settled(lanes)

    def _operation(self, uop: Instruction, x: Any, b: Any, parameters: VectorParameters) -> Terms:
        algebra = self.algebra
        match uop.op:
            case Op.MOV:
                return x
            case Op.ADD:
                return algebra.add(x, b)
            case Op.SUB:
                return algebra.subtract(x, b)
            case Op.MUL:
                x, factor = aligned(x, algebra.wrap(b, 32))
                limits = (1 << 62) // np.maximum(factor.largest, 1)
                return self._where_narrow(x, limits, lambda own: multiplied(algebra, own, factor, uop.shift))
            case Op.RESCALE:
                return algebra.add(self._rescale(uop, x, parameters), b)
            case Op.MAX | Op.MIN:
                return algebra.extreme(x, b, LARGEST if uop.op == Op.MAX else SMALLEST)
            case Op.TABLE8:
                return algebra.table(x, (parameters.table[:256] << 48) >> 48)
            case Op.TABLE16:
                table = parameters.table
                return self._where_narrow(x, 1 << 15, lambda own: self._interpolated(own, table))
            case Op.XOR if b.constant and b.size == 1:
                return algebra.exclusive_or(x, int(b.low.reshape(-1)[0]))
            case Op.AND | Op.OR | Op.XOR:
                return algebra.bitwise(Op(uop.op).name, x, b)
            case Op.ASR | Op.LSL | Op.LSR:
                return self._shift(uop, x, b)
            case _:
                return self._named(uop, x, b)

    def _rescale(self, uop: Instruction, x: Terms, parameters: VectorParameters) -> Terms:
        scale = parameters.multiplier, parameters.shift
        if not uop.per_channel:
            scale = np.full(1, uop.multiplier, np.int64), np.full(1, uop.shift, np.int64)
        limit = ((1 << 62) - (1 << 31)) // max(int(np.abs(scale[0]).max()), 1)
        double = bool(uop.round)
        return self._where_narrow(x, limit, lambda own: self.algebra.rescale(own, *scale, double=double))

    def _where_narrow(self, x: Terms, limit: int | np.ndarray, do: Callable[[Terms], Terms]) -> Terms:
        """`do(x)` in lanes of which -limit <= x < limit is known, one limit for all or each its own. The others may
        hold anything: those that no store writes are often full of what an earlier program left."""
        least, (low, high) = limit if isinstance(limit, int) else int(limit.min()), x.ends
        if low.min(initial=0) >= -least and high.max(initial=0) < least:
            return do(x)
        wide = (x.low < -limit) | (x.high >= limit)
        zero = self.algebra.constant(np.zeros((1,) * x.ndim))
        result = do(select(wide, zero, x))
        anything = self.algebra.fresh(result.shape, -(1 << 47), (1 << 47) - 1)
        return select(np.broadcast_to(wide, result.shape), anything, result)

    def _interpolated(self, x: Terms, packed: np.ndarray) -> Terms:
        """Returns the interpolated values of a table of entries and their next ones in 32 bits; the entries of a TOSA
        table follow each other."""
        low, high = (packed << 48) >> 48, packed >> 16
        if (low[1:] != high[:-1]).any():
            raise UndecidedError("a table whose entries do not follow each other")
        return self.algebra.interpolated(x, np.append(low, high[-1]))

    def _shift(self, uop: Instruction, x: Terms, b: Terms) -> Terms:
        count = int(b.low.reshape(-1)[0]) if b.size == 1 and b.constant else None
        name = f"{Op(uop.op).name}{'R' if uop.op == Op.ASR and uop.round else ''}"
        amount = b if count is None else count & 63
        return self._where_narrow(x, 1 << 31, lambda own: shifted(self.algebra, name, own, amount))

    def _named(self, uop: Instruction, x: Terms, b: Terms) -> Terms:
        """CLZ, ABS and comparisons: as the machine computes them."""

        def concrete(*values: np.ndarray) -> np.ndarray:
            first, second = (Value(own, 1 << 47) for own in (*values, *values)[:2])
            return operate(uop, first, second, VectorParameters.empty(1)).lanes

        return named(self.algebra, Op(uop.op).name, x, b, concrete)


def _value(lanes: Any) -> Value:
    return Value(lanes, 0)


def _overlapping(cells: np.ndarray, do: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """`do(cells)` with a first axis more, computed once for cells that a view shows several times."""
    step = cells.itemsize
    reach = (
        sum((n - 1) * abs(stride) for n, stride in zip(cells.shape, cells.strides, strict=True)) // step + 1
    )
    if reach >= cells.size:
        return do(cells)
    before = sum((n - 1) * -min(stride, 0) for n, stride in zip(cells.shape, cells.strides, strict=True))
    first = cells[tuple(slice(-1, None) if stride < 0 else slice(1) for stride in cells.strides)]
    flat = np.lib.stride_tricks.as_strided(first, (reach,), (step,))
    done = do(flat)
    strides = [stride // step * done.itemsize for stride in cells.strides]
    return np.lib.stride_tricks.as_strided(
        done[:, before // step :], (len(done), *cells.shape), (done.strides[0], *strides), writeable=False
    )
