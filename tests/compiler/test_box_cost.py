"""Boxes of convolutions whose tensors do not stay: heights, channels, shortened rows and picked pixels."""

import dataclasses
from fractions import Fraction

import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.memory_speed import FULL_SPEED, MemorySpeed
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.placement import BufferKey, Role
from tosaic.compiler.place.stored_box import StoredBox
from tosaic.compiler.tile.box_cost import BoxCost, BoxWork
from tosaic.compiler.tile.box_search import split
from tosaic.compiler.tile.image_boxes import Box, Extent, ImageBoxes, Tiling
from tosaic.compiler.tile.picked import can_pick
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config

BASE = get_config("base")
NARROW = dataclasses.replace(BASE, name="narrow", am_bytes=1 << 13)


def window(**sizes: int) -> Window:
    ih, iw, ic = sizes.get("ih", 14), sizes.get("iw", 14), sizes.get("ic", 64)
    given = dict(n=1, oh=ih, ow=iw, kh=1, kw=1, sy=1, sx=1, dy=1, dx=1, top=0, left=0) | sizes
    return Window(**(given | dict(ih=ih, iw=iw, ic=ic)), view=View("x", 0, iw * ic, ih * iw * ic))


def convolution(shape: tuple[int, ...], channels: int, kernel: int, stride: int, seed: int = 1) -> Graph:
    """A CONV2D with its sums."""
    build = LayerBuilder(seed)
    x = build.input("x", shape, DType.INT8)
    build.output(build.conv(x, channels, kernel=(kernel, kernel), stride=(stride, stride)))
    return build.finish()


def test_pieces():
    assert split(14, 4) == [(3, 4), (1, 2)]
    assert split(12, 4) == [(3, 4)]
    assert split(3, 4) == [(1, 3)]


def test_a_pixelwise_window_takes_rows_that_fill_tiles():
    short = window().in_rows_of(16)
    assert (short.oh, short.ow, short.ih, short.iw, short.view.pitch) == (49, 4, 49, 4, 256)
    for other in (window(kh=3, kw=3, top=1, left=1), window(ih=13, iw=13, oh=7, ow=7, sy=2, sx=2)):
        assert other.in_rows_of(16) is other


def test_which_pixels_can_be_picked():
    """Those of strides over whole images; whether they are is a question of cycles."""
    strided = ImageBoxes(window(ih=13, iw=13, oh=7, ow=7, sy=2, sx=2), 64, 16)
    assert can_pick(strided)
    assert not can_pick(ImageBoxes(window(), 64, 16))
    for ih, iw in ((12, 13), (13, 12)):
        # The last pixels lie in the padding.
        padded = dataclasses.replace(strided, window=window(ih=ih, iw=iw, oh=7, ow=7, sy=2, sx=2))
        assert not can_pick(padded)


def test_a_picked_pixel_is_a_burst():
    """49 pixels of 64 bytes, in bursts of 1 and of 40 cycles."""
    cut = ImageBoxes(window(ih=13, iw=13, oh=7, ow=7, sy=2, sx=2), 64, 16, picked=True)
    sizes = {BufferKey(Role.WINDOW, "x"): 49 * 64}
    speeds = (FULL_SPEED, MemorySpeed(None, 32 * 40))
    fast, slow = (
        BoxCost(BASE, speed, lambda *_: BoxWork(1, 0, 0, stays=True), beats=0).cycles(
            Tiling(cut, Extent(7, 7, 64)), sizes, doubled=False
        )
        for speed in speeds
    )
    bursts = int(49 * speeds[1].burst_cycles)
    assert bursts > 49 * 64 // 16
    assert slow - fast == bursts - 49 * 64 // 16 + (32 * 40 - 50)


def test_the_cost_is_that_of_the_longest_unit():
    """Two boxes of 7 rows: 10,000 cycles of the array each, and 14 × 448 bytes come and go between them."""
    cost = BoxCost(
        BASE, FULL_SPEED, lambda rows, columns, channels: BoxWork(4, 10_000, 0, stays=True), beats=1
    )
    sizes = {BufferKey(Role.WINDOW, "x"): 6272, BufferKey(Role.RESULT, "y"): 6272}
    cut = ImageBoxes(window(), 64, 16)
    doubled, single = (
        cost.cycles(Tiling(cut, Extent(7, 14, 64)), sizes, doubled=doubled) for doubled in (True, False)
    )
    ends = Fraction(6272 + 6272, 16)
    assert doubled == 2 * 10_040 + ends
    assert single == 2 * (10_040 + ends + 110)


@pytest.mark.parametrize(
    ("shape", "channels", "kernel", "stride"),
    [
        ((1, 14, 14, 48), 40, 1, 1),
        ((1, 15, 15, 32), 40, 1, 2),
        ((1, 9, 17, 32), 64, 3, 2),
        ((2, 7, 7, 64), 33, 1, 1),
    ],
)
def test_boxes_compute_what_golden_does(shape, channels, kernel, stride):
    assert_equal_to_golden(convolution(shape, channels, kernel, stride), NARROW)


@pytest.mark.parametrize("stride", [1, 2])
def test_no_other_pixel_comes_behind_that_of_a_narrow_image(stride):
    """Weights of an image one pixel wide are not filled up with their zero point."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 4096 + stride - 1, 1, 5), DType.INT8)
    build.output(build.conv(x, 3, kernel=(1, 1), stride=(stride, stride), input_zp=2, weight_zp=7))
    assert_equal_to_golden(build.finish(), NARROW)


def test_a_strided_layer_reads_the_pixels_that_it_needs():
    """A quarter of the image; weights, parameters and program take less than another quarter."""
    session = Session(convolution((1, 65, 65, 64), 16, 1, 2), "emulator", NARROW)
    session.run(feeds(session.graph, 1), check=True)
    assert session.stats["dram_read_bytes"] < 65 * 65 * 64 // 2


@pytest.mark.parametrize("pad", [(0, 0, 0, 1), (0, 1, 0, 0)])
def test_pixels_in_the_padding_are_not_picked(pad: tuple[int, int, int, int]) -> None:
    build = LayerBuilder(2)
    x = build.input("x", (1, 8 - pad[3], 8 - pad[1], 64), DType.INT8)
    build.output(build.conv(x, 16, kernel=(1, 1), stride=(2, 2), pad=pad, input_zp=5))
    graph = build.graph
    assert_equal_to_golden(graph, BASE)
    assert_equal_to_golden(graph, NARROW)


def test_a_box_of_some_channels_of_a_tensor():
    box = Box(image=0, oy0=2, oy1=4, ox0=0, ox1=14, c0=16, c1=48)
    stored = ImageBoxes(window(), 64, 16).stored(box, 2)
    assert stored == StoredBox(2 * 14 * 128 + 32, ((2, 14 * 128), (14, 128)), 64)
