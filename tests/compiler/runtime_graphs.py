"""Graphs whose weights are inputs or computed: convolutions, MATMULs, attention."""

import numpy as np
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType, Graph


def weights(build, shape, dtype, made):
    """A weight tensor that is not constant; `made` says where it comes from."""
    match made:
        case "input":
            return build.input("w", shape, dtype)
        case "transpose":
            turned = build.input("w", shape[::-1], dtype)
            return build.add("TRANSPOSE", [turned], perms=list(range(len(shape)))[::-1])
        case "rescale":
            return build.rescale(build.input("w", shape, DType.INT32), DType.INT8, output_zp=3, shift=42)
        case "reshape":
            flat = build.input("w", (int(np.prod(shape)),), dtype)
            return build.add("RESHAPE", [flat, build.shape(shape)])


def convolution(
    op,
    shape,
    kernel,
    *,
    dtype=DType.INT8,
    made="input",
    input_zp=0,
    weight_zp=0,
    tail="raw",
    bias="constant",
    **attributes,
):
    build = LayerBuilder(7)
    x = build.input("x", shape, DType.INT8)
    w = weights(build, kernel, dtype, made)
    channels = kernel[2] * kernel[3] if op == "DEPTHWISE_CONV2D" else kernel[0]
    offset = build.random_constant((channels,), DType.INT32, -5000, 5000)
    if bias == "input":
        offset = build.input("bias", (channels,), DType.INT32)
    zero_points = [build.zero_point(DType.INT8, input_zp), build.zero_point(dtype, weight_zp)]
    y = build.add(op, [x, w, offset, *zero_points], acc_type=DType.INT32, local_bound=False, **attributes)
    if tail != "raw":
        y = build.rescale(y, DType.INT8, per_channel=tail == "per channel", output_zp=-4)
    build.output(y)
    return build.finish()


def plane(pad=(0, 0, 0, 0), stride=(1, 1), dilation=(1, 1)):
    return dict(pad=list(pad), stride=list(stride), dilation=list(dilation))


def product(n, h, c, w, *, a_zp=0, b_zp=0, tail="raw", constant="", made="input"):
    """[n, h, c] times [n, c, w]; `constant` names the operands that are, `made` says where B comes from."""
    build = LayerBuilder(7)
    operands = []
    for name, shape in (("a", (n, h, c)), ("b", (n, c, w))):
        if name in constant:
            operands.append(build.random_constant(shape, DType.INT8, -128, 127))
        elif name == "b" and made == "transpose":
            turned = build.input(name, (n, w, c), DType.INT8)
            operands.append(build.add("TRANSPOSE", [turned], perms=[0, 2, 1]))
        elif name == "b" and made == "add":
            x = build.rescale(build.input(name, shape, DType.INT8), DType.INT32, shift=20)
            total = build.add("ADD", [x, build.input("other", shape, DType.INT32)])
            operands.append(build.rescale(total, DType.INT8, shift=43))
        else:
            operands.append(build.input(name, shape, DType.INT8))
    y = build.add("MATMUL", [*operands, *(build.zero_point(DType.INT8, zp) for zp in (a_zp, b_zp))])
    if tail != "raw":
        y = build.rescale(y, DType.INT8, per_channel=tail == "per channel", output_zp=-4)
        y = build.clamp(y, -100, 90)
    build.output(y)
    return build.finish()


def attention() -> Graph:
    """Scores of queries and keys, a table, and their product with the values."""
    build = LayerBuilder(5)
    q, k, v = (build.input(name, (4, 20, 24), DType.INT8) for name in "qkv")
    zero_points = [build.zero_point(DType.INT8, 3), build.zero_point(DType.INT8, -2)]
    keys = build.add("TRANSPOSE", [k], perms=[0, 2, 1])
    scores = build.rescale(build.add("MATMUL", [q, keys, *zero_points]), DType.INT8, shift=44)
    table = build.constant(np.random.default_rng(1).integers(-128, 128, 256), DType.INT8)
    weights = build.add("TABLE", [scores, table])
    build.output(build.rescale(build.add("MATMUL", [weights, v, *zero_points]), DType.INT8, shift=44))
    return build.finish()
