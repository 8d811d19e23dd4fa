"""The search over boxes: the fewest predicted cycles of what fits."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import ClassVar

import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType
from tosaic.compiler.memory_speed import FULL_SPEED
from tosaic.compiler.place.arena import Arena
from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.placement import PARAMETERS, BufferKey, Role
from tosaic.compiler.place.placer import Memories
from tosaic.compiler.tile.arriving import RowsInPassing
from tosaic.compiler.tile.box_cost import BoxCost, BoxWork
from tosaic.compiler.tile.box_search import Cuts, Room, cheapest, even_parts, split
from tosaic.compiler.tile.graph_plan import GraphPlanner, PlanContext
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes, Tiling
from tosaic.compiler.tile.window_tiles import WindowCuts, WindowLayer
from tosaic.hw.config_text import get_config

SMALL = get_config("small")
KEY = BufferKey(Role.OPERAND, "x")


@dataclasses.dataclass
class Listed:
    """Candidates by their bytes and their cycles with two buffers; with one they take `single` more."""

    clearly: ClassVar[float] = 0.99
    listed: list[list[tuple[int, int]]]
    single: int = 0

    def rungs(self) -> Iterator[Iterator[tuple[int, int]]]:
        return (iter(rung) for rung in self.listed)

    def sizes(self, tiles: tuple[int, int]) -> Sizes:
        return {KEY: tiles[0]}

    def cycles(self, tiles: tuple[int, int], sizes: Sizes, turns: int) -> float:
        return tiles[1] + (self.single if turns < 2 else 0)


@pytest.mark.parametrize(
    "rungs, single, chosen, blocks",
    [
        # The first one, unless others take clearly less.
        ([[(50, 1000), (40, 991)]], 0, (50, 1000), 2),
        ([[(50, 1000), (40, 989)]], 0, (40, 989), 2),
        ([[(50, 1000), (40, 980), (30, 979)]], 0, (30, 979), 2),
        # What fits once waits for its transfers.
        ([[(60, 1000), (40, 1100)]], 0, (60, 1000), 1),
        ([[(60, 1000), (40, 1100)]], 200, (40, 1100), 2),
        # What does not fit is no candidate; later rungs are for want of memory.
        ([[(101, 10), (50, 1000)], [(10, 500)]], 0, (50, 1000), 2),
        ([[(101, 10)], [(10, 500)]], 0, (10, 500), 2),
        ([[(60, 1000)], [(10, 900)], [(5, 1)]], 0, (10, 900), 2),
        ([[(60, 1000)], [(10, 999)]], 0, (60, 1000), 1),
    ],
)
def test_what_is_chosen(rungs, single: int, chosen: tuple[int, int], blocks: int) -> None:
    arena = Arena(100, 1)
    found = cheapest(Listed(rungs, single), Room(arena))
    assert found is not None and found.tiles == chosen
    assert [len(buffer.addresses) for buffer in found.buffers.values()] == [blocks]
    assert sum(end - start for start, end in arena.used()) == blocks * chosen[0]


def test_nothing_fits() -> None:
    arena = Arena(100, 1)
    assert cheapest(Listed([[(101, 1)], [(102, 1)]]), Room(arena)) is None
    assert arena.gaps() == [(0, 100)]


@pytest.mark.parametrize(
    "size, step, parts",
    [(1, 1, [1]), (7, 1, [7, 4, 3, 2, 1]), (40, 16, [40, 32, 16]), (5, 16, [5]), (100, 50, [100, 50])],
)
def test_even_parts(size: int, step: int, parts: list[int]) -> None:
    assert list(even_parts(size, step)) == parts


@pytest.mark.parametrize("size", [1000, 4096, 100_000])
def test_parts_of_a_long_axis(size: int) -> None:
    """From all to one, and not too many of them."""
    found = list(even_parts(size))
    assert (found[0], found[-1]) == (size, 1) and found == sorted(set(found), reverse=True)
    assert len(found) < 120
    assert all(sum(count * each for count, each in split(size, part)) == size for part in found)


# --- layers with a window


def convolved(
    height: int, width: int, channels: int, room: int, params: int = 0
) -> tuple[Cuts[Tiling], Room]:
    """A 1x1 convolution of pixels of one byte, with `room` bytes of free activation memory; its result is outside."""
    build = LayerBuilder(1)
    y = build.rescale(
        build.conv(build.input("x", (1, height, width, 1), DType.INT8), channels, (1, 1)), DType.INT8
    )
    build.output(y)
    arena = Arena(SMALL.am_bytes, 1)
    planner = GraphPlanner(build.finish(), set(), PlanContext(SMALL, Memories(arena, SMALL.am_bytes), True))
    (layer,), placer = planner.layers, planner.placer
    for name in ("x", y):
        placer.external(name)
    if room < SMALL.am_bytes:
        arena.allocate(SMALL.am_bytes - room)
    sizes = dict(ih=height, iw=width, ic=1, oh=height, ow=width, kh=1, kw=1, sy=1, sx=1, dy=1, dx=1)
    view = View("x", 0, width, height * width)
    cut = ImageBoxes(Window(**sizes, n=1, top=0, left=0, view=view), channels, SMALL.columns)
    cost = BoxCost(SMALL, FULL_SPEED, functools.partial(work, cut), beats=1)
    return WindowCuts(placer, WindowLayer(layer, cut, [y], y, params), cost), Room(arena)


def work(cut: ImageBoxes, rows: int, columns: int, channels: int) -> BoxWork:
    """A cycle of the array for each element."""
    return BoxWork(-(-channels // cut.step), rows * columns * channels, 0, stays=True)


@pytest.mark.parametrize("room", [18 * 320, 16 * 320 - 1, 2 * 320, 320, 319, 100, SMALL.columns])
@pytest.mark.parametrize("height, width, channels", [(9, 5, 64), (9, 200, 64), (40, 3, 16)])
def test_the_boxes_of_the_fewest_cycles(height: int, width: int, channels: int, room: int) -> None:
    cuts, memory = convolved(height, width, channels, room)
    costs: list[float] = []
    for rung in cuts.rungs():
        doubled = False
        for tiles in rung:
            sizes = cuts.sizes(tiles)
            if turns := memory.turns_of(sizes):
                doubled |= turns > 1
                costs.append(cuts.cycles(tiles, sizes, turns) * (1 if costs else 0.99))
        if costs and doubled:
            break
    found = cheapest(cuts, memory)
    assert found is not None
    assert min(found.cycles, 0.99 * found.cycles) <= min(costs) <= found.cycles
    covered = sum((box.oy1 - box.oy0) * (box.ox1 - box.ox0) * (box.c1 - box.c0) for box in boxes(found.tiles))
    assert covered == height * width * channels


def boxes(tiling: Tiling):
    return tiling.cut.boxes(tiling.extent)


@pytest.mark.parametrize(
    "params, channels", [(SMALL.am_bytes // 8, 8), (SMALL.am_bytes // 24, 24), (100, 64)]
)
def test_parameters_take_an_eighth_of_the_memory_at_most(params: int, channels: int) -> None:
    """But for those of one step of channels."""
    cuts, memory = convolved(2, 2, 64, SMALL.am_bytes, params)
    found = cheapest(cuts, memory)
    assert found is not None and found.tiles.extent.channels == channels
    assert found.buffers[PARAMETERS].size_bytes == channels // SMALL.columns * params


@pytest.mark.parametrize("room", [SMALL.columns - 1, 0])
def test_no_pixel_fits(room: int) -> None:
    assert cheapest(*convolved(9, 5, 64, room)) is None


# --- rows that come while others are computed


@pytest.mark.parametrize("cycles_per_row", [1, 16, 40, 200])
@pytest.mark.parametrize("coming, leaving", [(8192, 0), (0, 8192), (8192, 8192)])
def test_rows_in_passing(cycles_per_row: int, coming: int, leaving: int) -> None:
    """Every row is computed once, and no more cycles are predicted than in one box."""
    base = get_config("base")
    sizes = dict(n=1, ih=32, iw=16, ic=16, oh=32, ow=16, kh=1, kw=1, sy=1, sx=1, dy=1, dx=1, top=0, left=0)
    cut = ImageBoxes(Window(**sizes, view=View("x", 0, 256, 8192)), 16, 16)
    cost = BoxCost(
        base, FULL_SPEED, lambda rows, columns, channels: BoxWork(1, rows * cycles_per_row, 0, True), 1
    )
    cuts = RowsInPassing(cut, cost, coming, leaving)
    found = cheapest(cuts, Room(Arena(1024, 1)))
    assert found is not None and found.buffers == {}
    rows = [(box.oy0, box.oy1) for box in boxes(found.tiles)]
    assert [start for start, _ in rows] == [0, *(end for _, end in rows[:-1])] and rows[-1][1] == 32
    whole = Tiling(cut, Extent(32, 16, 16))
    assert found.cycles <= cuts.cycles(whole, {}, 2)
    assert found.cycles >= max(coming, leaving) / 16


def test_a_small_first_box_lets_the_array_begin() -> None:
    """An image of 8 KiB takes 512 cycles to come: 32 rows of 40 cycles each need not wait for all of it."""
    base = get_config("base")
    sizes = dict(n=1, ih=32, iw=16, ic=16, oh=32, ow=16, kh=1, kw=1, sy=1, sx=1, dy=1, dx=1, top=0, left=0)
    cut = ImageBoxes(Window(**sizes, view=View("x", 0, 256, 8192)), 16, 16)
    cost = BoxCost(base, FULL_SPEED, lambda rows, columns, channels: BoxWork(1, rows * 80, 0, True), 1)
    found = cheapest(RowsInPassing(cut, cost, 8192, 0), Room(Arena(1024, 1)))
    assert found is not None
    first = next(iter(boxes(found.tiles)))
    assert first.rows <= 4
    assert found.cycles < 32 * 80 + 24 + 4 * 16 * 4
