"""What an elementwise layer whose parameters go by channels costs in boxes of some sizes, and which boxes it may have.

VECTOR does each group of W channels by a GO of its own: boxes of many rows and few channels have few GOs of many
vectors. The rows of such a box are short runs of bytes in external memory.
"""

import dataclasses
import math
from collections.abc import Iterator

from tosaic.compiler.cost.boxes import pieces_cycles
from tosaic.compiler.cost.transfers import runs_cycles
from tosaic.compiler.cost.vector import channels_cycles
from tosaic.compiler.fuse.moves import blocks
from tosaic.compiler.machine_numbers import ELEMENTWISE_CHANNEL_CUTS
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.place.placement import Role
from tosaic.compiler.tile.box_cost import split
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class ChannelBoxes:
    """The boxes that a result of `shape` may be cut into, and their cost."""

    config: Config
    speed: MemorySpeed
    shape: tuple[int, ...]
    beats: list[int]
    """Cycles of VECTOR for a vector, of each micro-operation."""

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

    def computing(self, counts: tuple[int, ...]) -> int:
        """VECTOR's cycles for the whole result."""
        return sum(times * cycles for times, _, cycles in self._boxes(counts))

    def cycles(self, counts: tuple[int, ...], sizes: Sizes, *, doubled: bool) -> int:
        """Predicted cycles of all boxes, whose buffers have these `sizes`."""
        read = sum(self._moved(counts, size) for key, size in sizes.items() if key.role is not Role.RESULT)
        written = sum(self._moved(counts, size) for key, size in sizes.items() if key.role is Role.RESULT)
        moved = read, written
        return pieces_cycles(self._boxes(counts), math.prod(counts), moved, self.speed, doubled=doubled)

    def _boxes(self, counts: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
        """(number of boxes, elements of one, VECTOR's cycles for one)."""
        *outer, channels = counts
        every = math.prod(self.shape[:-1])
        for row_boxes, rows in split(every, math.prod(outer)):
            cycles = channels_cycles(self.config, self.beats, rows)
            for number, width in split(self.shape[-1], channels):
                yield row_boxes * number, rows * width, -(-width // self.config.columns) * cycles

    def _moved(self, counts: tuple[int, ...], size_bytes: int) -> int:
        """Cycles of the bus for a buffer's bytes."""
        *outer, channels = counts
        # Each row of a box of some channels is a short run.
        runs = min(math.prod(outer), size_bytes) if channels < self.shape[-1] else 0
        return runs_cycles(size_bytes, runs, self.config, self.speed)
