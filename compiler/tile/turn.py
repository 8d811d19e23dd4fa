"""Copies that turn a tensor: what is a line of elements in memory becomes a column of the result.

A copy element by element takes a cycle for each. Instead lines that become neighbours are interleaved: a micro-program
puts `radix` elements together to one that is as many times as wide, and so makes one line of `radix` lines. When a few
such passes have made chunks of a word, each chunk is copied to its place in the result at once.
"""

import dataclasses
import math

from tosaic.compiler.cost.vector import turned_cycles
from tosaic.compiler.tile.loops import Axis, merge
from tosaic.hw.config import Config
from tosaic.hw.isa import Element

_WIDEST_BYTES = Element.INT32.bytes
"""Bytes of what elements are put together to."""


@dataclasses.dataclass(frozen=True)
class Scratch:
    """Two buffers between the passes."""

    addresses: tuple[int, int]
    size_bytes: int


@dataclasses.dataclass(frozen=True)
class Turn:
    """How a copy is turned. Every Axis has two strides: of the source, and of the result."""

    outer: tuple[Axis, ...]
    """The other loops, slowest first."""
    line: Axis
    """The axis along neighbouring elements of the source."""
    lines: Axis
    """The axis from line to line, along neighbouring elements of the result."""
    radices: tuple[int, ...]
    """Lines that each pass makes one of."""
    element_bytes: int

    @property
    def chunk_lines(self) -> int:
        """Lines of which the passes make one."""
        return math.prod(self.radices)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of the result that lie together."""
        return self.chunk_lines * self.element_bytes

    @property
    def place_bytes(self) -> int:
        """Bytes from chunk to chunk behind the last pass."""
        return self.chunk_lines // self.radices[-1] * joined_bytes(self.element_bytes, self.radices[-1])

    @property
    def in_place(self) -> bool:
        """The last pass makes the result itself."""
        return self.line.strides[1] == self.chunk_bytes == self.place_bytes

    @property
    def groups(self) -> int:
        """How often lines become one."""
        return -(-self.lines.count // self.chunk_lines) * math.prod(axis.count for axis in self.outer)

    @property
    def bytes(self) -> int:
        """Bytes of all chunks."""
        return self.groups * self.line.count * self.place_bytes

    def predicted(self, config: Config) -> int:
        """The cycles that it takes."""
        size = self.element_bytes
        passes = [(radix, size, joined_bytes(size, radix)) for radix in self.radices]
        return turned_cycles(self.line.count, self.groups, passes, config, in_place=self.in_place)


def joined_bytes(element_bytes: int, radix: int) -> int:
    """Bytes of the elements that `radix` elements are put together to."""
    return 1 << (element_bytes * radix - 1).bit_length()


def turn_of(axes: list[Axis], element_bytes: int, config: Config) -> Turn | None:
    """The fastest way to turn a copy along `axes` (slowest first; strides in bytes of source and result); None where
    element by element is as fast, or the copy turns nothing."""
    merged = merge(axes)
    if not merged or merged[-1].strides[1] != element_bytes:
        return None
    *others, lines = merged
    neighbours = [axis for axis in others if axis.strides[0] == element_bytes]
    if not neighbours or lines.strides[0] in (0, element_bytes):
        return None
    outer = tuple(axis for axis in others if axis is not neighbours[0])
    found = [
        Turn(outer, neighbours[0], lines, radices, element_bytes)
        for radices in _radices(element_bytes, min(lines.count, config.columns // element_bytes))
    ]
    best = min(found, key=lambda turn: turn.predicted(config), default=None)
    return best if best is not None and best.predicted(config) < math.prod(a.count for a in merged) else None


def _radices(element_bytes: int, most: int) -> list[tuple[int, ...]]:
    """Passes that make chunks of at most `most` elements. All but the last join as many as there can be."""
    widest, found, before = _WIDEST_BYTES // element_bytes, [], tuple[int, ...]()
    while widest > 1 and math.prod(before) * 2 <= most:
        lasts = range(2, widest + 1) if not before else (1 << n for n in range(1, widest.bit_length()))
        found += [(*before, last) for last in lasts if math.prod(before) * last <= most]
        before = (*before, widest)
    return found
