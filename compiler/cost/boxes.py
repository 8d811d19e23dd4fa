"""Cycles of a box of a layer: the time of its buffers, its tiles of channels and its instructions."""

import dataclasses
import math
from collections.abc import Iterable
from fractions import Fraction

from tosaic.compiler.machine_numbers import (
    BOX_INSTRUCTIONS,
    BOX_WAIT_CYCLES,
    BUFFER_TURN_CYCLES,
    IM2COL_BOX_CYCLES,
    IM2COL_TURN_CYCLES,
    STAYING_WEIGHTS_WM_PART,
    TILE_DRAIN_CYCLES,
    TILE_INSTRUCTIONS,
)
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES


def box_cycles(array_cycles: int, tiles: int, tile_beats: int) -> int:
    """Cycles of a box whose operands are there: the array's, or those in which VECTOR takes `tiles` tiles of channels,
    each in `tile_beats` cycles and what a tile takes besides."""
    return computing_cycles(array_cycles, tiles, tile_beats) + BOX_WAIT_CYCLES


def computing_cycles(array_cycles: int, tiles: int, tile_beats: int) -> int:
    """Cycles of a box that waits for nothing."""
    draining = tiles * (tile_beats + TILE_DRAIN_CYCLES) + TILE_DRAIN_CYCLES
    return max(array_cycles, draining)


def box_instruction_bytes(tiles: int = 0) -> int:
    """Bytes of the instructions of a box, and of `tiles` tiles of channels in it."""
    return (BOX_INSTRUCTIONS + tiles * TILE_INSTRUCTIONS) * INSTRUCTION_BYTES


def buffer_turn_cycles(speed: MemorySpeed) -> int:
    """Cycles from the end of a box, for whose buffers LOAD or VECTOR waits, until these are filled or empty again."""
    return speed.latency_cycles + BUFFER_TURN_CYCLES


def moved_boxes_cycles(
    boxes: Iterable[tuple[int, int, int, int]], speed: MemorySpeed, *, doubled: bool
) -> int:
    """Cycles of all boxes, the largest first: (number of them, and for each one VECTOR's cycles and those of the bus
    one way and the other). With double buffers the bus works on other boxes meanwhile."""
    turn, total = buffer_turn_cycles(speed), 0
    for times, computing, read, written in boxes:
        if not doubled:
            total += times * (computing + read + written + turn)
            continue
        # Nothing computes while the first box comes and the last one leaves.
        total += 0 if total else read + written
        total += times * max(computing, read + turn, written + turn)
    return total


@dataclasses.dataclass(frozen=True)
class BoxWork:
    """What a box of a convolution costs."""

    tiles: int
    array_cycles: int
    weight_bytes: int
    """Bytes of its channels' weights."""
    stays: bool
    """They are still there for the next box of these channels."""
    late_weight_bytes: int = 0
    """Bytes of weights that come only when the array has done with the channels before: there is no room for both."""


@dataclasses.dataclass(frozen=True)
class BoxTime:
    """A part of a cycle of which all times of a layer are multiples: integers are exact, and faster than fractions."""

    per_cycle: int
    per_byte: int
    """Time of a byte on the bus."""
    per_burst: int
    """Time from one short burst to the next."""

    @classmethod
    def of(cls, speed: MemorySpeed, config: Config, pixels: int) -> "BoxTime":
        """Returns the unit of time for boxes of up to `pixels` pixels."""
        rate, burst = speed.bytes_per_cycle(config), Fraction(speed.burst_cycles)
        per_cycle = rate.numerator * burst.denominator * pixels
        return cls(
            per_cycle,
            rate.denominator * burst.denominator * pixels,
            burst.numerator * (per_cycle // burst.denominator),
        )

    def of_runs(self, size_bytes: int, pixels: int, runs: int) -> int:
        """The time of the bus for `size_bytes` of which a `pixels`th part moves, in `runs` short bursts at least."""
        return max(size_bytes * (self.per_byte // pixels), runs * self.per_burst)


@dataclasses.dataclass(frozen=True)
class Moved:
    """What a box moves, in parts of a cycle of the bus, one way and the other."""

    read: int
    written: int


@dataclasses.dataclass(frozen=True)
class BoxDemand:
    """A box of a convolution."""

    times: int
    """How many boxes are like it."""
    work: BoxWork
    tile_beats: int
    """Cycles of VECTOR for the vectors of a tile of channels."""
    moved: Moved


def boxes_cycles(
    boxes: Iterable[BoxDemand],
    firsts: Iterable[tuple[int, BoxWork]],
    ends: Moved,
    time: BoxTime,
    speed: MemorySpeed,
    *,
    doubled: bool,
) -> int:
    """Cycles of all boxes: each one is fetched, computed and sent away. `firsts`: (how many, the first box of a group
    of channels); `ends` is what the first box of all brings and the last one sends."""
    total = sum(box.times * _box_time(box, time, speed, doubled=doubled) for box in boxes)
    for groups, work in firsts:
        # What stays comes while the first box of these channels is computed.
        if work.stays:
            late = work.weight_bytes * time.per_byte - work.array_cycles * time.per_cycle
            total += groups * max(0, late)
    if doubled:
        # Nothing computes while the first box comes and the last one leaves.
        total += ends.read + ends.written
    return total // time.per_cycle


def _box_time(box: BoxDemand, time: BoxTime, speed: MemorySpeed, *, doubled: bool) -> int:
    """The time of a box among others."""
    work, moved = box.work, box.moved
    computing = box_cycles(work.array_cycles, work.tiles, box.tile_beats) * time.per_cycle
    if not work.stays:
        computing += work.late_weight_bytes * time.per_byte
    # Weights that do not stay come for every box.
    fetched_bytes = box_instruction_bytes(work.tiles) + (0 if work.stays else work.weight_bytes)
    fetching = fetched_bytes * time.per_byte
    turn = buffer_turn_cycles(speed) * time.per_cycle
    if doubled:
        return max(computing, moved.read + fetching + turn, moved.written + turn)
    return max(computing, fetching) + moved.read + moved.written + turn


@dataclasses.dataclass(frozen=True)
class PassingBox:
    """A box of a layer whose image comes, or whose result leaves, while it runs."""

    coming_bytes: int
    """Bytes of the image up to the last row that it needs."""
    computing: int
    """Cycles once these are there."""
    tiles: int
    weight_bytes: int
    leaving_bytes: float


def passing_cycles(boxes: Iterable[PassingBox], config: Config, speed: MemorySpeed) -> float:
    """Cycles until the last box is computed, and has left: each box waits for its rows, and the weights come after the
    first box's rows, or with every box where they do not stay."""
    done, left, loaded_bytes = 0.0, 0.0, 0
    bytes_per_cycle = float(speed.bytes_per_cycle(config))
    for number, box in enumerate(boxes):
        loaded_bytes += box_instruction_bytes()
        done = max(done, (loaded_bytes + box.coming_bytes) / bytes_per_cycle) + box.computing
        if not number or box.weight_bytes > config.wm_bytes // STAYING_WEIGHTS_WM_PART:
            # The last tile of channels waits for its weights.
            loaded_bytes += box.weight_bytes
            last = box.computing / max(1, box.tiles)
            done = max(done, (loaded_bytes + box.coming_bytes) / bytes_per_cycle + last)
        left = max(done, left) + box.leaving_bytes / bytes_per_cycle
    return left


def strips_cycles(
    boxes: Iterable[tuple[float, float]], weights_cycles: int, buffers: int, speed: MemorySpeed
) -> tuple[int, int]:
    """(cycles, those of LOAD) of boxes by im2col, each of (cycles of LOAD, cycles of the array): LOAD brings boxes
    ahead of the array, as long as there are `buffers`, and the weights after the first box."""
    turn_cycles = IM2COL_TURN_CYCLES + speed.latency_cycles
    loaded, done = 0.0, [0.0] * buffers
    for number, (loading, array_cycles) in enumerate(boxes):
        loaded = max(loaded + IM2COL_BOX_CYCLES, done[-buffers] + turn_cycles) + loading
        loaded += 0 if number else weights_cycles
        done.append(max(done[-1], loaded) + array_cycles)
    return math.ceil(done[-1]), math.ceil(loaded)


def strip_row_cycles(row_bytes: int, config: Config, speed: MemorySpeed) -> float:
    """Cycles of LOAD for the bytes under the kernel's columns in an image row: they begin within a word."""
    beats = 1 + row_bytes / config.columns
    return max(speed.burst_cycles, beats * config.word_bytes / speed.bytes_per_cycle(config))
