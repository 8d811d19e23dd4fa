"""One small legal graph per integer operator, the start of the IR's table-driven tests."""

from collections.abc import Callable

import numpy as np

from tosaic.compiler.ir import OPERATORS, DType, Graph, GraphBuilder, Operator, Tensor, Trait
from tosaic.compiler.ir.operators.spec import REQUIRED, OperatorSpec

_rng = np.random.default_rng(20240613)

UNARY = {
    "ABS": DType.INT32,
    "BITWISE_NOT": DType.INT16,
    "CLZ": DType.INT32,
    "LOGICAL_NOT": DType.BOOL,
    "IDENTITY": DType.INT8,
}
REDUCTIONS = {
    "REDUCE_ALL": DType.BOOL,
    "REDUCE_ANY": DType.BOOL,
    "REDUCE_MAX": DType.INT8,
    "REDUCE_MIN": DType.INT16,
    "REDUCE_SUM": DType.INT32,
}
_POOL = {"kernel": [3, 2], "stride": [2, 1], "pad": [1, 0, 1, 0]}


def values(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Random constant data."""
    if dtype is DType.BOOL:
        return _rng.integers(0, 2, shape).astype(bool)
    return _rng.integers(dtype.min, dtype.max, shape, endpoint=True)


def _single(build: GraphBuilder, op: str, inputs: list[str], **more: object) -> Graph:
    build.output(build.add(op, inputs, output="y", **more))
    return build.finish()


def _elementwise(op: str, dtype: DType, **attributes: object) -> Graph:
    build = GraphBuilder()
    a = build.input("a", (2, 3, 1), dtype)
    b = build.input("b", (2, 1, 4), dtype)
    return _single(build, op, [a, b], **attributes)


_BINARY = [
    spec
    for spec in OPERATORS.values()
    if spec.is_integer
    and Trait.ELEMENTWISE in spec.traits
    and [operand.constant for operand in spec.operands] == [False, False]
    and all(attribute.default is not REQUIRED for attribute in spec.attributes)
]
"""Elementwise operators of two operands and nothing else."""


def _widest(spec: OperatorSpec) -> DType:
    """The last type of its operands that is no float."""
    kind = spec.operands[0].type
    return [mode.types[kind] for mode in spec.modes if not mode.is_float][-1]


def _convolution(op: str, shape: tuple, weight: tuple, dtype: DType, **attributes: object) -> Graph:
    build = GraphBuilder()
    x = build.input("x", shape, dtype)
    weight_type = DType.INT4 if attributes.pop("int4", False) else DType.INT8
    accumulator = DType.INT48 if dtype is DType.INT16 else DType.INT32
    channels = weight[2] * weight[3] if op == "DEPTHWISE_CONV2D" else weight[0]
    operands = [
        build.constant(values(weight, weight_type), weight_type, "weight"),
        build.constant(values((channels,), DType.INT16), accumulator, "bias"),
        build.constant([-3 if dtype is DType.INT8 else 0], dtype, "input_zp"),
        build.constant([0 if weight_type is DType.INT4 else 1], weight_type, "weight_zp"),
    ]
    return _single(build, op, [x, *operands], acc_type=accumulator, **attributes)


def conv2d(dtype: DType = DType.INT8, **more: object) -> Graph:
    """CONV2D, [1,5,6,3] by [4,3,2,3]."""
    attributes = {"pad": [1, 0, 0, 1], "stride": [1, 2], "dilation": [1, 1]}
    return _convolution("CONV2D", (1, 5, 6, 3), (4, 3, 3, 3), dtype, **attributes, **more)


def conv3d() -> Graph:
    """CONV3D on a 3x4x4 volume."""
    attributes = {"pad": [0, 0, 1, 1, 0, 0], "stride": [1, 1, 1], "dilation": [1, 1, 2]}
    return _convolution("CONV3D", (1, 3, 4, 4, 2), (3, 2, 3, 2, 2), DType.INT8, **attributes)


def depthwise(dtype: DType = DType.INT8, **more: object) -> Graph:
    """DEPTHWISE_CONV2D with a channel multiplier of 2."""
    attributes = {"pad": [1, 1, 1, 1], "stride": [1, 1], "dilation": [1, 1]}
    return _convolution("DEPTHWISE_CONV2D", (1, 4, 5, 3), (3, 3, 3, 2), dtype, **attributes, **more)


def transpose_conv2d() -> Graph:
    """TRANSPOSE_CONV2D that crops one row."""
    attributes = {"out_pad": [-1, 0, 0, 0], "stride": [2, 1]}
    return _convolution("TRANSPOSE_CONV2D", (1, 3, 3, 2), (4, 3, 2, 2), DType.INT8, **attributes)


def pool(op: str, dtype: DType = DType.INT8) -> Graph:
    """AVG_POOL2D or MAX_POOL2D."""
    build = GraphBuilder()
    operands = [build.input("x", (1, 6, 5, 3), dtype)]
    if op == "AVG_POOL2D":
        zero_point = 5 if dtype is DType.INT8 else 0
        operands += [build.constant([zero_point], dtype, f"{side}_zp") for side in ("input", "output")]
        return _single(build, op, operands, **_POOL, acc_type=DType.INT32)
    return _single(build, op, operands, **_POOL)


def matmul() -> Graph:
    """MATMUL of two activations."""
    build = GraphBuilder()
    a, b = build.input("a", (2, 3, 4), DType.INT8), build.input("b", (2, 4, 5), DType.INT8)
    zero_points = [build.constant([value], DType.INT8, name) for name, value in (("A_zp", 1), ("B_zp", -2))]
    return _single(build, "MATMUL", [a, b, *zero_points])


def argmax() -> Graph:
    """ARGMAX over the last axis."""
    build = GraphBuilder()
    return _single(build, "ARGMAX", [build.input("x", (2, 3, 4), DType.INT8)], axis=2)


def clamp(dtype: DType = DType.INT8) -> Graph:
    """CLAMP."""
    build = GraphBuilder()
    return _single(build, "CLAMP", [build.input("x", (2, 3), dtype)], min_val=-5, max_val=100)


def mul(dtype: DType = DType.INT32, shift: int = 7) -> Graph:
    """MUL with a shift."""
    build = GraphBuilder()
    a, b = build.input("a", (2, 3), dtype), build.input("b", (2, 1), dtype)
    return _single(build, "MUL", [a, b, build.constant([shift], DType.INT8, "shift")])


def table(dtype: DType = DType.INT8) -> Graph:
    """TABLE of 256 or 513 entries."""
    build = GraphBuilder()
    length = 256 if dtype is DType.INT8 else 513
    entries = build.constant(values((length,), dtype), dtype, "table")
    return _single(build, "TABLE", [build.input("x", (3, 2), dtype), entries])


def negate(dtype: DType = DType.INT8) -> Graph:
    """NEGATE with zero points."""
    build = GraphBuilder()
    x = build.input("x", (4,), dtype)
    zero_point = 3 if dtype is DType.INT8 else 0
    zero_points = [build.constant([zero_point], dtype, name) for name in ("input1_zp", "output_zp")]
    return _single(build, "NEGATE", [x, *zero_points])


def select() -> Graph:
    """SELECT with broadcast."""
    build = GraphBuilder()
    c, a, b = (
        build.input(name, shape, dtype)
        for name, shape, dtype in (
            ("c", (1, 3), DType.BOOL),
            ("a", (2, 3), DType.INT8),
            ("b", (2, 1), DType.INT8),
        )
    )
    return _single(build, "SELECT", [c, a, b])


def concat() -> Graph:
    """CONCAT of three tensors."""
    build = GraphBuilder()
    parts = [build.input(f"x{size}", (2, size, 3), DType.INT8) for size in (1, 2, 4)]
    return _single(build, "CONCAT", parts, axis=1)


def pad() -> Graph:
    """PAD with a value that is not 0."""
    build = GraphBuilder()
    x = build.input("x", (2, 3), DType.INT8)
    value = build.constant([-7], DType.INT8, "pad_const")
    return _single(build, "PAD", [x, build.shape([1, 0, 0, 2], "padding"), value])


def reshape(new_shape: tuple[int, ...] = (3, 4)) -> Graph:
    """RESHAPE of [2,6]."""
    build = GraphBuilder()
    return _single(build, "RESHAPE", [build.input("x", (2, 6), DType.INT16), build.shape(new_shape, "shape")])


def slice_() -> Graph:
    """SLICE."""
    build = GraphBuilder()
    x = build.input("x", (4, 5), DType.INT32)
    return _single(build, "SLICE", [x, build.shape([1, 0], "start"), build.shape([3, 2], "size")])


def tile() -> Graph:
    """TILE."""
    build = GraphBuilder()
    return _single(build, "TILE", [build.input("x", (2, 3), DType.BOOL), build.shape([2, 1], "multiples")])


def transpose() -> Graph:
    """TRANSPOSE."""
    build = GraphBuilder()
    return _single(build, "TRANSPOSE", [build.input("x", (2, 3, 4), DType.INT8)], perms=[2, 0, 1])


def reverse() -> Graph:
    """REVERSE."""
    build = GraphBuilder()
    return _single(build, "REVERSE", [build.input("x", (2, 3), DType.INT8)], axis=1)


def gather() -> Graph:
    """GATHER."""
    build = GraphBuilder()
    x, indices = build.input("x", (2, 5, 3), DType.INT8), build.input("indices", (2, 4), DType.INT32)
    return _single(build, "GATHER", [x, indices])


def scatter() -> Graph:
    """SCATTER."""
    build = GraphBuilder()
    x, indices = build.input("x", (2, 5, 3), DType.INT8), build.input("indices", (2, 4), DType.INT32)
    return _single(build, "SCATTER", [x, indices, build.input("source", (2, 4, 3), DType.INT8)])


def resize(mode: str = "BILINEAR") -> Graph:
    """RESIZE that doubles a 3x4 image."""
    build = GraphBuilder()
    x = build.input("x", (1, 3, 4, 2), DType.INT8)
    operands = [
        build.shape(numbers, name)
        for name, numbers in (("scale", [4, 2, 4, 2]), ("offset", [-1, -1]), ("border", [1, 1]))
    ]
    dtype = DType.INT32 if mode == "BILINEAR" else DType.INT8
    return _single(build, "RESIZE", [x, *operands], mode=mode, dtype=dtype)


def cast() -> Graph:
    """CAST int32 to int8."""
    build = GraphBuilder()
    return _single(build, "CAST", [build.input("x", (3,), DType.INT32)], dtype=DType.INT8)


def rescale(
    source: DType = DType.INT32,
    result: DType = DType.INT8,
    per_channel: bool = True,
    zero_points: tuple[int, int] = (0, 4),
    **more: object,
) -> Graph:
    """RESCALE of [2,3]."""
    build = GraphBuilder()
    channels = 3 if per_channel else 1
    operands = [
        build.input("x", (2, 3), source),
        build.constant([1 << 30] * channels, DType.INT32, "multiplier"),
        build.constant([33] * channels, DType.INT8, "shift"),
        build.constant([zero_points[0]], source, "input_zp"),
        build.constant([zero_points[1]], result, "output_zp"),
    ]
    attributes = {
        "scale32": True,
        "rounding_mode": "DOUBLE_ROUND",
        "per_channel": per_channel,
        "input_unsigned": False,
        "output_unsigned": False,
    } | more
    return _single(build, "RESCALE", operands, dtype=result, **attributes)


def _branch(name: str, op: str) -> Graph:
    build = GraphBuilder(name)
    a, b = build.input("p", (2, 3), DType.INT32), build.input("q", (2, 3), DType.INT32)
    build.output(build.add(op, [a, b]))
    return build.finish()


def cond_if() -> Graph:
    """COND_IF: ADD or SUB, by a rank-0 condition."""
    graph = Graph(
        "main",
        ["c", "a", "b"],
        ["y"],
        {
            "c": Tensor("c", (), DType.BOOL),
            **{name: Tensor(name, (2, 3), DType.INT32) for name in "aby"},
        },
        [
            Operator(
                "COND_IF", ["c", "a", "b"], ["y"], {"then_graph": "sum", "else_graph": "less"}, "COND_IF_0"
            )
        ],
    )
    graph.subgraphs.update(sum=_branch("sum", "ADD"), less=_branch("less", "SUB"))
    return graph


def while_loop() -> Graph:
    """WHILE_LOOP: x += step while x < limit."""
    condition = GraphBuilder("condition")
    x, limit = condition.input("x", (1,), DType.INT32), condition.input("limit", (1,), DType.INT32)
    condition.output(condition.add("GREATER", [limit, x]))
    body = GraphBuilder("body")
    x, limit = body.input("x", (1,), DType.INT32), body.input("limit", (1,), DType.INT32)
    step = body.constant([3], DType.INT32)
    body.output(body.add("ADD", [x, step]))
    body.output(body.add("IDENTITY", [limit]))
    names = ("x", "limit", "x_end", "limit_end")
    attributes = {"cond_graph": "condition", "body_graph": "body"}
    graph = Graph(
        "main",
        ["x", "limit"],
        ["x_end", "limit_end"],
        {name: Tensor(name, (1,), DType.INT32) for name in names},
        [Operator("WHILE_LOOP", ["x", "limit"], ["x_end", "limit_end"], attributes, "WHILE_LOOP_0")],
    )
    graph.subgraphs.update(condition=condition.finish(), body=body.finish())
    return graph


def custom() -> Graph:
    """CUSTOM with two inputs."""
    tensors = {name: Tensor(name, (2,), DType.INT8) for name in "aby"}
    op = Operator(
        "CUSTOM",
        ["a", "b"],
        ["y"],
        {"operator_name": "", "domain_name": "", "implementation_attrs": b""},
        "CUSTOM_0",
    )
    return Graph("main", ["a", "b"], ["y"], tensors, [op])


GRAPHS: dict[str, Callable[[], Graph]] = {
    "ARGMAX": argmax,
    "AVG_POOL2D": lambda: pool("AVG_POOL2D"),
    "AVG_POOL2D int16": lambda: pool("AVG_POOL2D", DType.INT16),
    "MAX_POOL2D": lambda: pool("MAX_POOL2D"),
    "CONV2D": conv2d,
    "CONV2D int4": lambda: conv2d(int4=True),
    "CONV2D int16": lambda: conv2d(DType.INT16),
    "CONV3D": conv3d,
    "DEPTHWISE_CONV2D": depthwise,
    "DEPTHWISE_CONV2D int4": lambda: depthwise(int4=True),
    "TRANSPOSE_CONV2D": transpose_conv2d,
    "MATMUL": matmul,
    "CLAMP": clamp,
    "CLAMP int16": lambda: clamp(DType.INT16),
    "MUL": mul,
    "MUL int8": lambda: mul(DType.INT8, 0),
    "TABLE": table,
    "TABLE int16": lambda: table(DType.INT16),
    "NEGATE": negate,
    "NEGATE int32": lambda: negate(DType.INT32),
    "SELECT": select,
    "CONCAT": concat,
    "PAD": pad,
    "RESHAPE": reshape,
    "SLICE": slice_,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "REVERSE": reverse,
    "GATHER": gather,
    "SCATTER": scatter,
    "RESIZE": resize,
    "RESIZE nearest": lambda: resize("NEAREST"),
    "CAST": cast,
    "RESCALE": rescale,
    "RESCALE to uint8": lambda: rescale(DType.INT16, DType.INT8, False, (0, -128), output_unsigned=True),
    "RESCALE from uint16": lambda: rescale(DType.INT16, DType.INT16, True, (-32768, 0), input_unsigned=True),
    "COND_IF": cond_if,
    "WHILE_LOOP": while_loop,
    "CUSTOM": custom,
    "ARITHMETIC_RIGHT_SHIFT": lambda: _elementwise("ARITHMETIC_RIGHT_SHIFT", DType.INT8, round=True),
    **{spec.name: (lambda spec=spec: _elementwise(spec.name, _widest(spec))) for spec in _BINARY},
    **{op: (lambda op=op, t=t: _unary(op, t)) for op, t in UNARY.items()},
    **{op: (lambda op=op, t=t: _reduction(op, t)) for op, t in REDUCTIONS.items()},
}
"""Builds a legal graph with one operator; the label starts with the operator's name."""


def _unary(op: str, dtype: DType) -> Graph:
    build = GraphBuilder()
    return _single(build, op, [build.input("x", (2, 3), dtype)])


def _reduction(op: str, dtype: DType) -> Graph:
    build = GraphBuilder()
    return _single(build, op, [build.input("x", (2, 3, 4), dtype)], axis=1)


def contents(graph: Graph) -> list:
    """What a graph means, without the names of constants and operators: for comparing across versions."""
    parts = []
    for part in graph.walk():
        known = {
            name: (str(t.dtype), t.shape, None if t.data is None else t.data.tolist())
            for name, t in part.tensors.items()
        }
        operands = [
            (
                op.op,
                [known[name] if part.tensors[name].data is not None else name for name in op.inputs],
                [(name, known[name]) for name in op.outputs],
                sorted((key, str(value)) for key, value in op.attributes.items()),
            )
            for op in part.operators
        ]
        parts.append((part.inputs, part.outputs, operands))
    return parts
