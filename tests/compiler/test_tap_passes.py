"""Depthwise kernels of any size, stride and dilation: which taps each GO takes, and that the sums are golden's."""

import dataclasses

import pytest
from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder

from tosaic.compiler.cost.array import depthwise_cycles
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.place.depthwise_stream import DepthwiseStream, depthwise_stream
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.tap_passes import (
    AxisTaps,
    TapPass,
    fits_pairs,
    output_limits,
    streams_of,
    tap_passes,
)
from tosaic.hw.config import CONFIGS

BASE = CONFIGS["base"]
FEW_SUMS = dataclasses.replace(CONFIGS["small"], name="few sums", line_pixels=24, partial_sums=8)


def window(
    size: int, kernel: tuple[int, int], stride: int = 1, dilation: int = 1, channels: int = 16
) -> Window:
    """A square image with "same" padding."""
    outputs = -(-size // stride)
    top, left = (max(0, (outputs - 1) * stride + (taps - 1) * dilation + 1 - size) // 2 for taps in kernel)
    view = View("x", 0, size * channels, size * size * channels)
    axes = (stride, stride, dilation, dilation, top, left)
    return Window(1, size, size, channels, outputs, outputs, *kernel, *axes, view)


def counts(passes: list[TapPass]) -> list[tuple[int, int]]:
    return [(part.y.count, part.x.count) for part in passes]


def test_rows_above_the_image_and_the_zeros_between_rows_are_not_streamed_twice():
    """14x14, 3x3: 14 pixels and one zero per row, one row of zeros is left out, 15 rows after the first sum."""
    stream = depthwise_stream(window(14, (3, 3)), 1, BASE.rows)
    assert stream == DepthwiseStream(line=15, left_out=1, skip=15, advances=15 + 13 * 15 + 13 + 16)


def test_rows_of_pairs_are_left_out_in_pairs():
    assert depthwise_stream(window(14, (5, 5), 2), 2, BASE.rows).left_out == 0
    assert depthwise_stream(dataclasses.replace(window(14, (5, 5), 2), top=3), 2, BASE.rows).left_out == 2


def test_zeros_are_not_shared_where_an_image_row_begins_inside():
    inner = dataclasses.replace(window(14, (3, 3)), left=0, ow=6)
    assert depthwise_stream(inner, 1, BASE.rows).line == 8


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (window(14, (3, 3)), [(3, 3)]),
        (window(14, (5, 5)), [(3, 5), (2, 5)]),
        (window(14, (7, 7)), [(2, 7), (2, 7), (2, 7), (1, 7)]),
        (window(14, (3, 3), dilation=2), [(3, 3)]),
        (window(40, (1, 25)), [(1, 16), (1, 9)]),
    ],
    ids=["3x3", "5x5", "7x7", "dilated", "1x25"],
)
def test_kernels_are_cut_into_few_parts(case: Window, expected: list[tuple[int, int]]):
    assert counts(tap_passes(case, BASE)) == expected


def test_with_stride_2_a_go_takes_every_other_column():
    """Rows in pairs: each of two GOs makes an output in every advance."""
    passes = tap_passes(window(28, (5, 5), 2), BASE)
    assert passes == [
        TapPass(AxisTaps(0, 5), AxisTaps(0, 3, 2)),
        TapPass(AxisTaps(0, 5), AxisTaps(1, 2, 2)),
    ]
    assert depthwise_cycles(streams_of(window(28, (5, 5), 2), passes, BASE)) < 2 * (14 + 3) * (14 + 3)


def test_without_partial_sums_one_go_takes_all_taps_or_none():
    nothing = dataclasses.replace(BASE, name="no sums", partial_sums=0)
    assert counts(tap_passes(window(14, (3, 3)), nothing)) == [(3, 3)]
    assert tap_passes(window(14, (5, 5)), nothing) == []


def test_outputs_at_a_time_are_those_that_partial_sums_hold():
    large = window(100, (5, 5))
    assert output_limits(large, tap_passes(large, BASE), BASE) == (247, 512)
    assert output_limits(large, tap_passes(window(100, (3, 3)), BASE), BASE)[1] > 100 * 100


PAIRED = dict(kernel=(3, 3), stride=2)


@pytest.mark.parametrize(
    ("given", "changed", "pairs"),
    [
        (PAIRED, {}, True),
        (PAIRED, dict(kh=2), False),
        (PAIRED, dict(kh=1), False),
        (PAIRED, dict(kh=5), True),
        (PAIRED, dict(dy=2), False),
        (PAIRED, dict(sy=1), False),
        (PAIRED, dict(sy=4), True),
        (PAIRED, dict(iw=1), False),
        (PAIRED, dict(iw=2), True),
        (PAIRED, dict(ic=32), True),
        (PAIRED, dict(ic=24), False),
        # 123 columns 2 apart and thrice the 4 or 3 pixels of a row of the kernel: 256 fit the delay line.
        (PAIRED, dict(kw=4, ow=123), True),
        (PAIRED, dict(kw=4, ow=124), False),
        (PAIRED, dict(kw=3, ow=124), True),
        (PAIRED, dict(kw=3, ow=125), False),
        (PAIRED, dict(kw=2, dx=3, ow=123), True),
    ],
)
def test_image_rows_that_are_taken_two_at_a_time(given: dict, changed: dict, pairs: bool) -> None:
    assert fits_pairs(dataclasses.replace(window(14, **given), **changed), BASE) == pairs


@pytest.mark.parametrize(
    ("first", "count", "step", "seen"),
    [
        (0, 5, 1, (5, 1, 2)),
        (2, 3, 1, (3, 1, 0)),
        (4, 1, 1, (1, 1, -2)),
        (0, 3, 2, (3, 1, 1)),
        (1, 2, 2, (2, 1, 1)),
    ],
)
def test_what_a_go_sees_of_a_window(first: int, count: int, step: int, seen: tuple) -> None:
    """Some taps of five at a stride of `step`, over every `step`-th of 14 pixels: taps, stride and padding."""
    taps = AxisTaps(first, count, step)
    found = TapPass(taps, taps).window(
        dataclasses.replace(window(14, (5, 5)), sy=step, sx=step, top=2, left=2)
    )
    assert (found.kh, found.sy, found.top) == (found.kw, found.sx, found.left) == seen
    assert (found.ih, found.iw) == (-(-(14 + 2 - first) // step) - found.top,) * 2


@st.composite
def _axis(draw, extent: int, taps: int) -> tuple[list[int], int, int]:
    """(pads, stride, dilation) of an axis for which the output is a whole number of strides."""
    dilation, stride = draw(st.sampled_from([1, 1, 2, 3])), draw(st.integers(1, 3))
    before = draw(st.integers(0, taps))
    room = extent - 1 + before - (taps - 1) * dilation
    after = max(0, -room) + draw(st.integers(0, 2)) * stride
    return [before, after + -(room + after) % stride], stride, dilation


@st.composite
def _depthwise(draw) -> Graph:
    ih, iw = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    kh, kw = draw(st.sampled_from([1, 2, 3, 5, 7])), draw(st.sampled_from([1, 3, 5, 9]))
    (top, sy, dy), (left, sx, dx) = draw(_axis(ih, kh)), draw(_axis(iw, kw))
    build = LayerBuilder(draw(st.integers(0, 99)))
    x = build.input("x", (draw(st.integers(1, 2)), ih, iw, draw(st.sampled_from([3, 8, 16, 20]))), DType.INT8)
    y = build.conv(
        x,
        1,
        (kh, kw),
        pad=(*top, *left),
        stride=(sy, sx),
        dilation=(dy, dx),
        depthwise=True,
        input_zp=draw(st.integers(-128, 127)),
        weight_zp=draw(st.integers(-128, 127)),
    )
    build.output(build.rescale(y, DType.INT8, per_channel=True) if draw(st.booleans()) else y)
    return build.finish()


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(_depthwise(), st.sampled_from([FEW_SUMS, CONFIGS["small"], BASE]))
def test_random_kernels(graph, config):
    assert_equal_to_golden(graph, config)
