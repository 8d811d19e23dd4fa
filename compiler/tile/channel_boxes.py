"""What an elementwise layer costs in boxes of some sizes, and which ones it may have where its parameters go by
channels.

There VECTOR does each group of W channels by a GO of its own: boxes of many rows and few channels have few GOs of many
vectors. The rows of such a box are short runs of bytes in external memory.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator

from tosaic.compiler.fuse.moves import blocks
from tosaic.compiler.machine import GO_CYCLES
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.place.placement import Role
from tosaic.compiler.tile.box_search import split
from tosaic.hw.config import Config

_GO_CYCLES, _BATCH_CYCLES = 26, 19
"""Cycles of VECTOR for a group of channels, beside its vectors: parameters, streams, and the pipeline that
runs empty. A group of one batch needs no command of its own.
"""
_TURN_CYCLES = 60
"""Cycles, beside the memory's latency, from the end of a box, for whose buffers LOAD or VECTOR waits, until
these are filled or empty again.
"""
_NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Numbers of boxes along the channels that are compared."""


def vector_cycles(config: Config, beats: list[int], rows: int) -> int:
    """VECTOR's cycles for `rows` vectors with the same parameters. `beats`: of each micro-operation, which waits for
    what the one before has computed."""
    *before, last = beats
    batches = -(-rows // config.vector_slots)
    total = _GO_CYCLES if batches > 1 else _BATCH_CYCLES
    for count, slots in split(rows, -(-rows // batches)):
        waiting = sum(max(config.vector_latency_cycles, slots * each) for each in before)
        total += count * (waiting + slots * last)
    return total


def with_transfers(boxes: Iterable[tuple[int, int, int, int]], speed: MemorySpeed, *, doubled: bool) -> int:
    """Cycles of all boxes, the largest first: (number of them, and for each one VECTOR's cycles and those of the bus
    one way and the other). With double buffers the bus works on other boxes meanwhile."""
    turn, total = speed.latency_cycles + _TURN_CYCLES, 0
    for times, computing, read, written in boxes:
        if not doubled:
            total += times * (computing + read + written + turn)
            continue
        # Nothing computes while the first box comes and the last one leaves.
        total += 0 if total else read + written
        total += times * max(computing, read + turn, written + turn)
    return total


@dataclasses.dataclass(frozen=True)
class ElementCost:
    """The cost of an elementwise layer in boxes of a result of `shape`."""

    config: Config
    speed: MemorySpeed
    shape: tuple[int, ...]
    beats: list[int]
    """Cycles of VECTOR for a vector, of each micro-operation."""

    def computing(self, counts: tuple[int, ...]) -> int:
        """VECTOR's cycles for the whole result."""
        return sum(times * cycles for times, _, cycles in self.boxes(counts))

    def boxes(self, counts: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
        """(number of boxes, elements of one, VECTOR's cycles for one) of at most `counts` elements along each axis."""
        for number, elements in split(math.prod(self.shape), math.prod(counts)):
            vectors = -(-elements // self.config.columns)
            yield number, elements, GO_CYCLES + vectors * sum(self.beats)

    def cycles(self, counts: tuple[int, ...], sizes: Sizes, *, doubled: bool) -> int:
        """Predicted cycles of all boxes, whose buffers have these `sizes`."""
        read = sum(self.moved(counts, size) for key, size in sizes.items() if key.role is not Role.RESULT)
        written = sum(self.moved(counts, size) for key, size in sizes.items() if key.role is Role.RESULT)
        whole = math.prod(counts)
        boxes = (
            (times, computing, read * elements // whole, written * elements // whole)
            for times, elements, computing in self.boxes(counts)
        )
        return with_transfers(boxes, self.speed, doubled=doubled)

    def moved(self, counts: tuple[int, ...], size_bytes: int) -> int:
        """Cycles of the bus for a buffer's bytes."""
        return int(size_bytes // self.speed.bytes_per_cycle(self.config))


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
        for number in _NUMBERS:
            if number <= groups:
                width = min(channels, columns * -(-groups // number))
                yield from ((*counts, width) for counts in outers)

    def boxes(self, counts: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
        *outer, channels = counts
        every = math.prod(self.shape[:-1])
        for row_boxes, rows in split(every, math.prod(outer)):
            cycles = vector_cycles(self.config, self.beats, rows)
            for number, width in split(self.shape[-1], channels):
                yield row_boxes * number, rows * width, -(-width // self.config.columns) * cycles

    def moved(self, counts: tuple[int, ...], size_bytes: int) -> int:
        *outer, channels = counts
        if channels == self.shape[-1]:
            return super().moved(counts, size_bytes)
        # Each row of the box is a short run of bytes, which begins and ends within a word.
        runs = min(math.prod(outer), size_bytes)
        beats = (size_bytes + runs * self.config.word_bytes) // self.speed.bytes_per_cycle(self.config)
        return max(int(beats), int(runs * self.speed.burst_cycles))
