"""Intervals of integers: what the values of a traced array are proved to lie in."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Interval:
    """All integers from `low` to `high`, both included."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"

    def holds(self, other: "Interval") -> bool:
        """Whether all of `other` lies in this one."""
        return self.low <= other.low and other.high <= self.high

    def union(self, other: "Interval") -> "Interval":
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def within(self, limits: "Interval") -> "Interval":
        """The part that lies in `limits`; all of these where there is none."""
        low, high = max(self.low, limits.low), min(self.high, limits.high)
        return Interval(low, high) if low <= high else limits

    def times(self, count: int) -> "Interval":
        """Sums of `count` values."""
        return Interval(self.low * count, self.high * count)

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(self.low + other.low, self.high + other.high)

    def __neg__(self) -> "Interval":
        return Interval(-self.high, -self.low)

    def __sub__(self, other: "Interval") -> "Interval":
        return self + -other

    def __mul__(self, other: "Interval") -> "Interval":
        return self.corners(other, lambda x, y: x * y)

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high

    def corners(self, other: "Interval", function: Callable[[int, int], int]) -> "Interval":
        """Of a function that is monotonic in each argument: its least and greatest value at the ends."""
        values = [function(x, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        return Interval(min(values), max(values))

    @property
    def magnitude(self) -> int:
        """The greatest absolute value."""
        return max(abs(self.low), abs(self.high))

    @property
    def bits(self) -> int:
        """Bits of the shortest two's complement that holds all values, without the sign."""
        return max(self.high, -self.low - 1, 0).bit_length()


INT8, INT32, UINT32 = Interval(-(2**7), 2**7 - 1), Interval(-(2**31), 2**31 - 1), Interval(0, 2**32 - 1)
INT64 = Interval(-(2**63), 2**63 - 1)


def of_type(dtype: np.dtype) -> Interval:
    """All values of an integer type or of bool."""
    if dtype == np.bool_:
        return Interval(0, 1)
    info = np.iinfo(dtype)
    return Interval(int(info.min), int(info.max))


def of_values(values: np.ndarray) -> Interval:
    """What the values of an integer array, with an element at least, lie in."""
    return Interval(int(values.min()), int(values.max()))
