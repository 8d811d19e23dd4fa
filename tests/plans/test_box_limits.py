"""Limits of what boxes of a result read: each is met, and just missed."""

import dataclasses
from types import SimpleNamespace

import pytest
from window_shapes import window

from tosaic.compiler.emit.box_transfers import NOWHERE, BoxPlace, BoxTransfers
from tosaic.compiler.place.geometry import View
from tosaic.compiler.place.placement import BufferKey, Role
from tosaic.compiler.place.stored_box import StoredBox
from tosaic.compiler.place.weights import MAX_COUNT
from tosaic.compiler.tile.image_boxes import Box, Extent, ImageBoxes
from tosaic.hw.isa import Opcode, largest

X_STEP, Y_STEP = (largest(Opcode.ARRAY_WINDOW, name) for name in ("x_step", "y_step"))


@pytest.mark.parametrize(
    "rows, low, high, fetched", [((0, 2), 0, 0, []), ((2, 5), 0, 2, [(0, 2 * 112)]), ((20, 25), 0, 0, [])]
)
def test_a_box_that_sees_only_padding_fetches_nothing(
    rows: tuple[int, int], low: int, high: int, fetched: list[tuple[int, int]]
) -> None:
    """Three rows of padding before the image, and after it."""
    cut = ImageBoxes(window(top=3, oh=25, ih=14), 16, 16)
    found: list[tuple[int, int]] = []

    def fetch(key: BufferKey, start: int, stop: int) -> int:
        found.append((start, stop))
        return 640

    emission = SimpleNamespace(resident=lambda name: False, fetch=fetch)
    box = Box(0, *rows, 0, 14, 0, 16)
    source = BoxTransfers(emission, cut, Extent(3, 14, 16)).source(box)  # type: ignore[arg-type]
    assert found == fetched
    assert source.window.ih == high - low
    assert (source.address, source.span == NOWHERE) == ((640, False) if fetched else (0, True))


@pytest.mark.parametrize(
    "columns, channels, first, size",
    [
        ((0, 14), (0, 16), 0, (5, 14, 16)),
        ((0, 14), (16, 32), 16, (5, 14, 16)),
        ((3, 7), (16, 32), 80, (5, 6, 16)),
    ],
)
def test_a_box_of_some_channels_brings_those_of_the_image(
    columns: tuple[int, int], channels: tuple[int, int], first: int, size: tuple[int, int, int]
) -> None:
    """A depthwise kernel of 3 by 3 over 14 columns of 32 channels: rows 3 to 5 need rows 2 to 6."""
    cut = ImageBoxes(window(ic=32, kh=3, kw=3, top=1, left=1), 32, 16, multiplier=1)
    found: list[StoredBox] = []

    def fetch_box(key: BufferKey, stored: StoredBox) -> int:
        found.append(stored)
        return 640

    emission = SimpleNamespace(resident=lambda name: False, fetch_box=fetch_box)
    box = Box(0, 3, 6, *columns, *channels)
    extent = Extent(3, columns[1] - columns[0], 16)
    source = BoxTransfers(emission, cut, extent).source(box)  # type: ignore[arg-type]
    rows, width, run = size
    assert found == [StoredBox(2 * 14 * 32 + first, ((rows, 14 * 32), (width, 32)), run)]
    view = source.window.view
    assert (source.window.ih, source.window.iw, source.window.ic) == size
    assert (view.pitch, source.channel) == (width * run, channels[0])
    assert (source.window.top, source.window.left) == (
        1 - 3 + 2,
        1 - columns[0] + (first - channels[0]) // 32,
    )


@pytest.mark.parametrize(
    "oh, rows, most",
    [(1500, 2, 3), (2000, 2, 3), (2002, 2, 4), (1500, 1, 3), (1001, 1, 3), (1000, 2, 3), (3000, 3, 4)],
)
def test_rows_that_boxes_read_are_counted_up_to_a_thousand_boxes(oh: int, rows: int, most: int) -> None:
    """An image of four rows, of which boxes of two rows see three: they begin at even rows, and it at an odd one."""
    cut = ImageBoxes(window(ih=4, oh=oh, kh=3, top=oh // 4 * 2 + 1), 16, 16)
    assert cut._source_rows(rows) == most


@pytest.mark.parametrize(
    "sizes, options, wanted",
    [
        ({}, {}, (14, 14)),
        ({}, dict(column_limit=5), (14, 5)),
        ({}, dict(output_limit=5), (1, 14)),
        ({}, dict(output_limit=28), (2, 14)),
        ({}, dict(output_limit=41), (2, 14)),
        (dict(oh=MAX_COUNT + 5, ow=MAX_COUNT + 5), {}, (MAX_COUNT, MAX_COUNT)),
        (dict(sx=3, ic=X_STEP // 3), {}, (14, 14)),
        (dict(sx=3, ic=X_STEP // 3 + 1), {}, (14, 1)),
        (dict(sy=Y_STEP), {}, (14, 14)),
        (dict(sy=Y_STEP + 1), {}, (1, 14)),
        (dict(ih=MAX_COUNT, oh=30000, sy=3, kh=3), {}, (30000, 14)),
        (dict(ih=MAX_COUNT + 1, oh=30000, sy=3, kh=3, dy=2), {}, ((MAX_COUNT - 4) // 3, 14)),
        (dict(ih=MAX_COUNT + 1, oh=3, sy=2, kh=MAX_COUNT), {}, (1, 14)),
    ],
)
def test_the_largest_box_of_an_image(sizes: dict, options: dict, wanted: tuple[int, int]) -> None:
    """Strides, image rows and pixels that the fields of instructions tell."""
    assert ImageBoxes(window(**sizes), 16, 16, **options).largest() == Extent(*wanted, 16)


def test_boxes_cover_a_result_once() -> None:
    cut = ImageBoxes(window(n=2, oh=9, ow=7), 20, 8, first_columns=2, first_rows=1, rows=(2, 9))
    boxes = list(cut.boxes(Extent(3, 4, 8)))
    assert [(box.oy0, box.oy1) for box in boxes[:9:3]] == [(2, 3), (3, 5), (5, 8)]
    assert [(box.ox0, box.ox1) for box in boxes[:3]] == [(0, 2), (2, 6), (6, 7)]
    assert [(box.c0, box.c1) for box in boxes[:: len(boxes) // 3]] == [(0, 8), (8, 16), (16, 20)]
    covered = [
        (box.image, y, x, c)
        for box in boxes
        for y in range(box.oy0, box.oy1)
        for x in range(box.ox0, box.ox1)
        for c in range(box.c0, box.c1)
    ]
    assert len(covered) == len(set(covered)) == 2 * 7 * 7 * 20


@pytest.mark.parametrize(
    "options, extent, wanted",
    [
        ({}, (4, 14, 16), (6 - 1) * 112 + 112),
        (dict(stripe_pitch=128), (4, 14, 16), 6 * 128),
        ({}, (4, 5, 16), 6 * 7 * 8),
        (dict(im2col_zp=0), (4, 5, 16), 6 * 5 * 3 * 8),
        (dict(picked=True), (4, 5, 16), 4 * 5 * 8),
        (dict(multiplier=2), (4, 14, 8), 6 * 14 * 4),
        (dict(multiplier=2), (4, 14, 7), 6 * 14 * 5),
        (dict(multiplier=2), (4, 14, 16), 6 * 112),
        (dict(multiplier=2, channel_bytes=2), (4, 14, 4), 6 * 14 * 4),
    ],
)
def test_bytes_that_a_box_reads(options: dict, extent: tuple[int, int, int], wanted: int) -> None:
    """A kernel of 3 by 3 over rows of 14 pixels of 8 bytes; 16 channels."""
    cut = ImageBoxes(window(kh=3, kw=3, top=1, left=1), 16, 8, **options)
    assert cut.source_bytes(Extent(*extent)) == wanted


@pytest.mark.parametrize(
    "pitch, extent, options, contiguous",
    [
        (112, (4, 14, 8), {}, True),
        (112, (4, 13, 16), {}, False),
        (112, (4, 14, 16), dict(multiplier=2), True),
        (112, (4, 14, 8), dict(multiplier=2), False),
        (2 * 112, (4, 14, 16), {}, True),
        (2 * 112 + 1, (4, 14, 16), {}, False),
        (3 * 112, (4, 14, 16), {}, False),
    ],
)
def test_boxes_that_read_whole_image_rows(
    pitch: int, extent: tuple[int, int, int], options: dict, contiguous: bool
) -> None:
    """As wide as the image, with all channels of it, and rows that have no more beside them than they are long."""
    view = View("x", 0, pitch, 14 * pitch)
    cut = ImageBoxes(dataclasses.replace(window(), view=view), 16, 8, **options)
    assert cut.contiguous(Extent(*extent)) is contiguous
    if not options:
        assert cut.source_bytes(Extent(*extent)) == (3 * pitch + 112 if contiguous else 4 * extent[1] * 8)


@pytest.mark.parametrize("offset", [0, 5000])
@pytest.mark.parametrize(
    "columns, pitch, dims, run",
    [
        ((0, 14), None, (), 3 * 14 * 32),
        ((3, 7), None, ((3, 14 * 32),), 4 * 32),
        ((0, 14), 0, (), 3 * 14 * 32),
        ((3, 7), 0, (), (2 * 14 + 4) * 32),
        ((0, 14), 14 * 32 + 16, (), 3 * 14 * 32),
        ((3, 7), 14 * 32 + 16, (), (2 * 14 + 4) * 32),
    ],
)
def test_a_box_of_an_operand_lies_behind_the_start_of_its_view(
    columns: tuple[int, int], pitch: int | None, dims: tuple, run: int, offset: int
) -> None:
    """Of two bytes for each of 16 channels: what is resident, or in one piece, is fetched from its first byte to its
    last, and else row by row. `pitch` is of rows in activation memory, 0 of dense ones."""
    found: list[StoredBox] = []

    def fetch(key: BufferKey, start: int, stop: int) -> int:
        return fetch_box(key, StoredBox(start, (), stop - start))

    def fetch_box(key: BufferKey, stored: StoredBox) -> int:
        found.append(stored)
        return 640

    load = SimpleNamespace(tensor="part", element=SimpleNamespace(bytes=2))
    emission = SimpleNamespace(
        work=SimpleNamespace(lines={}),
        layer=SimpleNamespace(program=SimpleNamespace(loads=[load])),
        tensors=SimpleNamespace(
            storage={"part": "y"},
            offset_bytes={"part": offset}.get,
            operand_key=lambda name, stream: BufferKey(Role.OPERAND, "y"),
        ),
        resident=lambda name: pitch is not None,
        placement=lambda name: SimpleNamespace(resident=pitch is not None, pitch=pitch or 0),
        fetch=fetch,
        fetch_box=fetch_box,
    )
    transfers = BoxTransfers(emission, ImageBoxes(window(), 16, 16), Extent(3, 14, 16))  # type: ignore[arg-type]
    place = transfers.operand(0, Box(0, 3, 6, *columns, 0, 16))
    assert found == [StoredBox((3 * 14 + columns[0]) * 32 + offset, dims, run)]
    inner_bytes = (columns[1] - columns[0]) * 32
    row_bytes = inner_bytes if pitch is None else pitch or 14 * 32
    # The address of a resident operand is that of dense rows, of which three are before the box.
    address = 640 + 3 * (row_bytes - 14 * 32 if pitch else 0)
    assert place == BoxPlace(address, row_bytes, 32, 2 * row_bytes + inner_bytes)


def test_a_line_along_the_channels_is_there_for_all_pixels() -> None:
    """Of four bytes for each channel, at 512: those of channels 4 to 11."""
    load = SimpleNamespace(element=SimpleNamespace(bytes=4))
    emission = SimpleNamespace(
        work=SimpleNamespace(lines={1: 512}),
        layer=SimpleNamespace(program=SimpleNamespace(loads=[None, load])),
    )
    transfers = BoxTransfers(emission, ImageBoxes(window(), 16, 4), Extent(3, 14, 8))  # type: ignore[arg-type]
    place = transfers.operand(1, Box(0, 3, 6, 0, 14, 4, 12))
    assert place == BoxPlace(512 + 16, 0, 0, 32)
