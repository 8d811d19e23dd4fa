"""Convolutions whose weights are graph inputs or computed: emulator, with the race check, equal golden."""

import dataclasses
import functools

import pytest
from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder
from runtime_graphs import convolution, plane

from tosaic.compiler.ir import DType
from tosaic.hw.config_text import get_config

BASE, NANO = get_config("base"), get_config("nano")
TINY = dataclasses.replace(BASE, am_bytes=8 << 10, am_banks=1, wm_bytes=16 << 10)
check = functools.partial(assert_equal_to_golden, check_hazards=True)


CASES = {
    "3x3": dict(
        op="CONV2D", shape=(1, 6, 7, 8), kernel=(20, 3, 3, 8), input_zp=-7, weight_zp=5, **plane((1, 1, 1, 1))
    ),
    "1x1, whole tiles": dict(
        op="CONV2D", shape=(2, 3, 4, 16), kernel=(32, 1, 1, 16), weight_zp=-3, **plane()
    ),
    "dilated": dict(
        op="CONV2D",
        shape=(1, 9, 8, 5),
        kernel=(6, 2, 3, 5),
        input_zp=4,
        weight_zp=9,
        **plane(dilation=(3, 2)),
    ),
    "fully connected": dict(op="CONV2D", shape=(3, 1, 1, 21), kernel=(17, 1, 1, 21), weight_zp=1, **plane()),
    "one column": dict(
        op="CONV2D", shape=(1, 9, 1, 3), kernel=(5, 4, 1, 3), weight_zp=1, **plane((1, 2, 0, 0))
    ),
    "int4": dict(
        op="CONV2D", shape=(1, 5, 5, 6), kernel=(9, 2, 2, 6), dtype=DType.INT4, **plane(stride=(1, 3))
    ),
    "depthwise 3x3": dict(
        op="DEPTHWISE_CONV2D",
        shape=(1, 7, 6, 21),
        kernel=(3, 3, 21, 1),
        input_zp=3,
        weight_zp=-8,
        **plane((1, 1, 1, 1)),
    ),
    "depthwise 1x3": dict(
        op="DEPTHWISE_CONV2D", shape=(1, 4, 9, 5), kernel=(1, 3, 5, 1), weight_zp=2, **plane(stride=(1, 2))
    ),
    "diagonal, multiplier 2": dict(
        op="DEPTHWISE_CONV2D", shape=(1, 5, 6, 13), kernel=(2, 3, 13, 2), input_zp=3, weight_zp=2, **plane()
    ),
    "diagonal, multiplier 3": dict(
        op="DEPTHWISE_CONV2D", shape=(2, 4, 5, 12), kernel=(2, 2, 12, 3), weight_zp=-2, **plane((1, 0, 0, 1))
    ),
    "diagonal, multiplier above a tile": dict(
        op="DEPTHWISE_CONV2D", shape=(1, 3, 3, 3), kernel=(2, 2, 3, 19), weight_zp=-2, **plane()
    ),
    "diagonal, dilated": dict(
        op="DEPTHWISE_CONV2D",
        shape=(1, 7, 7, 18),
        kernel=(3, 3, 18, 1),
        dtype=DType.INT4,
        **plane(dilation=(2, 2)),
    ),
    "transposed": dict(
        op="TRANSPOSE_CONV2D",
        shape=(1, 4, 5, 6),
        kernel=(7, 3, 2, 6),
        input_zp=3,
        weight_zp=4,
        out_pad=[0, 1, -1, 0],
        stride=[2, 1],
    ),
    "3-D": dict(
        op="CONV3D",
        shape=(1, 4, 4, 5, 3),
        kernel=(6, 2, 2, 3, 3),
        input_zp=2,
        weight_zp=-9,
        pad=[1, 0, 0, 1, 1, 0],
        stride=[1, 1, 1],
        dilation=[1, 1, 1],
    ),
    "3-D, strided": dict(
        op="CONV3D",
        shape=(2, 5, 4, 4, 2),
        kernel=(3, 3, 1, 1, 2),
        dtype=DType.INT4,
        pad=[0] * 6,
        stride=[2, 1, 1],
        dilation=[1, 1, 1],
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("config", [NANO, BASE], ids=lambda config: config.name)
@pytest.mark.parametrize("tail", ["raw", "per tensor", "per channel"])
@pytest.mark.parametrize("name", CASES)
def test_weights_are_an_input(name, tail, config):
    check(convolution(**CASES[name], tail=tail), config)


@pytest.mark.long
@pytest.mark.parametrize("made", ["transpose", "rescale", "reshape"])
@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", ["3x3", "depthwise 3x3", "diagonal, multiplier 3", "transposed", "3-D"])
def test_weights_are_computed(name, optimize, made):
    graph = convolution(**CASES[name], made=made, tail="per channel")
    check(graph, BASE, optimize=optimize)


@pytest.mark.parametrize("name", ["3x3", "depthwise 3x3", "transposed", "3-D"])
def test_bias_is_an_input_too(name):
    check(convolution(**CASES[name], bias="input", tail="per tensor"), BASE)


@pytest.mark.long
@pytest.mark.parametrize(
    "case",
    [
        dict(op="CONV2D", shape=(1, 9, 9, 40), kernel=(70, 3, 3, 40), weight_zp=6, **plane()),
        dict(op="DEPTHWISE_CONV2D", shape=(1, 3, 3, 400), kernel=(3, 3, 400, 1), weight_zp=6, **plane()),
        dict(op="DEPTHWISE_CONV2D", shape=(1, 5, 5, 90), kernel=(3, 3, 90, 3), weight_zp=6, **plane()),
    ],
    ids=lambda case: case["op"],
)
def test_weights_exceed_the_activation_memory(case):
    check(convolution(**case, tail="per tensor"), TINY)


def test_weights_used_twice_and_as_data():
    """Two convolutions of different tile widths read one tensor, which a third one convolves."""
    build = LayerBuilder(3)
    x, w = build.input("x", (1, 5, 5, 6), DType.INT8), build.input("w", (18, 2, 2, 6), DType.INT8)
    w = build.add("REVERSE", [w], axis=0)
    zero_points = [build.zero_point(DType.INT8, 1), build.zero_point(DType.INT8, -2)]
    window = dict(acc_type=DType.INT32, local_bound=False, **plane())
    for source in (x, x, w):
        bias = build.random_constant((18,), DType.INT32, -500, 500)
        y = build.add("CONV2D", [source, w, bias, *zero_points], **window)
        build.output(y if source is x and len(build.graph.outputs) == 0 else build.rescale(y, DType.INT8))
    check(build.finish(), BASE)


def test_a_slice_that_is_data_and_weights():
    build = LayerBuilder(4)
    x = build.input("x", (5, 4, 4, 6), DType.INT8)
    part = build.add("SLICE", [x, build.shape((1, 1, 0, 0)), build.shape((3, 2, 3, 6))])
    bias = build.random_constant((3,), DType.INT32, -500, 500)
    zero_points = [build.zero_point(DType.INT8, 1), build.zero_point(DType.INT8, -2)]
    y = build.add(
        "CONV2D", [part, part, bias, *zero_points], acc_type=DType.INT32, local_bound=False, **plane()
    )
    build.output(build.rescale(y, DType.INT8))
    check(build.finish(), BASE)


def test_constant_data_and_weights_from_an_input():
    build = LayerBuilder(5)
    x = build.random_constant((1, 4, 4, 9), DType.INT8, -128, 127)
    w = build.input("w", (5, 3, 3, 9), DType.INT8)
    bias = build.random_constant((5,), DType.INT32, -500, 500)
    zero_points = [build.zero_point(DType.INT8, 1), build.zero_point(DType.INT8, -2)]
    y = build.add("CONV2D", [x, w, bias, *zero_points], acc_type=DType.INT32, local_bound=False, **plane())
    build.output(y)
    check(build.finish(), BASE)


@st.composite
def random_convolutions(draw):
    depthwise = draw(st.booleans())
    kh, kw, c = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 40))
    stride, dilation = (draw(st.tuples(st.integers(1, 2), st.integers(1, 2))) for _ in range(2))
    pad = draw(st.tuples(*[st.integers(0, 2)] * 4))
    sizes = [
        draw(st.integers(0, 4)) * s + (k - 1) * d + 1
        for s, k, d in zip(stride, (kh, kw), dilation, strict=True)
    ]
    sizes = [size - pad[2 * i] - pad[2 * i + 1] for i, size in enumerate(sizes)]
    # Whole steps, so that the output size divides evenly.
    sizes = [size + stride[i] * -(-max(0, 1 - size) // stride[i]) for i, size in enumerate(sizes)]
    return dict(
        op="DEPTHWISE_CONV2D" if depthwise else "CONV2D",
        shape=(draw(st.integers(1, 3)), *sizes, c),
        kernel=(kh, kw, c, draw(st.integers(1, 5))) if depthwise else (draw(st.integers(1, 40)), kh, kw, c),
        input_zp=draw(st.integers(-128, 127)),
        weight_zp=draw(st.integers(-128, 127)),
        tail=draw(st.sampled_from(["raw", "per tensor", "per channel"])),
        made=draw(st.sampled_from(["input", "transpose", "reshape"])),
        **plane(pad, stride, dilation),
    )


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(case=random_convolutions(), config=st.sampled_from([NANO, BASE, TINY]))
@pytest.mark.nightly
def test_random_convolutions(case, config):
    check(convolution(**case), config)
