"""Cascades: layers with windows that run stripe by stripe of output rows, each layer on the rows that the one before it
has just made. What is between them never exists as a whole: a stripe of it is in activation memory.

A stripe of the last layer decides which rows the others compute. Where windows overlap, rows are computed again, or
kept: they wait in external memory until the stripe that is there now has been read.
"""

import dataclasses
import functools
from collections.abc import Collection, Iterator, Sequence

from tosaic.compiler.tile.image_boxes import ImageBoxes

Rows = tuple[int, int]
"""Rows [first, last)."""
Chain = tuple[int, int]
"""The numbers of the first and the last layer of a cascade."""
NO_ROWS = (0, 0)


@dataclasses.dataclass(frozen=True)
class StripeRows:
    """The rows of one layer's output in one stripe."""

    needed: Rows
    """What the next layer reads; it is there together."""
    computed: Rows
    """The last of them, the others being kept from the stripe before."""

    @property
    def kept(self) -> int:
        """Rows from the stripe before."""
        return self.computed[0] - self.needed[0] if self.needed != NO_ROWS else 0


@dataclasses.dataclass(frozen=True)
class Heights:
    """How a cascade is cut. `cuts` are those of its layers, `height` the rows of the last one that a stripe has;
    `keeps` tells whether rows that windows share are kept. `whole`: numbers of the layers whose rows are all wanted,
    those that the next layer's windows step over, too."""

    cuts: Sequence[ImageBoxes]
    height: int
    keeps: bool
    whole: Collection[int] = ()

    def stripes(self) -> list[list[StripeRows]]:
        """The rows of each layer, stripe by stripe."""
        return self._stripes

    @functools.cached_property
    def _stripes(self) -> list[list[StripeRows]]:
        height, made, found = self.cuts[-1].window.oh, [0] * len(self.cuts), []
        there = [*made]
        """Rows before this one, as far back as windows reach, are in the stripe before; 0: nothing is."""
        for first in range(0, height, self.height):
            rows = (first, min(first + self.height, height))
            stripe = [StripeRows(rows, rows)]
            for number in reversed(range(len(self.cuts) - 1)):
                low, high = self._read(number + 1, stripe[-1].computed)
                if number in self.whole:
                    low, high = self._all_of(number, (low, high), made[number], last=rows[1] == height)
                begin = min(max(low, there[number]), high) if self.keeps else low
                stripe.append(StripeRows((low, high), (begin, high)))
                made[number], there[number] = max(made[number], high), high
            found.append(stripe[::-1])
        return found

    def _all_of(self, number: int, read: Rows, made: int, *, last: bool) -> Rows:
        """The rows that the next layer reads, and those between them and the ones that are `made`; in the `last` stripe
        all that are left."""
        end = self.cuts[number].window.oh if last else read[1]
        if read == NO_ROWS:
            return (made, end) if made < end else NO_ROWS
        return min(read[0], made), end

    def _read(self, number: int, rows: Rows) -> Rows:
        """The rows of its image that a layer reads for `rows` of its output."""
        if rows[0] == rows[1]:
            return NO_ROWS
        low, high = self.cuts[number].window.row_axis.needs(rows)
        return (low, high) if low < high else NO_ROWS

    def most_rows(self) -> list[int]:
        """Rows of the largest stripe of each layer's output."""
        stripes = self.stripes()
        return [
            max(1, *(stripe[number].needed[1] - stripe[number].needed[0] for stripe in stripes))
            for number in range(len(self.cuts))
        ]

    def most_kept(self) -> list[int]:
        """Returns the largest number of rows of each layer's output that are kept from one stripe to the next."""
        return [
            max(0, *(stripe[number].kept for stripe in self.stripes())) for number in range(len(self.cuts))
        ]

    def most_source_rows(self) -> int:
        """Rows of the first layer's image that a stripe takes at most."""
        spans = (self._read(0, stripe[0].computed) for stripe in self.stripes())
        return max(1, max(last - first for first, last in spans))


def heights_of(
    cuts: Sequence[ImageBoxes], most_stripes: int, whole: Collection[int] = ()
) -> Iterator[Heights]:
    """The ways to cut a cascade into up to `most_stripes` stripes of even height, the highest first."""
    height, before = cuts[-1].window.oh, 0
    for count in range(1, min(height, most_stripes) + 1):
        rows = -(-height // count)
        if rows != before:
            yield Heights(cuts, rows, keeps=True, whole=whole)
            yield Heights(cuts, rows, keeps=False, whole=whole)
        before = rows
