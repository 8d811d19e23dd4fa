"""What a convolution costs in boxes of some size: each one is fetched, computed and sent away."""

import dataclasses
from collections.abc import Callable
from fractions import Fraction

from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.place.placement import Role
from tosaic.compiler.tile.convolution import BoxWork
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes
from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES

_DRAIN_CYCLES = 28
"""Of VECTOR for a tile, beside its vectors: parameters, a stream, and the pipeline that runs empty."""
_TILE_INSTRUCTIONS = 8
"""For a tile, from the same bus as its operands."""
_BOX_INSTRUCTIONS = 24
_BOX_CYCLES = 40
"""Of every box, in which ARRAY waits: tokens, and banks that the other units use, of which nothing is known here."""
_TURN_CYCLES = 60
"""Beside the memory's latency: from the end of a box, whose buffers LOAD or VECTOR wait for, until these are filled
or empty again."""


@dataclasses.dataclass(frozen=True)
class _Transfer:
    """Cycles of the bus, one way and the other."""

    read: Fraction
    written: Fraction


@dataclasses.dataclass(frozen=True)
class BoxCost:
    """The cost of a convolution layer."""

    config: Config
    speed: MemorySpeed
    work: Callable[[int, int, int], BoxWork]
    """Of a box of some rows, columns and channels."""
    beats: int
    """Cycles of VECTOR for a vector."""

    def cycles(self, cut: ImageBoxes, extent: Extent, sizes: Sizes, *, doubled: bool) -> int:
        """Predicted cycles of all boxes of at most `extent`, whose buffers have these `sizes`."""
        total = Fraction(0)
        for groups, channels in split(cut.channels, extent.channels):
            for count, rows in split(cut.window.oh, extent.rows):
                moved = self._moved(cut, dataclasses.replace(extent, rows=rows), sizes, extent.rows)
                box = self.work(rows, extent.columns, channels)
                total += groups * cut.window.n * count * self._box(box, rows * extent.columns, moved, doubled)
            # What stays comes while the first box of these channels is computed.
            first = self.work(extent.rows, extent.columns, channels)
            if first.stays:
                total += groups * max(Fraction(0), self._bus_cycles(first.weight_bytes) - first.array_cycles)
        if doubled:
            # Nothing computes while the first box comes and the last one leaves.
            ends = self._moved(cut, extent, sizes, extent.rows)
            total += ends.read + ends.written
        return int(total)

    def _bus_cycles(self, size_bytes: int) -> Fraction:
        return size_bytes / self.speed.bytes_per_cycle(self.config)

    def _box(self, box: BoxWork, pixels: int, moved: _Transfer, doubled: bool) -> Fraction:
        """Of a box among others."""
        draining = box.tiles * (pixels * self.beats + _DRAIN_CYCLES) + _DRAIN_CYCLES
        computing = max(box.array_cycles, draining) + _BOX_CYCLES
        instructions = _BOX_INSTRUCTIONS + box.tiles * _TILE_INSTRUCTIONS
        # Weights that do not stay come for every box.
        fetched = instructions * INSTRUCTION_BYTES + (0 if box.stays else box.weight_bytes)
        fetching, turn = self._bus_cycles(fetched), self.speed.latency_cycles + _TURN_CYCLES
        if doubled:
            return max(Fraction(computing), moved.read + fetching + turn, moved.written + turn)
        return max(Fraction(computing), fetching) + moved.read + moved.written + turn

    def _moved(self, cut: ImageBoxes, extent: Extent, sizes: Sizes, whole_rows: int) -> _Transfer:
        """Of a box of `extent`; `sizes` are those of a box of `whole_rows`."""
        read, written = Fraction(0), Fraction(0)
        # Some of the channels are a short run of bytes for each pixel.
        runs = extent.rows * extent.columns if extent.channels < cut.channels else 0
        for key, size in sizes.items():
            least = Fraction(0) if key.role is Role.WINDOW else runs * Fraction(self.speed.burst_cycles)
            cycles = max(self._bus_cycles(size) * extent.rows / whole_rows, least)
            if key.role is Role.RESULT:
                written += cycles
            else:
                read += cycles
        return _Transfer(read, written)


def split(size: int, step: int) -> list[tuple[int, int]]:
    """(number of pieces, their size) of `size` cut into pieces of `step`, of which the last may be smaller."""
    whole, rest = divmod(size, step)
    return [(count, each) for count, each in ((whole, step), (1, rest)) if count and each]
