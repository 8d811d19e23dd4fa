"""Which work of one unit touched a byte last, for all bytes of a memory."""

import bisect


class Intervals:
    """Disjoint byte ranges, each with a number; a new range replaces what it covers of older ones."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._numbers: list[int] = []

    def _touched(self, start: int, end: int) -> slice:
        """The ranges that meet [start, end); both lists are sorted, since ranges are disjoint."""
        return slice(bisect.bisect_right(self._ends, start), bisect.bisect_left(self._starts, end))

    def latest(self, start: int, end: int) -> int:
        """The largest number of the ranges that meet [start, end); -1 if there is none."""
        if not self._numbers:
            return -1
        return max(self._numbers[self._touched(start, end)], default=-1)

    def clear(self, start: int, end: int) -> None:
        """Forgets [start, end); what lies beyond it stays."""
        self._replace(start, end, [])

    def put(self, start: int, end: int, number: int) -> None:
        """Gives [start, end) a number."""
        self._replace(start, end, [(start, end, number)])

    def _replace(self, start: int, end: int, new: list[tuple[int, int, int]]) -> None:
        where = self._touched(start, end)
        old = list(zip(self._starts[where], self._ends[where], self._numbers[where], strict=True))
        before = [(a, start, n) for a, _, n in old[:1] if a < start]
        after = [(end, b, n) for _, b, n in old[-1:] if b > end]
        ranges = [*before, *new, *after]
        self._starts[where] = [a for a, _, _ in ranges]
        self._ends[where] = [b for _, b, _ in ranges]
        self._numbers[where] = [n for _, _, n in ranges]
