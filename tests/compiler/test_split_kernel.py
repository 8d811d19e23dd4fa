"""Convolutions whose kernel exceeds the memories run as sums of parts, on a machine with very little memory."""

import dataclasses

import pytest
from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.oversize import split_oversize
from tosaic.hw.config_text import get_config

TINY = dataclasses.replace(get_config("small"), name="tiny", am_bytes=8 << 10, wm_bytes=1 << 10)


@st.composite
def _axis(draw, extent: int, taps: int) -> tuple[list[int], int, int]:
    """(pads, stride, dilation) of an axis for which the output is a whole number of strides."""
    dilation, stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    before = draw(st.integers(0, 2 * taps))
    room = extent - 1 + before - (taps - 1) * dilation
    after = max(0, -room) + draw(st.integers(0, 2)) * stride
    return [before, after + -(room + after) % stride], stride, dilation


@st.composite
def _convolutions(draw) -> Graph:
    depthwise = draw(st.booleans())
    ih, iw = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    ic = draw(st.sampled_from([1, 3, 8, 20]))
    kh, kw = draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 7, 31]))
    (top, sy, dy), (left, sx, dx) = draw(_axis(ih, kh)), draw(_axis(iw, kw))
    build = LayerBuilder(draw(st.integers(0, 99)))
    x = build.input("x", (draw(st.integers(1, 2)), ih, iw, ic), DType.INT8)
    weights = (kh, kw, ic, draw(st.integers(1, 2))) if depthwise else (draw(st.integers(1, 9)), kh, kw, ic)
    operands = [
        x,
        build.random_constant(weights, DType.INT8, -128, 127),
        build.random_constant((1,), DType.INT32, -5000, 5000),
        build.zero_point(DType.INT8, draw(st.integers(-128, 127))),
        build.zero_point(DType.INT8, draw(st.integers(-128, 127))),
    ]
    result = build.add(
        "DEPTHWISE_CONV2D" if depthwise else "CONV2D",
        operands,
        acc_type=DType.INT32,
        local_bound=False,
        pad=[*top, *left],
        stride=[sy, sx],
        dilation=[dy, dx],
    )
    build.output(build.rescale(result, DType.INT8) if draw(st.booleans()) else result)
    return build.finish()


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(_convolutions())
def test_random_convolutions(graph):
    assert_equal_to_golden(graph, TINY)


def _dense(shape, kernel, pad, config) -> list[str]:
    """The operators of a split CONV2D that gives int32."""
    build = LayerBuilder(3)
    x = build.input("x", shape, DType.INT8)
    operands = [x, build.random_constant((*kernel, shape[-1]), DType.INT8, -128, 127)]
    operands += [
        build.random_constant((kernel[0],), DType.INT32, -9, 9),
        build.zero_point(DType.INT8, 4),
        build.zero_point(DType.INT8, 2),
    ]
    attributes = dict(acc_type=DType.INT32, local_bound=False, pad=pad, stride=[1, 1], dilation=[1, 1])
    build.output(build.add("CONV2D", operands, **attributes))
    graph = build.finish()
    assert_equal_to_golden(graph, config)
    return [operator.op for operator in split_oversize(graph, config).operators]


@pytest.mark.parametrize(
    "shape, kernel, pad, wm_bytes, operators",
    [
        ((1, 4, 4, 8), (3, 3, 3), [0, 0, 0, 0], 512, ["CONV2D"] + 2 * ["CONV2D", "ADD"]),
        ((1, 1, 70, 1), (3, 1, 64), [0, 0, 0, 0], 4096, ["CONV2D"]),
        ((1, 1, 3, 1), (3, 1, 400), [0, 0, 398, 0], 512, ["CONV2D"]),
        ((1, 1, 32, 1), (3, 1, 400), [0, 0, 0, 369], 512, ["CONV2D"]),
        ((1, 1, 33, 1), (3, 1, 400), [0, 0, 368, 0], 512, ["CONV2D", "CONV2D", "ADD"]),
        ((1, 1, 1, 50), (3, 1, 1), [0, 0, 0, 0], 256, ["SLICE", "CONV2D"] + 3 * ["SLICE", "CONV2D", "ADD"]),
    ],
    ids=["rows", "fits", "taps that meet nothing", "taps that just miss", "taps that just meet", "channels"],
)
def test_no_more_parts_than_needed(shape, kernel, pad, wm_bytes, operators):
    assert _dense(shape, kernel, pad, dataclasses.replace(TINY, wm_bytes=wm_bytes)) == operators


@pytest.mark.parametrize("depthwise", [False, True])
def test_weights_of_run_time(depthwise: bool) -> None:
    """Parts of the kernel are sliced where it is no constant."""
    build = LayerBuilder(5)
    x = build.input("x", (1, 5, 6, 20), DType.INT8)
    weights = build.input("weights", (5, 7, 20, 1) if depthwise else (6, 5, 7, 20), DType.INT8)
    count = 20 if depthwise else 6
    operands = [x, weights, build.random_constant((count,), DType.INT32, -99, 99)]
    operands += [build.zero_point(DType.INT8, 0), build.zero_point(DType.INT8, 0)]
    attributes = dict(
        acc_type=DType.INT32, local_bound=False, pad=[2, 2, 3, 3], stride=[1, 1], dilation=[1, 1]
    )
    build.output(build.add("DEPTHWISE_CONV2D" if depthwise else "CONV2D", operands, **attributes))
    graph = build.finish()
    config = dataclasses.replace(TINY, wm_bytes=512)
    split = [operator.op for operator in split_oversize(graph, config).operators]
    assert split.count(graph.operators[-1].op) > 1 and "SLICE" in split
    assert_equal_to_golden(graph, config)
