"""A layer's pieces on their way in and out: what is copied from where to where, and when nothing is."""

from collections.abc import Sequence

import numpy as np
import pytest

from tosaic.compiler.emit.emitter import MAX_ROWS, Emitter, RowCopies, Rows
from tosaic.compiler.emit.layer_emission import ImageColumns, ImageStrips, LayerEmission
from tosaic.compiler.emit.vector_go import Entries, ParamUse
from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.ir import DType, GraphBuilder
from tosaic.compiler.place.address import Address, Region, Span, activation_span
from tosaic.compiler.place.external import ExternalMemory
from tosaic.compiler.place.placement import (
    PARAMETERS,
    PARTIALS,
    Arrival,
    Buffer,
    BufferKey,
    Copy,
    Placement,
    Role,
    RowsApart,
    Sent,
    resident,
)
from tosaic.compiler.place.stored_box import StoredBox
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.tile.work import LayerParameters, LayerWork, TablePlace
from tosaic.hw.config_text import get_config

CONFIG = get_config("small")
INPUT, OUTPUT = "x", "y"
WINDOW, RESULT = BufferKey(Role.WINDOW, INPUT), BufferKey(Role.RESULT, OUTPUT)
BUFFERS = {WINDOW: Buffer((1000, 2000), 100), RESULT: Buffer((3000,), 50), PARTIALS: Buffer((4000,), 8)}
X, Y = 640, 6400
"""Where the tensors are outside."""


class Recorder(Emitter):
    """Tells what it copies, too: (kind, source, target, bytes) or rows."""

    def __init__(self) -> None:
        super().__init__(CONFIG, ExternalMemory())
        self.copies: list[tuple[str, int, int, int]] = []
        self.rows: list[tuple[str, RowCopies]] = []

    def copy(self, copy: Copy) -> None:
        kind = "load" if copy.target.region is Region.ACTIVATION else "store"
        self.copies.append((kind, copy.source.offset, copy.target.offset, copy.size_bytes))
        super().copy(copy)

    def gather(self, copies: RowCopies) -> None:
        self.rows.append(("gather", copies))
        super().gather(copies)

    def scatter(self, copies: RowCopies) -> None:
        self.rows.append(("scatter", copies))
        super().scatter(copies)


def outside(offset: int) -> Address:
    return Address(Region.DATA, offset)


def data(start: int, end: int) -> Span:
    return Span(Region.DATA, start, end)


def emission(inside: dict[str, Placement] | None = None, **parts: object) -> tuple[LayerEmission, Recorder]:
    places = {INPUT: Placement(outside(X), 200), OUTPUT: Placement(outside(Y), 120)} | (inside or {})
    build = GraphBuilder()
    build.output(build.add("ABS", [build.input(INPUT, (50,), DType.INT32)], output=OUTPUT))
    graph = build.finish()
    (layer,) = Fuser(graph, CONFIG).layers(set())
    whole = dict(body=None, preloads=[], result=None, buffers=BUFFERS) | parts
    work = LayerWork(tensors=Tensors(graph, CONFIG), layer=layer, placements=places, **whole)  # type: ignore[arg-type]
    recorder = Recorder()
    return LayerEmission(recorder, work), recorder


def test_what_is_there_is_not_fetched() -> None:
    layer, recorder = emission({INPUT: resident(500, 200)})
    assert layer.resident(INPUT) and not layer.resident(OUTPUT)
    assert layer.fetch(WINDOW, 30, 90) == 530
    assert recorder.copies == []


def test_buffers_take_turns() -> None:
    """The second one is first; a buffer of one block is always the same."""
    layer, recorder = emission()
    assert [layer.fetch(WINDOW, start, start + 100) for start in (0, 50, 100)] == [2000, 1000, 2000]
    assert recorder.copies == [
        ("load", X + start, address, 100) for start, address in ((0, 2000), (50, 1000), (100, 2000))
    ]
    assert [layer.target(0, 50), layer.target(50, 60)] == [3000, 3000]
    assert layer.scratch(PARTIALS) == 4000


@pytest.mark.parametrize("size, fits", [(100, True), (101, False)])
def test_a_piece_must_fit_its_buffer(size: int, fits: bool) -> None:
    layer, _ = emission()
    if fits:
        assert layer.fetch(WINDOW, 7, 7 + size) == 2000
        return
    with pytest.raises(AssertionError):
        layer.fetch(WINDOW, 7, 7 + size)


# --- parameters and table


def test_parameters_are_brought_unless_the_same_tiles_are_there() -> None:
    parameters = LayerParameters(40, 4, True, 9000, Address(Region.CONSTANTS, 128))
    layer, recorder = emission(params=parameters, buffers={PARAMETERS: Buffer((100, 300), 80)})
    uses = []
    for first, tiles in ((2, 2), (2, 2), (3, 1), (2, 2), (3, 2)):
        layer.bring_params(first, tiles)
        uses.append(layer.params_of(first))
    assert recorder.copies == [
        ("load", 128 + 80, 300, 80),
        ("load", 128 + 120, 100, 40),
        ("load", 128 + 80, 300, 80),
        ("load", 128 + 120, 100, 80),
    ]
    assert uses == [ParamUse(address, 4, True) for address in (300, 300, 100, 300, 100)]
    assert layer.params_of(4, blocks=3) == ParamUse(140, 4, True, 3)


def test_parameters_that_are_all_there_or_that_do_not_exist() -> None:
    layer, recorder = emission(params=LayerParameters(40, 2, False, 9000))
    layer.bring_params(1, 2)
    assert layer.params_of(3, 2) == ParamUse(9120, 2, False, 2)
    none, other = emission(params=LayerParameters(0, 0, False, 0, Address(Region.CONSTANTS, 128)))
    none.bring_params(0, 1)
    assert none.params_of(0) is None
    assert recorder.copies == other.copies == []


def test_a_table_is_taken_once() -> None:
    layer, _ = emission(table=TablePlace(700, 256))
    assert [layer.take_table(), layer.take_table()] == [Entries(700, 256), None]
    assert emission()[0].take_table() is None


# --- images


def test_rows_of_an_image() -> None:
    layer, recorder = emission()
    assert layer.fetch_rows(WINDOW, 10, 3, 20, 50, 24) == 2000
    assert recorder.rows == [
        (
            "gather",
            RowCopies(
                [Rows(outside(X + 10), 50, 2000, 24, 20, 3)],
                data(X + 10, X + 10 + 120),
                activation_span(2000, 2072),
            ),
        )
    ]


def strips(columns: Sequence[ImageColumns], rows: int) -> tuple[int, RowCopies, ExternalMemory]:
    layer, recorder = emission()
    address = layer.fetch_strips(WINDOW, ImageStrips(list(columns), rows, 30, 6, -5))
    ((kind, copies),) = recorder.rows
    assert kind == "gather"
    return address, copies, recorder.memory


def test_strips_that_are_inside_are_copied_one_by_one_where_there_are_no_more_than_rows() -> None:
    """Rows of 6 bytes, 30 bytes apart, of two strips of two rows."""
    address, copies, memory = strips([ImageColumns(4, 0, 6), ImageColumns(7, 0, 6)], 2)
    assert address == 2000
    assert copies == RowCopies(
        [Rows(outside(X + 4), 30, 2000, 6, 6, 2), Rows(outside(X + 7), 30, 2012, 6, 6, 2)],
        data(X + 4, X + 4 + 9 + 30),
        activation_span(2000, 2024),
    )
    assert memory.constants_bytes == 0


def test_more_strips_than_rows_are_copied_row_by_row() -> None:
    columns = [ImageColumns(4 + 3 * number, 0, 6) for number in range(3)]
    _, copies, _ = strips(columns, 2)
    assert copies == RowCopies(
        [Rows(outside(X + 4), 3, 2000, 12, 6, 3), Rows(outside(X + 34), 3, 2006, 12, 6, 3)],
        data(X + 4, X + 4 + 12 + 30),
        activation_span(2000, 2036),
    )


def test_strips_at_the_edges_are_filled_with_the_zero_point_first() -> None:
    """The left one has two bytes outside, the right one three, and one is all outside; constants lie there once."""
    columns = [ImageColumns(0, 2, 4), ImageColumns(2, 0, 6), ImageColumns(27, 0, 3), ImageColumns(30, 0, 0)]
    _, copies, memory = strips(columns, 2)
    filling = Address(Region.CONSTANTS, 0)
    assert copies.rows == [
        Rows(filling, 0, 2000, 0, 12, 1),
        Rows(outside(X), 30, 2002, 6, 4, 2),
        Rows(filling, 0, 2024, 0, 12, 1),
        Rows(outside(X + 27), 30, 2024, 6, 3, 2),
        Rows(filling, 0, 2036, 0, 12, 1),
        Rows(outside(X + 2), 30, 2012, 6, 6, 2),
    ]
    assert copies.memory == data(X, X + 30 + 30)
    assert copies.am == activation_span(2000, 2048)
    assert np.frombuffer(memory.constants()[:12], np.int8).tolist() == [-5] * 12
    assert memory.constants_bytes == 64


def test_boxes() -> None:
    """Two planes of three rows of 5 bytes; nothing is copied of an empty one."""
    layer, recorder = emission()
    box = StoredBox(8, ((2, 40), (3, 10)), 5)
    assert layer.fetch_box(WINDOW, box) == 2000
    ((_, copies),) = recorder.rows
    assert copies == RowCopies(
        [Rows(outside(X + 8), 10, 2000, 5, 5, 3), Rows(outside(X + 48), 10, 2015, 5, 5, 3)],
        data(X + 8, X + 8 + 40 + 20 + 5),
        activation_span(2000, 2030),
    )
    assert layer.fetch_box(WINDOW, StoredBox(8, ((0, 40),), 5)) == 1000
    assert len(recorder.rows) == 1


def test_boxes_of_one_run_and_of_very_many_rows() -> None:
    many = MAX_ROWS + 2
    wide = {WINDOW: Buffer((0,), 3 * many)}
    layer, recorder = emission(buffers=wide)
    layer.fetch_box(WINDOW, StoredBox(8, ((2, 30), (3, 10)), 10))
    layer.fetch_box(WINDOW, StoredBox(8, ((many, 7),), 3))
    (_, single), (_, rows) = recorder.rows
    assert single.rows == [Rows(outside(X + 8), 0, 0, 60, 60, 1)]
    assert rows.rows == [
        Rows(outside(X + 8), 7, 0, 3, 3, MAX_ROWS),
        Rows(outside(X + 8 + 7 * MAX_ROWS), 7, 3 * MAX_ROWS, 3, 3, 2),
    ]
    assert rows.memory == data(X + 8, X + 8 + 7 * (many - 1) + 3)


# --- arriving tensors


@pytest.mark.parametrize("pitch, row", [(0, 20), (24, 24)])
def test_rows_arrive_as_they_are_needed(pitch: int, row: int) -> None:
    """Ten rows of 20 bytes to address 500, where a pitch may lie between them."""
    source = Placement(outside(X), 200)
    place = resident(500, 10 * row, pitch)
    layer, recorder = emission({INPUT: place}, arrivals={INPUT: Arrival(source, 20, 10)})
    stops = (row, row + 1, 2 * row, 2 * row + 1, 5 * row, 3 * row)
    assert [layer.fetch(WINDOW, 3, stop) for stop in stops] == [503] * len(stops)
    layer.arrive_fully()
    layer.arrive_fully()
    came = [(0, 1), (1, 2), (2, 3), (3, 5), (5, 10)]
    if not pitch:
        assert recorder.copies == [("load", X + 20 * a, 500 + 20 * a, 20 * (b - a)) for a, b in came]
        return
    assert recorder.rows == [
        (
            "gather",
            RowCopies(
                [Rows(outside(X + 20 * a), 20, 500 + 24 * a, 24, 20, b - a)],
                data(X + 20 * a, X + 20 * b),
                activation_span(500 + 24 * a, 500 + 24 * b),
            ),
        )
        for a, b in came
    ]


def test_no_more_rows_arrive_than_there_are() -> None:
    arrival = Arrival(Placement(outside(X), 200), 20, 10)
    layer, recorder = emission({INPUT: resident(500, 200)}, arrivals={INPUT: arrival})
    layer.fetch(WINDOW, 0, 1000)
    assert recorder.copies == [("load", X, 500, 200)]


# --- the result


def test_a_result_outside_is_stored_piece_by_piece() -> None:
    layer, recorder = emission()
    layer.finish(layer.target(20, 60), 20, 60)
    layer.finish_box(3000, StoredBox(4, ((3, 10),), 6))
    layer.finish_fully()
    assert recorder.copies == [("store", 3000, Y + 20, 40)]
    ((kind, copies),) = recorder.rows
    assert kind == "scatter"
    assert copies == RowCopies(
        [Rows(outside(Y + 4), 10, 3000, 6, 6, 3)], data(Y + 4, Y + 30), activation_span(3000, 3018)
    )


def sent(rows: RowsApart | None = None, pitch: int = 0, first: int = 0, size: int = 120):
    """An emission whose result stays at 800 and is wanted at 6400, but for its first bytes."""
    wanted = Sent(Address(Region.ACTIVATION, 800), outside(Y), size, first, rows)
    return emission({OUTPUT: resident(800, 120, pitch)}, result=wanted)


def test_a_resident_result_is_sent_as_it_grows() -> None:
    """It is not sent twice, not beyond what is wanted, and not before what comes before it is there."""
    layer, recorder = sent(size=100)
    assert layer.target(30, 60) == 830
    for start, stop in ((0, 30), (60, 90), (10, 30), (30, 60), (60, 120)):
        layer.finish(800 + start, start, stop)
    layer.finish_fully()
    assert recorder.copies == [
        ("store", 800 + start, Y + start, stop - start) for start, stop in ((0, 30), (30, 60), (60, 100))
    ]


def test_a_stripe_that_begins_where_the_last_one_was_sent_up_to() -> None:
    layer, recorder = sent(first=40)
    layer.finish(800 + 41, 41, 50)
    assert recorder.copies == []
    layer.finish(800 + 40, 40, 50)
    assert recorder.copies == [("store", 840, Y + 40, 10)]


def test_a_result_whose_rows_are_apart_is_sent_at_the_end() -> None:
    layer, recorder = sent(pitch=30)
    layer.finish(800, 0, 60)
    assert recorder.copies == []
    layer.finish_fully()
    layer.finish_fully()
    assert recorder.copies == [("store", 800, Y, 120)]


def test_a_resident_result_that_nobody_wants_stays() -> None:
    layer, recorder = emission({OUTPUT: resident(800, 120)})
    layer.finish(800, 0, 60)
    layer.finish_fully()
    assert recorder.copies == [] and recorder.rows == []


def test_some_channels_of_a_result_are_sent_in_whole_rows() -> None:
    """Rows of 8 bytes, 20 bytes apart outside."""
    layer, recorder = sent(RowsApart(8, 20))
    for stop in (7, 8, 31, 120):
        layer.finish(800, 0, stop)
    assert recorder.copies == []
    assert [copies for _, copies in recorder.rows] == [
        RowCopies(
            [Rows(outside(Y + 20 * a), 20, 800 + 8 * a, 8, 8, b - a)],
            data(Y + 20 * a, Y + 20 * (b - 1) + 8),
            activation_span(800 + 8 * a, 800 + 8 * b),
        )
        for a, b in ((0, 1), (1, 3), (3, 15))
    ]


def test_very_many_rows_are_sent_in_parts() -> None:
    many = MAX_ROWS + 1
    layer, recorder = sent(RowsApart(2, 5), size=2 * many)
    layer.finish_fully()
    ((kind, copies),) = recorder.rows
    assert kind == "scatter"
    assert copies.rows == [
        Rows(outside(Y), 5, 800, 2, 2, MAX_ROWS),
        Rows(outside(Y + 5 * MAX_ROWS), 5, 800 + 2 * MAX_ROWS, 2, 2, 1),
    ]
    assert copies.memory == data(Y, Y + 5 * MAX_ROWS + 2)
