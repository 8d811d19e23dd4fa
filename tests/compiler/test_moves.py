"""Operators that only move elements, as boxes of their result: put together they are golden's, whole and in parts."""

import dataclasses
import random

import numpy as np
import pytest
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.fuse.moves import Move, MovedBox, blocks, moved, plan_move
from tosaic.compiler.ir import DType
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.placement import Placement
from tosaic.compiler.place.placer import Memories, Placer
from tosaic.compiler.tile.graph_plan import GraphPlanner, PlanContext
from tosaic.compiler.tile.layout_copy import BlockLimits, CopyBuffers, plan_copy
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate


def put_together(shape: tuple[int, ...], parts: list[MovedBox], values: dict[str, np.ndarray]) -> np.ndarray:
    out = np.full(shape, 99, np.int8)
    for part in parts:
        where = tuple(slice(a, a + n) for a, n in zip(part.low, part.counts, strict=True))
        if part.source is None:
            out[where] = part.fill
            continue
        places = np.full(part.counts, part.offset)
        for axis, (count, stride) in enumerate(zip(part.counts, part.strides, strict=True)):
            places += (np.arange(count) * stride).reshape(-1, *(1,) * (len(part.counts) - 1 - axis))
        out[where] = values[part.source].reshape(-1)[places]
    return out


def built(op: str, dice: random.Random) -> LayerBuilder:
    build, rank = LayerBuilder(4), dice.randint(1, 4)
    shape = tuple(dice.choice((1, 2, 3, 5)) for _ in range(rank))
    x = build.input("x", shape, DType.INT8)
    axis = dice.randrange(rank)
    match op:
        case "TRANSPOSE":
            y = build.add(op, [x], perms=dice.sample(range(rank), rank))
        case "REVERSE":
            y = build.add(op, [x], axis=axis)
        case "TILE":
            y = build.add(op, [x, build.shape([dice.choice((1, 2, 3)) for _ in shape])])
        case "PAD":
            padding = [dice.choice((0, 1, 3)) for _ in range(2 * rank)]
            y = build.add(op, [x, build.shape(padding), build.zero_point(DType.INT8, -7)])
        case "SLICE":
            start = [dice.randrange(extent) for extent in shape]
            size = [dice.randint(1, extent - first) for first, extent in zip(start, shape, strict=True)]
            y = build.add(op, [x, build.shape(start), build.shape(size)])
        case _:
            others = [
                build.input(f"x{number}", (*shape[:axis], number + 1, *shape[axis + 1 :]), DType.INT8)
                for number in range(dice.randint(1, 3))
            ]
            y = build.add(op, [x, *others], axis=axis)
    build.output(y)
    return build


@pytest.mark.parametrize("op", ["TRANSPOSE", "REVERSE", "TILE", "PAD", "SLICE", "CONCAT"])
def test_a_move(op: str) -> None:
    for seed in range(25):
        dice = random.Random(f"{op} {seed}")
        graph = built(op, dice).finish()
        values = feeds(graph, seed)
        (wanted,) = evaluate(graph, values).values()
        move = plan_move(graph, graph.operators[-1])
        wanted = wanted.reshape(move.shape)
        np.testing.assert_array_equal(put_together(move.shape, list(move.parts), values), wanted)
        if op != "CONCAT":
            np.testing.assert_array_equal(moved(move, values["x"]), wanted)
        low = tuple(dice.randrange(extent) for extent in move.shape)
        counts = tuple(dice.randint(1, extent - first) for first, extent in zip(low, move.shape, strict=True))
        inner = [found for part in move.parts if (found := part.within(low, counts)) is not None]
        box = tuple(slice(a, a + n) for a, n in zip(low, counts, strict=True))
        np.testing.assert_array_equal(put_together(move.shape, inner, values)[box], wanted[box])
        for part in inner:
            ends = zip(part.low, part.counts, low, counts, strict=True)
            assert all(a >= b and a + n <= b + m for a, n, b, m in ends)


def test_a_box_that_meets_no_part() -> None:
    part = MovedBox("x", (2, 0), (3, 4), 5, (4, 1))
    assert part.within((0, 0), (2, 4)) is None
    assert part.within((5, 0), (2, 4)) is None
    assert part.within((4, 3), (9, 9)) == MovedBox("x", (4, 3), (1, 1), 5 + 2 * 4 + 3, (4, 1))
    assert MovedBox(None, (1,), (4,), fill=3).within((2,), (2,)) == MovedBox(None, (2,), (2,), fill=3)
    assert Move((2,), (part,)).parts == (part,)


@pytest.mark.parametrize("shape", [(7,), (3, 5), (4, 1, 6), (2, 3, 4, 5), ()])
@pytest.mark.parametrize("most", [1, 2, 5, 6, 7, 20, 24, 1000])
def test_blocks_cover_a_result_in_its_order(shape: tuple[int, ...], most: int) -> None:
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    found = list(blocks(shape, most))
    parts = [
        numbers[tuple(slice(a, a + n) for a, n in zip(low, counts, strict=True))].reshape(-1)
        for low, counts in found
    ]
    assert np.concatenate(parts).tolist() == numbers.reshape(-1).tolist()
    assert all(1 <= part.size <= most for part in parts)


def copying(config: Config, dtype: DType = DType.INT8) -> tuple[Placer, Move]:
    """A copy that reverses 4096 elements from external memory."""
    build = LayerBuilder(4)
    build.output(build.add("REVERSE", [build.input("x", (1, 4096), dtype)], axis=1))
    memories = Memories(Arena(config.am_bytes, config.columns), config.am_bytes)
    graph = build.finish()
    placer = GraphPlanner(graph, set(graph.tensors), PlanContext(config, memories, True)).placer
    placer.external("x")
    return placer, plan_move(graph, graph.operators[0])


def copied(
    limits: BlockLimits, *, resident: bool = False, kept: bool = False, **settings: int
) -> CopyBuffers:
    """The buffers of a copy of bytes from external memory, or from activation memory (`kept`)."""
    placer, move = copying(dataclasses.replace(get_config("base,am_bytes=16K"), name="copying", **settings))
    if kept:
        placer.placements["x"] = Placement(Address(Region.ACTIVATION, 0), 4096)
    target = Placement(Address(Region.ACTIVATION if resident else Region.DATA, 1 << 20), 4096)
    return plan_copy(placer, move, target, 1, limits).buffers


@pytest.mark.parametrize(
    "limits, options, elements, targets, whole, gathered",
    [
        (BlockLimits(), {}, 4096, 2, 1, False),
        (BlockLimits(), dict(resident=True), 4096, 0, 1, False),
        (BlockLimits(), dict(kept=True), 4096, 2, 0, False),
        (BlockLimits(whole_bytes=4096), {}, 4096, 2, 1, False),
        (BlockLimits(whole_bytes=4095), {}, 4096, 2, 0, True),
        (BlockLimits(elements=1000), {}, 1000, 2, 1, False),
        (BlockLimits(elements=4095), {}, 4095, 2, 1, False),
        (BlockLimits(elements=5000), {}, 4096, 2, 1, False),
        (BlockLimits(), dict(am_bytes=1 << 13), 4096, 1, 1, False),
        (BlockLimits(), dict(am_bytes=1 << 12), 2048, 1, 0, True),
    ],
)
def test_buffers_of_a_copy(
    limits: BlockLimits, options: dict, elements: int, targets: int, whole: int, gathered: bool
) -> None:
    """The largest blocks that fit, and sources as a whole rather than in parts."""
    found = copied(limits, **options)
    assert (found.block_elements, len(found.targets)) == (elements, targets)
    assert (len(found.whole), found.gathered is not None) == (whole, gathered)
    places = [address for address in found.addresses() if address is not None]
    assert len(places) == len(set(places)) == targets + whole + gathered


@pytest.mark.parametrize(
    "machine, dtype, limits, smallest",
    [
        ("base,am_bytes=16K", DType.INT8, BlockLimits(), 1024),
        ("base,am_bytes=16K", DType.INT32, BlockLimits(), 1024),
        ("base,am_bytes=16K", DType.INT32, BlockLimits(elements=255), 1020),
        ("base,am_bytes=16K", DType.INT32, BlockLimits(elements=257), 1024),
        ("base,am_bytes=1M", DType.INT16, BlockLimits(), 8192),
        # One element at least, whatever a sixteenth of the memory is.
        ("base,am_bytes=128", DType.INT32, BlockLimits(), 8),
        ("base,am_bytes=64", DType.INT32, BlockLimits(), 4),
        ("nano,am_bytes=16", DType.INT8, BlockLimits(), 1),
        ("nano,am_bytes=16", DType.INT32, BlockLimits(), 4),
    ],
)
def test_a_copy_without_room(machine: str, dtype: DType, limits: BlockLimits, smallest: int) -> None:
    """The smallest blocks have a sixteenth of the memory, or all of the copy."""
    placer, move = copying(get_config(f"{machine},am_banks=1"), dtype)
    placer.arena.allocate(placer.config.am_bytes)
    size = placer.tensors.size_bytes("x")
    target = Placement(Address(Region.DATA, 1 << 20), size)
    with pytest.raises(
        OutOfMemory, match=f"^a block of {smallest} bytes does not fit the activation memory$"
    ):
        plan_copy(placer, move, target, size // 4096, limits)
