"""Golden on floats: the specification's tables of special values, and its pseudo-code, loop by loop."""

import itertools
import math

import numpy as np
import pytest

from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator, Tensor, nearest
from tosaic.errors import InputError
from tosaic.sim.golden import evaluate, evaluate_operator

INF, NAN = math.inf, math.nan
ZERO = np.zeros(1, np.float32)


def compute(op, operands, attributes=None, out=DType.FP32):
    return evaluate_operator(op, operands, attributes or {}, [out])[0]


def same(computed, wanted):
    """Equal, NaN to NaN, and with equal signs of zero."""
    wanted = np.asarray(wanted, computed.dtype)
    np.testing.assert_array_equal(computed, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(computed[numbers]), np.signbit(wanted[numbers]))


# The tables "Floating-point behavior" of sections 2.6: results for -infinity, +infinity, -0, +0, NaN.
TABLES = {
    "ABS": [INF, INF, 0.0, 0.0, NAN],
    "CEIL": [-INF, INF, -0.0, 0.0, NAN],
    "EXP": [0.0, INF, 1.0, 1.0, NAN],
    "FLOOR": [-INF, INF, -0.0, 0.0, NAN],
    "LOG": [NAN, INF, -INF, -INF, NAN],
    "RECIPROCAL": [-0.0, 0.0, -INF, INF, NAN],
    "RSQRT": [NAN, 0.0, -INF, INF, NAN],
}


@pytest.mark.parametrize("held", [np.float16, np.float32])
@pytest.mark.parametrize("op", TABLES)
def test_special_values(op, held):
    out = DType.FP16 if held is np.float16 else DType.FP32
    same(compute(op, [np.array([-INF, INF, -0.0, 0.0, NAN], held)], out=out), TABLES[op])


def test_negate_of_special_values():
    given = np.array([-INF, INF, -0.0, 0.0, NAN], np.float32)
    same(compute("NEGATE", [given, ZERO, ZERO]), [INF, -INF, 0.0, -0.0, NAN])


# Table 5 of section 1.10, and the results that leave the type's range.
ARITHMETIC = [
    ("MUL", 0.0, INF, NAN),
    ("MUL", -INF, -0.0, NAN),
    ("ADD", INF, -INF, NAN),
    ("SUB", INF, INF, NAN),
    ("ADD", NAN, 1.0, NAN),
    ("ADD", 3e38, 3e38, INF),
    ("SUB", -3e38, 3e38, -INF),
    ("MUL", 1e-30, 1e-30, 0.0),
    ("MUL", -1e-30, 1e-30, -0.0),
    ("MAXIMUM", NAN, 1.0, NAN),
    ("MINIMUM", 1.0, NAN, NAN),
]


@pytest.mark.parametrize(("op", "a", "b", "result"), ARITHMETIC)
def test_arithmetic_of_special_values(op, a, b, result):
    operands = [np.array([a], np.float32), np.array([b], np.float32)]
    same(compute(op, operands + [np.zeros(1, np.int8)] * (op == "MUL")), [result])


def test_comparisons_with_nan_are_false_and_ignore_the_sign_of_zero():
    a, b = np.array([NAN, NAN, 1, 0.0], np.float32), np.array([NAN, 1, NAN, -0.0], np.float32)
    assert compute("EQUAL", [a, b], out=DType.BOOL).tolist() == [False, False, False, True]
    assert compute("GREATER", [a, b], out=DType.BOOL).tolist() == [False] * 4
    assert compute("GREATER_EQUAL", [a, b], out=DType.BOOL).tolist() == [False, False, False, True]


def test_nan_mode_ignore_takes_the_number():
    a, b = np.array([NAN, 1, NAN, 5], np.float32), np.array([2, NAN, NAN, 3], np.float32)
    ignore = {"nan_mode": "IGNORE"}
    same(compute("MAXIMUM", [a, b], ignore), [2, 1, NAN, 5])
    same(compute("MINIMUM", [a, b], ignore), [2, 1, NAN, 3])
    same(compute("CLAMP", [a], {"min_val": 2.0, "max_val": 4.0, **ignore}), [2, 2, 2, 4])
    same(compute("CLAMP", [a], {"min_val": 2.0, "max_val": 4.0}), [NAN, 2, NAN, 4])
    assert compute("ARGMAX", [a], {"axis": 0, **ignore}, DType.INT32).tolist() == 3
    assert compute("ARGMAX", [a], {"axis": 0}, DType.INT32).tolist() == 0


def test_cast_rounds_to_even_and_clips():
    given = np.array([-2.5, -1.5, 0.5, 2.5, 127.5, 300.0, -INF, 3e9], np.float32)
    assert compute("CAST", [given], out=DType.INT8).tolist() == [-2, -2, 0, 2, 127, 127, -128, 127]
    assert compute("CAST", [given], out=DType.INT32)[-2:].tolist() == [-(1 << 31), (1 << 31) - 1]
    large = np.array([(1 << 24) + 1, (1 << 24) + 3], np.int32)
    assert compute("CAST", [large]).tolist() == [1 << 24, (1 << 24) + 4]
    assert compute("CAST", [np.array([65520], np.float32)], out=DType.FP16).tolist() == [INF]


def convolution_of_the_specification(x, weight, bias, pad, stride, dilation):
    """Section 2.3.3, in float64."""
    batch, in_y, in_x, _ = x.shape
    out_channels, kernel_y, kernel_x, _ = weight.shape
    out_y = (in_y - 1 + pad[0] + pad[1] - (kernel_y - 1) * dilation[0]) // stride[0] + 1
    out_x = (in_x - 1 + pad[2] + pad[3] - (kernel_x - 1) * dilation[1]) // stride[1] + 1
    result = np.zeros((batch, out_y, out_x, out_channels))
    for n, oy, ox, oc in np.ndindex(result.shape):
        for ky, kx in np.ndindex(kernel_y, kernel_x):
            y = oy * stride[0] - pad[0] + ky * dilation[0]
            column = ox * stride[1] - pad[2] + kx * dilation[1]
            if 0 <= y < in_y and 0 <= column < in_x:
                result[n, oy, ox, oc] += x[n, y, column].astype(np.float64) @ weight[oc, ky, kx]
        result[n, oy, ox, oc] += bias[oc]
    return result


@pytest.mark.parametrize("dtype", [DType.FP16, DType.BF16, DType.FP32])
def test_convolution(dtype):
    rng = np.random.default_rng(3)
    x, weight, bias = (nearest(rng.normal(size=s), dtype) for s in ((2, 5, 6, 3), (4, 3, 2, 3), (4,)))
    zero = ZERO.astype(dtype.numpy)
    attributes = {"pad": [1, 0, 2, 1], "stride": [1, 2], "dilation": [1, 2]}
    computed = compute("CONV2D", [x, weight, bias, zero, zero], attributes, dtype)
    wanted = convolution_of_the_specification(x, weight, bias.astype(np.float64), **attributes)
    np.testing.assert_array_equal(computed, nearest(wanted, dtype))


def test_infinite_pixels_do_not_reach_the_padding():
    x = np.full((1, 2, 2, 1), INF, np.float32)
    weight = np.zeros((1, 3, 3, 1), np.float32)
    weight[0, 1, 1] = 1
    weight[0, 0] = -1
    attributes = {"pad": [1, 1, 1, 1], "stride": [1, 1], "dilation": [1, 1]}
    computed = compute("CONV2D", [x, weight, ZERO, ZERO, ZERO], attributes)
    # Zero times infinity is NaN inside the image; the top row lies above it and adds nothing there.
    assert np.isnan(computed).all()
    weight[0, 1:] = 1
    assert compute("CONV2D", [x, weight, ZERO, ZERO, ZERO], attributes)[0, 0].ravel().tolist() == [INF, INF]


def test_average_counts_the_positions_inside():
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4, 1)
    attributes = {"kernel": [2, 3], "stride": [1, 1], "pad": [1, 0, 1, 1]}
    computed = compute("AVG_POOL2D", [x, ZERO, ZERO], attributes)
    for oy, ox in np.ndindex(3, 4):
        window = [
            x[0, oy - 1 + ky, ox - 1 + kx, 0]
            for ky, kx in np.ndindex(2, 3)
            if 0 <= oy - 1 + ky < 3 and 0 <= ox - 1 + kx < 4
        ]
        assert computed[0, oy, ox, 0] == np.float32(math.fsum(window) / len(window))


def fourier_of_the_specification(real, imaginary, sign):
    """Section 2.3.6."""
    batch, height, width = real.shape
    out_real, out_imaginary = np.zeros_like(real), np.zeros_like(real)
    for n, oy, ox in np.ndindex(batch, height, width):
        for iy, ix in np.ndindex(height, width):
            a = sign * 2 * math.pi * ((iy * oy) / height + (ix * ox) / width)
            out_real[n, oy, ox] += real[n, iy, ix] * math.cos(a) + imaginary[n, iy, ix] * math.sin(a)
            out_imaginary[n, oy, ox] += -real[n, iy, ix] * math.sin(a) + imaginary[n, iy, ix] * math.cos(a)
    return out_real, out_imaginary


@pytest.mark.parametrize("size", [(2, 4, 8), (1, 1, 2), (1, 8, 1), (1, 1, 1)])
@pytest.mark.parametrize("inverse", [False, True])
def test_fourier_transform(size, inverse):
    rng = np.random.default_rng(4)
    real, imaginary = (rng.normal(size=size).astype(np.float32) for _ in range(2))
    outs = [DType.FP32, DType.FP32]
    computed = evaluate_operator("FFT2D", [real, imaginary], {"inverse": inverse}, outs)
    sources = [part.astype(np.float64) for part in (real, imaginary)]
    for got, wanted in zip(
        computed, fourier_of_the_specification(*sources, -1 if inverse else 1), strict=True
    ):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [(2, 4, 8), (1, 8, 2), (1, 1, 1)])
def test_fourier_transform_of_real_numbers(size):
    real = np.random.default_rng(5).normal(size=size).astype(np.float32)
    computed = evaluate_operator("RFFT2D", [real], {}, [DType.FP32, DType.FP32])
    wanted = fourier_of_the_specification(real.astype(np.float64), np.zeros(size), 1)
    for got, whole in zip(computed, wanted, strict=True):
        np.testing.assert_allclose(got, whole[:, :, : size[2] // 2 + 1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", ["NEAREST", "BILINEAR"])
def test_resize(mode):
    x = np.random.default_rng(6).normal(size=(1, 4, 5, 2)).astype(np.float32)
    (y_n, y_d, x_n, x_d), (off_y, off_x), (border_y, border_x) = (4, 3, 5, 2), (-1, 2), (2, 0)
    shapes = [np.array(v, np.int64) for v in ((y_n, y_d, x_n, x_d), (off_y, off_x), (border_y, border_x))]
    computed = compute("RESIZE", [x, *shapes], {"mode": mode})
    out_y, out_x = (3 * y_n - off_y + border_y) // y_d + 1, (4 * x_n - off_x + border_x) // x_d + 1
    assert computed.shape == (1, out_y, out_x, 2)
    for oy, ox in itertools.product(range(out_y), range(out_x)):
        iy, fy = divmod(oy * y_d + off_y, y_n)
        ix, fx = divmod(ox * x_d + off_x, x_n)
        dy, dx = fy / y_n, fx / x_n
        iy0, iy1, ix0, ix1 = max(iy, 0), min(iy + 1, 3), max(ix, 0), min(ix + 1, 4)
        if mode == "NEAREST":
            wanted = x[0, iy1 if dy >= 0.5 else iy0, ix1 if dx >= 0.5 else ix0].astype(np.float64)
        else:
            corners = x[0, [iy0, iy0, iy1, iy1], [ix0, ix1, ix0, ix1]].astype(np.float64)
            wanted = np.array([(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx]) @ corners
        np.testing.assert_allclose(computed[0, oy, ox], wanted, rtol=1e-6)


def test_a_loop_of_floats():
    """Halves x while it is greater than 1."""
    tensors = {"x": Tensor("x", (1,), DType.FP32), "y": Tensor("y", (1,), DType.FP32)}
    attributes = {"cond_graph": "cond", "body_graph": "body"}
    graph = Graph(
        "main", ["x"], ["y"], tensors, [Operator("WHILE_LOOP", ["x"], ["y"], attributes, "WHILE_LOOP_0")]
    )
    condition = GraphBuilder("cond")
    one = condition.constant([1.0], DType.FP32)
    condition.output(condition.add("GREATER", [condition.input("a", (1,), DType.FP32), one]))
    body = GraphBuilder("body")
    half, shift = body.constant([0.5], DType.FP32), body.constant([0], DType.INT8)
    body.output(body.add("MUL", [body.input("a", (1,), DType.FP32), half, shift]))
    graph.subgraphs = {"cond": condition.finish(), "body": body.finish()}
    assert evaluate(graph, {"x": np.array([11], np.float32)})["y"].tolist() == [0.6875]


def test_an_input_that_is_no_bf16_is_refused():
    build = GraphBuilder()
    build.output(build.add("ABS", [build.input("x", (2,), DType.BF16)], output="y"))
    graph = build.finish()
    with pytest.raises(
        InputError, match=r"^input 'x' bf16\[2\]: not every value is a bf16_t; round the array first"
    ):
        evaluate(graph, {"x": np.array([1, 0.1], np.float32)})
    rounded = nearest(np.array([-1, 0.1]), DType.BF16)
    assert evaluate(graph, {"x": rounded})["y"].tolist() == [1, 0.10009765625]
