"""Layout copies as they are emitted, block by block: what is executed is NumPy's result wherever the blocks end and
whatever lies where, and each piece of work tells what it touches."""

import itertools
import math
import random

import numpy as np
import pytest
from executed_work import Machine, gos

from tosaic.compiler.emit.commands import Work
from tosaic.compiler.emit.emitter import MAX_ROWS, Emitter
from tosaic.compiler.emit.layout_copy import CopyEmission
from tosaic.compiler.emit.turn import emit_turn
from tosaic.compiler.fuse.moves import Move, MovedBox
from tosaic.compiler.place.address import Address, Region, activation_span
from tosaic.compiler.place.external import ExternalMemory
from tosaic.compiler.place.placement import Placement, resident
from tosaic.compiler.tile.layout_copy import CopyBuffers, LayoutCopy
from tosaic.compiler.tile.loops import Axis
from tosaic.compiler.tile.turn import Scratch, Turn, turn_of
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Unit

CONFIG = get_config("small")
SOURCE, TARGET = 0, 0x8000
"""Outside."""
HERE, THERE, WHOLE, GATHERED, BLOCKS = 0, 0x1000, 0x2000, 0x3000, (0x3800, 0x3C00)
SCRATCH = Scratch((0x3400, 0x3600), 0x200)
SOURCE_ELEMENTS = 400


def random_move(dice: random.Random) -> Move:
    """Parts along one axis: elements of a source by any strides, or one value."""
    rank = dice.randint(1, 4)
    shape = tuple(dice.choice((1, 2, 3, 5)) for _ in range(rank))
    axis = dice.randrange(rank)
    ends = sorted({0, shape[axis], dice.randint(0, shape[axis])})
    parts = []
    for low, high in itertools.pairwise(ends):
        counts = tuple(high - low if number == axis else count for number, count in enumerate(shape))
        lows = tuple(low if number == axis else 0 for number in range(rank))
        if dice.random() < 0.25:
            parts.append(MovedBox(None, lows, counts, fill=dice.randint(-128, 127)))
            continue
        strides = [dice.choice((0, 1, -1, 2, 3, 7)) for _ in shape]
        if dice.random() < 0.5:
            # Those of a dense tensor whose axes are in another order.
            order, step = dice.sample(range(rank), rank), 1
            for number in order:
                strides[number], step = step * dice.choice((1, 1, -1)), step * counts[number]
        reach = [(count - 1) * stride for count, stride in zip(counts, strides, strict=True)]
        below = -sum(min(0, each) for each in reach)
        above = SOURCE_ELEMENTS - 1 - sum(max(0, each) for each in reach)
        parts.append(MovedBox("x", lows, counts, dice.randint(below, above), tuple(strides)))
    return Move(shape, tuple(parts))


def put_together(move: Move, source: np.ndarray) -> np.ndarray:
    result = np.zeros(move.shape, source.dtype)
    for part in move.parts:
        for turns in itertools.product(*(range(count) for count in part.counts)):
            place = tuple(a + b for a, b in zip(part.low, turns, strict=True))
            if part.source is None:
                result[place] = part.fill
                continue
            at = part.offset + sum(t * s for t, s in zip(turns, part.strides, strict=True))
            result[place] = source[at]
    return result


def executed(
    move: Move,
    size: int,
    kind: str,
    *,
    target_inside: bool,
    block: int,
    targets: int,
    scratch: Scratch | None,
) -> tuple[list[Work], np.ndarray, np.ndarray]:
    """Work, result and what is right. `kind`: where the source is, or how it is fetched."""
    external = ExternalMemory()
    source_bytes, address = SOURCE_ELEMENTS * size, Address(Region.DATA, SOURCE)
    place = resident(HERE, source_bytes) if kind == "inside" else Placement(address, source_bytes)
    total = math.prod(move.shape) * size
    target = resident(THERE, total) if target_inside else Placement(Address(Region.DATA, TARGET), total)
    buffers = CopyBuffers(
        block,
        [] if target_inside else list(BLOCKS[:targets]),
        {address: WHOLE} if kind == "whole" else {},
        GATHERED if kind == "gathered" else None,
        scratch,
    )
    emitter = Emitter(CONFIG, external)
    CopyEmission(emitter, LayoutCopy(move, {"x": place}, target, buffers, size)).emit()
    works, machine = emitter.blocks.current.work, Machine(CONFIG, external)
    values = np.random.default_rng(5).integers(0, 256, source_bytes).astype(np.uint8)
    (machine.activations if kind == "inside" else machine.data)[:source_bytes] = values
    machine.run(works)
    memory, start = (machine.activations, THERE) if target_inside else (machine.data, TARGET)
    dtype = {1: np.int8, 2: np.int16, 4: np.int32}[size]
    found = memory[start : start + total].view(dtype).reshape(move.shape)
    return works, found, put_together(move, values.view(dtype))


@pytest.mark.parametrize("kind", ["inside", "whole", "gathered"])
@pytest.mark.parametrize("target_inside", [False, True])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_any_move_in_any_blocks(kind: str, target_inside: bool, size: int) -> None:
    for seed in range(12):
        dice = random.Random(f"{kind} {target_inside} {size} {seed}")
        move = random_move(dice)
        block, targets = dice.choice((1, 2, 4, 7, 30, 1000)), dice.choice((1, 2))
        scratch = SCRATCH if dice.random() < 0.5 else None
        _, found, wanted = executed(
            move, size, kind, target_inside=target_inside, block=block, targets=targets, scratch=scratch
        )
        np.testing.assert_array_equal(found, wanted, f"{move} {block}")


def matrix(lines: int, line: int) -> Move:
    """A transpose of lines of a source."""
    return Move((line, lines), (MovedBox("x", (0, 0), (line, lines), 0, (1, line)),))


@pytest.mark.parametrize(
    "lines, line", [(4, 64), (3, 100), (8, 40), (9, 40), (16, 20), (2, 150), (19, 21), (11, 30)]
)
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("scratch_bytes", [256, 512])
def test_turned_copies(lines: int, line: int, size: int, scratch_bytes: int) -> None:
    scratch = Scratch(SCRATCH.addresses, scratch_bytes)
    works, found, wanted = executed(
        matrix(lines, line), size, "inside", target_inside=True, block=1000, targets=1, scratch=scratch
    )
    np.testing.assert_array_equal(found, wanted)
    axes = [Axis(line, (size, lines * size)), Axis(lines, (line * size, size))]
    turn = turn_of(axes, size, CONFIG)
    assert (turn is not None) == any(go.repeats > 1 or go.uops > 1 for go in gos(works))


def test_as_many_elements_are_emitted_as_are_asked_for() -> None:
    """Blocks of 4 of 10 elements: those that hold the first ones, each once."""
    move = Move((10,), (MovedBox("x", (0,), (10,), 3, (1,)),))
    copy = LayoutCopy(
        move,
        {"x": resident(HERE, 400)},
        Placement(Address(Region.DATA, TARGET), 10),
        CopyBuffers(4, list(BLOCKS), {}, None),
        1,
    )
    emitter = Emitter(CONFIG, ExternalMemory())
    emission, seen = CopyEmission(emitter, copy), []
    for elements in (0, 1, 4, 5, 100, None):
        emission.emit(elements)
        seen.append(len(emitter.blocks.current.work))
    assert seen == [0, 2, 2, 4, 6, 6]
    stores = [work for work in emitter.blocks.current.work if work.unit is Unit.STORE]
    assert [work.reads for work in stores] == [
        [activation_span(start, start + size)]
        for start, size in zip((*BLOCKS, BLOCKS[0]), (4, 4, 2), strict=True)
    ]
    assert [work.writes[0].start for work in stores] == [TARGET, TARGET + 4, TARGET + 8]


@pytest.mark.parametrize(
    "offset, count, stride, pieces",
    [
        (0, 4096, 1, [0]),
        (0, 4097, 1, [0, 1]),
        (1, 4096, 1, [0, 1]),
        (4096, 2, 1, [1]),
        (4095, 2, -1, [0]),
        (4096, 2, -1, [0, 1]),
        (0, 3, 4096, [0, 1, 2]),
        (9999, 1, 0, [2]),
    ],
)
def test_pieces_of_a_source_that_is_fetched_whole(
    offset: int, count: int, stride: int, pieces: list[int]
) -> None:
    """A source of 10000 bytes is fetched in pieces of 4096 bytes; the last one is shorter, and pieces that are there
    are not fetched again."""
    address = Address(Region.DATA, 64)
    place = Placement(address, 10000)
    move = Move((count,), (MovedBox("x", (0,), (count,), offset, (stride,)),))
    emitter = Emitter(CONFIG, ExternalMemory())
    copy = LayoutCopy(
        move, {"x": place}, resident(0, count), CopyBuffers(2048, [], {address: WHOLE}, None), 1
    )
    CopyEmission(emitter, copy).emit()
    loads = [work for work in emitter.blocks.current.work if work.unit is Unit.LOAD]
    sizes = [min(4096, 10000 - 4096 * piece) for piece in pieces]
    assert [(work.reads[0].start, work.writes[0].start) for work in loads] == [
        (64 + 4096 * piece, WHOLE + 4096 * piece) for piece in pieces
    ]
    assert [go.row_bytes for go in gos(loads)] == sizes


def test_what_load_brings_straight_to_its_place() -> None:
    """Three rows of 20 bytes, 30 bytes apart, between 5 bytes of filling each."""
    part = MovedBox("x", (0, 0), (3, 20), 7, (30, 1))
    move = Move((3, 25), (part, MovedBox(None, (0, 20), (3, 5), fill=9)))
    place = Placement(Address(Region.DATA, 0), 100)
    copy = LayoutCopy(
        move, {"x": place}, resident(512, 75), CopyBuffers(75, [], {}, None), 1, frozenset({"x"})
    )
    emitter, external = Emitter(CONFIG, ExternalMemory()), ExternalMemory()
    CopyEmission(emitter, copy).emit()
    works, machine = emitter.blocks.current.work, Machine(CONFIG, external)
    assert works[0].reads == [Address(Region.DATA, 7).span(80)]
    assert works[0].writes == [activation_span(512, 512 + 70)]
    (load, *_) = gos(works)
    assert (load.row_bytes, load.rows, load.local_address) == (20, 3, 512)
    machine.data[:100] = np.arange(100)
    machine.run(works)
    wanted = np.full((3, 25), 9)
    wanted[:, :20] = 7 + 30 * np.arange(3)[:, None] + np.arange(20)
    assert machine.activations[512:587].reshape(3, 25).tolist() == wanted.tolist()


def gathered(part: MovedBox):
    """The rows that are fetched, in bytes behind the source and the place that they come to."""
    address = Address(Region.DATA, 100)
    elements = math.prod(part.counts)
    copy = LayoutCopy(
        Move(part.counts, (part,)),
        {"x": Placement(address, 4000)},
        resident(0, elements),
        CopyBuffers(elements, [], {}, GATHERED),
        1,
    )
    emitter = Emitter(CONFIG, ExternalMemory())
    CopyEmission(emitter, copy).emit()
    (work,) = [each for each in emitter.blocks.current.work if each.unit is Unit.LOAD]
    rows = [(go.row_bytes, go.rows, go.local_address) for go in gos([work])]
    return rows, (work.reads[0].start - 100, work.reads[0].end - 100), work.writes[0]


@pytest.mark.parametrize(
    "counts, offset, strides, rows, span",
    [
        ((5,), 3, (1,), [(5, 1, 0)], (3, 8)),
        ((5,), 7, (-1,), [(5, 1, 0)], (3, 8)),
        ((5,), 3, (2,), [(1, 5, 0)], (3, 12)),
        ((5,), 11, (-2,), [(1, 5, 0)], (3, 12)),
        ((3, 4), 0, (4, 1), [(12, 1, 0)], (0, 12)),
        ((3, 4), 0, (6, 1), [(4, 3, 0)], (0, 16)),
        ((4, 3), 0, (1, 6), [(4, 3, 0)], (0, 16)),
        ((3, 4), 0, (0, 1), [(4, 1, 0)], (0, 4)),
        ((1, 4), 0, (9, 1), [(4, 1, 0)], (0, 4)),
        ((2, 3, 4), 5, (40, 6, 1), [(4, 3, 0), (4, 3, 12)], (5, 5 + 40 + 12 + 4)),
        ((2, 3, 4), 45, (-40, 6, 1), [(4, 3, 0), (4, 3, 12)], (5, 5 + 40 + 12 + 4)),
    ],
)
def test_parts_that_are_fetched_densely(counts, offset, strides, rows, span) -> None:
    """Each element once, in the order of its place in the source."""
    found = gathered(MovedBox("x", (0,) * len(counts), counts, offset, strides))
    bases = [(size, count, GATHERED + at) for size, count, at in rows]
    elements = math.prod(count for count, stride in zip(counts, strides, strict=True) if stride)
    assert found == (bases, span, activation_span(GATHERED, GATHERED + elements))


def test_very_many_rows_are_fetched_in_parts() -> None:
    rows, span, _ = gathered(MovedBox("x", (0,), (MAX_ROWS + 3,), 0, (2,)))
    assert rows == [(1, MAX_ROWS, GATHERED), (1, 3, GATHERED + MAX_ROWS)]
    assert span == (0, 2 * (MAX_ROWS + 2) + 1)


# --- parts of turned copies


@pytest.mark.parametrize("scratch_bytes", [512, 96, 64, 40, 24])
@pytest.mark.parametrize("outer", [(), (2,), (3, 2)])
@pytest.mark.parametrize("line, lines, radices", [(5, 4, (4,)), (5, 10, (4,)), (7, 8, (4,)), (4, 18, (4, 2))])
def test_a_turn_reads_and_writes_what_it_should(
    line: int, lines: int, radices: tuple[int, ...], outer: tuple[int, ...], scratch_bytes: int
) -> None:
    """However little of it fits the buffers. The last lines make a chunk with some before them."""
    size = line * lines
    strides = [(3 * size, 2 * size + 20), (size, size + 5)][2 - len(outer) :]
    loops = tuple(Axis(count, own) for count, own in zip(outer, strides, strict=True))
    turn = Turn(loops, Axis(line, (1, lines)), Axis(lines, (line, 1)), radices, 1)
    emitter, external = Emitter(CONFIG, ExternalMemory()), ExternalMemory()
    first, _ = SCRATCH.addresses
    emit_turn(emitter, turn, Scratch((first, first + scratch_bytes), scratch_bytes), 0, 0x1000)
    machine = Machine(CONFIG, external)
    values = np.random.default_rng(1).integers(1, 256, 9 * size, np.uint8)
    machine.activations[: len(values)] = values
    wanted = np.zeros(9 * size + 200, np.uint8)
    for turns in itertools.product(*map(range, outer)):
        source, target = (
            sum(t * own[side] for t, own in zip(turns, strides, strict=True)) for side in (0, 1)
        )
        matrix = values[source : source + size].reshape(lines, line)
        wanted[target : target + size] = matrix.T.ravel()
    machine.run(emitter.blocks.current.work)
    np.testing.assert_array_equal(machine.activations[0x1000 : 0x1000 + len(wanted)], wanted)
