"""Random legal cases of every integer operator, seeded, for comparison with TOSA's reference model.

Results are predictable (no REQUIRE is broken), shapes are small, and every mode of the operator comes up.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tosaic.compiler.ir import OPERATORS, DType, Graph, Operator, Tensor
from tosaic.sim.golden import evaluate_operator

BOOL, INT4, INT8, INT16, INT32, INT48 = (
    DType.BOOL,
    DType.INT4,
    DType.INT8,
    DType.INT16,
    DType.INT32,
    DType.INT48,
)
Rng = np.random.Generator


@dataclass
class Value:
    """One operand: an array, its TOSA type, and whether the graph holds it as a constant."""

    array: np.ndarray
    dtype: DType
    constant: bool = False


@dataclass
class Case:
    """One operator with operands; `out_dtype` is the type of its only output."""

    op: str
    operands: list[Value]
    out_dtype: DType
    attributes: dict[str, Any] = field(default_factory=dict)

    def golden(self) -> np.ndarray:
        arrays = [value.array for value in self.operands]
        return evaluate_operator(self.op, arrays, self.attributes, [self.out_dtype])[0]


def graph_of(cases: list[Case]) -> tuple[Graph, dict[str, np.ndarray]]:
    """A graph that computes all `cases` side by side (outputs out_0, out_1, ...), and its inputs."""
    graph, inputs = Graph("main"), {}
    for number, case in enumerate(cases):
        names = [f"case_{number}_{position}" for position in range(len(case.operands))]
        for name, value in zip(names, case.operands, strict=True):
            data = value.array if value.constant else None
            graph.tensors[name] = Tensor(name, value.array.shape, value.dtype, data)
            if not value.constant:
                inputs[name] = value.array
        output = f"out_{number}"
        graph.tensors[output] = Tensor(output, case.golden().shape, case.out_dtype)
        graph.operators.append(Operator(case.op, names, [output], case.attributes, f"{case.op}_{number}"))
        graph.outputs.append(output)
    graph.inputs = list(inputs)
    return graph, inputs


def pick(rng: Rng, *choices):
    return choices[rng.integers(len(choices))]


def random(rng: Rng, dtype: DType, shape, low=None, high=None) -> Value:
    """Uniform values, one in eight of them an end of the range."""
    if dtype is BOOL:
        return Value(rng.integers(0, 2, shape).astype(bool), BOOL)
    low, high = dtype.min if low is None else low, dtype.max if high is None else high
    values = rng.integers(low, high, shape, endpoint=True)
    ends = np.where(rng.random(shape) < 0.5, low, high)
    return Value(np.where(rng.random(shape) < 0.125, ends, values).astype(dtype.numpy), dtype)


def constant(values, dtype: DType) -> Value:
    return Value(np.array(values, dtype=dtype.numpy).reshape(-1), dtype, constant=True)


def shape_value(values) -> Value:
    return constant([int(v) for v in values], DType.SHAPE)


def shape_of(rng: Rng, least_rank=1, most_rank=4, most=5) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, most + 1, rng.integers(least_rank, most_rank + 1)))


def zero_point(rng: Rng, dtype: DType) -> Value:
    return constant(rng.integers(-128, 128) if dtype is INT8 else 0, dtype)


def broadcast(rng: Rng, shape) -> tuple[int, ...]:
    return tuple(n if rng.random() < 0.7 else 1 for n in shape)


def convolved_axis(rng: Rng, kernel: int) -> tuple[int, int, int, int, int]:
    """(input size, pad before, pad after, stride, dilation) with an exact output size."""
    before, after = (int(n) for n in rng.integers(0, 3, 2))
    stride, dilation, outputs = (int(n) for n in rng.integers(1, (4, 3, 5)))
    size = (outputs - 1) * stride + (kernel - 1) * dilation + 1 - before - after
    return size + -(-max(0, 1 - size) // stride) * stride, before, after, stride, dilation


def convolution(op: str, spatial: int) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        in_t, weight_t, out_t = pick(rng, (INT8, INT8, INT32), (INT8, INT4, INT32), (INT16, INT8, INT48))
        kernel = [int(n) for n in rng.integers(1, 4, spatial)]
        axes = [convolved_axis(rng, k) for k in kernel]
        batch, channels, last = (int(n) for n in rng.integers(1, 6, 3))
        depthwise = op == "DEPTHWISE_CONV2D"
        weight = (*kernel, channels, last) if depthwise else (last, *kernel, channels)
        out_channels = channels * last if depthwise else last
        weights = random(rng, weight_t, weight)
        weights.constant = weight_t is INT4 or rng.random() < 0.5
        operands = [
            random(rng, in_t, (batch, *(a[0] for a in axes), channels)),
            weights,
            random(rng, out_t, (pick(rng, 1, out_channels),), -(1 << 20), 1 << 20),
            zero_point(rng, in_t),
            zero_point(rng, weight_t),
        ]
        attributes = {
            "pad": [p for a in axes for p in a[1:3]],
            "stride": [a[3] for a in axes],
            "dilation": [a[4] for a in axes],
            "local_bound": False,
            "acc_type": out_t,
        }
        return Case(op, operands, out_t, attributes)

    return make


def transpose_conv2d(rng: Rng) -> Case:
    in_t, weight_t, out_t = pick(rng, (INT8, INT8, INT32), (INT8, INT4, INT32), (INT16, INT8, INT48))
    sizes, kernel, stride = ([int(n) for n in rng.integers(1, 5, 2)] for _ in range(3))
    out_pad = []
    for size, k, s in zip(sizes, kernel, stride, strict=True):
        before = int(rng.integers(1 - k, 4))
        least = max(1 - k, 1 - ((size - 1) * s + before + k))
        out_pad += [before, int(rng.integers(least, least + 4))]
    channels, out_channels = (int(n) for n in rng.integers(1, 5, 2))
    weights = random(rng, weight_t, (out_channels, *kernel, channels))
    weights.constant = weight_t is INT4
    operands = [
        random(rng, in_t, (int(rng.integers(1, 3)), *sizes, channels)),
        weights,
        random(rng, out_t, (pick(rng, 1, out_channels),), -(1 << 20), 1 << 20),
        zero_point(rng, in_t),
        zero_point(rng, weight_t),
    ]
    attributes = {"out_pad": out_pad, "stride": stride, "local_bound": False, "acc_type": out_t}
    return Case("TRANSPOSE_CONV2D", operands, out_t, attributes)


def matmul(rng: Rng) -> Case:
    in_t, out_t = pick(rng, (INT8, INT32), (INT16, INT48))
    n, h, c, w = rng.integers(1, 7, 4)
    operands = [random(rng, in_t, (n, h, c)), random(rng, in_t, (n, c, w))]
    return Case("MATMUL", [*operands, zero_point(rng, in_t), zero_point(rng, in_t)], out_t)


def pool(op: str) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        dtype = pick(rng, INT8, INT16)
        kernel, stride, pad, sizes = [], [], [], []
        for _ in range(2):
            k, s, outputs = (int(n) for n in rng.integers(1, (6, 4, 5)))
            before, after = (int(n) for n in rng.integers(0, k, 2))
            size = k - before - after + (outputs - 1) * s
            while size < 1 or (before + size < k and before >= size):
                size += s
            # No window may lie in the padding alone: the last one must begin inside the input.
            last = (before + size + after - k) // s * s
            while last >= before + size:
                after, size = after - s, size + s
                last = (before + size + after - k) // s * s
            kernel.append(k), stride.append(s), sizes.append(size)
            pad += [before, after]
        operands = [random(rng, dtype, (int(rng.integers(1, 3)), *sizes, int(rng.integers(1, 5))))]
        attributes = {"kernel": kernel, "stride": stride, "pad": pad}
        if op == "AVG_POOL2D":
            operands += [zero_point(rng, dtype), zero_point(rng, dtype)]
            attributes["acc_type"] = INT32
        else:
            attributes["nan_mode"] = "PROPAGATE"
        return Case(op, operands, dtype, attributes)

    return make


def argmax(rng: Rng) -> Case:
    dtype = pick(rng, INT8, INT16)
    shape = shape_of(rng)
    few = random(rng, dtype, shape, -2, 2) if rng.random() < 0.5 else random(rng, dtype, shape)
    return Case("ARGMAX", [few], INT32, {"axis": int(rng.integers(len(shape))), "nan_mode": "PROPAGATE"})


def clamp(rng: Rng) -> Case:
    dtype = pick(rng, INT8, INT16)
    low, high = sorted(int(n) for n in rng.integers(dtype.min, dtype.max, 2, endpoint=True))
    attributes = {"min_val": low, "max_val": high, "nan_mode": "PROPAGATE"}
    return Case("CLAMP", [random(rng, dtype, shape_of(rng))], dtype, attributes)


def binary(op, types, *, second=(None, None), out=None, bound=None, attributes=None) -> Callable[[Rng], Case]:
    """Two broadcast inputs of one of `types`; `second` and `bound` limit the values to legal ones."""

    def make(rng: Rng) -> Case:
        dtype = pick(rng, *types)
        shape = shape_of(rng)
        limits = (None, None) if bound is None or dtype is not INT32 else (-bound, bound)
        high = second[1](dtype) if callable(second[1]) else second[1]
        seconds = limits if second[0] is None else (second[0], high)
        operands = [
            random(rng, dtype, broadcast(rng, shape), *limits),
            random(rng, dtype, broadcast(rng, shape), *seconds),
        ]
        return Case(op, operands, out or dtype, attributes(rng) if attributes else {})

    return make


def mul(rng: Rng) -> Case:
    dtype = pick(rng, INT8, INT16, INT32, INT32)
    shift = int(rng.integers(32, 63)) if dtype is INT32 and rng.random() < 0.7 else 0
    shape = shape_of(rng)
    operands = [random(rng, dtype, broadcast(rng, shape)), random(rng, dtype, broadcast(rng, shape))]
    return Case("MUL", [*operands, constant(shift, INT8)], INT32)


def table(rng: Rng) -> Case:
    if rng.random() < 0.5:
        entries = constant(random(rng, INT8, (256,)).array, INT8)
        return Case("TABLE", [random(rng, INT8, shape_of(rng)), entries], INT8)
    entries = constant(random(rng, INT16, (513,), -16384, 16383).array, INT16)
    return Case("TABLE", [random(rng, INT16, shape_of(rng, most=8)), entries], INT32)


def unary(op, types, low=None, high=None) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        dtype = pick(rng, *types)
        return Case(op, [random(rng, dtype, shape_of(rng), low, high)], dtype)

    return make


def negate(rng: Rng) -> Case:
    dtype = pick(rng, INT8, INT16, INT32)
    value = random(rng, dtype, shape_of(rng), low=-(1 << 31) + 1 if dtype is INT32 else None)
    return Case("NEGATE", [value, zero_point(rng, dtype), zero_point(rng, dtype)], dtype)


def select(rng: Rng) -> Case:
    dtype, shape = pick(rng, BOOL, INT8, INT16, INT32), shape_of(rng)
    operands = [random(rng, t, broadcast(rng, shape)) for t in (BOOL, dtype, dtype)]
    return Case("SELECT", operands, dtype)


def reduction(op, types, bound=None, nan_mode=False) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        dtype, shape = pick(rng, *types), shape_of(rng)
        limits = (None, None) if bound is None else (-bound, bound)
        attributes = {"axis": int(rng.integers(len(shape)))} | ({"nan_mode": "PROPAGATE"} if nan_mode else {})
        return Case(op, [random(rng, dtype, shape, *limits)], dtype, attributes)

    return make


def any_tensor(rng: Rng) -> Value:
    return random(rng, pick(rng, BOOL, INT8, INT16, INT32), shape_of(rng))


def concat(rng: Rng) -> Case:
    first = any_tensor(rng)
    axis = int(rng.integers(first.array.ndim))
    shape = first.array.shape
    others = [
        random(rng, first.dtype, (*shape[:axis], int(rng.integers(1, 5)), *shape[axis + 1 :]))
        for _ in range(rng.integers(0, 3))
    ]
    return Case("CONCAT", [first, *others], first.dtype, {"axis": axis})


def pad(rng: Rng) -> Case:
    value = any_tensor(rng)
    padding = shape_value(rng.integers(0, 4, 2 * value.array.ndim))
    fill = constant(random(rng, value.dtype, (1,)).array, value.dtype)
    return Case("PAD", [value, padding, fill], value.dtype)


def reshape(rng: Rng) -> Case:
    value = any_tensor(rng)
    shape = [int(n) for n in rng.permutation(value.array.shape)]
    target = pick(rng, shape, [value.array.size], [1, *shape])
    return Case("RESHAPE", [value, shape_value(target)], value.dtype)


def reverse(rng: Rng) -> Case:
    value = any_tensor(rng)
    return Case("REVERSE", [value], value.dtype, {"axis": int(rng.integers(value.array.ndim))})


def slice_(rng: Rng) -> Case:
    value = any_tensor(rng)
    start = [int(rng.integers(0, n)) for n in value.array.shape]
    size = [int(rng.integers(1, n - s + 1)) for n, s in zip(value.array.shape, start, strict=True)]
    return Case("SLICE", [value, shape_value(start), shape_value(size)], value.dtype)


def tile(rng: Rng) -> Case:
    value = any_tensor(rng)
    return Case("TILE", [value, shape_value(rng.integers(1, 4, value.array.ndim))], value.dtype)


def transpose(rng: Rng) -> Case:
    value = any_tensor(rng)
    perms = [int(n) for n in rng.permutation(value.array.ndim)]
    return Case("TRANSPOSE", [value], value.dtype, {"perms": perms})


def identity(rng: Rng) -> Case:
    value = any_tensor(rng)
    return Case("IDENTITY", [value], value.dtype)


def gather(rng: Rng) -> Case:
    dtype, (n, k, c, w) = pick(rng, INT8, INT16, INT32), rng.integers(1, 6, 4)
    indices = random(rng, INT32, (n, w), 0, k - 1)
    return Case("GATHER", [random(rng, dtype, (n, k, c)), indices], dtype)


def scatter(rng: Rng) -> Case:
    dtype, (n, k, c) = pick(rng, INT8, INT16, INT32), rng.integers(1, 6, 3)
    w = int(rng.integers(1, k + 1))
    indices = np.stack([rng.permutation(k)[:w] for _ in range(n)]).astype(np.int32)
    operands = [random(rng, dtype, (n, k, c)), Value(indices, INT32), random(rng, dtype, (n, w, c))]
    return Case("SCATTER", operands, dtype)


def resized_axis(rng: Rng, size: int) -> tuple[int, int, int, int]:
    """(n, d, offset, border): positions from -n/2 at most to less than a pixel beyond the last one."""
    while True:
        n = int(rng.integers(1, 17))
        d = int(rng.integers(1, min(16 * n, 3 * n + 1)))
        offset = int(rng.integers(-(n // 2), n))
        steps = int(rng.integers(0, 8))
        border = steps * d - ((size - 1) * n - offset)
        if steps * d + offset < size * n and -16 * n <= border < n:
            return n, d, offset, border


def resize(rng: Rng) -> Case:
    dtype, mode = pick(rng, INT8, INT16), pick(rng, "BILINEAR", "NEAREST")
    height, width = (int(n) for n in rng.integers(1, 7, 2))
    y, x = resized_axis(rng, height), resized_axis(rng, width)
    operands = [
        random(rng, dtype, (1, height, width, int(rng.integers(1, 4)))),
        shape_value([*y[:2], *x[:2]]),
        shape_value([y[2], x[2]]),
        shape_value([y[3], x[3]]),
    ]
    wide = INT32 if dtype is INT8 else INT48
    return Case("RESIZE", operands, wide if mode == "BILINEAR" else dtype, {"mode": mode})


def cast(rng: Rng) -> Case:
    source = pick(rng, BOOL, INT8, INT16, INT32)
    target = pick(rng, *({BOOL, INT8, INT16, INT32} - {source}))
    return Case("CAST", [random(rng, source, shape_of(rng))], target)


def rescale_zero_point(rng: Rng, dtype: DType, unsigned: bool) -> Value:
    if dtype is INT16 and unsigned:
        return constant(pick(rng, 0, -32768), dtype)  # the bit pattern of 32768
    return zero_point(rng, dtype)


def rescale(rng: Rng) -> Case:
    in_t, out_t = pick(rng, INT8, INT16, INT32, INT48), pick(rng, INT8, INT16, INT32)
    unsigned = pick(rng, (False, False), (True, False), (False, True))
    if {in_t, out_t} & {INT32, INT48}:
        unsigned = (False, False)
    scale32 = in_t is not INT48 and rng.random() < 0.7
    rounding_mode = pick(rng, "SINGLE_ROUND", "DOUBLE_ROUND") if scale32 else "SINGLE_ROUND"
    per_channel = bool(rng.random() < 0.5)
    shape = shape_of(rng)
    channels = shape[-1] if per_channel else 1
    # Without the zero point a value has `bits` bits; shifts keep it and the result in their ranges.
    bits = 17 if in_t is INT16 else {INT8: 9, INT32: 31, INT48: 47}[in_t]
    least = bits + 2 if scale32 else max(2, bits + 15 - 30)
    shift = rng.integers(min(least, 62), 63, channels)
    top = (1 << 31) - 1 if scale32 else (1 << 15) - 1
    operands = [
        random(rng, in_t, shape),
        constant(rng.integers(0, top, channels, endpoint=True), INT32 if scale32 else INT16),
        constant(shift, INT8),
        rescale_zero_point(rng, in_t, unsigned[0]),
        rescale_zero_point(rng, out_t, unsigned[1]),
    ]
    attributes = {
        "scale32": bool(scale32),
        "rounding_mode": rounding_mode,
        "per_channel": per_channel,
        "input_unsigned": unsigned[0],
        "output_unsigned": unsigned[1],
    }
    return Case("RESCALE", operands, out_t, attributes)


NUMBERS = (INT8, INT16, INT32)


def _nan_mode(rng: Rng) -> dict[str, Any]:
    return {"nan_mode": "PROPAGATE"}


def _width(dtype: DType) -> int:
    return dtype.bits - 1


CASES: dict[str, Callable[[Rng], Case]] = {
    "ABS": unary("ABS", (INT32,), low=-(1 << 31) + 1, high=(1 << 31) - 1),
    "ARGMAX": argmax,
    "ARITHMETIC_RIGHT_SHIFT": binary(
        "ARITHMETIC_RIGHT_SHIFT",
        NUMBERS,
        second=(0, _width),
        attributes=lambda rng: {"round": bool(rng.integers(2))},
    ),
    "AVG_POOL2D": pool("AVG_POOL2D"),
    "BITWISE_AND": binary("BITWISE_AND", NUMBERS),
    "BITWISE_NOT": unary("BITWISE_NOT", NUMBERS),
    "BITWISE_OR": binary("BITWISE_OR", NUMBERS),
    "BITWISE_XOR": binary("BITWISE_XOR", NUMBERS),
    "CAST": cast,
    "CLAMP": clamp,
    "CLZ": unary("CLZ", (INT32,)),
    "CONCAT": concat,
    "CONV2D": convolution("CONV2D", 2),
    "CONV3D": convolution("CONV3D", 3),
    "DEPTHWISE_CONV2D": convolution("DEPTHWISE_CONV2D", 2),
    "EQUAL": binary("EQUAL", (INT32,), bound=2, out=BOOL),
    "GATHER": gather,
    "GREATER": binary("GREATER", (INT32,), out=BOOL),
    "GREATER_EQUAL": binary("GREATER_EQUAL", (INT32,), bound=2, out=BOOL),
    "IDENTITY": identity,
    "INTDIV": binary("INTDIV", (INT32,), second=(1, 100)),
    "LOGICAL_AND": binary("LOGICAL_AND", (BOOL,)),
    "LOGICAL_LEFT_SHIFT": binary("LOGICAL_LEFT_SHIFT", NUMBERS, second=(0, _width)),
    "LOGICAL_NOT": unary("LOGICAL_NOT", (BOOL,)),
    "LOGICAL_OR": binary("LOGICAL_OR", (BOOL,)),
    "LOGICAL_RIGHT_SHIFT": binary("LOGICAL_RIGHT_SHIFT", NUMBERS, second=(0, _width)),
    "LOGICAL_XOR": binary("LOGICAL_XOR", (BOOL,)),
    "MATMUL": matmul,
    "MAXIMUM": binary("MAXIMUM", (INT32,), attributes=_nan_mode),
    "MAX_POOL2D": pool("MAX_POOL2D"),
    "MINIMUM": binary("MINIMUM", (INT32,), attributes=_nan_mode),
    "MUL": mul,
    "NEGATE": negate,
    "PAD": pad,
    "REDUCE_ALL": reduction("REDUCE_ALL", (BOOL,)),
    "REDUCE_ANY": reduction("REDUCE_ANY", (BOOL,)),
    "REDUCE_MAX": reduction("REDUCE_MAX", NUMBERS, nan_mode=True),
    "REDUCE_MIN": reduction("REDUCE_MIN", NUMBERS, nan_mode=True),
    "REDUCE_SUM": reduction("REDUCE_SUM", (INT32,), bound=1 << 28),
    "RESCALE": rescale,
    "RESHAPE": reshape,
    "RESIZE": resize,
    "REVERSE": reverse,
    "SCATTER": scatter,
    "SELECT": select,
    "SLICE": slice_,
    "TABLE": table,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "TRANSPOSE_CONV2D": transpose_conv2d,
}
_HALF = (1 << 30) - 1
CASES |= {
    name: binary(name, (INT32,), bound=_HALF)
    for name, spec in OPERATORS.items()
    if spec.category == "elementwise binary" and spec.is_integer and name not in CASES
}
"""Of an operator of two operands without a rule on their values: halves of the range, so that int32 holds the sums."""
