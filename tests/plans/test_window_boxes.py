"""Boxes of layers with a window: the largest that fits, and others that are predicted to take clearly fewer cycles."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tosaic.compiler.fuse.expression import Load
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.placement import PARAMETERS, BufferKey, Placement, Role, resident
from tosaic.compiler.place.weights import MAX_COUNT
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes
from tosaic.compiler.tile.window_tiles import WindowLayer, WindowTiler
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Element

SMALL = get_config("small")
STEP = SMALL.columns
X, Y = BufferKey(Role.WINDOW, "x"), BufferKey(Role.RESULT, "y")


def image(height: int, width: int, channels: int = 64, **changed: int) -> ImageBoxes:
    """A 1x1 convolution of pixels of one byte; results have `channels` bytes."""
    sizes = dict(n=1, oh=height, ow=width, kh=1, kw=1, sy=1, sx=1, dy=1, dx=1, top=0, left=0) | changed
    slid = Window(**sizes, ih=height, iw=width, ic=1, view=View("x", 0, width, height * width))
    return ImageBoxes(slid, channels, STEP)


class Tensors(SimpleNamespace):
    def __getitem__(self, name: str) -> str:
        return name


def tiler(
    cut: ImageBoxes,
    room: int,
    *,
    external: tuple[str, ...] = ("y",),
    params: int = 0,
    size: int = 0,
    loads: int = 0,
    lines: tuple[int, ...] = (),
    continued: object = None,
    output: Placement | None = None,
) -> WindowTiler:
    """With `room` bytes of free memory, which an earlier layer has until boxes are chosen. The layer has `loads`
    operands "a0", "a1", ... of two bytes, from stream 1 on; some streams are `lines`."""
    arena, kept = Arena(SMALL.am_bytes, 1), SMALL.am_bytes - room
    if kept:
        arena.allocate(kept)
    if room:
        arena.allocate(room)

    def release() -> None:
        arena.free(kept)

    tensors = Tensors(
        element=lambda name: Element.INT8,
        operand_key=lambda name, stream: BufferKey(Role.OPERAND, name),
    )
    placements = {"y": output or Placement(Address(Region.DATA, 0), size or 1 << 20)}
    placer = SimpleNamespace(
        config=SMALL, arena=arena, tensors=tensors, placements=placements, release_pending=release
    )
    program = SimpleNamespace(
        loads=[Load("body", Element.INT8), *(Load(f"a{n}", Element.INT16) for n in range(loads))],
        body_loads=1,
    )
    layer = SimpleNamespace(program=program, output="y", lines=lines, continued=continued, root="CONV2D")
    wanted = WindowLayer(layer, cut, list(external), "y", params)  # type: ignore[arg-type]
    return WindowTiler(placer, wanted)  # type: ignore[arg-type]


def test_what_is_resident_is_one_box() -> None:
    assert tiler(image(9, 5), 0, external=()).choose(None) == (Extent(9, 5, 64), {})


@pytest.mark.parametrize(
    "room, rows, buffers",
    [
        (18 * 320, 9, 2),
        (18 * 320 - 1, 9, 1),
        (16 * 320 - 1, 7, 2),
        (8 * 320, 4, 2),
        (8 * 320 - 1, 3, 2),
        (2 * 320, 1, 2),
        (320, 1, 1),
    ],
)
def test_the_most_rows_that_fit_twice(room: int, rows: int, buffers: int) -> None:
    """Or all of them once where all but one fit twice; a row once where it does not fit twice."""
    extent, found = tiler(image(9, 5), room).choose(None)
    assert extent == Extent(rows, 5, 64)
    assert {key: (len(each.addresses), each.size_bytes) for key, each in found.items()} == {
        Y: (buffers, rows * 320)
    }


@pytest.mark.parametrize(
    "room, extent",
    [
        # Of 200 columns of 64 channels: all of them in one row, or as many as fit twice, 16 at least.
        (200 * 64, Extent(1, 200, 64)),
        (200 * 64 - 1, Extent(1, 99, 64)),
        (2 * 16 * 64, Extent(1, 16, 64)),
        # Then narrow boxes of all channels, or of some.
        (2 * 16 * 64 - 1, Extent(1, 64, 8)),
        (2 * 64 * STEP, Extent(1, 64, STEP)),
        (2 * 64 * STEP - 1, Extent(1, 64, STEP)),
        (64 * STEP, Extent(1, 64, STEP)),
        (64 * STEP - 1, Extent(1, 32, STEP)),
        (STEP, Extent(1, 1, STEP)),
    ],
)
def test_boxes_that_are_not_as_wide_as_the_image(room: int, extent: Extent) -> None:
    assert tiler(image(9, 200), room).choose(None)[0] == extent


def test_an_image_that_is_narrower_than_boxes_of_some_channels() -> None:
    assert tiler(image(9, 5, 16), 79).choose(None)[0] == Extent(1, 5, 8)


def test_nothing_fits() -> None:
    with pytest.raises(
        OutOfMemory, match="^CONV2D: one pixel of y and its inputs do not fit the activation memory$"
    ):
        tiler(image(9, 5), STEP - 1).choose(None)


# --- what a box needs


def test_buffers_of_a_box() -> None:
    """Its image, its operands but for lines, and its result, as far as they are outside."""
    made = tiler(image(9, 5), 1 << 14, external=("x", "a0", "a2", "y"), loads=3, lines=(2,))
    extent = Extent(4, 5, 8)
    assert made._sizes(extent) == {
        X: 4 * 5,
        BufferKey(Role.OPERAND, "a0"): 2 * 160,
        BufferKey(Role.OPERAND, "a2"): 2 * 160,
        Y: 160,
    }


def test_a_line_has_no_box() -> None:
    made = tiler(image(9, 5), 1 << 14, external=("a0", "a1"), loads=2, lines=(2,))
    assert set(made._sizes(Extent(1, 1, 8))) == {BufferKey(Role.OPERAND, "a0")}


def test_sums_of_all_boxes_have_one_place() -> None:
    made = tiler(image(9, 5), 1 << 14, external=("x", "y"), continued="sums", size=320)
    assert made._sizes(Extent(4, 5, 8)) == {X: 20, Y: 320}


@pytest.mark.parametrize("channels, tiles", [(8, 1), (9, 2), (16, 2), (64, 8)])
def test_parameters_of_a_box(channels: int, tiles: int) -> None:
    made = tiler(image(9, 5), 1 << 14, external=(), params=100)
    assert made._sizes(Extent(4, 5, channels)) == {PARAMETERS: 100 * tiles}


@pytest.mark.parametrize(
    "params, channels",
    [
        (SMALL.am_bytes // 8, 8),
        (SMALL.am_bytes // 8 + 1, 8),
        (SMALL.am_bytes // 24, 24),
        (SMALL.am_bytes // 24 + 1, 16),
    ],
)
def test_parameters_take_an_eighth_of_the_memory_at_most(params: int, channels: int) -> None:
    """But for those of one step of channels."""
    made = tiler(image(2, 2), SMALL.am_bytes, external=(), params=params)
    assert made.choose(None)[0] == Extent(2, 2, channels)


@pytest.mark.parametrize(
    "start, size",
    [(0, 1), (1, 1), (0, 2), (1, 2), (3, 2)],
)
def test_banks_that_are_written(start: int, size: int) -> None:
    """Whole ones, of a result that is resident."""
    bank = SMALL.am_bank_bytes
    for first, count in ((start * bank, size * bank), (start * bank + 1, size * bank - 1)):
        made = tiler(image(2, 2), 64, output=resident(first, count))
        assert made._banks_written() == [(start * bank, (start + size) * bank)]
    over = tiler(image(2, 2), 64, output=resident(start * bank + 1, size * bank))
    assert over._banks_written() == [(start * bank, (start + size + 1) * bank)]
    assert tiler(image(2, 2), 64)._banks_written() == []


# --- boxes that take fewer cycles


class Cost:
    """Cycles by a function of (rows, channels); the boxes that were asked for."""

    def __init__(self, of: Callable[[int, int], float]):
        self.of = of
        self.asked: list[tuple[int, int]] = []
        self.doubled: dict[tuple[int, int], bool] = {}

    def cycles(self, cut: ImageBoxes, extent: Extent, sizes: Any, *, doubled: bool) -> int:
        self.asked.append((extent.rows, extent.channels))
        self.doubled[extent.rows, extent.channels] = doubled
        return int(self.of(extent.rows, extent.channels))


def better(cut: ImageBoxes, cost: Cost, room: int = 1 << 16, **options: Any) -> Extent:
    return tiler(cut, room, **options).choose(cost)[0]  # type: ignore[arg-type]


def test_heights_and_channels_that_are_compared() -> None:
    """Even heights, those that end with full tiles of pixels, and even parts of the channels. Of equal ones the first:
    the highest, of most channels."""
    cost = Cost(lambda rows, channels: 100)
    assert better(image(9, 4), cost) == Extent(9, 4, 64)
    heights = {9, 5, 3, 2, 1} | {9, 6, 4}
    parts = {64, 8 * 4, 8 * 3, 8 * 2, 8 * 1}
    assert set(cost.asked) == {(rows, channels) for rows in heights for channels in parts}
    cost = Cost(lambda rows, channels: 100 if (rows, channels) == (9, 64) else 50)
    assert better(image(9, 4), cost) == Extent(9, 4, 32)


@pytest.mark.parametrize("cycles, taken", [(99, False), (98, True)])
def test_other_boxes_are_clearly_better(cycles: int, taken: bool) -> None:
    cost = Cost(lambda rows, channels: cycles if (rows, channels) == (5, 16) else 100)
    assert better(image(9, 4), cost) == (Extent(5, 4, 16) if taken else Extent(9, 4, 64))


def test_the_best_of_better_boxes() -> None:
    cost = Cost(lambda rows, channels: 100 - 3 * (9 - rows) - (64 - channels) // 16)
    assert better(image(9, 4), cost) == Extent(1, 4, 16)


@pytest.mark.parametrize("pixels, parts", [(SMALL.rows, 1), (SMALL.rows + 1, 5)])
def test_channels_are_cut_where_there_is_more_than_a_tile_of_pixels(pixels: int, parts: int) -> None:
    cost = Cost(lambda rows, channels: 100)
    better(image(pixels, 1), cost)
    assert len({channels for _, channels in cost.asked}) == parts


def test_parts_of_few_channels() -> None:
    """No more of them than steps."""
    for channels, parts in ((24, {24, 16, 8}), (9, {9, 8}), (8, {8})):
        cost = Cost(lambda rows, channels: 100)
        better(image(20, 4, channels), cost)
        assert {each for _, each in cost.asked} == parts


def test_a_depthwise_layer_is_not_cut_along_its_channels() -> None:
    cut = image(20, 4)
    cut = ImageBoxes(cut.window, 64, STEP, multiplier=1)
    cost = Cost(lambda rows, channels: 100)
    better(cut, cost)
    assert {channels for _, channels in cost.asked} == {64}


def test_boxes_that_do_not_fit_are_not_compared() -> None:
    """Rows of 256 bytes: all nine do not fit, and two of them do not fit twice, with all channels."""
    cost = Cost(lambda rows, channels: 100)
    better(image(9, 4), cost, 3 * 256)
    whole = {(rows, doubled) for (rows, channels), doubled in cost.doubled.items() if channels == 64}
    assert whole == {(1, True), (2, False), (3, False)}
    assert (9, 8) in cost.asked


@pytest.mark.parametrize(
    "height, width, options",
    [
        (MAX_COUNT + 1, 2, {}),
        (9, 4, dict(params=64)),
    ],
)
def test_what_is_not_compared(height: int, width: int, options: dict) -> None:
    cost = Cost(lambda rows, channels: 100)
    tiler(image(height, width), 1 << 12, **options).choose(cost)  # type: ignore[arg-type]
    assert cost.asked == []


def test_parts_of_rows_or_of_channels_stay_as_they_are() -> None:
    for cut, room in ((image(9, 200), 2 * 16 * 64), (image(9, 5), STEP)):
        cost = Cost(lambda rows, channels: 100)
        better(cut, cost, room)
        assert cost.asked == []
