"""Which positions of an operand's axis are read, by the positions of an operator's loops."""

import dataclasses
from collections.abc import Sequence

from tosaic.compiler.cut.boxes import Range


@dataclasses.dataclass(frozen=True)
class Reads:
    """An axis of an operand. For positions p of the loops it is read from (sum of step * p[loop] + offset) / divisor,
    rounded down, on to the `more` positions after that. What is not in [0, extent) is not read."""

    extent: int
    terms: tuple[tuple[int, int], ...] = ()
    """(loop, step), one of a loop over the result at most."""
    offset: int = 0
    divisor: int = 1
    more: int = 0
    exact: bool = False
    """Only multiples of the divisor are read (a transposed convolution has zeros between its rows)."""
    clamped: bool = False
    """Positions outside are the nearest one inside."""
    repeated: bool = False
    """Positions outside are those of a copy of the axis."""

    def needs(self, loops: Sequence[Range]) -> Range:
        """The positions that are read for ranges of the loops; an empty range inside the axis if there are none."""
        low, high = self._ends(loops)
        extent = self.extent
        if self.repeated:
            same = low // extent == high // extent
            return (low % extent, high % extent + 1) if same else (0, extent)
        if self.clamped:
            return min(max(low, 0), extent - 1), min(max(high, 0), extent - 1) + 1
        return clipped(low, high + 1, extent)

    def _ends(self, loops: Sequence[Range]) -> Range:
        """The first and the last position, wherever they are."""
        low = high = self.offset
        for loop, step in self.terms:
            first, last = step * loops[loop][0], step * (loops[loop][1] - 1)
            low, high = low + min(first, last), high + max(first, last)
        first = -(-low // self.divisor) if self.exact else low // self.divisor
        return first, high // self.divisor + self.more

    def makes(self, loop: int, loops: Sequence[Range], given: Range) -> Range:
        """The inverse: the positions of `loop` for which no other positions than `given` are read, the other loops
        being in `loops`; perhaps an empty range."""
        first, last = loops[loop]
        if self.repeated:
            return (first, last) if given == (0, self.extent) else given
        step = dict(self.terms)[loop]
        rest = tuple(term for term in self.terms if term[0] != loop)
        low, high = dataclasses.replace(self, terms=rest, divisor=1, more=0)._ends(loops)
        # At an end of the axis, what is outside is not read. step * position lies between these:
        between = self.divisor - 1 if self.exact else 0
        least = given[0] * self.divisor - between - low if given[0] > 0 else None
        most = (given[1] - self.more) * self.divisor - 1 - high if given[1] < self.extent else None
        if step < 0:
            least, most = None if most is None else -most, None if least is None else -least
        if least is not None:
            first = max(first, -(-least // abs(step)))
        if most is not None:
            last = min(last, most // abs(step) + 1)
        return first, last

    def readers(self, loop: int, extent: int) -> Range:
        """The positions of a loop of `extent` for which the axis is read: of elements that only move, each by one."""
        ((mine, step),) = self.terms
        assert mine == loop and abs(step) == self.divisor == 1 and not self.more
        first = -self.offset if step > 0 else self.offset - self.extent + 1
        return clipped(first, first + self.extent, extent)

    def halo(self, loop: int, loops: Sequence[Range], unit: int) -> int:
        """The most positions that two neighbouring ranges of `loop` both read, which meet at a multiple of `unit`."""
        if self.repeated:
            return 0 if loops[loop][1] <= unit else self.extent
        found, end = 0, loops[loop][1]
        for cut in range(unit, min(end, unit * self.divisor + 1), unit):
            before, behind = (
                [*loops[:loop], part, *loops[loop + 1 :]] for part in ((cut - 1, cut), (cut, cut + 1))
            )
            ends = sorted((self._ends(before), self._ends(behind)))
            found = max(found, ends[0][1] - ends[1][0] + 1)
        return found


def clipped(low: int, high: int, extent: int) -> Range:
    """What of [low, high) is in [0, extent); an empty range inside if nothing is."""
    low = max(0, min(extent, low))
    return low, max(low, min(extent, high))
