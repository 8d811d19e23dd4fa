"""Which work of one unit touched a byte last, for all bytes of a memory."""

import bisect
import functools

import numpy as np

from tosaic.compiler.place.address import Columns


class _ByColumn:
    """A number for each byte of a pitch: of a range in which some columns were touched later than others."""

    def __init__(self, numbers: np.ndarray):
        """Begins with an int32 array [pitch]."""
        self.numbers = numbers

    @property
    def pitch(self) -> int:
        return self.numbers.size

    def latest(self, columns: Columns | None) -> int:
        """The largest number of these columns, or of all where they are None or have another pitch."""
        if columns is None or columns.pitch != self.pitch:
            return int(self.numbers.max())
        return int(self.numbers[_places(columns)].max())

    def changed(self, columns: Columns, number: int) -> "_ByColumn":
        """A copy in which these columns have another number."""
        numbers = self.numbers.copy()
        numbers[_places(columns)] = number
        return _ByColumn(numbers)


@functools.cache
def _places(columns: Columns) -> np.ndarray:
    """The bytes of a pitch that are theirs."""
    starts = columns.first + columns.step * np.arange(columns.count)
    return (starts[:, np.newaxis] + np.arange(columns.width)).reshape(-1) % columns.pitch


_Value = int | _ByColumn


class Intervals:
    """Disjoint byte ranges, each with a number; a new range replaces what it covers of older ones.

    Of a range by columns, a reader of other columns of the same pitch meets nothing new."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._values: list[_Value] = []

    def _touched(self, start: int, end: int) -> slice:
        """The ranges that meet [start, end); both lists are sorted, since ranges are disjoint."""
        return slice(bisect.bisect_right(self._ends, start), bisect.bisect_left(self._starts, end))

    def latest(self, start: int, end: int, columns: Columns | None = None) -> int:
        """The largest number of the ranges that meet [start, end), or these columns of it; -1 if there is none."""
        if not self._values:
            return -1
        values = self._values[self._touched(start, end)]
        return max(
            (value.latest(columns) if isinstance(value, _ByColumn) else value for value in values), default=-1
        )

    def clear(self, start: int, end: int) -> None:
        """Forgets [start, end); what lies beyond it stays."""
        self._replace(start, end, [])

    def put(self, start: int, end: int, number: int, columns: Columns | None = None) -> None:
        """Gives [start, end), or these columns of it, a number."""
        if columns is None:
            self._replace(start, end, [(start, end, number)])
            return
        pieces: list[tuple[int, int, _Value]] = []

        def change(first: int, last: int, old: _Value) -> None:
            if first < last:
                if not isinstance(old, _ByColumn) or old.pitch != columns.pitch:
                    floor = old.latest(None) if isinstance(old, _ByColumn) else old
                    old = _ByColumn(np.full(columns.pitch, floor, np.int32))
                pieces.append((first, last, old.changed(columns, number)))

        where, place = self._touched(start, end), start
        for a, b, old in zip(self._starts[where], self._ends[where], self._values[where], strict=True):
            change(place, a, -1)
            change(max(a, start), min(b, end), old)
            place = b
        change(place, end, -1)
        self._replace(start, end, pieces)

    def _replace(self, start: int, end: int, new: list[tuple[int, int, _Value]]) -> None:
        where = self._touched(start, end)
        first = where.start
        if (
            len(new) == 1
            and where.stop == first + 1
            and (self._starts[first], self._ends[first]) == (start, end)
        ):
            # The same bytes once more.
            self._values[first] = new[0][2]
            return
        old = list(zip(self._starts[where], self._ends[where], self._values[where], strict=True))
        before = [(a, start, n) for a, _, n in old[:1] if a < start]
        after = [(end, b, n) for _, b, n in old[-1:] if b > end]
        ranges = [*before, *new, *after]
        self._starts[where] = [a for a, _, _ in ranges]
        self._ends[where] = [b for _, b, _ in ranges]
        self._values[where] = [n for _, _, n in ranges]
