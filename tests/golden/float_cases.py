"""Cases of every operator in its floating-point modes, all operands constant, for TOSA's reference model.

Elementwise operators also get the values that the specification has rules for: zeros, infinities, NaN, the largest
and the smallest numbers.
"""

from collections.abc import Callable

import numpy as np
from operator_cases import Case, Rng, Value

from tosaic.compiler.ir import DType, nearest

FP16, BF16, FP32, INT8, INT16, INT32, BOOL = (
    DType.FP16,
    DType.BF16,
    DType.FP32,
    DType.INT8,
    DType.INT16,
    DType.INT32,
    DType.BOOL,
)
FP8 = (DType.FP8E4M3, DType.FP8E5M2)
FLOATS = (FP16, BF16, FP32)
LARGEST = {FP16: 65504.0, BF16: (2 - 2**-7) * 2.0**127, FP32: (2 - 2**-23) * 2.0**127}
SMALLEST = {FP16: 2.0**-24, BF16: 2.0**-133, FP32: 2.0**-149}


def value(dtype: DType, array) -> Value:
    held = nearest(np.asarray(array, np.float64), dtype) if dtype.is_float else np.asarray(array, dtype.numpy)
    return Value(held, dtype, constant=True)


def shape(*sizes: int) -> Value:
    return Value(np.array(sizes, np.int64), DType.SHAPE, constant=True)


def normal(rng: Rng, dtype: DType, *sizes: int, scale: float = 1.0) -> Value:
    return value(dtype, rng.normal(size=sizes) * scale)


def special(dtype: DType) -> list[float]:
    """The values that the specification's tables name, and the ends of the range."""
    ends = [LARGEST[dtype], SMALLEST[dtype], 1.0, 0.5, 2.5]
    return [0.0, -0.0, np.inf, -np.inf, np.nan, *ends, *(-end for end in ends)]


def line(rng: Rng, dtype: DType, scale: float = 3.0) -> Value:
    """Special values, then random ones, in a tensor of rank 2."""
    return value(dtype, [[*special(dtype), *rng.normal(size=25) * scale]])


def pairs(rng: Rng, dtype: DType) -> tuple[Value, Value]:
    """Every special value with every other one, by broadcasting."""
    numbers = [*special(dtype), *rng.normal(size=5) * 3]
    return value(dtype, np.array(numbers)[:, None]), value(dtype, np.array(numbers)[None, :])


def zero(dtype: DType) -> Value:
    return value(dtype, [0])


Make = Callable[[Rng, DType], list[Case]]


def unary(op: str, **attributes) -> Make:
    return lambda rng, dtype: [Case(op, [line(rng, dtype)], dtype, attributes)]


def binary(op: str, out: DType | None = None) -> Make:
    return lambda rng, dtype: [Case(op, [*pairs(rng, dtype)], out or dtype)]


def with_nan_modes(make: Callable[[Rng, DType, str], Case]) -> Make:
    return lambda rng, dtype: [make(rng, dtype, mode) for mode in ("PROPAGATE", "IGNORE")]


def pow_cases(rng: Rng, dtype: DType) -> list[Case]:
    base, exponent = np.abs(rng.normal(size=(4, 6))) + 0.1, rng.normal(size=(4, 6)) * 2
    whole = rng.integers(-3, 4, (4, 6))
    return [
        Case("POW", [value(dtype, base), value(dtype, exponent)], dtype),
        Case("POW", [value(dtype, rng.normal(size=(4, 6))), value(dtype, whole)], dtype),
    ]


def reduction(op: str) -> Make:
    def make(rng: Rng, dtype: DType) -> list[Case]:
        data = rng.normal(size=(3, 5, 4))
        return [Case(op, [value(dtype, data)], dtype, {"axis": axis}) for axis in range(3)]

    return make


def extremum(op: str) -> Make:
    def make(rng: Rng, dtype: DType, mode: str) -> Case:
        data = rng.normal(size=(4, 5))
        data[1, 2], data[2, 0], data[3] = np.nan, np.inf, -np.inf
        return Case(op, [value(dtype, data)], dtype, {"axis": 1, "nan_mode": mode})

    return with_nan_modes(make)


def argmax_case(rng: Rng, dtype: DType, mode: str) -> Case:
    data = np.round(rng.normal(size=(6, 7)) * 2)
    data[1, 3], data[2, 6], data[3], data[4, :2] = np.nan, np.inf, -np.inf, np.nan
    return Case("ARGMAX", [value(dtype, data)], INT32, {"axis": 1, "nan_mode": mode})


def clamp_case(rng: Rng, dtype: DType, mode: str) -> Case:
    low, high = (float(nearest(np.float64(bound), dtype)) for bound in (-1.3, 2.7))
    return Case("CLAMP", [line(rng, dtype)], dtype, {"min_val": low, "max_val": high, "nan_mode": mode})


def max_pool_case(rng: Rng, dtype: DType, mode: str) -> Case:
    data = rng.normal(size=(2, 6, 7, 3))
    data[0, 1, 2, 1] = np.nan
    attributes = {"kernel": [3, 2], "stride": [2, 2], "pad": [1, 0, 1, 0], "nan_mode": mode}
    return Case("MAX_POOL2D", [value(dtype, data)], dtype, attributes)


def avg_pool(rng: Rng, dtype: DType) -> list[Case]:
    attributes = {"kernel": [3, 2], "stride": [2, 2], "pad": [1, 0, 1, 0]}
    data = normal(rng, dtype, 2, 6, 7, 3)
    return [
        Case("AVG_POOL2D", [data, zero(dtype), zero(dtype)], dtype, {**attributes, "acc_type": acc})
        for acc in accumulators(dtype)
    ]


def accumulators(dtype: DType) -> list[DType]:
    return [FP16, FP32] if dtype is FP16 else [FP16] if dtype in FP8 else [FP32]


def convolution(op: str, data: tuple[int, ...], weight: tuple[int, ...], **attributes) -> Make:
    def make(rng: Rng, dtype: DType) -> list[Case]:
        result = FP16 if dtype in FP8 else dtype
        channels = weight[2] * weight[3] if op == "DEPTHWISE_CONV2D" else weight[0]
        return [
            Case(
                op,
                [
                    normal(rng, dtype, *data),
                    normal(rng, dtype, *weight),
                    normal(rng, result, size),
                    zero(dtype),
                    zero(dtype),
                ],
                result,
                {**attributes, "acc_type": accumulator},
            )
            for accumulator in accumulators(dtype)
            for size in (1, channels)
        ]

    return make


def matmul(rng: Rng, dtype: DType) -> list[Case]:
    results = {FP16: [FP16, FP32], BF16: [FP32], FP32: [FP32]}.get(dtype, [FP16])
    return [
        Case(
            "MATMUL",
            [normal(rng, dtype, 2, 5, 7), normal(rng, dtype, 2, 7, 3), zero(dtype), zero(dtype)],
            result,
        )
        for result in results
    ]


def resize(rng: Rng, dtype: DType) -> list[Case]:
    parameters = [shape(4, 3, 5, 2), shape(-1, 2), shape(2, 0)]
    return [
        Case("RESIZE", [normal(rng, dtype, 1, 4, 5, 2), *parameters], dtype, {"mode": mode})
        for mode in ("NEAREST", "BILINEAR")
    ]


def cast(rng: Rng, dtype: DType) -> list[Case]:
    integers = [-3.5, -2.5, -0.5, 0.5, 1.5, 2.5, 126.7, 127.5, -128.5, 200.0, 40000.0, -40000.0, 3e9, -3e9]
    # No text says what integer NaN becomes; golden says 0, the reference model what its processor says.
    from_float = value(dtype, [x for x in [*special(dtype), *integers] if not np.isnan(x)])
    cases = [Case("CAST", [from_float], whole) for whole in (INT8, INT16, INT32)]
    for whole in (INT8, INT16, INT32):
        numbers = np.append(rng.integers(whole.min, whole.max, 30, endpoint=True), [whole.min, whole.max])
        cases.append(Case("CAST", [value(whole, numbers)], dtype))
    others = {FP16: [FP32, *FP8], BF16: [FP32, *FP8], FP32: [FP16, BF16, *FP8]}[dtype]
    numbers = value(
        dtype, [*special(dtype), 448.0, 460.0, 464.0, 470.0, 57344.0, 61000.0, *rng.normal(size=30)]
    )
    cases += [Case("CAST", [numbers], other) for other in others]
    return cases + [Case("CAST", [normal(rng, small, 20)], dtype) for small in FP8]


def select(rng: Rng, dtype: DType) -> list[Case]:
    left, right = pairs(rng, dtype)
    return [Case("SELECT", [value(BOOL, rng.integers(0, 2, (20, 20))), left, right], dtype)]


def layout(rng: Rng, dtype: DType) -> list[Case]:
    data = normal(rng, dtype, 2, 3, 4)
    data.array[0, 0, :3] = np.nan, np.inf if dtype is not DType.FP8E4M3 else 448, -0.0
    return [
        Case("CONCAT", [data, data], dtype, {"axis": 1}),
        Case("IDENTITY", [data], dtype),
        Case("PAD", [data, shape(1, 0, 0, 1, 2, 0), normal(rng, dtype, 1)], dtype),
        Case("RESHAPE", [data, shape(6, 4)], dtype),
        Case("REVERSE", [data], dtype, {"axis": 2}),
        Case("SLICE", [data, shape(0, 1, 1), shape(1, 2, 3)], dtype),
        Case("TILE", [data, shape(1, 2, 2)], dtype),
        Case("TRANSPOSE", [data], dtype, {"perms": [2, 0, 1]}),
        Case("GATHER", [data, value(INT32, [[2, 0, 1, 1], [0, 0, 2, 1]])], dtype),
        Case("SCATTER", [data, value(INT32, [[2, 0], [0, 1]]), normal(rng, dtype, 2, 2, 4)], dtype),
    ]


CASES: dict[str, Make] = {
    **{op: unary(op) for op in ("ABS", "CEIL", "EXP", "FLOOR", "LOG", "RECIPROCAL", "RSQRT")},
    **{op: unary(op) for op in ("ERF", "SIGMOID", "TANH")},
    "COS": lambda rng, dtype: [Case("COS", [normal(rng, dtype, 40, scale=50.0)], dtype)],
    "SIN": lambda rng, dtype: [Case("SIN", [normal(rng, dtype, 40, scale=50.0)], dtype)],
    "NEGATE": lambda rng, dtype: [Case("NEGATE", [line(rng, dtype), zero(dtype), zero(dtype)], dtype)],
    **{op: binary(op) for op in ("ADD", "SUB")},
    **{op: binary(op, BOOL) for op in ("EQUAL", "GREATER", "GREATER_EQUAL")},
    "MUL": lambda rng, dtype: [Case("MUL", [*pairs(rng, dtype), zero(INT8)], dtype)],
    "MAXIMUM": with_nan_modes(
        lambda rng, dtype, m: Case("MAXIMUM", [*pairs(rng, dtype)], dtype, {"nan_mode": m})
    ),
    "MINIMUM": with_nan_modes(
        lambda rng, dtype, m: Case("MINIMUM", [*pairs(rng, dtype)], dtype, {"nan_mode": m})
    ),
    "POW": pow_cases,
    "SELECT": select,
    "CLAMP": with_nan_modes(clamp_case),
    "REDUCE_SUM": reduction("REDUCE_SUM"),
    "REDUCE_PRODUCT": reduction("REDUCE_PRODUCT"),
    "REDUCE_MAX": extremum("REDUCE_MAX"),
    "REDUCE_MIN": extremum("REDUCE_MIN"),
    "ARGMAX": with_nan_modes(argmax_case),
    "MAX_POOL2D": with_nan_modes(max_pool_case),
    "AVG_POOL2D": avg_pool,
    "MATMUL": matmul,
    "CONV2D": convolution(
        "CONV2D", (2, 6, 5, 3), (4, 3, 2, 3), pad=[1, 0, 1, 1], stride=[2, 1], dilation=[1, 2]
    ),
    "CONV3D": convolution(
        "CONV3D",
        (1, 3, 4, 5, 2),
        (3, 2, 1, 2, 2),
        pad=[1, 0, 0, 0, 1, 0],
        stride=[1, 1, 2],
        dilation=[1, 1, 1],
    ),
    "DEPTHWISE_CONV2D": convolution(
        "DEPTHWISE_CONV2D", (1, 6, 5, 3), (3, 2, 3, 2), pad=[1, 1, 0, 0], stride=[1, 1], dilation=[2, 1]
    ),
    "TRANSPOSE_CONV2D": convolution(
        "TRANSPOSE_CONV2D", (1, 3, 4, 2), (3, 2, 3, 2), out_pad=[-1, 1, 0, 2], stride=[2, 3]
    ),
    "RESIZE": resize,
    "CAST": cast,
    "layout": layout,
}

ALSO_FP8 = (
    "AVG_POOL2D",
    "MAX_POOL2D",
    "MATMUL",
    "CONV2D",
    "CONV3D",
    "DEPTHWISE_CONV2D",
    "TRANSPOSE_CONV2D",
    "layout",
)
"""Cases whose function takes the 8-bit floats, too."""


def cases_of(op: str, rng: Rng) -> list[Case]:
    """The cases of an operator in all its floating-point types."""
    types = FLOATS + FP8 if op in ALSO_FP8 else FLOATS
    return [case for dtype in types for case in CASES[op](rng, dtype)]
