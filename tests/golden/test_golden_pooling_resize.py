"""The golden model's pools, ARGMAX and RESIZE against the pseudo-code."""

import numpy as np
import pytest
import tosa_pseudocode as pseudocode
from hypothesis import given
from hypothesis import strategies as st
from integer_arrays import arrays, parameter
from strict_oracle import check, expected_or_none

from tosaic.compiler.ir import DType
from tosaic.sim.golden import evaluate_operator
from tosaic.sim.golden.arithmetic import reciprocal_scale

TYPES = st.sampled_from([DType.INT8, DType.INT16])
small = st.integers(1, 3)


@st.composite
def pools(draw):
    dtype = draw(TYPES)
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    stride = [draw(small) for _ in range(2)]
    pad, sizes = [], []
    for k, s in zip(kernel, stride, strict=True):
        before, after = draw(st.integers(0, k - 1)), draw(st.integers(0, k - 1))
        size = k - before - after + (draw(small) - 1) * s
        sizes.append(size + -(-max(0, 1 - size) // s) * s)
        pad += [before, after]
    image = draw(arrays(dtype, (draw(st.integers(1, 2)), *sizes, draw(small))))
    return dtype, image, {"kernel": kernel, "stride": stride, "pad": pad}


@given(pools())
def test_max_pool2d(case):
    dtype, image, attributes = case
    expected = pseudocode.pool2d(image, **attributes, visit=lambda v: max([*v, dtype.min]))
    (result,) = evaluate_operator("MAX_POOL2D", [image], attributes, [dtype])
    assert result.dtype == dtype.numpy
    np.testing.assert_array_equal(result, expected)


@given(pools(), st.integers(-128, 127), st.integers(-128, 127))
def test_avg_pool2d(case, input_zp, output_zp):
    dtype, image, attributes = case
    if dtype is DType.INT16:
        input_zp = output_zp = 0
    kind = dtype.name.lower()
    # A window entirely in the padding has no average.
    expected = expected_or_none(
        lambda: pseudocode.avg_pool2d(image, input_zp, output_zp, **attributes, kind=kind)
    )
    operands = [image, parameter(input_zp, dtype), parameter(output_zp, dtype)]
    check("AVG_POOL2D", operands, attributes, dtype, expected)


@pytest.mark.parametrize(("total", "mean"), [(1, 1), (-1, -1), (3, 2), (-3, -2), (2, 1), (-2, -1)])
def test_averages_round_ties_away_from_zero(total, mean):
    image = np.array([[[[total], [0]]]], dtype=np.int8)
    zero = parameter(0, DType.INT8)
    attributes = {"kernel": [1, 2], "stride": [1, 1], "pad": [0] * 4}
    (result,) = evaluate_operator("AVG_POOL2D", [image, zero, zero], attributes, [DType.INT8])
    assert result.item() == mean


@given(st.integers(1, (1 << 31) - 1))
def test_reciprocal_scale(value):
    assert tuple(int(x) for x in reciprocal_scale(value)) == pseudocode.reciprocal_scale(value)


@given(st.data(), TYPES)
def test_argmax(data, dtype):
    shape = data.draw(st.lists(small, min_size=1, max_size=4))
    # Few different values, so that ties are common: the lowest index wins.
    image = data.draw(arrays(dtype, tuple(shape))) >> data.draw(st.sampled_from([0, dtype.bits - 2]))
    axis = data.draw(st.integers(0, len(shape) - 1))
    (result,) = evaluate_operator("ARGMAX", [image], {"axis": axis}, [DType.INT32])
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, pseudocode.argmax(image, axis))


def test_argmax_of_all_minimum_is_zero():
    (result,) = evaluate_operator("ARGMAX", [np.full((3, 2), -128, np.int8)], {"axis": 0}, [DType.INT32])
    assert result.tolist() == [0, 0]


def resize_axis(draw, size):
    """(n, d, offset, border) of one axis, such that the output size is exact and positive."""
    n = draw(st.integers(1, 12))
    d = draw(st.integers(1, 16 * n - 1))
    offset = draw(st.integers(-n, 3 * n))
    span = (size - 1) * n - offset
    steps = draw(st.integers(0, 4))
    border = steps * d - span
    return n, d, offset, border


@given(st.data(), TYPES, st.sampled_from(["BILINEAR", "NEAREST"]))
def test_resize(data, dtype, mode):
    height, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    image = data.draw(arrays(dtype, (1, height, width, data.draw(st.integers(1, 2)))))
    y, x = resize_axis(data.draw, height), resize_axis(data.draw, width)
    scale, offset, border = [*y[:2], *x[:2]], [y[2], x[2]], [y[3], x[3]]
    expected = expected_or_none(lambda: pseudocode.resize(image, scale, offset, border, mode=mode))
    wide = DType.INT32 if dtype is DType.INT8 else DType.INT48
    out_t = wide if mode == "BILINEAR" else dtype
    shapes = [np.array(values, dtype=np.int64) for values in (scale, offset, border)]
    check("RESIZE", [image, *shapes], {"mode": mode}, out_t, expected)
