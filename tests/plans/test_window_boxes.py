"""Boxes of layers with a window: the largest that fits."""

import dataclasses

import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType
from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.placement import PARAMETERS, BufferKey, Role, resident
from tosaic.compiler.place.placer import Memories
from tosaic.compiler.tile.graph_plan import GraphPlanner, PlanContext
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes
from tosaic.compiler.tile.window_tiles import WindowLayer, WindowTiler
from tosaic.hw.config_text import get_config

SMALL = get_config("small")
STEP, BANK = SMALL.columns, SMALL.am_bank_bytes
X, A = BufferKey(Role.WINDOW, "x"), BufferKey(Role.OPERAND, "a")


class Convolved:
    """A 1x1 convolution of pixels of one byte to `channels` of them, and int32 `a` added to its sums, if `added`. Of
    the activation memory `room` bytes are free, which an earlier layer has until boxes are chosen. Its result is
    outside."""

    def __init__(self, height: int, width: int, channels: int, room: int, *, added: bool = False):
        build = LayerBuilder(1)
        y = build.conv(build.input("x", (1, height, width, 1), DType.INT8), channels, (1, 1))
        if added:
            y = build.add("ADD", [y, build.input("a", (1, height, width, channels), DType.INT32)])
        else:
            y = build.rescale(y, DType.INT8)
        build.output(y)
        arena = Arena(SMALL.am_bytes, 1)
        context = PlanContext(SMALL, Memories(arena, SMALL.am_bytes), True)
        planner = GraphPlanner(build.finish(), set(), context)
        (self.layer,), self.placer, self.result = planner.layers, planner.placer, y
        for name in (*build.graph.inputs, y):
            self.placer.external(name)
        if room < SMALL.am_bytes:
            arena.allocate(SMALL.am_bytes - room)
        if room:
            earlier = arena.allocate(room)
            assert earlier is not None
            self.placer.pending_free.append([earlier])
        sizes = dict(ih=height, iw=width, ic=1, oh=height, ow=width, kh=1, kw=1, sy=1, sx=1, dy=1, dx=1)
        view = View("x", 0, width, height * width)
        self.cut = ImageBoxes(Window(**sizes, n=1, top=0, left=0, view=view), channels, STEP)

    def chosen(self, *external: str, params: int = 0) -> tuple[Extent, dict[BufferKey, tuple[int, int]]]:
        """The boxes, and how many buffers of how many bytes each operand has."""
        wanted = WindowLayer(self.layer, self.cut, list(external), self.result, params)
        extent, buffers = WindowTiler(self.placer, wanted).choose(None)
        return extent, {key: (len(each.addresses), each.size_bytes) for key, each in buffers.items()}

    def boxes(self) -> Extent:
        """Returns the boxes where only the result is outside."""
        return self.chosen(self.result)[0]


def test_what_is_resident_is_one_box() -> None:
    assert Convolved(9, 5, 64, 0).chosen() == (Extent(9, 5, 64), {})


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
    layer = Convolved(9, 5, 64, room)
    key = BufferKey(Role.RESULT, layer.result)
    assert layer.chosen(layer.result) == (Extent(rows, 5, 64), {key: (buffers, rows * 320)})


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
    assert Convolved(9, 200, 64, room).boxes() == extent


def test_an_image_that_is_narrower_than_boxes_of_some_channels() -> None:
    assert Convolved(9, 5, 16, 79).boxes() == Extent(1, 5, 8)


def test_nothing_fits() -> None:
    with pytest.raises(OutOfMemory, match="one pixel of .* and its inputs do not fit the activation memory$"):
        Convolved(9, 5, 64, STEP - 1).boxes()


# --- what a box needs


def test_buffers_of_a_box() -> None:
    """Its image, its operands and its result, as far as they are outside."""
    row = 5 * 64 * 4
    for room, rows in ((2 * 4 * (5 + 2 * row), 4), (2 * 4 * (5 + 2 * row) - 1, 3)):
        layer = Convolved(9, 5, 64, room, added=True)
        found = {X: (2, rows * 5), A: (2, rows * row), BufferKey(Role.RESULT, layer.result): (2, rows * row)}
        assert layer.chosen("x", "a", layer.result) == (Extent(rows, 5, 64), found)
    assert Convolved(9, 5, 64, 1 << 16, added=True).chosen("a") == (Extent(9, 5, 64), {A: (2, 9 * row)})


@pytest.mark.parametrize("channels, tiles", [(8, 1), (9, 2), (16, 2), (64, 8)])
def test_parameters_of_a_box(channels: int, tiles: int) -> None:
    found = Convolved(9, 5, channels, 1 << 14).chosen(params=100)
    assert found == (Extent(9, 5, channels), {PARAMETERS: (2, 100 * tiles)})


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
    extent, _ = Convolved(2, 2, 64, SMALL.am_bytes).chosen(params=params)
    assert extent == Extent(2, 2, channels)


@pytest.mark.parametrize("size, first", [(BANK, BANK), (BANK + 1, 2 * BANK), (2 * BANK, 2 * BANK)])
def test_buffers_lie_in_other_banks_than_a_result(size: int, first: int) -> None:
    """One that is resident, of which VECTOR writes whole banks."""
    layer = Convolved(9, 5, 64, SMALL.am_bytes)
    layer.placer.placements[layer.result] = resident(0, size)
    wanted = WindowLayer(layer.layer, layer.cut, ["x"], layer.result, 0)
    _, buffers = WindowTiler(layer.placer, wanted).choose(None)
    assert min(buffers[X].addresses) == first
    layer = Convolved(9, 5, 64, SMALL.am_bytes)
    _, buffers = WindowTiler(layer.placer, dataclasses.replace(wanted, layer=layer.layer)).choose(None)
    assert min(buffers[X].addresses) == 0
