"""Cycles of the vector unit."""

import dataclasses
import math
from collections.abc import Sequence

from tosaic.compiler.machine_numbers import (
    CHANNEL_BATCH_CYCLES,
    CHANNEL_GO_CYCLES,
    PLANE_JOIN_CYCLES,
    PLANES_JOINED,
    POOL_LEAST_STEPS,
    VECTOR_GO_CYCLES,
)
from tosaic.hw.config import Config


def batch_cycles(beats: Sequence[int], slots: int, config: Config) -> int:
    """Cycles of a batch of `slots` vectors, where each micro-operation, whose cycles for a vector are one of `beats`,
    reads what the one before has computed."""
    return sum(max(config.vector_latency_cycles, slots * each) for each in beats)


def batches_cycles(vectors: int, turns: int, config: Config) -> int:
    """Cycles of a micro-operation of one beat on all batches: a batch is of the longer one of two axes, and takes at
    least the latency."""
    longer, others = max(vectors, turns), min(vectors, turns)
    whole, rest = divmod(longer, config.vector_slots)
    return others * (whole * config.vector_slots + (max(rest, config.vector_latency_cycles) if rest else 0))


def pool_box_cycles(
    taps: int, body: Sequence[int], after: Sequence[int], vectors: int, config: Config
) -> int:
    """Cycles of a box of a pool of `vectors`: the body's micro-operations for each tap, and those behind it."""
    whole, rest = divmod(vectors, config.vector_slots)
    cycles = VECTOR_GO_CYCLES
    for count, slots in ((whole, config.vector_slots), (1, rest)):
        if count and slots:
            cycles += count * (taps * batch_cycles(body, slots, config) + batch_cycles(after, slots, config))
    return cycles


def vectors_cycles(elements: int, beats: Sequence[int], config: Config) -> int:
    """Cycles of a GO over neighbouring elements; `beats`: of each micro-operation."""
    return VECTOR_GO_CYCLES + -(-elements // config.columns) * sum(beats)


def rows_cycles(rows: int, length: int, before: Sequence[int], body: Sequence[int], config: Config) -> int:
    """Cycles of `rows` rows of `length` elements whose slots are rows: the micro-operations `before` once for each
    batch, the `body` for each vector along a row."""
    total, vectors = VECTOR_GO_CYCLES, -(-length // config.columns)
    whole, rest = divmod(rows, config.vector_slots)
    for count, slots in ((whole, config.vector_slots), (1, rest)):
        if count and slots:
            each = batch_cycles(before, slots, config) + vectors * batch_cycles(body, slots, config)
            total += count * each
    return total


def pixels_cycles(pixels: int, slots: int, before: Sequence[int], body: Sequence[int], config: Config) -> int:
    """Cycles of a group of channels of `pixels` vectors, `slots` at a time: the micro-operations `before` once, and the
    `body` for each vector."""
    total, (whole, rest) = 0, divmod(pixels, slots)
    for repeats, count in ((whole, slots), (1, rest)):
        if repeats and count:
            total += CHANNEL_BATCH_CYCLES + batch_cycles(before, count, config)
            total += repeats * batch_cycles(body, count, config)
    return total


def pixel_slots(pixels: int, before: Sequence[int], body: Sequence[int], config: Config) -> int:
    """The number of slots for which that takes the fewest cycles, the largest one of several."""
    return min(
        range(min(pixels, config.vector_slots), 0, -1),
        key=lambda slots: pixels_cycles(pixels, slots, before, body, config),
    )


@dataclasses.dataclass(frozen=True)
class HeldLines:
    """A program that goes by channels."""

    before: list[int]
    """Cycles of VECTOR for a vector, of each micro-operation before the body."""
    body: list[int]
    pixels: int
    """Vectors of a group of channels for which what it holds is the same."""

    def cycles(self, rows: int, config: Config) -> int:
        """VECTOR's cycles for `rows` vectors of a group of channels."""
        whole, rest = divmod(rows, self.pixels)
        total = 0
        for times, pixels in ((whole, self.pixels), (1, rest)):
            if times and pixels:
                slots = pixel_slots(pixels, self.before, self.body, config)
                total += times * pixels_cycles(pixels, slots, self.before, self.body, config)
        return total

    def groups_cycles(self, groups: int, rows: int, config: Config) -> int:
        """The same for several groups, one GO after the other."""
        return groups * self.cycles(rows, config) + VECTOR_GO_CYCLES


def channels_cycles(config: Config, beats: Sequence[int], rows: int) -> int:
    """Cycles for `rows` vectors with the same parameters. `beats`: of each micro-operation, which waits for what the
    one before has computed."""
    *before, last = beats
    batches = -(-rows // config.vector_slots)
    each, more = divmod(rows, -(-rows // batches))
    total = CHANNEL_GO_CYCLES if batches > 1 else CHANNEL_BATCH_CYCLES
    for count, slots in ((each, -(-rows // batches)), (1, more)):
        if count and slots:
            total += count * (batch_cycles(before, slots, config) + slots * last)
    return total


def window_cycles(elements: int, taps: int, beats: int, config: Config) -> int:
    """Cycles of a pool whose results are `elements`, of `taps` elements each."""
    return elements * taps * beats // config.columns


def copy_cycles(vectors: int) -> int:
    """Cycles of a copy of `vectors` vectors."""
    return vectors + VECTOR_GO_CYCLES


def pool_cycles(axes: Sequence[int], images: int, taps: int, beats: int, edges: int, config: Config) -> int:
    """Cycles of a pool of `taps` elements, whose results are `axes` vectors of each of `images` images. The vectors of
    the longest axis are a batch; `edges` groups of results have a GO each."""
    slots = batches_cycles(1, max(axes), config)
    steps = max(taps, POOL_LEAST_STEPS) * beats
    return images * (math.prod(axes) // max(axes) * slots * steps + VECTOR_GO_CYCLES * edges)


def joined_planes_cycles(images: int, planes: int, pixels: int, config: Config) -> int:
    """Cycles to put planes together pixel by pixel; two, four or eight planes need no cycle for each pixel."""
    joins = images * -(-pixels // config.columns) * -(-planes // PLANES_JOINED)
    each = PLANE_JOIN_CYCLES + (config.columns if planes & (planes - 1) else 0)
    return joins * each


def turned_cycles(
    line: int, groups: int, passes: Sequence[tuple[int, int, int]], config: Config, *, in_place: bool
) -> int:
    """Cycles of a copy that turns `groups` groups of lines of `line` elements. Each pass makes one of (lines, bytes of
    an element that is loaded, of one that is stored); a last copy puts chunks in their places, unless a pass does."""
    total, left, length = 0, math.prod(radix for radix, _, _ in passes), line
    for radix, loaded_bytes, stored_bytes in passes:
        left //= radix
        vectors, lanes = -(-length // config.columns), min(length, config.columns)
        loaded, stored = (-(-lanes * size // config.columns) for size in (loaded_bytes, stored_bytes))
        total += VECTOR_GO_CYCLES + groups * left * vectors * ((radix - 1) * loaded + stored)
        length *= radix
    return total if in_place else total + VECTOR_GO_CYCLES + groups * line


@dataclasses.dataclass(frozen=True)
class ReductionPass:
    """A pass over `extent` elements of the axis and `inner` of those behind it, that leaves `partials` results."""

    extent: int
    partials: int
    inner: int
    body: tuple[int, ...]
    """Cycles of each micro-operation of the body for a whole vector."""
    stored_bytes: int
    """Bytes of an element of the results."""

    def cycles(self, outer: int, config: Config) -> int:
        """Returns the cycles of one pass over boxes of `outer` elements of the axes before."""
        repeats, rest = divmod(self.extent, self.partials)
        total = self._go(self.partials * self.inner, repeats, outer, config)
        return total + (self._go(rest * self.inner, 1, outer, config) if rest else 0)

    def _go(self, row: int, repeats: int, outer: int, config: Config) -> int:
        """Returns the cycles of a GO over rows of `row` results that follow each other, and of one more for
        the last, shorter vectors.
        """
        width = config.columns
        vectors, tail = divmod(row, width)
        return sum(
            VECTOR_GO_CYCLES + self._beats(repeats, lanes, width) * batches_cycles(count, outer, config)
            for count, lanes in ((vectors, width), (min(tail, 1), tail))
            if count
        )

    def _beats(self, repeats: int, lanes: int, width: int) -> int:
        """Returns the beats of one vector of `lanes` lanes on a machine of `width` ones: the start of the running
        value, the repetitions of the body, the result."""
        loading = sum(-(-lanes * beats // width) for beats in self.body)
        return 1 + repeats * loading - (-lanes * self.stored_bytes // width)
