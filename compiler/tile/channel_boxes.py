"""What an elementwise layer costs in boxes of some sizes, and which ones it may have where its parameters go by
channels.

There VECTOR does each group of W channels by a GO of its own: boxes of many rows and few channels have few GOs of many
vectors. The rows of such a box are short runs of bytes in external memory.
"""

import dataclasses
import math
from collections.abc import Iterator

from tosaic.compiler.cost.boxes import moved_boxes_cycles
from tosaic.compiler.cost.transfers import runs_cycles
from tosaic.compiler.cost.vector import HeldLines, channels_cycles, vectors_cycles
from tosaic.compiler.fuse.moves import blocks
from tosaic.compiler.machine_numbers import ELEMENTWISE_CHANNEL_CUTS
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.place.placement import Role
from tosaic.compiler.tile.box_search import split
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class ElementCost:
    """The cost of an elementwise layer in boxes of a result of `shape`."""

    config: Config
    speed: MemorySpeed
    shape: tuple[int, ...]
    beats: list[int]
    """Cycles of VECTOR for a vector, of each micro-operation."""
    held: HeldLines | None = None
    """The program by channels, if there is one."""

    def computing(self, counts: tuple[int, ...]) -> int:
        """VECTOR's cycles for the whole result."""
        return sum(times * cycles for times, _, cycles in self.boxes(counts))

    def boxes(self, counts: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
        """(number of boxes, elements of one, VECTOR's cycles for one) of at most `counts` elements along each axis."""
        for number, elements in split(math.prod(self.shape), math.prod(counts)):
            cycles = vectors_cycles(elements, self.beats, self.config)
            if self.held is not None:
                rows, groups = elements // self.shape[-1], -(-self.shape[-1] // self.config.columns)
                cycles = min(cycles, self.held.groups_cycles(groups, rows, self.config)) if rows else cycles
            yield number, elements, cycles

    def cycles(self, counts: tuple[int, ...], sizes: Sizes, *, doubled: bool) -> int:
        """Predicted cycles of all boxes, whose buffers have these `sizes`."""
        return moved_boxes_cycles(self._demands(counts, sizes), self.speed, doubled=doubled)

    def _demands(self, counts: tuple[int, ...], sizes: Sizes) -> Iterator[tuple[int, int, int, int]]:
        read = sum(self.moved(counts, size) for key, size in sizes.items() if key.role is not Role.RESULT)
        written = sum(self.moved(counts, size) for key, size in sizes.items() if key.role is Role.RESULT)
        whole = math.prod(counts)
        for times, elements, computing in self.boxes(counts):
            yield times, computing, read * elements // whole, written * elements // whole

    def moved(self, counts: tuple[int, ...], size_bytes: int) -> int:
        """Cycles of the bus for a buffer's bytes."""
        return runs_cycles(size_bytes, 0, self.config, self.speed)


@dataclasses.dataclass(frozen=True)
class ChannelCost(ElementCost):
    """The cost where parameters go by channels."""

    def candidates(self) -> Iterator[tuple[int, ...]]:
        """Yields the largest numbers of elements along each axis to try: some whole groups of channels of all
        rows, of half of them, and so on.
        """
        *outer, channels = self.shape
        rows, columns = math.prod(outer), self.config.columns
        groups = -(-channels // columns)
        halves = [rows >> half for half in range(rows.bit_length())] or [1]
        outers = dict.fromkeys(next(blocks(tuple(outer), limit))[1] for limit in halves)
        for number in ELEMENTWISE_CHANNEL_CUTS:
            if number <= groups:
                width = min(channels, columns * -(-groups // number))
                yield from ((*counts, width) for counts in outers)

    def boxes(self, counts: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
        *outer, channels = counts
        every = math.prod(self.shape[:-1])
        for row_boxes, rows in split(every, math.prod(outer)):
            cycles = channels_cycles(self.config, self.beats, rows)
            if self.held is not None:
                cycles = min(cycles, self.held.cycles(rows, self.config))
            for number, width in split(self.shape[-1], channels):
                yield row_boxes * number, rows * width, -(-width // self.config.columns) * cycles

    def moved(self, counts: tuple[int, ...], size_bytes: int) -> int:
        *outer, channels = counts
        # Each row of a box of some channels is a short run.
        runs = min(math.prod(outer), size_bytes) if channels < self.shape[-1] else 0
        return runs_cycles(size_bytes, runs, self.config, self.speed)
