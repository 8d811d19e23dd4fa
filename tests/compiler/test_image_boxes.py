"""Windowed layers larger than the activation memory, cut into boxes of rows, columns and channels."""

import dataclasses

import pytest
from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType, Graph
from tosaic.hw.config_text import get_config

TINY = dataclasses.replace(get_config("small"), name="tiny", am_bytes=1 << 10, wm_bytes=1 << 10)


def _behind(draw, build: LayerBuilder, result: str) -> str:
    """Perhaps a RESCALE, perhaps one per channel, perhaps a residual sum."""
    kind = draw(st.sampled_from(["raw", "rescaled", "per channel", "sum"]))
    if kind == "raw":
        return result
    small = build.rescale(result, DType.INT8, per_channel=kind == "per channel")
    if kind == "sum":
        wide = build.rescale(small, DType.INT32)
        other = build.rescale(build.input("other", build.graph.tensors[small].shape, DType.INT8), DType.INT32)
        return build.rescale(build.add("ADD", [wide, other]), DType.INT8)
    return small


@st.composite
def _axis(draw, extents, kernels, dilations) -> tuple[int, int, list[int], int, int]:
    """(extent, kernel, pads, stride, dilation) of an axis; the output is a whole number of strides."""
    extent, kernel, dilation = draw(extents), draw(kernels), draw(dilations)
    stride, before = draw(st.integers(1, 3)), draw(st.integers(0, kernel))
    room = extent - 1 + before - (kernel - 1) * dilation
    after = max(0, -room)
    return extent, kernel, [before, after + -(room + after) % stride], stride, dilation


_ROWS = _axis(st.integers(1, 6), st.integers(1, 3), st.integers(1, 2))
_COLUMNS = _axis(st.sampled_from([1, 5, 40, 300]), st.integers(1, 4), st.integers(1, 3))


@st.composite
def _convolutions(draw) -> Graph:
    depthwise = draw(st.booleans())
    (ih, kh, top, sy, dy), (iw, kw, left, sx, dx) = draw(_ROWS), draw(_COLUMNS)
    ic = draw(st.sampled_from([1, 3, 8, 20]))
    build = LayerBuilder(draw(st.integers(0, 99)))
    x = build.input("x", (draw(st.integers(1, 2)), ih, iw, ic), DType.INT8)
    multiplier, oc = draw(st.integers(1, 3)), draw(st.sampled_from([1, 7, 40, 100]))
    weights = (kh, kw, ic, multiplier) if depthwise else (oc, kh, kw, ic)
    operands = [
        x,
        build.random_constant(weights, DType.INT8, -128, 127),
        build.random_constant((ic * multiplier if depthwise else oc,), DType.INT32, -5000, 5000),
        build.zero_point(DType.INT8, draw(st.integers(-128, 127))),
        build.zero_point(DType.INT8, draw(st.integers(-128, 127))),
    ]
    attributes = dict(acc_type=DType.INT32, local_bound=False)
    attributes |= dict(pad=[*top, *left], stride=[sy, sx], dilation=[dy, dx])
    result = build.add("DEPTHWISE_CONV2D" if depthwise else "CONV2D", operands, **attributes)
    build.output(_behind(draw, build, result))
    return build.finish()


@settings(max_examples=50, deadline=None)
@given(_convolutions())
def test_convolutions(graph):
    assert_equal_to_golden(graph, TINY)


@st.composite
def _pool_axis(draw, extents) -> tuple[int, int, list[int], int]:
    """(extent, kernel, pads, stride); pads are smaller than the kernel."""
    extent, kernel, stride = draw(extents), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    before = draw(st.integers(0, kernel - 1))
    room = extent + before - kernel
    after = max(0, -room)
    rest = -(room + after) % stride
    return (
        (extent, kernel, [before, after + rest], stride) if after + rest < kernel else (extent, 1, [0, 0], 1)
    )


@st.composite
def _pools(draw) -> Graph:
    ih, kh, top, sy = draw(_pool_axis(st.integers(1, 6)))
    iw, kw, left, sx = draw(_pool_axis(st.sampled_from([1, 5, 40, 300])))
    dtype = draw(st.sampled_from([DType.INT8, DType.INT16]))
    # Forty times the activation memory: enough boxes, and none of the hundreds of which each costs a second.
    channels = draw(st.sampled_from([size for size in (1, 3, 20, 200) if ih * iw * size <= 40 << 10]))
    build = LayerBuilder(draw(st.integers(0, 99)))
    x = build.input("x", (draw(st.integers(1, 2)), ih, iw, channels), dtype)
    attributes = dict(kernel=[kh, kw], pad=[*top, *left], stride=[sy, sx])
    if draw(st.booleans()):
        zero_points = [build.zero_point(dtype, 7 if dtype is DType.INT8 else 0) for _ in range(2)]
        result = build.add("AVG_POOL2D", [x, *zero_points], acc_type=DType.INT32, **attributes)
    else:
        result = build.add("MAX_POOL2D", [x], nan_mode="PROPAGATE", **attributes)
    if draw(st.booleans()):
        other = build.input("other", build.graph.tensors[result].shape, dtype)
        result = build.add("BITWISE_XOR", [result, other])
    build.output(result)
    return build.finish()


@settings(max_examples=20, deadline=None)
@given(_pools())
def test_pools(graph):
    assert_equal_to_golden(graph, TINY)


SMALL_PARTS = dataclasses.replace(get_config("small"), name="small parts", am_bytes=4 << 10, wm_bytes=4 << 10)


@pytest.mark.parametrize("depthwise", [False, True])
def test_parameters_of_many_channels_are_fetched_box_by_box(depthwise):
    build = LayerBuilder(5)
    x = build.input("x", (1, 2, 3, 700 if depthwise else 5), DType.INT8)
    result = build.conv(x, 1 if depthwise else 700, (2, 2), pad=(1, 0, 0, 1), depthwise=depthwise)
    build.output(build.rescale(result, DType.INT8, per_channel=True))
    assert_equal_to_golden(build.finish(), SMALL_PARTS)


def test_wide_images_use_the_depthwise_mode_in_ranges_of_columns():
    build = LayerBuilder(6)
    x = build.input("x", (1, 5, 300, 8), DType.INT8)
    build.output(build.rescale(build.conv(x, 1, (3, 3), pad=(1, 1, 1, 1), depthwise=True), DType.INT8))
    assert_equal_to_golden(build.finish(), "base")


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_rescale_per_channel_by_itself(data):
    """Rows that do not fit, channels whose parameters do not fit, operands that broadcast."""
    rows, channels = data.draw(st.sampled_from([(1, 1), (37, 3), (9, 60), (3, 300), (200, 5), (1, 700)]))
    source = data.draw(st.sampled_from([DType.INT8, DType.INT16, DType.INT32]))
    target = data.draw(st.sampled_from([DType.INT8, DType.INT16, DType.INT32]))
    build = LayerBuilder(data.draw(st.integers(0, 99)))
    x = build.input("x", (2, rows, channels), source)
    if source is DType.INT32 and data.draw(st.booleans()):
        shape = data.draw(st.sampled_from([(2, 1, channels), (1, rows, 1), (1, 1, 1)]))
        x = build.add("ADD", [x, build.input("y", shape, source)])
    build.output(build.rescale(x, target, per_channel=True))
    assert_equal_to_golden(build.finish(), TINY)
