"""What an elementwise layer whose parameters go by channels costs in boxes of some sizes, and which boxes it may have.

VECTOR does each group of W channels by a GO of its own: boxes of many rows and few channels have few GOs of many
vectors. The rows of such a box are short runs of bytes in external memory.
"""

import dataclasses
import math
from collections.abc import Iterator

from tosaic.compiler.fuse.moves import blocks
from tosaic.compiler.machine_numbers import (
    BUFFER_TURN_CYCLES,
    CHANNEL_BATCH_CYCLES,
    CHANNEL_GO_CYCLES,
    ELEMENTWISE_CHANNEL_CUTS,
)
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.place.placement import Role
from tosaic.compiler.tile.box_cost import split
from tosaic.hw.config import Config


def vector_cycles(config: Config, beats: list[int], rows: int) -> int:
    """VECTOR's cycles for `rows` vectors with the same parameters. `beats`: of each micro-operation, which waits for
    what the one before has computed."""
    *before, last = beats
    batches = -(-rows // config.vector_slots)
    total = CHANNEL_GO_CYCLES if batches > 1 else CHANNEL_BATCH_CYCLES
    for count, slots in split(rows, -(-rows // batches)):
        waiting = sum(max(config.vector_latency_cycles, slots * each) for each in before)
        total += count * (waiting + slots * last)
    return total


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
        turn, whole = self.speed.latency_cycles + BUFFER_TURN_CYCLES, math.prod(counts)
        # Nothing computes while the first box comes and the last one leaves.
        total = read + written if doubled else 0
        for times, elements, computing in self._boxes(counts):
            comes, leaves = read * elements // whole + turn, written * elements // whole + turn
            total += times * (max(computing, comes, leaves) if doubled else computing + comes + leaves - turn)
        return total

    def _boxes(self, counts: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
        """(number of boxes, elements of one, VECTOR's cycles for one)."""
        *outer, channels = counts
        every = math.prod(self.shape[:-1])
        for row_boxes, rows in split(every, math.prod(outer)):
            cycles = vector_cycles(self.config, self.beats, rows)
            for number, width in split(self.shape[-1], channels):
                yield row_boxes * number, rows * width, -(-width // self.config.columns) * cycles

    def _moved(self, counts: tuple[int, ...], size_bytes: int) -> int:
        """Cycles of the bus for a buffer's bytes."""
        rate = self.speed.bytes_per_cycle(self.config)
        *outer, channels = counts
        if channels == self.shape[-1]:
            return int(size_bytes // rate)
        # Each row of the box is a short run of bytes, which begins and ends within a word.
        runs = min(math.prod(outer), size_bytes)
        beats = (size_bytes + runs * self.config.word_bytes) // rate
        return max(int(beats), int(runs * self.speed.burst_cycles))
