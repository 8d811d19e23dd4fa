"""What VECTOR takes of the array's boxes: walks over pixels, parts that are there early, many tiles at once."""

import dataclasses
from types import SimpleNamespace

import pytest

import tosaic.compiler.emit.convolution as convolution
from tosaic.compiler.emit.box_transfers import BoxPlace, BoxSource
from tosaic.compiler.emit.convolution import BoxOnArray, ConvolutionEmission, WeightPacking, _pixels
from tosaic.compiler.emit.vector_go import Access, Dim
from tosaic.compiler.fuse.expression import Load
from tosaic.compiler.place.address import Address, Columns, Region, Span
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.weights import MAX_COUNT, Blob
from tosaic.compiler.tile.convolution import BoxWork
from tosaic.compiler.tile.image_boxes import Box
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import STORE_STREAM, Element

SMALL = get_config("small")
ROWS = SMALL.rows
WINDOW = Window(1, 4, 4, 8, 4, 4, 1, 1, 1, 1, 1, 1, 0, 0, View("x", 0, 32, 128))
NO_SOURCE = BoxSource(WINDOW, 0, Span(Region.ACTIVATION, 0, 0), 0)
LOAD = Load("a", Element.INT16)


def place(address: int, columns: int, pixel: int, rows: int, *, gap: int = 0) -> BoxPlace:
    """Of rows that are `gap` bytes apart."""
    row = columns * pixel + gap
    return BoxPlace(address, row, pixel, rows * row - gap)


def placed(
    rows: int = 4, columns: int = 6, *, gap: int = 0, operand_gap: int = 0, line: bool = False
) -> BoxOnArray:
    """A box of pixels of 10 bytes, and an operand of 20, or a line of 20 bytes for all of them."""
    box = Box(0, 2, 2 + rows, 1, 1 + columns, 0, 10)
    operand = BoxPlace(5000, 0, 0, 20) if line else place(5000, columns, 20, rows, gap=operand_gap)
    return BoxOnArray(box, NO_SOURCE, [(LOAD, operand)], place(1000, columns, 10, rows, gap=gap))


# --- walks


@pytest.mark.parametrize(
    "rows, columns, gap, dims",
    [
        (4, 6, 0, (Dim(24, 10),)),
        (4, 6, 2, (Dim(6, 10), Dim(4, 62))),
        (1, 6, 2, (Dim(6, 10),)),
        (1, MAX_COUNT, 0, (Dim(MAX_COUNT, 10),)),
        (3, MAX_COUNT // 3, 0, (Dim(MAX_COUNT, 10),)),
        (2, MAX_COUNT // 2 + 1, 0, (Dim(MAX_COUNT // 2 + 1, 10), Dim(2, 10 * (MAX_COUNT // 2 + 1)))),
    ],
)
def test_a_walk_over_pixels(rows: int, columns: int, gap: int, dims: tuple[Dim, ...]) -> None:
    """One loop where all pixels are equally far apart, and a field holds their number."""
    box, where = Box(0, 0, rows, 0, columns, 0, 5), place(1000, columns, 10, rows, gap=gap)
    assert _pixels(box, Element.INT16, where, 3, by_columns=False) == Access(1006, Element.INT16, dims)
    by_columns = (Dim(rows, where.row_bytes), Dim(columns, 10))
    assert _pixels(box, Element.INT16, where, 3, by_columns=True) == Access(1006, Element.INT16, by_columns)


# --- parts of a box


def test_whether_pixels_are_equally_far_apart() -> None:
    assert placed().linear
    assert not placed(gap=2).linear and not placed(operand_gap=2).linear
    assert placed(line=True).linear


def test_pixels_of_a_box_where_all_are_equally_far_apart() -> None:
    first, rest = placed().part(0, 8), placed().part(8, 24)
    assert (first.box.oy0, first.box.rows, first.box.columns) == (2, 1, 8)
    assert (rest.box.oy0, rest.box.rows, rest.box.columns) == (2, 1, 16)
    assert (first.pixels, rest.pixels) == (8, 16)
    assert [each.target.span for each in (first, rest)] == [
        Span(Region.ACTIVATION, 1000, 1080),
        Span(Region.ACTIVATION, 1080, 1240),
    ]
    assert [each.loads[0][1].span for each in (first, rest)] == [
        Span(Region.ACTIVATION, 5000, 5160),
        Span(Region.ACTIVATION, 5160, 5480),
    ]
    assert first.loads[0][0] is LOAD


def test_rows_of_a_box_where_rows_are_apart() -> None:
    """The last row ends with its pixels."""
    first, rest = placed(gap=2).part(0, 12), placed(gap=2).part(12, 24)
    for part, row in ((first, 2), (rest, 2)):
        assert (part.box.oy0, part.box.rows, part.box.columns) == (row, 2, 6)
    assert [each.target.span for each in (first, rest)] == [
        Span(Region.ACTIVATION, 1000, 1124),
        Span(Region.ACTIVATION, 1124, 1246),
    ]
    assert rest.loads[0][1].span == Span(Region.ACTIVATION, 5240, 5480)


def test_a_line_is_there_for_all_parts() -> None:
    whole = placed(line=True)
    rest = whole.part(6, 24)
    assert rest.loads == whole.loads
    assert rest.target.span == Span(Region.ACTIVATION, 1060, 1240)


# --- what is written before the array is through


def emission(**changed: object) -> ConvolutionEmission:
    """Of a plan without all that is not asked for."""
    found = ConvolutionEmission.__new__(ConvolutionEmission)
    layout = SimpleNamespace(depthwise=changed.pop("depthwise", False))
    given = dict(im2col_columns=0, layout=layout)
    found.config, found.plan = SMALL, SimpleNamespace(**given | changed)  # type: ignore[assignment]
    found.element = Element.INT16
    found.layer = SimpleNamespace(continued=None)  # type: ignore[assignment]
    return found


def early_pixels(slots: int, box: BoxOnArray, monkeypatch: pytest.MonkeyPatch, **changed: object) -> int:
    def work(plan: object, config: object, rows: int, columns: int, channels: int) -> BoxWork:
        assert (rows, columns, channels) == (box.box.rows, box.box.columns, 1)
        return BoxWork(1, slots, 0, stays=True)

    monkeypatch.setattr(convolution, "box_work", work)
    return emission(**changed)._pixels_before_the_end(box)


@pytest.mark.parametrize(
    "tile_slots, first",
    [
        # Of 8 tiles: the last 36 + 8 slots are of one tile, of two, of all.
        (45, 7),
        (44, 7),
        (43, 6),
        (22, 6),
        (21, 5),
        (6, 0),
        (5, 0),
    ],
)
def test_tiles_of_pixels_that_are_written_before_the_end(tile_slots: int, first: int, monkeypatch) -> None:
    """36 slots and as many as the array has rows are left when the first of what is written then is needed."""
    assert SMALL.rows == 8
    box = placed(ROWS, 8)
    assert early_pixels(8 * tile_slots, box, monkeypatch) == first * ROWS
    # Part of a tile is a tile.
    assert early_pixels(8 * tile_slots, placed(1, 57), monkeypatch) == first * ROWS
    assert early_pixels(8 * tile_slots, box, monkeypatch, im2col_columns=1) == 0


def test_whole_rows_are_written_before_the_end_where_rows_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 6 rows of 12 pixels, 9 tiles: 8 of them are 5 rows and 4 pixels."""
    assert early_pixels(9 * 44, placed(6, 12), monkeypatch) == 64
    assert early_pixels(9 * 44, placed(6, 12, gap=2), monkeypatch) == 60
    assert early_pixels(9 * 44, placed(6, 12, operand_gap=2), monkeypatch) == 60


def test_pixels_of_a_depthwise_box_that_are_written_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 pixels at equal distances in time the last 36 slots are of 36 * 64 / slots of them, rounded up."""
    for slots, first in ((2304, 56), (128, 40), (64, 24), (37, 8), (36, 8), (1, 8)):
        assert early_pixels(slots, placed(8, 8), monkeypatch, depthwise=True) == first
    # Nothing is left of a box that is no larger than a tile.
    assert early_pixels(64, placed(1, 8), monkeypatch, depthwise=True) == 0


# --- streams


def test_streams_of_a_tile() -> None:
    """From its first channel on, each in its elements; by columns where the image comes so."""
    box = placed(gap=2)
    found = emission()._streams(box, 3)
    assert found == {
        0: Access(5006, Element.INT16, (Dim(24, 20),)),
        STORE_STREAM: Access(1006, Element.INT16, (Dim(6, 10), Dim(4, 62))),
    }
    found = emission(im2col_columns=2)._streams(box, 3)
    assert [access.dims for access in found.values()] == [
        (Dim(4, 120), Dim(6, 20)),
        (Dim(4, 62), Dim(6, 10)),
    ]


@pytest.mark.parametrize("first_row", [0, 2])
def test_streams_of_sums_of_rows(first_row: int) -> None:
    """One row is stored; boxes that are not at the top read what those above have left."""
    made = emission()
    made.layer = SimpleNamespace(continued="sums")  # type: ignore[assignment]
    box = placed()
    box = dataclasses.replace(box, box=dataclasses.replace(box.box, oy0=first_row, oy1=first_row + 4))
    found = made._streams(box, 1)
    store = Access(1002, Element.INT16, (Dim(6, 10),))
    assert found[STORE_STREAM] == store
    assert {number: each for number, each in found.items() if number not in (0, STORE_STREAM)} == (
        {1: store} if first_row else {}
    )


@pytest.mark.parametrize(
    "first, channels, blocks, columns",
    [
        (2, 2, 1, Columns(12, (1000 + 2) % 12, 4)),
        (3, 2, 2, Columns(12, (1000 + 4) % 12, 8)),
        (2, 3, 2, None),
    ],
)
def test_bytes_that_tiles_write(first: int, channels: int, blocks: int, columns: Columns | None) -> None:
    """A box of channels from number 1 on, in pixels of 12 bytes; one that is written whole."""
    box = BoxOnArray(Box(0, 0, 4, 0, 6, 1, 7), NO_SOURCE, [], place(1000, 6, 12, 4))
    first = first if columns else 1
    found = emission()._written(box, Blob(first, channels, 0), blocks)
    assert found == dataclasses.replace(box.target.span, columns=columns)


# --- packed weights


class Packed:
    """In place of the copy: up to where it was emitted."""

    def __init__(self, emitter: object, packing: object) -> None:
        self.stops: list[int | None] = []

    def emit(self, stop: int | None = None) -> None:
        self.stops.append(stop)


@pytest.mark.parametrize(
    "gradual, stops", [(True, [3 * 512, 4096 + 3 * 512, 5120 + 3 * 512]), (False, [None])]
)
def test_weights_are_packed_three_steps_ahead(gradual: bool, stops: list, monkeypatch) -> None:
    monkeypatch.setattr(convolution, "CopyEmission", Packed)
    start = Address(Region.DATA, 640)
    weights = SimpleNamespace(packing=1, gradual=gradual, step_bytes=512, address=start)
    packing = WeightPacking(
        SimpleNamespace(emitter=None), SimpleNamespace(plan=SimpleNamespace(weights=weights))
    )  # type: ignore[arg-type]
    packing.begin()
    for group in (0, 1024):
        packing.ready(SimpleNamespace(group_address=start + group, group_bytes=4096))  # type: ignore[arg-type]
    assert packing._copy.stops == stops  # type: ignore[union-attr]


def test_constant_weights_are_packed_already() -> None:
    weights = SimpleNamespace(packing=None)
    packing = WeightPacking(
        SimpleNamespace(emitter=None), SimpleNamespace(plan=SimpleNamespace(weights=weights))
    )  # type: ignore[arg-type]
    packing.begin()
    assert packing._copy is None


# --- many tiles by one command


class Commands:
    """In place of the emitter: weights that are brought, and what VECTOR does."""

    def __init__(self) -> None:
        self.brought: list[tuple[int, int]] = []
        self.gos: list = []

    def weights(self, source: Address, size_bytes: int, *, streamed: bool) -> SimpleNamespace:
        assert streamed
        self.brought.append((source.offset, size_bytes))
        return SimpleNamespace(address=0, loaded=True)


@pytest.mark.parametrize(
    "channels, by_channels, pieces",
    [
        # Tiles of 8 channels, four at a time; those with fewer channels by themselves.
        (64, False, [(0, 4, 8), (4, 4, 8)]),
        (60, False, [(0, 4, 8), (4, 3, 8), (7, 1, 4)]),
        (36, False, [(0, 4, 8), (4, 1, 4)]),
        (64, True, [(0, 4, 8), (4, 3, 8), (7, 1, 8)]),
        (60, True, [(0, 4, 8), (4, 3, 8), (7, 1, 4)]),
        (40, True, [(0, 4, 8), (4, 1, 8)]),
        (8, True, [(0, 1, 8)]),
    ],
)
def test_tiles_that_one_command_does(
    channels: int, by_channels: bool, pieces: list[tuple[int, int, int]], monkeypatch
) -> None:
    """As many as half of the weight memory holds; the last one apart where the array needs the others at once."""
    found, commands, sent = emission(), Commands(), list[int]()
    blob_bytes = SMALL.wm_bytes // 8
    blobs = [Blob(first, min(8, channels - first), 0) for first in range(0, channels, 8)]
    tiles = [
        SimpleNamespace(address=Address(Region.CONSTANTS, number * blob_bytes), bytes=blob_bytes, blob=blob)
        for number, blob in enumerate(blobs)
    ]
    found.plan = SimpleNamespace(  # type: ignore[assignment]
        tiles=tiles,
        weights=SimpleNamespace(unpacked=False),
        layout=SimpleNamespace(blob_bytes=blob_bytes),
    )
    found.emitter = commands  # type: ignore[assignment]
    found._first_use = convolution.FirstUse.CHANNELS if by_channels else convolution.FirstUse.NONE
    found._transfers = SimpleNamespace(finish_channels=lambda size, box, place, count: sent.append(count))  # type: ignore[assignment]
    emitted: list[tuple[int, int]] = []
    monkeypatch.setattr(
        convolution, "emit_array", lambda emitter, plan, go: emitted.append((go.tile.blob.first, go.blocks))
    )
    drained: list[tuple[int, int, int]] = []
    monkeypatch.setattr(
        found,
        "_emit_blocks",
        lambda box, blob, first, blocks: drained.append((first, blocks, blob.channels)),
    )
    found._emit_in_blocks(placed(1, 1), 0)
    assert drained == pieces
    counts = [min(4, len(tiles) - start) for start in range(0, len(tiles), 4)]
    assert commands.brought == [
        (4 * number * blob_bytes, count * blob_bytes) for number, count in enumerate(counts)
    ]
    assert emitted == [(32 * number, count) for number, count in enumerate(counts)]
    assert sent == [min(channels, 32 * number) for number in range(1, len(counts) + 1)]


@pytest.mark.parametrize("more", [0, 64])
def test_a_tile_of_half_of_the_weight_memory_comes_alone(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or one that is larger."""
    found, commands, blob_bytes = emission(), Commands(), SMALL.wm_bytes // 2 + more
    tiles = [
        SimpleNamespace(
            address=Address(Region.CONSTANTS, n * blob_bytes), bytes=blob_bytes, blob=Blob(8 * n, 8, 0)
        )
        for n in range(2)
    ]
    found.plan = SimpleNamespace(  # type: ignore[assignment]
        tiles=tiles, weights=SimpleNamespace(unpacked=False), layout=SimpleNamespace(blob_bytes=blob_bytes)
    )
    found.emitter = commands  # type: ignore[assignment]
    found._first_use = convolution.FirstUse.NONE
    found._transfers = SimpleNamespace(finish_channels=lambda *given: None)  # type: ignore[assignment]
    monkeypatch.setattr(convolution, "emit_array", lambda emitter, plan, go: None)
    monkeypatch.setattr(found, "_emit_blocks", lambda *given: None)
    found._emit_in_blocks(placed(1, 1), 0)
    assert [size // blob_bytes for _, size in commands.brought] == [1, 1]
