"""Forms of ONNX's layers for `random_onnx`, and of operators of ONNX Runtime's own among them."""

import numpy as np
from onnx import TensorProto, helper
from random_onnx import NotHereError, RandomOnnx, form

FLOAT = TensorProto.FLOAT


@form
def convolution(g: RandomOnnx) -> None:
    rank = g.pick(3, 4, 4, 4)
    x = g.real(rank)
    channels = g.values[x].shape[1]
    groups = g.pick(1, 1, channels)
    width = groups * g.pick(1, 2, 3)
    kernel = [g.pick(1, 2, 3) for _ in range(rank - 2)]
    more = [g.reals(width)] if g.maybe() else []
    attributes = {"auto_pad": g.pick("SAME_UPPER", "SAME_LOWER", "VALID")}
    if g.maybe():
        attributes = {"pads": [g.pick(0, 1, 2) for _ in range(2 * (rank - 2))]}
    g.one(
        "Conv",
        x,
        g.reals(width, channels // groups, *kernel, scale=0.5),
        *more,
        group=groups,
        strides=g.pick(None, [g.pick(1, 2) for _ in kernel]),
        dilations=g.pick(None, None, [g.pick(1, 2) for _ in kernel]) if "pads" in attributes else None,
        **attributes,
    )


@form
def transposed_convolution(g: RandomOnnx) -> None:
    x = g.real(4)
    channels = g.values[x].shape[1]
    groups = g.pick(1, channels)
    more = [g.reals(groups * 2)] if g.maybe() else []
    g.one(
        "ConvTranspose",
        x,
        g.reals(channels, 2, g.pick(2, 3), g.pick(1, 3), scale=0.5),
        *more,
        group=groups,
        strides=g.pick(None, [2, 2], [1, 2]),
        pads=g.pick(None, [1, 0, 0, 0]),
        output_padding=g.pick(None, None, [0, 1]),
    )


@form
def pool(g: RandomOnnx) -> None:
    x = g.tensor("float32 float32 float32 int8", (3, 4))
    spatial = g.values[x].ndim - 2
    op = "MaxPool" if g.values[x].dtype != np.float32 else g.pick("MaxPool", "AveragePool", "AveragePool")
    attributes = {"kernel_shape": [g.pick(2, 3) for _ in range(spatial)]}
    if g.maybe(4):
        attributes["auto_pad"] = g.pick("SAME_UPPER", "SAME_LOWER")
    else:
        attributes["pads"] = [g.pick(0, 1) for _ in range(2 * spatial)]
        attributes["ceil_mode"] = g.pick(0, 0, 1)
    if g.maybe():
        attributes["strides"] = [g.pick(1, 2) for _ in range(spatial)]
    if op == "AveragePool":
        attributes["count_include_pad"] = g.pick(0, 1)
    g.one(op, x, **attributes)


@form
def global_pool(g: RandomOnnx) -> None:
    g.one(g.pick("GlobalAveragePool", "GlobalMaxPool"), g.real(3, 4))


@form
def lp_pool(g: RandomOnnx) -> None:
    x = g.real(4)
    if min(g.values[x].shape[2:]) < 2:  # ONNX Runtime makes one window of less than one
        raise NotHereError
    g.one("LpPool", x, kernel_shape=[2, 2], strides=g.pick(None, [2, 2]), p=2)


@form
def batch_norm(g: RandomOnnx) -> None:
    x = g.real(2, 3, 4)
    size = g.values[x].shape[1]
    variance = g.constant(g.random.uniform(0.3, 2, size))
    g.one("BatchNormalization", x, *(g.reals(size) for _ in range(3)), variance, epsilon=g.pick(None, 1e-3))


@form
def instance_norm(g: RandomOnnx) -> None:
    x = g.real(3, 4)
    size = g.values[x].shape[1]
    g.one("InstanceNormalization", x, g.reals(size), g.reals(size), epsilon=g.pick(None, 1e-2))


@form
def layer_norm(g: RandomOnnx) -> None:
    x = g.real(2, 3, 4)
    rank = g.values[x].ndim
    axis = int(g.random.integers(1, rank))
    part = g.values[x].shape[axis:]
    if np.prod(part) < 2:
        raise NotHereError
    bias = [g.reals(*part)] if g.maybe() else []
    g.one(
        "LayerNormalization",
        x,
        g.reals(*part),
        *bias,
        axis=g.pick(axis, axis - rank),
        epsilon=g.pick(None, 1e-2),
    )


@form
def skip_norm(g: RandomOnnx) -> None:
    x = g.real(3)
    size = g.values[x].shape[-1]
    if size < 2:
        raise NotHereError
    skip = g.one("Tanh", x)
    op = g.pick("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
    g.one(op, x, skip, g.reals(size), domain="com.microsoft", epsilon=1e-3)


@form
def other_norms(g: RandomOnnx) -> None:
    x = g.real(4)
    if g.maybe():
        g.one("MeanVarianceNormalization", x)
    else:
        g.one(
            "LRN",
            x,
            size=g.pick(1, 3, 4),
            alpha=g.pick(None, 0.1),
            beta=g.pick(None, 0.5),
            bias=g.pick(None, 2.0),
        )


@form
def lp_norm(g: RandomOnnx) -> None:
    x = g.real()
    g.one("LpNormalization", x, axis=g.pick(None, 0, -1), p=g.pick(None, 1, 2))


@form
def softmax(g: RandomOnnx) -> None:
    x = g.real()
    axis = g.pick(None, int(g.random.integers(-g.values[x].ndim, g.values[x].ndim)))
    g.one(g.pick("Softmax", "Softmax", "LogSoftmax", "Hardmax"), x, axis=axis)


@form
def matrix_product(g: RandomOnnx) -> None:
    x = g.real(1, 2, 3, 4)
    shape = g.values[x].shape
    if g.maybe() or len(shape) == 1:
        batch = shape[:1] if len(shape) == 3 and g.maybe() else ()
        g.one("MatMul", x, g.reals(*batch, shape[-1], g.pick(1, 3, 5), scale=0.5))
    else:
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        g.one("MatMul", x, g.one("Transpose", x, perm=order))


@form
def gemm(g: RandomOnnx) -> None:
    x = g.real(2)
    rows, columns = g.values[x].shape
    turned = g.maybe()
    depth, height = (rows, columns) if turned else (columns, rows)
    width, over = g.pick(1, 3, 6), g.maybe()
    bias = [g.reals(*g.pick((width,), (1, width), (height, 1), ()))] if g.maybe() else []
    g.one(
        "Gemm",
        x,
        g.reals(*((width, depth) if over else (depth, width)), scale=0.5),
        *bias,
        transA=int(turned),
        transB=int(over),
        alpha=g.pick(None, 0.6),
        beta=g.pick(None, 1.4),
    )


@form
def einsum(g: RandomOnnx) -> None:
    x = g.real(2, 3)
    shape = g.values[x].shape
    if len(shape) == 2:
        g.one("Einsum", x, g.reals(shape[1], 3), equation=g.pick("ij,jk->ik", "ij,jk->ki", "ij,jk"))
    else:
        g.one(
            "Einsum", x, g.reals(shape[2], 3), equation=g.pick("bij,jk->bik", "bij,jk->bk", "...j,jk->...k")
        )


@form
def resize(g: RandomOnnx) -> None:
    x = g.real(4)
    mode = g.pick("nearest", "linear", "linear", "cubic")
    transform = g.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    # A fractional length counts otherwise in ONNX Runtime than in ONNX's node tests.
    scales = g.constant(
        [1, 1, 2, 3] if transform == "align_corners" else [1, 1, g.pick(1, 2, 0.5), g.pick(1.5, 3)]
    )
    nearest = g.pick("floor", "round_prefer_floor", "ceil") if mode == "nearest" else None
    g.one("Resize", x, "", scales, mode=mode, coordinate_transformation_mode=transform, nearest_mode=nearest)


@form
def grid_sample(g: RandomOnnx) -> None:
    if g.opset < 16:
        raise NotHereError
    x = g.real(4)
    grid = g.constant(g.random.uniform(-1.2, 1.2, (g.values[x].shape[0], 3, 4, 2)))
    modes = ("linear", "nearest") if g.opset >= 20 else ("bilinear", "nearest")
    g.one(
        "GridSample",
        x,
        grid,
        mode=g.pick(*modes),
        padding_mode=g.pick("zeros", "border", "reflection"),
        align_corners=g.pick(0, 1),
    )


@form
def dropout(g: RandomOnnx) -> None:
    g.one("Dropout", g.real())


@form
def recurrence(g: RandomOnnx) -> None:
    x = g.real(3)
    steps, _, size = g.values[x].shape
    op = g.pick("LSTM", "GRU", "RNN")
    gates, units = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], g.pick(2, 4)
    ways = g.pick("forward", "reverse", "bidirectional")
    count = 2 if ways == "bidirectional" else 1
    weights = [g.reals(count, gates * units, n, scale=0.4) for n in (size, units)]
    bias = [g.reals(count, 2 * gates * units, scale=0.2)] if g.maybe() else []
    more = {"linear_before_reset": g.pick(0, 1)} if op == "GRU" else {}
    g.add(op, [x, *weights, *bias], g.pick(1, 2), hidden_size=units, direction=ways, **more)


@form
def attention(g: RandomOnnx) -> None:
    """Projections, heads, scores, and now and then a mask."""
    x = g.real(3)
    batch, length, size = g.values[x].shape
    if size % 2 or length < 2:
        raise NotHereError
    shape = g.constant([batch, length, 2, size // 2], np.int64)
    parts = [g.one("Reshape", g.one("MatMul", x, g.reals(size, size, scale=0.4)), shape) for _ in range(3)]
    q, v = (g.one("Transpose", part, perm=[0, 2, 1, 3]) for part in (parts[0], parts[2]))
    scores = g.one("MatMul", q, g.one("Transpose", parts[1], perm=[0, 2, 3, 1]))
    if g.maybe():
        keep = g.input(g.pick("bool", "int64"), (length,), high=2)
        condition = g.one("Cast", keep, to=TensorProto.BOOL)
        scores = g.one("Where", condition, scores, g.constant(g.pick(-20.0, -1e4)))
    g.one("MatMul", g.one("Softmax", scores, axis=-1), v)


@form
def fused_attention(g: RandomOnnx) -> None:
    x = g.real(3)
    _, _, size = g.values[x].shape
    if size % 2:
        raise NotHereError
    q, k, v = (g.one("MatMul", x, g.reals(size, size, scale=0.4)) for _ in range(3))
    g.one("MultiHeadAttention", q, k, v, domain="com.microsoft", num_heads=2, unidirectional=g.pick(0, 1))


@form
def fused_product(g: RandomOnnx) -> None:
    x = g.real(2, 3)
    depth = g.values[x].shape[-1]
    g.one("FusedMatMul", x, g.reals(3, depth), domain="com.microsoft", transB=1, alpha=g.pick(0.5, 2.0))


@form
def blocked_product(g: RandomOnnx) -> None:
    """Weights of 4 or 8 bits in blocks."""
    x = g.real(2, 3)
    depth, width, bits = g.values[x].shape[-1], g.pick(2, 5), g.pick(4, 8)
    packed = g.constant(g.random.integers(0, 256, (width, 1, 16 * bits // 8)), np.uint8)
    scales = g.constant(g.random.uniform(0.01, 0.1, (width, 1)))
    zero = [g.constant(g.random.integers(0, 256, (width, 1)), np.uint8)] if g.maybe() else []
    attributes = {"K": depth, "N": width, "bits": bits, "block_size": 16}
    g.one("MatMulNBits", x, packed, scales, *zero, domain="com.microsoft", **attributes)


@form
def group_norm(g: RandomOnnx) -> None:
    x = g.real(3, 4)
    channels = g.values[x].shape[1]
    if g.opset < 21 or channels % 2:
        raise NotHereError
    g.one("GroupNormalization", x, g.reals(channels), g.reals(channels), num_groups=g.pick(1, 2))


@form
def rms_norm(g: RandomOnnx) -> None:
    if g.opset < 23:
        raise NotHereError
    x = g.real(2, 3)
    g.one("RMSNormalization", x, g.reals(g.values[x].shape[-1]), epsilon=g.pick(None, 1e-2))


@form
def whole_attention(g: RandomOnnx) -> None:
    """The operator of opset 23 and later."""
    if g.opset < 23:
        raise NotHereError
    x = g.real(3)
    size = g.values[x].shape[-1]
    if size % 2:
        raise NotHereError
    q, k, v = (g.one("MatMul", x, g.reals(size, size, scale=0.4)) for _ in range(3))
    g.one(
        "Attention", q, k, v, q_num_heads=2, kv_num_heads=2, is_causal=g.pick(0, 1), softcap=g.pick(None, 2.0)
    )


@form
def rotary(g: RandomOnnx) -> None:
    if g.opset < 23:
        raise NotHereError
    x = g.real(4)
    batch, _, length, size = g.values[x].shape
    if size % 2:
        raise NotHereError
    angles = g.random.uniform(-3, 3, (batch, length, size // 2))
    tables = (g.constant(np.cos(angles)), g.constant(np.sin(angles)))
    g.one("RotaryEmbedding", x, *tables, interleaved=g.pick(0, 1))


@form
def cache(g: RandomOnnx) -> None:
    """New rows of a cache, at a place that is known or not."""
    if g.opset < 24:
        raise NotHereError
    x = g.real(3, 4)
    batch, *others = g.values[x].shape
    new = list(g.values[x].shape)
    new[-2] = 1
    if g.maybe():
        first = g.constant(g.random.integers(0, others[-2], batch), np.int64)
    else:
        first = g.input("int64", (batch,), high=others[-2])
    g.one("TensorScatter", x, g.reals(*new), first, mode=g.pick("linear", "circular"))


@form
def branches(g: RandomOnnx) -> None:
    """Adds both branches of a condition that is known at run time."""
    x = g.real(1, 2, 3)
    condition = g.input("bool", (1,))
    kinds = g.pick(("Relu", "Neg"), ("Tanh", "Abs"))
    made = [
        helper.make_graph(
            [helper.make_node(op, [x], [f"{op}_{len(g.nodes)}"])],
            op,
            [],
            [helper.make_tensor_value_info(f"{op}_{len(g.nodes)}", FLOAT, g.values[x].shape)],
        )
        for op in kinds
    ]
    g.one("If", condition, then_branch=made[0], else_branch=made[1])
