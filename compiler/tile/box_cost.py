"""What a convolution costs in boxes of some size: each one is fetched, computed and sent away."""

import dataclasses
import itertools
from collections.abc import Callable
from fractions import Fraction

from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.place.placement import Role
from tosaic.compiler.tile.box_search import split
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes, Tiling
from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES

_DRAIN_CYCLES = 28
"""Cycles of VECTOR for a tile, beside its vectors: parameters, a stream, and the pipeline that runs empty."""
_TILE_INSTRUCTIONS = 8
"""Instructions for a tile, which come from the same bus as its operands."""
_BOX_INSTRUCTIONS = 24
_BOX_CYCLES = 40
"""Cycles of every box in which ARRAY waits: for tokens, and for banks that other units use."""
_TURN_CYCLES = 60
"""Cycles, beside the memory's latency, from the end of a box, for whose buffers LOAD or VECTOR waits, until
these are filled or empty again.
"""


@dataclasses.dataclass(frozen=True)
class _Unit:
    """A part of a cycle of which all times of a layer are multiples: integers are exact, and faster than fractions."""

    per_cycle: int
    per_byte: int
    """Time of a byte on the bus."""
    per_burst: int
    """Time from one short burst to the next."""

    @classmethod
    def of(cls, speed: MemorySpeed, config: Config, pixels: int) -> "_Unit":
        """Returns the unit of time for boxes of up to `pixels` pixels."""
        rate, burst = speed.bytes_per_cycle(config), Fraction(speed.burst_cycles)
        per_cycle = rate.numerator * burst.denominator * pixels
        return cls(
            per_cycle,
            rate.denominator * burst.denominator * pixels,
            burst.numerator * (per_cycle // burst.denominator),
        )


@dataclasses.dataclass(frozen=True)
class BoxWork:
    """What the array and the vector unit do for a box."""

    tiles: int
    array_cycles: int
    weight_bytes: int
    """Bytes of its channels' weights."""
    stays: bool
    """They are still there for the next box of these channels."""


@dataclasses.dataclass(frozen=True)
class _Transfer:
    """Units of the bus, one way and the other."""

    read: int
    written: int


@dataclasses.dataclass(frozen=True)
class BoxCost:
    """The cost of a convolution, or of a pool."""

    config: Config
    speed: MemorySpeed
    work: Callable[[int, int, int], BoxWork]
    """A function that returns the work of a box of some rows, columns and channels."""
    beats: int
    """Cycles of VECTOR for a vector."""

    def cycles(self, tiling: Tiling, sizes: Sizes, *, doubled: bool) -> int:
        """Predicted cycles of all boxes, whose buffers have these `sizes`."""
        cut, extent = tiling.cut, tiling.extent
        whole = extent.rows * extent.columns
        unit, total = _Unit.of(self.speed, self.config, whole), 0
        heights, widths = split(cut.window.oh, extent.rows), split(cut.window.ow, extent.columns)
        for groups, channels in split(cut.channels, extent.channels):
            for (count, rows), (across, columns) in itertools.product(heights, widths):
                moved = self._moved(cut, Extent(rows, columns, extent.channels), sizes, whole, unit)
                box = self.work(rows, columns, channels)
                each = self._box(box, rows * columns, moved, unit, doubled=doubled)
                total += groups * cut.window.n * count * across * each
            # What stays comes while the first box of these channels is computed.
            first = self.work(extent.rows, extent.columns, channels)
            if first.stays:
                late = first.weight_bytes * unit.per_byte - first.array_cycles * unit.per_cycle
                total += groups * max(0, late)
        if doubled:
            # Nothing computes while the first box comes and the last one leaves.
            ends = self._moved(cut, extent, sizes, whole, unit)
            total += ends.read + ends.written
        return total // unit.per_cycle

    def _box(self, box: BoxWork, pixels: int, moved: _Transfer, unit: _Unit, *, doubled: bool) -> int:
        """Units of a box among others."""
        computing = (self.computing(box, pixels) + _BOX_CYCLES) * unit.per_cycle
        instructions = _BOX_INSTRUCTIONS + box.tiles * _TILE_INSTRUCTIONS
        # Weights that do not stay come for every box.
        fetched = instructions * INSTRUCTION_BYTES + (0 if box.stays else box.weight_bytes)
        fetching = fetched * unit.per_byte
        turn = (self.speed.latency_cycles + _TURN_CYCLES) * unit.per_cycle
        if doubled:
            return max(computing, moved.read + fetching + turn, moved.written + turn)
        return max(computing, fetching) + moved.read + moved.written + turn

    def computing(self, box: BoxWork, pixels: int) -> int:
        """Cycles of a box whose operands are there."""
        draining = box.tiles * (pixels * self.beats + _DRAIN_CYCLES) + _DRAIN_CYCLES
        return max(box.array_cycles, draining)

    def _moved(
        self, cut: ImageBoxes, extent: Extent, sizes: Sizes, whole_pixels: int, unit: _Unit
    ) -> _Transfer:
        """Returns what a box of `extent` moves; `sizes` are those of a box of `whole_pixels`, which the unit is for."""
        read, written = 0, 0
        pixels = extent.rows * extent.columns
        # Some of the channels are a short run of bytes for each pixel.
        runs = pixels if extent.channels < cut.channels else 0
        for key, size in sizes.items():
            bursts = runs
            if key.role is Role.WINDOW:
                bursts = _window_bursts(cut, extent, size) * pixels // whole_pixels
            least = bursts * unit.per_burst
            moved = max(size * pixels * (unit.per_byte // whole_pixels), least)
            if key.role is Role.RESULT:
                written += moved
            else:
                read += moved
        return _Transfer(read, written)


def _window_bursts(cut: ImageBoxes, extent: Extent, size_bytes: int) -> int:
    """Runs of bytes that a box's input of `size_bytes` is fetched in; 0 where image rows come as a whole."""
    w = cut.window
    if cut.picked:
        return extent.rows * extent.columns
    if cut.im2col_zp is not None or cut.contiguous(extent):
        return 0
    first, last = cut.input_channels(0, extent.channels)
    run = min(last - first, w.ic)
    if run == w.ic:
        run *= min(w.iw, (extent.columns - 1) * w.sx + w.reach_columns)
    return size_bytes // run
