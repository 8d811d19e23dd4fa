"""Limits of what boxes of a result read: each is met, and just missed."""

import dataclasses
from collections.abc import Callable

import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder
from window_shapes import window

from tosaic.compiler.ir import DType
from tosaic.compiler.place.geometry import View
from tosaic.compiler.place.weights import MAX_COUNT
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode, largest

X_STEP, Y_STEP = (largest(Opcode.ARRAY_WINDOW, name) for name in ("x_step", "y_step"))


@pytest.mark.parametrize(
    "oh, rows, most",
    [(1500, 2, 3), (2000, 2, 3), (2002, 2, 4), (1500, 1, 3), (1001, 1, 3), (1000, 2, 3), (3000, 3, 4)],
)
def test_rows_that_boxes_read_are_counted_up_to_a_thousand_boxes(oh: int, rows: int, most: int) -> None:
    """An image of four rows, of which boxes of two rows see three: they begin at even rows, and it at an odd one."""
    cut = ImageBoxes(window(ih=4, oh=oh, kh=3, top=oh // 4 * 2 + 1), 16, 16)
    assert cut.source_bytes(Extent(rows, 14, 16)) == most * 14 * 8


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


def padded(build: LayerBuilder) -> str:
    """Boxes of the first rows, and of the last ones, see padding only."""
    x = build.input("x", (1, 4, 70, 16), DType.INT8)
    return build.conv(x, 16, (5, 3), pad=(4, 4, 1, 1), input_zp=3)


def of_some_columns(build: LayerBuilder) -> str:
    """One row of a depthwise image does not fit."""
    return build.conv(build.input("x", (1, 4, 70, 24), DType.INT8), 1, (3, 3), pad=(1,) * 4, depthwise=True)


def strided(build: LayerBuilder) -> str:
    x = build.input("x", (1, 5, 71, 24), DType.INT8)
    return build.conv(x, 2, (3, 3), stride=(2, 2), pad=(1,) * 4, depthwise=True, input_zp=-5)


def with_an_operand(build: LayerBuilder) -> str:
    """Another image is added to the sums, box by box."""
    y = build.conv(build.input("x", (1, 4, 50, 16), DType.INT8), 16, (1, 1))
    return build.add("ADD", [y, build.input("a", (1, 4, 50, 16), DType.INT32)])


@pytest.mark.parametrize("layer", [padded, of_some_columns, strided, with_an_operand])
def test_boxes_compute_what_golden_computes(layer: Callable[[LayerBuilder], str]) -> None:
    build = LayerBuilder(1)
    build.output(build.rescale(layer(build), DType.INT8))
    assert_equal_to_golden(build.finish(), get_config("small,am_bytes=4K"), check_hazards=True)
