"""One small legal graph per operator in a floating-point mode; tensor "y" is its output."""

from collections.abc import Callable

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator, Tensor

FP16, BF16, FP32 = DType.FP16, DType.BF16, DType.FP32
UNARY = ("ABS", "CEIL", "EXP", "FLOOR", "LOG", "RECIPROCAL", "RSQRT")
UNARY_1_0 = ("COS", "SIN")
ACTIVATIONS = ("SIGMOID", "TANH")
BINARY = ("ADD", "SUB", "POW", "MAXIMUM", "MINIMUM")
COMPARISONS = ("EQUAL", "GREATER", "GREATER_EQUAL")
REDUCTIONS = ("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PRODUCT", "REDUCE_SUM")
_POOL = {"kernel": [3, 2], "stride": [2, 1], "pad": [1, 0, 1, 0]}
_rng = np.random.default_rng(5)


def _finish(build: GraphBuilder, op: str, inputs: list[str], **more: object) -> Graph:
    build.output(build.add(op, inputs, output="y", **more))
    return build.finish()


def unary(op: str, dtype: DType = FP32, **attributes: object) -> Graph:
    build = GraphBuilder()
    return _finish(build, op, [build.input("x", (2, 3), dtype)], **attributes)


def binary(op: str, dtype: DType = FP32, **attributes: object) -> Graph:
    build = GraphBuilder()
    inputs = [build.input("a", (2, 3, 1), dtype), build.input("b", (2, 1, 4), dtype)]
    return _finish(build, op, inputs, **attributes)


def mul(dtype: DType = FP32) -> Graph:
    build = GraphBuilder()
    inputs = [build.input("a", (2, 3), dtype), build.input("b", (1, 3), dtype)]
    return _finish(build, "MUL", [*inputs, build.constant([0], DType.INT8, "shift")])


def negate(dtype: DType = FP32) -> Graph:
    build = GraphBuilder()
    zeros = [build.constant([0], dtype, name) for name in ("input1_zp", "output_zp")]
    return _finish(build, "NEGATE", [build.input("x", (2, 3), dtype), *zeros])


def select(dtype: DType = FP32) -> Graph:
    build = GraphBuilder()
    inputs = [build.input("x", (2, 1), DType.BOOL)] + [build.input(name, (2, 3), dtype) for name in "ab"]
    return _finish(build, "SELECT", inputs)


def convolution(op: str, dtype: DType = FP32, result: DType | None = None, **attributes: object) -> Graph:
    build, result = GraphBuilder(), result or dtype
    shapes = {
        "CONV2D": ((1, 4, 5, 2), (3, 2, 3, 2), 3),
        "CONV3D": ((1, 3, 4, 5, 2), (3, 2, 2, 3, 2), 3),
        "DEPTHWISE_CONV2D": ((1, 4, 5, 2), (2, 3, 2, 2), 4),
        "TRANSPOSE_CONV2D": ((1, 4, 5, 2), (3, 2, 3, 2), 3),
    }
    data, weight, channels = shapes[op]
    axes = len(data) - 2
    if op == "TRANSPOSE_CONV2D":
        attributes = {"out_pad": [-1, 0, 0, 0], "stride": [2, 1]} | attributes
    else:
        attributes = {"pad": [1] * (2 * axes), "stride": [1] * axes, "dilation": [1] * axes} | attributes
    inputs = [
        build.input("x", data, dtype),
        build.constant(_rng.normal(size=weight), dtype, "weight"),
        build.constant(_rng.normal(size=channels), result, "bias"),
        build.constant([0], dtype, "input_zp"),
        build.constant([0], dtype, "weight_zp"),
    ]
    return _finish(build, op, inputs, **{"acc_type": FP32, "dtype": result} | attributes)


def avg_pool2d(dtype: DType = FP32, acc_type: DType = FP32) -> Graph:
    build = GraphBuilder()
    zeros = [build.constant([0], dtype, name) for name in ("input_zp", "output_zp")]
    x = build.input("x", (1, 4, 5, 2), dtype)
    return _finish(build, "AVG_POOL2D", [x, *zeros], acc_type=acc_type, **_POOL)


def max_pool2d(dtype: DType = FP32) -> Graph:
    build = GraphBuilder()
    return _finish(build, "MAX_POOL2D", [build.input("x", (1, 4, 5, 2), dtype)], **_POOL)


def matmul(dtype: DType = FP32, result: DType = FP32) -> Graph:
    build = GraphBuilder()
    inputs = [build.input("a", (2, 3, 4), dtype), build.input("b", (2, 4, 5), dtype)]
    zeros = [build.constant([0], dtype, name) for name in ("A_zp", "B_zp")]
    return _finish(build, "MATMUL", [*inputs, *zeros], dtype=result)


def resize(dtype: DType = FP32, scale: tuple[int, ...] = (3, 2, 3, 2)) -> Graph:
    build = GraphBuilder()
    parameters = [
        build.shape(values, name)
        for name, values in (("scale", scale), ("offset", (-1, -1)), ("border", (1, 1)))
    ]
    return _finish(
        build, "RESIZE", [build.input("x", (1, 3, 5, 2), dtype), *parameters], dtype=dtype, mode="BILINEAR"
    )


def cast(source: DType, result: DType) -> Graph:
    build = GraphBuilder()
    return _finish(build, "CAST", [build.input("x", (2, 3), source)], dtype=result)


def pad(dtype: DType = FP32) -> Graph:
    build = GraphBuilder()
    inputs = [build.input("x", (2, 3), dtype), build.shape([1, 0, 0, 2], "padding")]
    return _finish(build, "PAD", [*inputs, build.constant([-0.5], dtype, "pad_const")])


def gather(dtype: DType = FP32) -> Graph:
    build = GraphBuilder()
    inputs = [build.input("x", (2, 3, 4), dtype), build.input("indices", (2, 5), DType.INT32)]
    return _finish(build, "GATHER", inputs)


def fft2d() -> Graph:
    names = ("x", "imaginary", "y", "y_imaginary")
    tensors = {name: Tensor(name, (2, 4, 8), FP32) for name in names}
    operator = Operator("FFT2D", list(names[:2]), list(names[2:]), {"inverse": False}, "FFT2D_0")
    return Graph("main", list(names[:2]), list(names[2:]), tensors, [operator])


def rfft2d() -> Graph:
    tensors = {"x": Tensor("x", (2, 4, 8), FP32)}
    tensors |= {name: Tensor(name, (2, 4, 5), FP32) for name in ("y", "y_imaginary")}
    operator = Operator("RFFT2D", ["x"], ["y", "y_imaginary"], {}, "RFFT2D_0")
    return Graph("main", ["x"], ["y", "y_imaginary"], tensors, [operator])


GRAPHS: dict[str, Callable[..., Graph]] = {
    **{op: (lambda dtype=FP32, op=op: unary(op, dtype)) for op in (*UNARY, *UNARY_1_0, *ACTIVATIONS, "ERF")},
    **{op: (lambda dtype=FP32, op=op: binary(op, dtype)) for op in (*BINARY, *COMPARISONS)},
    **{op: (lambda dtype=FP32, op=op: unary(op, dtype, axis=1)) for op in (*REDUCTIONS, "REVERSE", "ARGMAX")},
    "CLAMP": lambda dtype=FP32: unary("CLAMP", dtype, min_val=-1.5, max_val=2.5),
    "IDENTITY": lambda dtype=FP32: unary("IDENTITY", dtype),
    "TRANSPOSE": lambda dtype=FP32: unary("TRANSPOSE", dtype, perms=[1, 0]),
    "MUL": mul,
    "NEGATE": negate,
    "SELECT": select,
    **{
        op: (lambda dtype=FP32, op=op: convolution(op, dtype))
        for op in ("CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D")
    },
    "AVG_POOL2D": avg_pool2d,
    "MAX_POOL2D": max_pool2d,
    "MATMUL": lambda dtype=FP32: matmul(dtype),
    "RESIZE": resize,
    "CAST": lambda dtype=FP16: cast(dtype, DType.INT8),
    "PAD": pad,
    "GATHER": gather,
}
"""Builders of graphs by operator; each takes the type."""
