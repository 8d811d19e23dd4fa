"""Choices and sizes of layers, each from numbers that can be counted by hand."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.cut.window_axis import WindowAxis
from tosaic.compiler.emit.pool import Stretch, stretches
from tosaic.compiler.emit.weight_ring import WeightRing, ring_spans
from tosaic.compiler.fuse.drain_cost import drains_too_slowly
from tosaic.compiler.fuse.fold import constant_scalar
from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.fuse.moves import moved
from tosaic.compiler.fuse.summed_rows import sums_rows
from tosaic.compiler.ir import DType, Operator, State
from tosaic.compiler.place.address import Address, Region, Span
from tosaic.compiler.place.arena import Arena
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.placer import Memories
from tosaic.compiler.tile.elementwise import box_limit
from tosaic.compiler.tile.graph_plan import GraphPlanner, PlanContext
from tosaic.compiler.tile.mapping import Asked
from tosaic.compiler.tile.mappings import choose
from tosaic.compiler.tile.states import plan_states
from tosaic.hw.config_text import get_config

BASE = get_config("base")
"""16 columns and rows, 16 slots, and ten cycles from slot to slot of one register."""


def window(**sizes: int) -> Window:
    ih, iw, ic = sizes.get("ih", 8), sizes.get("iw", 8), sizes.get("ic", 4)
    given = dict(n=1, oh=ih, ow=iw, kh=1, kw=1, sy=1, sx=1, dy=1, dx=1, top=0, left=0) | sizes
    return Window(**(given | dict(ih=ih, iw=iw, ic=ic)), view=View("x", 0, iw * ic, ih * iw * ic))


# --- fuse


def drained(
    pixels: tuple[int, int],
    channels: int,
    depth: int,
    count: int,
    *,
    depthwise: bool = False,
    stays: bool = False,
) -> bool:
    """Says whether the array drains a convolution with biases and `count` operators after it."""
    build = LayerBuilder(1)
    y = build.conv(build.input("x", (1, *pixels, depth), DType.INT8), channels, (1, 1), depthwise=depthwise)
    for number in range(count):
        operand = build.constant(np.full((1, 1, 1, 1), 12345 + number), DType.INT32)
        y = build.add(("BITWISE_XOR", "BITWISE_AND")[number % 2], [y, operand])
    build.output(y)
    graph = build.finish()
    (layer,) = Fuser(graph, BASE, fuse=True).layers(set())
    return drains_too_slowly(graph, layer, BASE, stays=stays)


@pytest.mark.parametrize(
    "channels, depth, fewest",
    [
        # Each micro-operation takes ten cycles for a pixel, biases as many, and a tile of 16 words of weights 16. One
        # operator, and 4 beats of its result: 16 tiles of 30 cycles; as two layers 16 of 20, 60 between them, 80 for
        # all tiles at once.
        (256, 16, 1),
        (128, 16, 2),
        (48, 16, 4),
        (256, 32, 3),
        (128, 32, 3),
        (48, 32, 6),
        # 48 words of weights: four operators take 60 cycles for each of 16 tiles, or 48, and 60 and 128 once.
        (256, 33, 4),
        # 15 tiles: 60 cycles for each, or 48, and 60 and 120 once, are as many.
        (240, 33, 5),
        (256, 64, 6),
    ],
)
def test_what_drains_too_slowly(channels: int, depth: int, fewest: int) -> None:
    """One pixel, with as many operators behind it."""
    found = [count for count in range(10) if drained((1, 1), channels, depth, count)]
    assert found == list(range(fewest, 10))


def test_weights_that_are_there_hide_less() -> None:
    """Four of their words are read in a cycle: of 64 words for a tile, all four parts of the rows take 16 cycles."""
    assert [count for count in range(10) if drained((1, 1), 256, 64, count, stays=True)] == list(range(1, 10))


@pytest.mark.parametrize("pixels", [(1, 9), (3, 3), (2, 5)])
def test_pixels_that_hide_a_long_chain(pixels: tuple[int, int]) -> None:
    assert not any(drained(pixels, 256, 16, count) for count in range(10))


def test_only_a_convolution_drains() -> None:
    assert not drained((1, 1), 1, 256, 9, depthwise=True)


@pytest.mark.parametrize(
    "shape, axis, summed",
    [
        ((1, 5, 4, 8), 1, True),
        ((1, 4, 4, 8), 1, False),
        ((1, 17, 1, 8), 1, False),
        ((1, 9, 2, 8), 1, True),
        ((1, 2, 16, 8), 1, True),
        ((1, 2, 17, 8), 1, False),
        ((2, 5, 4, 8), 1, False),
        ((1, 5, 4, 8), 2, False),
        ((1, 5, 4), 1, False),
    ],
)
def test_sums_of_rows(shape: tuple[int, ...], axis: int, summed: bool) -> None:
    """Rows are summed for an image with more pixels than rows and slots, 16 each, that has at least two columns, all
    of which fit the slots."""
    build = LayerBuilder(1)
    build.add("REDUCE_SUM", [build.input("x", shape, DType.INT32)], axis=axis)
    assert sums_rows(build.graph, build.graph.operators[0], BASE) is summed


def test_other_reductions_are_no_sums() -> None:
    build = LayerBuilder(1)
    build.add("REDUCE_MAX", [build.input("x", (1, 5, 4, 8), DType.INT32)], axis=1, nan_mode="PROPAGATE")
    assert not sums_rows(build.graph, build.graph.operators[0], BASE)


def is_stored(height: int, width: int, depth: int) -> bool:
    """Whether a layer makes an image of 16 channels, by a kernel of one pixel, whose mean is wanted."""
    build = LayerBuilder(7)
    y = build.conv(build.input("x", (1, height, width, depth), DType.INT8), 16, (1, 1))
    image, zero = build.rescale(y, DType.INT8), build.zero_point(DType.INT8)
    pool = dict(kernel=[height, width], stride=[1, 1], pad=[0] * 4, acc_type=DType.INT32)
    build.output(build.add("AVG_POOL2D", [image, zero, zero], **pool))
    return any(layer.output == image for layer in compile_graph(build.finish(), BASE).layers)


@pytest.mark.parametrize(
    "height, width, fewest",
    [(16, 16, 2), (20, 8, 2), (17, 2, 7), (17, 4, 4), (5, 4, 4), (4, 4, None), (5, 3, None), (2, 17, None)],
)
def test_whether_sums_of_rows_pay(height: int, width: int, fewest: int | None) -> None:
    """Draining takes two micro-operations of ten cycles for each row, more than the array takes for an image of few
    words. 17 rows of two pixels: 340 cycles, and three tiles of 16 words each, and 26 cycles are saved: with seven
    words the array takes 336, with six 288."""
    depths = [words for words in (1, 2, 3, 4, 6, 7, 12) if not is_stored(height, width, 16 * words)]
    assert depths == [words for words in (1, 2, 3, 4, 6, 7, 12) if fewest is not None and words >= fewest]


@pytest.mark.parametrize(
    "values, dtype, found",
    [
        ([7], DType.INT8, 7),
        ([[-3, -3], [-3, -3]], DType.INT16, -3),
        ([1, 2], DType.INT8, None),
        ([(1 << 31) - 1], DType.INT48, (1 << 31) - 1),
        ([1 << 31], DType.INT48, None),
        ([-(1 << 31)], DType.INT48, -(1 << 31)),
        ([-(1 << 31) - 1], DType.INT48, None),
        (np.zeros(0), DType.INT8, None),
    ],
)
def test_constants_of_one_value(values: Any, dtype: DType, found: int | None) -> None:
    build = LayerBuilder(1)
    assert constant_scalar(build.graph, build.constant(np.array(values), dtype)) == found
    assert constant_scalar(build.graph, build.input("x", (1,), dtype)) is None


# --- place


def grouped(channels: int, image: Window, zero_point: int = 0, config: Any = BASE):
    build = LayerBuilder(1)
    weights = build.random.integers(-128, 128, (channels, image.kh, image.kw, image.ic))
    inputs = ["x", build.constant(weights, DType.INT8), build.constant([0] * channels, DType.INT32)]
    inputs += [build.constant([zero], DType.INT8) for zero in (0, zero_point)]
    operator = Operator("CONV2D", inputs, ["y"], {}, "grouped")
    found = choose(Asked(build.graph, config, operator, image))
    return (found if found.pixels > 1 else None), weights


@pytest.mark.parametrize(
    "channels, ow, pixels",
    [
        (16, 8, 1),
        (8, 8, 2),
        (4, 8, 4),
        (40, 8, 2),
        (24, 8, 2),
        (12, 8, 4),
        (8, 7, 1),
        (4, 6, 2),
        (1, 16, 4),
        (32, 8, 1),
    ],
)
def test_pixels_that_share_vectors(channels: int, ow: int, pixels: int) -> None:
    """Eight rows, and a kernel of one pixel of 4 channels, four of which are a word: the fewest that make the fewest
    tiles of 16 rows, and divide a row."""
    found, _ = grouped(channels, window(iw=ow))
    if pixels == 1:
        assert found is None
        return
    assert found is not None and found.pixels == pixels
    assert (found.window.ow, found.window.sx, found.window.kw) == (ow // pixels, pixels, pixels)
    assert len(found.layout.blobs) == -(-pixels * channels // 16)


@pytest.mark.parametrize(
    "channels, kw, sx, zero_point", [(8, 3, 1, 0), (4, 2, 2, 5), (24, 3, 1, -3), (12, 1, 1, 0)]
)
def test_weights_of_grouped_pixels(channels: int, kw: int, sx: int, zero_point: int) -> None:
    """Each lane's products with the row behind its first pixel are the convolution of its pixel and channel."""
    image = window(ih=40, iw=16, oh=39, ow=(16 - kw) // sx // 4 * 4, kh=2, kw=kw, sx=sx)
    found, weights = grouped(channels, image, zero_point)
    assert found is not None
    assert found.packed is not None
    packed = moved(found.layout.move, found.packed[1]())
    values = np.random.default_rng(2).integers(-9, 9, (2, 16 * 4 + 400))
    for tile, blob in enumerate(found.layout.blobs):
        own = packed[tile].reshape(-1)[: 2 * blob.chunks * 256].reshape(2, blob.chunks * 16, 16)
        for lane in range(blob.channels):
            pixel, channel = divmod(blob.first + lane, channels)
            start = pixel * sx * 4
            wanted = (values[:, start : start + kw * 4] * weights[channel].reshape(2, kw * 4)).sum()
            row = values[:, blob.input_offset : blob.input_offset + own.shape[1]]
            rest = zero_point * (row.sum() - values[:, start : start + kw * 4].sum())
            assert (row * own[:, :, lane]).sum() - rest == wanted


def test_what_is_not_grouped() -> None:
    """Pixels that are apart in a kernel, and blobs that fill more than a quarter of the weight memory."""
    assert grouped(8, window())[0] is not None
    assert grouped(8, window(kw=2, dx=2))[0] is None
    assert grouped(8, window(dx=2))[0] is not None
    for wm_bytes, fits in ((1024, True), (1023, False)):
        config = dataclasses.replace(BASE, name="little memory", wm_bytes=1 << 10)
        object.__setattr__(config, "wm_bytes", wm_bytes)
        assert (grouped(8, window(), config=config)[0] is not None) is fits


# --- tile


@pytest.mark.parametrize(
    "limit, tile, found", [(0, 16, 16), (15, 16, 16), (16, 16, 16), (31, 16, 16), (32, 16, 32), (40, 8, 40)]
)
def test_boxes_begin_with_a_tile(limit: int, tile: int, found: int) -> None:
    assert box_limit(limit, tile) == found


@pytest.mark.parametrize(
    "read_by, output, swapped, in_place, at_the_end",
    [
        ({}, None, False, {"p": "a", "q": "b"}, {}),
        ({"a": 0, "b": 0}, None, False, {"q": "b"}, {"a": "p"}),
        ({"a": -1, "b": 1}, None, False, {"p": "a"}, {"b": "q"}),
        ({}, "a", False, {"q": "b"}, {"a": "p"}),
        ({}, None, True, {}, {"a": "b", "b": "q"}),
    ],
)
def test_how_states_come_to_their_places(read_by, output, swapped, in_place, at_the_end) -> None:
    """Layer 0 makes p, which is `a` next (or `b` is, `swapped`), and layer 1 makes q, which is `b` next. A state is
    written over where nothing reads it any more; what is shown, or becomes another state, stays until the end."""
    build = LayerBuilder(1)
    for name in "ab":
        build.input(name, (1, 4), DType.INT32)
    for name in "pq":
        build.add("ABS", [build.input(f"of {name}", (1, 4), DType.INT32)], output=name)
    for name, following in (("a", "b" if swapped else "p"), ("b", "q")):
        build.graph.states[name] = State(following, np.zeros((1, 4), np.int32))
        build.output(following)
    if output:
        build.output(output)
    memories = Memories(Arena(BASE.am_bytes, 1), BASE.am_bytes)
    planner = GraphPlanner(build.graph, set(), PlanContext(BASE, memories, True))
    plan = plan_states(planner.tensors, planner.layers, read_by)
    assert (plan.in_place, plan.at_the_end) == (in_place, at_the_end)
    assert plan.shown == ([output] if output else [])


# --- emit


@pytest.mark.parametrize(
    "axis, found",
    [
        (WindowAxis(5, 4, 2, 0), [Stretch(0, 4, 0, 2)]),
        (WindowAxis(4, 4, 3, 1), [Stretch(0, 1, 1, 2), Stretch(1, 2, 0, 3), Stretch(3, 1, 0, 2)]),
        (WindowAxis(6, 3, 3, 1, 2), [Stretch(0, 1, 1, 2), Stretch(1, 2, 0, 3)]),
        (WindowAxis(5, 3, 3, 1, 2), [Stretch(0, 1, 1, 2), Stretch(1, 1, 0, 3), Stretch(2, 1, 0, 2)]),
        (WindowAxis(2, 2, 5, 2, 3), [Stretch(0, 1, 2, 2), Stretch(1, 1, 0, 1)]),
        (WindowAxis(5, 0, 2, 0), []),
    ],
)
def test_windows_by_their_taps_inside_the_image(axis: WindowAxis, found: list[Stretch]) -> None:
    assert stretches(axis) == found


def blob(offset: int) -> Address:
    return Address(Region.CONSTANTS, offset)


def test_blobs_stay_until_the_ring_has_gone_round() -> None:
    ring = WeightRing(100)
    assert [ring.place(blob(number), 40) for number in range(3)] == [(0, True), (40, True), (80, True)]
    # The third one runs over the end and over the first 20 bytes of blob 0.
    assert ring.place(blob(1), 40) == (40, False)
    assert ring.place(blob(0), 40) == (20, True)
    assert ring.place(blob(1), 40) == (60, True)
    assert ring.place(blob(2), 40) == (0, True)
    assert ring.place(blob(2), 39) == (40, True)
    ring.forget()
    assert ring.place(blob(2), 39) == (79, True)


def test_a_blob_that_fills_the_ring_stays() -> None:
    ring = WeightRing(100)
    assert ring.place(blob(0), 100) == (0, True)
    assert ring.place(blob(0), 100) == (0, False)
    assert ring.place(blob(1), 1) == (0, True)
    assert ring.place(blob(0), 100) == (1, True)


def test_whole_blobs_do_not_run_over_the_end() -> None:
    ring = WeightRing(100)
    ring.place(blob(0), 70)
    assert ring.place(blob(1), 30, whole=True) == (70, True)
    ring.place(blob(2), 70)
    assert ring.place(blob(3), 31, whole=True) == (0, True)


def test_blobs_begin_at_multiples() -> None:
    ring = WeightRing(96, 16)
    assert [ring.place(blob(number), 17) for number in range(4)] == [
        (0, True),
        (32, True),
        (64, True),
        (0, True),
    ]
    assert ring.place(blob(1), 17) == (32, False)


@pytest.mark.parametrize(
    "address, size, spans",
    [
        (0, 100, [(0, 100)]),
        (60, 40, [(60, 100)]),
        (60, 41, [(60, 100), (0, 1)]),
        (99, 100, [(99, 100), (0, 99)]),
    ],
)
def test_what_lies_in_the_ring(address: int, size: int, spans: list[tuple[int, int]]) -> None:
    wanted = [Span(Region.WEIGHT, first, last) for first, last in spans]
    assert ring_spans(address, size, 100) == WeightRing(100).spans(address, size) == wanted
