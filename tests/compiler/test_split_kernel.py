"""Convolutions whose kernel exceeds the memories run as sums of parts, on a machine with very little memory."""

import dataclasses

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.oversize import split_oversize
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.split_kernel import _Axis, _weights
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
        ((1, 1, 1, 50), (3, 1, 1), [0, 0, 0, 0], 256, ["SLICE", "CONV2D"] + 3 * ["SLICE", "CONV2D", "ADD"]),
    ],
    ids=["rows", "fits", "taps that meet nothing", "channels"],
)
def test_no_more_parts_than_needed(shape, kernel, pad, wm_bytes, operators):
    assert _dense(shape, kernel, pad, dataclasses.replace(TINY, wm_bytes=wm_bytes)) == operators


def test_taps_that_just_miss_the_image() -> None:
    axis = _Axis(extent=3, outputs=2, taps=5, pad=0, stride=1, dilation=1)
    assert [axis.meets(tap) for tap in range(5)] == [True, True, True, False, False]
    # Its first output inside would be the one at 5, behind an image that ends there.
    assert not _Axis(extent=3, outputs=9, taps=1, pad=2, stride=5, dilation=1).meets(0)


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


Boxes = tuple[tuple[int, int], ...]
"""(first, count) of each axis."""
WEIGHTS: dict[bool, tuple[int, int, int, int]] = {False: (6, 5, 7, 2), True: (5, 7, 6, 2)}
"""By whether they are depthwise."""
PARTS: list[tuple[bool, Boxes]] = [
    (True, ((1, 3), (0, 7), (0, 6), (0, 2))),
    (True, ((4, 1), (2, 5), (0, 6), (0, 2))),
    (False, ((0, 6), (2, 3), (0, 7), (0, 2))),
    (False, ((0, 6), (4, 1), (1, 6), (0, 2))),
    (False, ((0, 6), (4, 1), (6, 1), (1, 1))),
]


def weights_of(depthwise: bool, boxes: Boxes, *, constant: bool) -> tuple[Rewriting, str, str]:
    """What a part of the weights is taken for, the weights and the part."""
    build, shape = LayerBuilder(5), WEIGHTS[depthwise]
    build.output(build.add("ABS", [build.input("x", (1, 5), DType.INT32)]))
    w = build.random_constant(shape, DType.INT8, -9, 9) if constant else build.input("w", shape, DType.INT8)
    graph = build.finish()
    new = Rewriting(graph, graph.operators[0])
    return new, w, _weights(new, w, *(boxes[:3] if depthwise else boxes[1:]), depthwise)


@pytest.mark.parametrize("depthwise, boxes", PARTS)
def test_a_part_of_constant_weights_is_a_constant(depthwise: bool, boxes: Boxes) -> None:
    new, w, part = weights_of(depthwise, boxes, constant=True)
    assert new.operators == []
    wanted = new.graph.const(w)[tuple(slice(first, first + count) for first, count in boxes)]
    np.testing.assert_array_equal(new.graph.const(part), wanted)


@pytest.mark.parametrize("depthwise, boxes", PARTS)
def test_a_part_of_weights_of_run_time_is_a_slice(depthwise: bool, boxes: Boxes) -> None:
    new, w, part = weights_of(depthwise, boxes, constant=False)
    (cut,) = new.operators
    places = [tuple(new.graph.const(name)) for name in cut.inputs[1:]]
    assert (cut.op, cut.inputs[0], cut.outputs) == ("SLICE", w, [part])
    assert places == list(zip(*boxes, strict=True))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("depthwise", [True, False])
def test_all_of_the_weights_are_the_weights(depthwise: bool, constant: bool) -> None:
    new, w, part = weights_of(
        depthwise, tuple((0, extent) for extent in WEIGHTS[depthwise]), constant=constant
    )
    assert (new.operators, part) == ([], w)
