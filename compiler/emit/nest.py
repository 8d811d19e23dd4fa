"""Loop nests of the vector unit: from tensor dimensions to the dimensions of VECTOR_GOs."""

import dataclasses
from collections.abc import Iterator

from tosaic.compiler.tile.loops import Axis
from tosaic.hw.isa import STREAM_DIMS, Opcode, width

MAX_COUNT = 1 << (width(Opcode.VECTOR_DIMS, "count_low") - 1)
"""Turns of an axis: the largest power of two that the field holds, so that longer axes are cut into even pieces."""


@dataclasses.dataclass(frozen=True)
class Piece:
    """One VECTOR_GO: axes fastest first (slot axis, reduced axes, the others), and byte offsets per stream."""

    axes: tuple[Axis, ...]
    offsets: tuple[int, ...]
    slots: int
    vectors: int
    lanes: int
    tail_lanes: int


def even_lanes(count: int, columns: int) -> int:
    """Lanes of each vector so that the fewest vectors that hold `count` elements are as long as each other: the last
    one then has no beats for lanes that it has not, and in a reduction no GO of its own."""
    return -(-count // -(-count // columns))


def split_lanes(axes: list[Axis], sizes: tuple[int, ...], lanes: int) -> tuple[list[Axis], Axis | None, int]:
    """(outer axes, axis of vectors along the lanes or None, lanes of the last vector).

    `sizes` are the streams' element sizes. The innermost axis runs along the lanes when every stream walks it
    element by element or, loads only, not at all; else every vector has one lane and the axis stays outside."""
    if not axes:
        return [], None, 1
    inner = axes[-1]
    contiguous = all(
        stride == size or (stride == 0 and i < len(sizes) - 1)
        for i, (stride, size) in enumerate(zip(inner.strides, sizes, strict=True))
    )
    if not contiguous:
        return axes, None, 1
    vectors = -(-inner.count // lanes)
    strides = tuple(stride * lanes for stride in inner.strides)
    return axes[:-1], Axis(vectors, strides), inner.count - (vectors - 1) * lanes


def pieces(
    outer: list[Axis],
    along: Axis | None,
    lanes: int,
    tail: int,
    reduced: list[Axis],
    streams: int,
    max_slots: int,
) -> Iterator[Piece]:
    """The VECTOR_GOs that cover the nest (`outer` slowest first) of `streams` streams."""
    axes = list(outer)
    if along is not None:
        if along.count > 1 and tail != lanes and reduced:
            # A batch is whole turns of the slot axis, so the shorter last vector gets a GO of its own.
            full = Axis(along.count - 1, along.strides)
            yield from pieces(outer, full, lanes, lanes, reduced, streams, max_slots)
            rest = tuple(stride * full.count for stride in along.strides)
            for piece in pieces(outer, Axis(1, along.strides), tail, tail, reduced, streams, max_slots):
                yield dataclasses.replace(
                    piece, offsets=tuple(map(sum, zip(piece.offsets, rest, strict=True)))
                )
            return
        axes.append(along)
        if along.count == 1:
            lanes = tail
    else:
        lanes = tail = 1
    axes = axes[::-1] or [Axis(1, (0,) * streams)]
    if not reduced:
        yield from _flat(axes, lanes, tail, max_slots)
    else:
        yield from _batched(axes, lanes, reduced, max_slots)


def _flat(axes: list[Axis], lanes: int, tail: int, max_slots: int) -> Iterator[Piece]:
    """Cuts a nest without reduction, whose batches may end anywhere."""
    zero = (0,) * len(axes[0].strides)
    big = [i for i, axis in enumerate(axes) if axis.count > MAX_COUNT]
    if len(axes) > STREAM_DIMS or big:
        index = big[-1] if big else len(axes) - 1
        axis = axes[index]
        step = MAX_COUNT if big else 1
        for start in range(0, axis.count, step):
            count = min(step, axis.count - start)
            last = start + count == axis.count
            part = [*axes[:index], Axis(count, axis.strides), *axes[index + 1 :]]
            if not big:
                part.pop(index)
            part_tail = tail if index != 0 or last else lanes
            for piece in _flat(part, lanes, part_tail, max_slots):
                offsets = tuple(o + start * s for o, s in zip(piece.offsets, axis.strides, strict=True))
                yield dataclasses.replace(piece, offsets=offsets)
        return
    vectors = 1
    for axis in axes:
        vectors *= axis.count
    # Batches as long as each other: a short one waits for the results of its own micro-operations.
    slots = -(-vectors // -(-vectors // max_slots)) if vectors > max_slots else max_slots
    yield Piece(tuple(axes), zero, slots, vectors, lanes, tail)


def _batched(axes: list[Axis], lanes: int, reduced: list[Axis], max_slots: int) -> Iterator[Piece]:
    """Cuts a nest with a reduction: each batch is one turn of the slot axis, repeated over the reduced axes."""
    zero = (0,) * len(axes[0].strides)
    slot = max(range(len(axes)), key=lambda i: min(axes[i].count, max_slots))
    axis, others = axes[slot], axes[:slot] + axes[slot + 1 :]
    whole, rest = divmod(axis.count, max_slots)
    parts = []
    if whole:
        blocks = [Axis(whole, tuple(s * max_slots for s in axis.strides))] if whole > 1 else []
        parts.append((0, max_slots, blocks))
    if rest:
        parts.append((whole * max_slots, rest, []))
    for start, slots, blocks in parts:
        loops = (Axis(slots, axis.strides), *reduced, *blocks, *others)
        offsets = tuple(start * s for s in axis.strides)
        yield from limited(loops, offsets or zero, slots, lanes, len(reduced))


def limited(
    loops: tuple[Axis, ...], offsets: tuple[int, ...], slots: int, lanes: int, reduced: int
) -> Iterator[Piece]:
    """The same for batches of the first of `loops`, repeated over the next `reduced` of them: commands have limits."""
    outer = loops[1 + reduced :]
    for index, axis in enumerate(outer, 1 + reduced):
        if axis.count > MAX_COUNT:
            for start in range(0, axis.count, MAX_COUNT):
                count = min(MAX_COUNT, axis.count - start)
                part = (*loops[:index], Axis(count, axis.strides), *loops[index + 1 :])
                moved = tuple(o + start * s for o, s in zip(offsets, axis.strides, strict=True))
                yield from limited(part, moved, slots, lanes, reduced)
            return
    if len(loops) > STREAM_DIMS:
        axis = outer[-1]
        for turn in range(axis.count):
            moved = tuple(o + turn * s for o, s in zip(offsets, axis.strides, strict=True))
            yield from limited(loops[:-1], moved, slots, lanes, reduced)
        return
    vectors = slots
    for axis in outer:
        vectors *= axis.count
    yield Piece(loops, offsets, slots, vectors, lanes, lanes)
