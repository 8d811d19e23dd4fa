"""Loop nests as VECTOR_GOs: together they walk every element once, whatever has to be cut, and no GO is needless."""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from tosaic.compiler.emit import nest
from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.nest import Piece, even_lanes, pieces, split_lanes
from tosaic.compiler.emit.nest_go import GoNest, emit_move, emit_nest, filling, nest_gos
from tosaic.compiler.emit.vector_go import Access, Dim, Entries, ParamUse
from tosaic.compiler.fuse.expression import Load, Node, Reduced
from tosaic.compiler.fuse.microprogram import assemble
from tosaic.compiler.place.address import activation_span
from tosaic.compiler.place.external import ExternalMemory
from tosaic.compiler.tile.loops import Axis
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import STORE_STREAM, STREAM_DIMS, Element, Op

CONFIG = get_config("small")
SLOTS = 4
Places = tuple[int, ...]


def walked(axes: Sequence[Axis], streams: int) -> Iterator[tuple[Places, Places]]:
    """Turns of each axis, and the byte of every stream."""
    for turns in itertools.product(*(range(axis.count) for axis in axes)):
        yield (
            turns,
            tuple(
                sum(turn * axis.strides[stream] for turn, axis in zip(turns, axes, strict=True))
                for stream in range(streams)
            ),
        )


def elements(found: Sequence[Piece], sizes: Places) -> Counter[Places]:
    """The element of each stream that every lane of every vector has, the lanes following each other."""
    counted = Counter[Places]()
    for piece in found:
        for turns, places in walked(piece.axes, len(sizes)):
            last = turns[0] == piece.axes[0].count - 1
            for lane in range(piece.tail_lanes if last else piece.lanes):
                moved = zip(places, piece.offsets, sizes, strict=True)
                counted[tuple(place + offset + lane * size for place, offset, size in moved)] += 1
    return counted


def dense(*counts: int, size: int = 1) -> list[Axis]:
    """Loops over a tensor that another one, transposed, is written to, but for the last axis."""
    strides = [math.prod(counts[number + 1 :]) * size for number in range(len(counts))]
    others = [size * counts[-1] * math.prod(counts[:number]) for number in range(len(counts) - 1)]
    return [
        Axis(count, pair)
        for count, pair in zip(counts, zip(strides, [*others, size], strict=True), strict=True)
    ]


NESTS = [
    [],
    dense(5),
    dense(8),
    dense(9),
    dense(17),
    dense(3, 5),
    dense(3, 17),
    dense(9, 2),
    dense(2, 3, 2, 3),
    dense(2, 2, 2, 2, 2, 3),
    dense(2, 2, 2, 3, 2, 2, 2),
    dense(2, 2, 3, 2, 2, 2, 2, 4),
    dense(7, 3, 11),
    [*dense(3, 5)[:1], Axis(5, (2, 3))],
]


@pytest.mark.parametrize("axes", NESTS)
@pytest.mark.parametrize("lanes", [3, 8])
@pytest.mark.parametrize("most", [2, 4, 1 << 15])
def test_every_element_once(axes: list[Axis], lanes: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest, "MAX_COUNT", most)
    outer, along, tail = split_lanes(axes, (1, 1), lanes)
    found = list(pieces(outer, along, lanes, tail, [], 2, SLOTS))
    assert elements(found, (1, 1)) == Counter(places for _, places in walked(axes, 2))
    for piece in found:
        assert len(piece.axes) <= STREAM_DIMS and max(axis.count for axis in piece.axes) <= most
        assert piece.vectors == math.prod(axis.count for axis in piece.axes)
        even = -(-piece.vectors // -(-piece.vectors // SLOTS))
        assert piece.slots == (even if piece.vectors > SLOTS else SLOTS)
    if most > 1 << 10 and len(outer) + (along is not None) <= STREAM_DIMS:
        assert len(found) == 1


@pytest.mark.parametrize("axes", NESTS)
@pytest.mark.parametrize("reduced", [[3], [2, 3]])
@pytest.mark.parametrize("most", [2, 4, 1 << 15])
def test_every_element_of_a_reduction_once(
    axes: list[Axis], reduced: list[int], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch is one turn of the slots, over which the body repeats."""
    monkeypatch.setattr(nest, "MAX_COUNT", most)
    outer, along, tail = split_lanes(axes, (1, 1), 3)
    loops = [Axis(count, (1000 * (number + 1), 0)) for number, count in enumerate(reduced)]
    found = list(pieces(outer, along, 3, tail, loops, 2, SLOTS))
    assert elements(found, (1, 1)) == Counter(places for _, places in walked([*axes, *loops], 2))
    for piece in found:
        assert piece.axes[1 : 1 + len(loops)] == tuple(loops)
        assert piece.slots == piece.axes[0].count <= SLOTS and piece.lanes == piece.tail_lanes
        assert len(piece.axes) <= STREAM_DIMS
        assert all(axis.count <= most for axis in piece.axes[1 + len(loops) :])
        assert piece.vectors * math.prod(reduced) == math.prod(axis.count for axis in piece.axes)


@pytest.mark.parametrize(
    "axes, reduced, shape",
    [
        (dense(5), False, [(2, 3, 2)]),
        (dense(5), True, [(1, 3, 3), (1, 2, 2)]),
        (dense(6), True, [(2, 3, 3)]),
        (dense(2), True, [(1, 2, 2)]),
        (dense(9, 3), True, [(8, 3, 3), (1, 3, 3)]),
        (dense(8, 3), True, [(8, 3, 3)]),
        (dense(2, 9), True, [(6, 3, 3)]),
        (dense(2, 12), True, [(8, 3, 3)]),
        (dense(3, 5), True, [(3, 3, 3), (3, 2, 2)]),
        (dense(2, 2, 3, 2, 2, 3), False, [(48, 3, 3)]),
        (dense(2, 2, 3, 2, 2, 2, 3), False, [(48, 3, 3)] * 2),
        (dense(2, 2, 2, 2, 2, 2, 2, 3), False, [(32, 3, 3)] * 4),
    ],
)
def test_gos_of_a_nest(axes: list[Axis], reduced: bool, shape: list[Places]) -> None:
    """(vectors, lanes, lanes of the last one) of each. A shorter last vector has a GO of its own in a reduction; the
    longest axis up to the slots is the one of the slots. The lanes take a dimension of six."""
    outer, along, tail = split_lanes(axes, (1, 1), 3)
    loops = [Axis(2, (1, 0))] if reduced else []
    found = list(pieces(outer, along, 3, tail, loops, 2, SLOTS))
    assert [(piece.vectors, piece.lanes, piece.tail_lanes) for piece in found] == shape


def test_a_nest_without_loops_is_one_element() -> None:
    """Every stream has that element; a reduction repeats over its loops for it."""
    one, loop = Axis(1, (0, 0)), Axis(3, (10, 0))
    assert list(pieces([], None, 3, 1, [], 2, SLOTS)) == [Piece((one,), (0, 0), SLOTS, 1, 1, 1)]
    assert list(pieces([], None, 3, 1, [loop], 2, SLOTS)) == [Piece((one, loop), (0, 0), 1, 1, 1, 1)]


def test_a_long_axis_is_cut_where_its_field_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lanes' axis: only its last piece has the shorter vector. Another one: every piece has it."""
    monkeypatch.setattr(nest, "MAX_COUNT", 4)
    along = list(pieces([], Axis(9, (3, 3)), 3, 1, [], 2, SLOTS))
    assert [(each.vectors, each.tail_lanes, each.offsets) for each in along] == [
        (4, 3, (0, 0)),
        (4, 3, (12, 12)),
        (1, 1, (24, 24)),
    ]
    other = list(pieces([Axis(5, (7, 9))], Axis(2, (3, 3)), 3, 1, [], 2, SLOTS))
    assert [(each.vectors, each.tail_lanes, each.offsets) for each in other] == [
        (8, 1, (0, 0)),
        (2, 1, (28, 36)),
    ]


@pytest.mark.parametrize(
    "count, lanes", [(1, 1), (7, 7), (8, 8), (9, 5), (10, 5), (15, 8), (16, 8), (17, 6), (24, 8), (25, 7)]
)
def test_vectors_are_as_long_as_each_other(count: int, lanes: int) -> None:
    assert even_lanes(count, 8) == lanes


@pytest.mark.parametrize(
    "strides, sizes, along",
    [
        ((1, 1), (1, 1), True),
        ((2, 4), (2, 4), True),
        ((0, 1), (1, 1), True),
        ((1, 0), (1, 1), False),
        ((2, 1), (1, 1), False),
        ((1, 2), (1, 1), False),
        ((0, 0), (1, 1), False),
        ((1,), (1,), True),
        ((0,), (1,), False),
        ((1, 0, 4), (1, 1, 4), True),
        ((1, 4, 0), (1, 4, 4), False),
    ],
)
def test_the_innermost_axis_runs_along_the_lanes(strides: Places, sizes: Places, along: bool) -> None:
    """If the store and every load walks it element by element, or a load not at all. 17 elements of 8 lanes."""
    axes = [Axis(3, tuple(100 for _ in sizes)), Axis(17, strides)]
    whole = (axes[:1], Axis(3, tuple(8 * stride for stride in strides)), 1)
    assert split_lanes(axes, sizes, 8) == (whole if along else (axes, None, 1))


# --- as GOs

COPY = assemble(Load("x", Element.INT16), CONFIG)


def test_accesses_and_spans_of_a_copy() -> None:
    """Three rows of 20 elements of two bytes, backwards: 7, 7 and 6 at a time."""
    axes = [Axis(3, (-100, 40)), Axis(20, (2, 2))]
    params, table = ParamUse(5, 4, False), Entries(9, 256)
    (go,) = nest_gos(GoNest(COPY, axes, [1000, 3000], (2, 2), params=params, table=table), CONFIG)
    dims = [(Dim(3, 14), Dim(3, stride)) for stride in (-100, 40)]
    assert go.streams == {
        0: Access(1000, Element.INT16, dims[0]),
        STORE_STREAM: Access(3000, Element.INT16, dims[1]),
    }
    assert go.reads == [activation_span(800, 1000 + 28 + 14)]
    assert go.writes == [activation_span(3000, 3000 + 80 + 28 + 14)]
    assert (go.vectors, go.slots, go.lanes, go.tail_lanes, go.repeats) == (9, 16, 7, 6, 1)
    assert (go.params, go.table) == (params, table)


def test_neighbouring_axes_are_joined_unless_they_are_kept() -> None:
    axes = [Axis(3, (10, 10)), Axis(5, (2, 2))]
    (joined,) = nest_gos(GoNest(COPY, axes, [0, 500], (2, 2)), CONFIG)
    assert (joined.vectors, joined.lanes, joined.tail_lanes) == (2, 8, 7)
    (kept,) = nest_gos(GoNest(COPY, axes, [0, 500], (2, 2), keep_axes=True), CONFIG)
    assert (kept.vectors, kept.lanes, kept.tail_lanes) == (3, 5, 5)
    (single,) = nest_gos(GoNest(COPY, [Axis(1, (2, 2))], [0, 500], (2, 2)), CONFIG)
    assert (single.vectors, single.lanes) == (1, 1)


def test_what_the_lanes_do_not_walk_goes_to_all_of_them() -> None:
    program = assemble(Node(Op.ADD, Load("x", Element.INT8), Load("z", Element.INT8)), CONFIG)
    (go,) = nest_gos(GoNest(program, [Axis(20, (1, 0, 1))], [0, 100, 200], (1, 1, 1)), CONFIG)
    assert [go.streams[number].splat for number in (0, 1, STORE_STREAM)] == [False, True, False]
    (one,) = nest_gos(GoNest(program, [Axis(20, (2, 0, 1))], [0, 100, 200], (1, 1, 1)), CONFIG)
    assert [one.streams[number].splat for number in (0, 1, STORE_STREAM)] == [False] * 3
    assert one.lanes == 1


def test_a_table_goes_with_the_first_go() -> None:
    """128 rows of three bytes in seven loops, one more than a stream has."""
    table = Entries(0, 256)
    axes = [*(Axis(2, (10 << number,)) for number in range(6, -1, -1)), Axis(3, (1,))]
    axes[1:2] = [Axis(2, (5000,))]
    found = list(nest_gos(GoNest(filling(1, CONFIG), axes, [0], (1,), table=table, keep_axes=True), CONFIG))
    assert [go.table for go in found] == [table, None, None, None]


def test_a_reduction_repeats_over_its_loops_and_stores_once() -> None:
    """The sum of six elements, three bytes and then two rows apart, for 20 results, 7 to a vector."""
    program = assemble(Reduced(Op.ADD, 0, Load("x", Element.INT8)), CONFIG)
    loops = [Axis(3, (100, 0)), Axis(2, (1000, 0))]
    nest_of_all = GoNest(program, [Axis(20, (1, 4))], [50, 4000], (1, 4), loops)
    whole, rest = nest_gos(nest_of_all, CONFIG)
    assert [(go.vectors, go.slots, go.lanes) for go in (whole, rest)] == [(2, 2, 7), (1, 1, 6)]
    assert whole.streams[0].dims == (Dim(2, 7), Dim(3, 100), Dim(2, 1000))
    assert whole.streams[STORE_STREAM].dims == (Dim(2, 28),)
    assert rest.streams[0].address == 64 and rest.streams[STORE_STREAM].address == 4056
    assert whole.reads == [activation_span(50, 50 + 7 + 200 + 1000 + 7)]
    assert rest.writes == [activation_span(4056, 4080)]
    # The first of six repetitions takes the place of the start value, the last one stores.
    assert [go.repeats for go in (whole, rest)] == [4, 4]


def test_operands_behind_a_reduction_are_read_once() -> None:
    """They are read as the result is stored: they do not walk its loops, and those in its body do. The test has five
    rows of 8 elements."""
    body = Node(Op.MUL, Load("x", Element.INT8), Load("w", Element.INT8))
    program = assemble(Node(Op.ADD, Reduced(Op.ADD, 0, body), Load("z", Element.INT32)), CONFIG)
    axes = [Axis(5, (2000, 0, 64, 32)), Axis(8, (1, 1, 4, 4))]
    loops = [Axis(3, (100, 8, 0, 0)), Axis(2, (-40, 24, 0, 0))]
    (go,) = nest_gos(
        GoNest(program, axes, [50, 900, 2000, 4000], (1, 1, 4, 4), loops, keep_axes=True), CONFIG
    )
    assert {stream: access.dims for stream, access in go.streams.items()} == {
        0: (Dim(5, 2000), Dim(3, 100), Dim(2, -40), Dim(1, 8)),
        1: (Dim(5, 0), Dim(3, 8), Dim(2, 24), Dim(1, 8)),
        2: (Dim(5, 64), Dim(1, 32)),
        STORE_STREAM: (Dim(5, 32), Dim(1, 32)),
    }
    assert go.reads == [activation_span(10, 8258), activation_span(900, 948), activation_span(2000, 2288)]
    assert go.writes == [activation_span(4000, 4160)]


def test_a_shared_stream_that_is_read_in_a_loop_repeats_nothing() -> None:
    """Without a body the loop is that of its reads: two of each element, 50 bytes apart, which are added up."""
    shared = Load("x", Element.INT8, shared=True)
    program = dataclasses.replace(assemble(Node(Op.ADD, shared, shared), CONFIG), body_loads=1)
    (go,) = nest_gos(GoNest(program, [Axis(8, (1, 1))], [0, 100], (1, 1), [Axis(2, (50, 0))]), CONFIG)
    assert (go.vectors, go.repeats) == (1, 1)
    assert go.streams[0].dims == (Dim(1, 8), Dim(2, 50))


def test_reads_that_go_backwards_from_the_start_of_the_memory_begin_there() -> None:
    (go,) = nest_gos(GoNest(COPY, [Axis(3, (-16, 16)), Axis(8, (2, 2))], [20, 600], (2, 2)), CONFIG)
    assert go.reads == [activation_span(0, 36)]


def test_moves_and_fillings() -> None:
    emitter = Emitter(CONFIG, ExternalMemory())
    emit_move(emitter, 100, 300, 20)
    emit_nest(emitter, GoNest(filling(-3, CONFIG), [Axis(9, (1,))], [500], (1,)))
    move, fill = emitter.blocks.current.work
    assert (move.reads, move.writes) == ([activation_span(100, 121)], [activation_span(300, 321)])
    assert (fill.reads, fill.writes) == ([], [activation_span(500, 510)])
