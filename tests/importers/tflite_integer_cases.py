"""Random cases of integer operators, beside those of `tflite_operator_cases`, and all values of functions."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from tflite_operator_cases import Case, Make, Tensor, encoding, shape_of

INTEGER_CASES: dict[str, tuple[Make, tuple[str, ...]]] = {}
"""Makers of random cases by name, and the types that they are made for."""


def integer_case(name: str, *dtypes: str) -> Any:
    """Registers a maker."""

    def register(make: Make) -> Make:
        INTEGER_CASES[name] = (make, dtypes)
        return make

    return register


def _constant(random: np.random.Generator, shape: list[int], dtype: str, **same: Any) -> Tensor:
    info = np.iinfo(dtype)
    return Tensor(shape, dtype, **same, data=random.integers(info.min, info.max + 1, shape))


@integer_case("DIV", "int8", "uint8")
def _divide(random: np.random.Generator, dtype: str) -> Case:
    shape, second = shape_of(random, 3), encoding(random, dtype)
    divisor = _constant(random, [1, 1, shape[-1]] if random.random() < 0.5 else [1], dtype, **second)
    # The kernel refuses to divide by zero.
    divisor.data = np.where(divisor.data == second["zero_points"], divisor.data ^ 1, divisor.data)
    fields = {"fusedActivationFunction": int(random.choice([0, 1, 3]))}
    out = Tensor(shape, dtype, **encoding(random, dtype))
    return Case(
        "DIV", "DivOptions", fields, [Tensor(shape, dtype, **encoding(random, dtype)), divisor], [out]
    )


def _ordered(kind: str) -> None:
    @integer_case(kind, "int16")
    def make(random: np.random.Generator, dtype: str) -> Case:
        ins = [Tensor([3, 40], dtype, **encoding(random, dtype)) for _ in range(2)]
        options = "".join(part.capitalize() for part in kind.split("_")) + "Options"
        return Case(kind, options, {}, ins, [Tensor([3, 40], "bool")])


for _kind in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
    _ordered(_kind)


def _row(kind: str, options: str, grid: dict[str, tuple[float, int]]) -> None:
    @integer_case(kind, *grid)
    def make(random: np.random.Generator, dtype: str) -> Case:
        shape = [5, int(random.choice([1, 2, 3, 10, 200]))]
        scale, zero = grid[dtype]
        ins = [Tensor(shape, dtype, **encoding(random, dtype))]
        return Case(kind, options, {}, ins, [Tensor(shape, dtype, np.float32(scale), zero)])


_row("LOG_SOFTMAX", "LogSoftmaxOptions", {"int8": (1 / 16, 127), "uint8": (1 / 16, 255)})
_row("L2_NORMALIZATION", "L2NormOptions", {"int8": (1 / 128, 0), "uint8": (1 / 128, 128)})


@integer_case("SOFTMAX", "int16")
def _softmax(random: np.random.Generator, dtype: str) -> Case:
    """Scales and lengths of which float32 tables gave some results a step off."""
    shape, scale = [2000, 4], np.float32(2.0**-14)
    return Case(
        "SOFTMAX", "SoftmaxOptions", {"beta": 1.0}, [Tensor(shape, dtype, scale, 0)],
        [Tensor(shape, dtype, np.float32(2**-15), 0)],
    )  # fmt: skip


@integer_case("REDUCE_PROD", "int8", "int16")
def _product(random: np.random.Generator, dtype: str) -> Case:
    scale = 0.01 if dtype == "int8" else 0.0001
    out = Tensor([1], dtype, **encoding(random, dtype, scale * 2))
    axes, keep = (
        [[1], [2], [1, 2]][int(random.integers(0, 3 if dtype == "int8" else 2))],
        bool(random.random() < 0.5),
    )
    ins = [
        Tensor([3, 2, 2], dtype, **encoding(random, dtype, scale)),
        Tensor([len(axes)], "int32", data=axes),
    ]
    return Case("REDUCE_PROD", "ReducerOptions", {"keepDims": keep}, ins, [out])


@integer_case("CONV_2D of groups", "int8", "int16")
def _groups(random: np.random.Generator, dtype: str) -> Case:
    x = Tensor([1, 5, 6, 4], dtype, **encoding(random, dtype))
    w = Tensor([6, 2, 3, 2], "int8", np.full(6, 0.02), 0, random.integers(-127, 128, (6, 2, 3, 2)))
    fields = {"padding": 0, "strideH": 1, "strideW": 2}
    bias = Tensor([6], "int64" if dtype == "int16" else "int32", np.float32(x.scales) * np.full(6, 0.02), 0)
    bias.data = random.integers(-3000, 3000, 6)
    return Case(
        "CONV_2D", "Conv2DOptions", fields, [x, w, bias], [Tensor([1], dtype, **encoding(random, dtype))]
    )


@integer_case("PRELU", "int16")
def _prelu(random: np.random.Generator, dtype: str) -> Case:
    slopes = _constant(random, [1, 1, 4], "int8", scales=np.float32(0.01), zero_points=0)
    x, y = (Tensor([2, 50, 4], dtype, **encoding(random, dtype)) for _ in range(2))
    return Case("PRELU", "", {}, [x, slopes], [y])


@integer_case("older sums", "int16")
def _older_sums(random: np.random.Generator, dtype: str) -> Case:
    kind = str(random.choice(["ADD", "SUB"]))
    scales = [2.0**-10, 2.0 ** -int(random.integers(10, 18))]
    ins = [Tensor([3, 50], dtype, np.float32(scale), 0) for scale in random.permutation(scales)]
    fields = {"potScaleInt16": True, "fusedActivationFunction": int(random.integers(0, 4))}
    return Case(
        kind, f"{kind.capitalize()}Options", fields, ins, [Tensor([3, 50], dtype, np.float32(2.0**-10), 0)]
    )


@integer_case("large products", "int16")
def _large_products(random: np.random.Generator, dtype: str) -> Case:
    """A result's scale so small that the product leaves 32 bits."""
    ins = [Tensor([3, 50], dtype, np.float32(s), 0) for s in random.uniform(0.001, 0.01, 2)]
    out = Tensor([3, 50], dtype, np.float32(random.uniform(1e-7, 1e-5)), 0)
    return Case("MUL", "MulOptions", {}, ins, [out])


@integer_case("FLOOR_DIV", "int8", "int16")
def _floor_divide(random: np.random.Generator, dtype: str) -> Case:
    kind, options = [("FLOOR_DIV", "FloorDivOptions"), ("FLOOR_MOD", "FloorModOptions")][
        int(random.integers(0, 2))
    ]
    divisor = Tensor([3, 20], dtype, data=random.choice([-7, -3, 2, 5, 100], (3, 20)))
    same = encoding(random, dtype) if dtype == "int16" else {}
    return Case(kind, options, {}, [Tensor([3, 20], dtype, **same), divisor], [Tensor([1], dtype, **same)])


# --- functions of one tensor ----------------------------------------------------------------------------------------

FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "TANH": ("", ("int8", "uint8", "int16")),
    "LOGISTIC": ("", ("int8", "uint8", "int16")),
    "GELU": ("GeluOptions", ("int8", "uint8")),
    "EXP": ("ExpOptions", ("int8", "int16")),
    "LOG": ("", ("int8", "int16")),
    "SQRT": ("", ("int8", "int16")),
    "RSQRT": ("", ("int8", "int16")),
    "ABS": ("AbsOptions", ("int8", "int16")),
    "NEG": ("NegOptions", ("int8", "int16")),
    "HARD_SWISH": ("HardSwishOptions", ("int8", "uint8")),
    "RELU_0_TO_1": ("", ("int8", "uint8")),
    "LEAKY_RELU": ("LeakyReluOptions", ("int8", "uint8", "int16")),
}
"""Functions by operator, with their options' table and types."""


def every_value(kind: str, dtype: str, count: int) -> Iterator[Case]:
    """Cases on all values that the kernel takes, on scales that are powers of two and others."""
    random, info, wide = np.random.default_rng(len(kind)), np.iinfo(dtype), dtype == "int16"

    def scale() -> float:
        size = (
            2.0 ** -int(random.integers(2, 12))
            if random.random() < 0.6
            else float(random.uniform(0.003, 0.3))
        )
        return size / 128 if wide else size

    def zero() -> int:
        choices = [info.min, info.max, info.min + 128, int(random.integers(info.min, info.max))]
        return 0 if wide else int(random.choice(choices))

    for _ in range(count):
        x, y = [scale(), zero()], [scale(), zero()]
        if kind in ("TANH", "LOGISTIC"):
            y[0] = 2.0**-15 if wide else 1 / 256 if kind == "LOGISTIC" else 1 / 128
        values = np.arange(info.min, info.max + 1)
        if kind in ("SQRT", "RSQRT"):
            values = values[values >= x[1] + (kind == "RSQRT" and wide)]
        if kind == "HARD_SWISH":
            # The kernel takes no result that is finer.
            y[0] = max(y[0], x[0] / 64)
        fields = {"alpha": float(random.uniform(-0.5, 1.5))} if kind == "LEAKY_RELU" else {}
        shape = [1, len(values)]
        tensors = [Tensor(shape, dtype, np.float32(s), z) for s, z in (x, y)]
        every = values.reshape(shape).astype(dtype)
        yield Case(kind, FUNCTIONS[kind][0], fields, tensors[:1], tensors[1:], every=every)
