"""How a tensor's values are spread over the range that its integers can hold."""

from dataclasses import dataclass, field

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.quantizer import Counterpart

BINS = 32
_WIDEST_BITS = 16
"""Integers of more bits hold everything: their histogram shows the range of the values."""


@dataclass
class Histogram:
    """Counts of values in equal parts of low ... high; what lies beyond is counted apart."""

    low: float
    high: float
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BINS, np.int64))
    beyond: int = 0

    def add(self, values: np.ndarray) -> None:
        """The values of one sample."""
        counts, _ = np.histogram(values, bins=BINS, range=(self.low, self.high))
        self.counts += counts
        self.beyond += values.size - int(counts.sum())

    @property
    def clipped(self) -> float:
        """Share of the values that the integers cannot hold."""
        return self.beyond / max(self.beyond + int(self.counts.sum()), 1)

    @property
    def used(self) -> float:
        """Share of the range, in whole parts, between the smallest and the largest value."""
        places = np.flatnonzero(self.counts)
        return (int(places[-1]) - int(places[0]) + 1) / BINS if len(places) else 0.0

    @property
    def heights(self) -> list[float]:
        """Heights of bars, 0 to 1, by the root, so that rare values are seen."""
        roots = np.sqrt(self.counts)
        return [round(float(each), 3) for each in roots / max(roots.max(), 1.0)]


def histogram_for(part: Counterpart, dtype: DType, values: np.ndarray) -> Histogram:
    """An empty histogram: over the range of the integers, or over that of `values` where it is much wider."""
    smallest, largest = float(np.min(values, initial=0.0)), float(np.max(values, initial=0.0))
    if not dtype.is_float and dtype.bits <= _WIDEST_BITS:
        scale = float(np.max(part.scale))
        # Half a step beyond the last integer still rounds to it.
        smallest = max((dtype.min - part.zero_point - 0.5) * scale, part.low)
        largest = min((dtype.max - part.zero_point + 0.5) * scale, part.high)
    if not smallest < largest:
        smallest, largest = smallest - 0.5, smallest + 0.5
    return Histogram(smallest, largest)
