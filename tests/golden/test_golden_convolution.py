"""The golden model's convolutions and MATMUL against the pseudo-code."""

import numpy as np
import pytest
import tosa_pseudocode as pseudocode
from hypothesis import given
from hypothesis import strategies as st
from integer_arrays import arrays, elements, parameter
from strict_oracle import check as strict_check
from strict_oracle import expected_or_none

from tosaic.compiler.ir import DType
from tosaic.sim.golden import evaluate_operator
from tosaic.sim.golden.taps import strided_overlap

# (input, weight, accumulator); zero points are allowed where the type is int8.
MODES = [
    (DType.INT8, DType.INT8, DType.INT32),
    (DType.INT8, DType.INT4, DType.INT32),
    (DType.INT16, DType.INT8, DType.INT48),
]
small = st.integers(1, 3)


def zero_point(draw, dtype):
    return draw(elements(dtype)) if dtype is DType.INT8 else 0


def axis_parameters(draw, kernel):
    """(input size, pad before, pad after, stride, dilation) with the exact division that TOSA demands."""
    before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    stride, dilation = draw(small), draw(st.integers(1, 2))
    outputs = draw(st.integers(1, 3))
    size = (outputs - 1) * stride + (kernel - 1) * dilation + 1 - before - after
    extra = -(-max(0, 1 - size) // stride) * stride
    return size + extra, before, after, stride, dilation


@st.composite
def biases(draw, out_t, channels):
    """Draws biases of 16 bits, which leave the sums room, or of the full width."""
    dtype = draw(st.sampled_from([DType.INT16, out_t]))
    return draw(arrays(dtype, (draw(st.sampled_from([1, channels])),))).astype(out_t.numpy)


@st.composite
def convolutions(draw, op, spatial):
    in_t, weight_t, out_t = draw(st.sampled_from(MODES))
    kernel = [draw(small) for _ in range(spatial)]
    axes = [axis_parameters(draw, k) for k in kernel]
    sizes = [a[0] for a in axes]
    batch, channels, last = draw(st.integers(1, 2)), draw(small), draw(small)
    if op == "DEPTHWISE_CONV2D":
        weight_shape, out_channels = (*kernel, channels, last), channels * last
    else:
        weight_shape, out_channels = (last, *kernel, channels), last
    operands = [
        draw(arrays(in_t, (batch, *sizes, channels))),
        draw(arrays(weight_t, weight_shape)),
        draw(biases(out_t, out_channels)),
        zero_point(draw, in_t),
        zero_point(draw, weight_t),
    ]
    attributes = {
        "pad": [p for a in axes for p in a[1:3]],
        "stride": [a[3] for a in axes],
        "dilation": [a[4] for a in axes],
    }
    return (in_t, weight_t, out_t), operands, attributes


def with_parameters(types, operands):
    *tensors, input_zp, weight_zp = operands
    return [*tensors, parameter(input_zp, types[0]), parameter(weight_zp, types[1])]


def compute(op, types, operands, attributes):
    out_t = types[2]
    (result,) = evaluate_operator(op, with_parameters(types, operands), attributes, [out_t])
    assert result.dtype == out_t.numpy
    return result


def check(op, oracle, case):
    types, operands, attributes = case
    expected = expected_or_none(lambda: oracle(*operands, **attributes, kind=types[2].name.lower()))
    strict_check(op, with_parameters(types, operands), attributes, types[2], expected)


@given(convolutions("CONV2D", 2))
def test_conv2d(case):
    check("CONV2D", pseudocode.conv2d, case)


@given(convolutions("CONV3D", 3))
def test_conv3d(case):
    check("CONV3D", pseudocode.conv3d, case)


@given(convolutions("DEPTHWISE_CONV2D", 2))
def test_depthwise_conv2d(case):
    check("DEPTHWISE_CONV2D", pseudocode.depthwise_conv2d, case)


@given(convolutions("CONV2D", 0))
def test_fully_connected(case):
    # A convolution without spatial axes: the pseudo-code's loops over them vanish.
    types, (input, weight, bias, input_zp, weight_zp), _ = case
    rows = (input[:, None, None], weight[:, None, None], bias, input_zp, weight_zp)
    one = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}
    expected = expected_or_none(lambda: pseudocode.conv2d(*rows, **one, kind=types[2].name.lower())[:, 0, 0])
    operands = with_parameters(types, [input, weight, bias, input_zp, weight_zp])
    strict_check("FULLY_CONNECTED", operands, {}, types[2], expected)


@st.composite
def transpose_convolutions(draw):
    in_t, weight_t, out_t = draw(st.sampled_from(MODES))
    kernel, stride = [draw(st.integers(1, 4)) for _ in range(2)], [draw(small) for _ in range(2)]
    sizes = [draw(small) for _ in range(2)]
    out_pad = []
    for size, k, s in zip(sizes, kernel, stride, strict=True):
        before = draw(st.integers(1 - k, 3))
        least = 1 - ((size - 1) * s + before + k)
        out_pad += [before, draw(st.integers(max(1 - k, least), max(3, least)))]
    channels, out_channels = draw(small), draw(small)
    operands = [
        draw(arrays(in_t, (draw(st.integers(1, 2)), *sizes, channels))),
        draw(arrays(weight_t, (out_channels, *kernel, channels))),
        draw(biases(out_t, out_channels)),
        zero_point(draw, in_t),
        zero_point(draw, weight_t),
    ]
    return (in_t, weight_t, out_t), operands, {"out_pad": out_pad, "stride": stride}


@given(transpose_convolutions())
def test_transpose_conv2d(case):
    check("TRANSPOSE_CONV2D", pseudocode.transpose_conv2d, case)


@given(st.data(), st.sampled_from([(DType.INT8, DType.INT32), (DType.INT16, DType.INT48)]))
def test_matmul(data, types):
    in_t, out_t = types
    n, h, c, w = (data.draw(small) for _ in range(4))
    a, b = data.draw(arrays(in_t, (n, h, c))), data.draw(arrays(in_t, (n, c, w)))
    a_zp, b_zp = zero_point(data.draw, in_t), zero_point(data.draw, in_t)
    expected = pseudocode.matmul(a, b, a_zp, b_zp, kind=out_t.name.lower())
    (result,) = evaluate_operator("MATMUL", [a, b, parameter(a_zp, in_t), parameter(b_zp, in_t)], {}, [out_t])
    assert result.dtype == out_t.numpy
    np.testing.assert_array_equal(result, expected)


def test_long_int16_matmul_is_exact_beyond_double_precision():
    # 2^23 products of 2^30 reach 2^53, where doubles stop being exact; the odd one must survive.
    a = np.full((1, 1, 1 << 23), -32768, dtype=np.int16)
    b = np.full((1, 1 << 23, 1), -32768, dtype=np.int16)
    a[0, 0, 0], b[0, 0, 0] = 1, 1
    zp = parameter(0, DType.INT16)
    (result,) = evaluate_operator("MATMUL", [a, b, zp, zp], {}, [DType.INT48])
    total = ((1 << 23) - 1) * (1 << 30) + 1
    assert result.item() == ((total + (1 << 47)) & ((1 << 48) - 1)) - (1 << 47)


@pytest.mark.parametrize("op", ["CONV2D", "DEPTHWISE_CONV2D"])
def test_int32_accumulator_wraps_at_the_bias(op):
    one = np.ones((1, 1, 1, 1), dtype=np.int8)
    bias = np.array([(1 << 31) - 1], dtype=np.int32)
    attributes = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}
    types = (DType.INT8, DType.INT8, DType.INT32)
    assert compute(op, types, [one, one, bias, 0, 0], attributes).item() == -(1 << 31)


@pytest.mark.parametrize("op", ["CONV2D", "DEPTHWISE_CONV2D"])
def test_int48_accumulator_wraps_at_the_bias(op):
    one = np.ones((1, 1, 1, 1), dtype=np.int16)
    bias = np.array([(1 << 47) - 1], dtype=np.int64)
    attributes = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}
    types = (DType.INT16, DType.INT8, DType.INT48)
    assert compute(op, types, [one, one.astype(np.int8), bias, 0, 0], attributes).item() == -(1 << 47)


@given(st.integers(0, 6), st.integers(1, 6), st.integers(1, 4), st.integers(-9, 9))
def test_strided_overlap(count, size, stride, offset):
    indices, targets = strided_overlap(count, size, stride, offset)
    expected = [j for j in range(count) if 0 <= j * stride + offset < size]
    assert list(range(count))[indices] == expected
    assert list(range(size))[targets] == [j * stride + offset for j in expected]


def test_depthwise_sums_of_int16_exceed_int32():
    """577 products of the largest values: 2,401,132,993."""
    image, weight = np.full((1, 1, 577, 1), 32767, np.int16), np.full((1, 577, 1, 1), 127, np.int8)
    operands = [image, weight, np.zeros(1, np.int64), np.zeros(1, np.int16), np.zeros(1, np.int8)]
    attributes = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}
    (sums,) = evaluate_operator("DEPTHWISE_CONV2D", operands, attributes, [DType.INT48])
    assert sums.item() == 577 * 32767 * 127 > 1 << 31
