"""Random operators of `tflite_builder`: each reads a tensor that exists, and others or constants."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tflite_builder import ALL, Builder, step
from tflite_operator_cases import Case, Tensor


def _numbers(values: Any) -> Tensor:
    data = np.asarray(values, np.int32)
    return Tensor(data.shape, "int32", data=data)


def _activation(b: Builder) -> int:
    return int(b.random.choice([0, 0, 1, 2, 3]))


def _with_rank(b: Builder, x: int, rank: int) -> bool:
    return len(b.shape(x)) == rank


def _binary(kind: str, options: str, fields: dict[str, Any], *dtypes: str, same: bool = False) -> None:
    @step(kind, *dtypes)
    def make(b: Builder, x: int) -> Case:
        other = b.partner(x)
        if same and not isinstance(other, int):
            other.scales, other.zero_points = b.tensors[x].scales, b.tensors[x].zero_points
        more = dict(fields)
        if kind in ("ADD", "SUB", "MUL", "DIV"):
            more["fusedActivationFunction"] = _activation(b)
        inputs: list[Any] = [x, other] if b.random.random() < 0.8 else [other, x]
        return Case(kind, options, more, inputs, [b.like(x) if same else b.fresh(x)])


_binary("ADD", "AddOptions", {"potScaleInt16": False})
_binary("SUB", "SubOptions", {"potScaleInt16": False})
_binary("MUL", "MulOptions", {})
_binary("DIV", "DivOptions", {}, "int8", "uint8")
_binary("MAXIMUM", "MaximumMinimumOptions", {}, same=True)
_binary("MINIMUM", "MaximumMinimumOptions", {}, same=True)
_binary("SQUARED_DIFFERENCE", "SquaredDifferenceOptions", {}, "int8")


@step("comparison and SELECT_V2")
def _select(b: Builder, x: int) -> Case:
    """A condition on one run, what reads it on the next."""
    masks = [i for i, t in enumerate(b.tensors) if t.dtype == "bool" and list(t.shape) == b.shape(x)]
    if masks:
        other = b.constant(
            b.tensors[x].dtype, [1], scales=b.tensors[x].scales, zero_points=b.tensors[x].zero_points
        )
        return Case("SELECT_V2", "SelectV2Options", {}, [masks[0], x, other], [b.like(x)])
    kind = str(b.random.choice(["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"]))
    options = "".join(part.capitalize() for part in kind.split("_")) + "Options"
    return Case(kind, options, {}, [x, b.partner(x)], [Tensor([1], "bool")])


def _weights(b: Builder, dtype: str, shape: list[int], channels: int, axis: int) -> Tensor:
    if dtype == "uint8":
        return b.constant("uint8", shape, **b.encoding("uint8", 0.02))
    count = channels if b.random.random() < 0.7 else 1
    scales = np.exp(b.random.uniform(np.log(0.002), np.log(0.05), count))
    return Tensor(shape, "int8", scales, 0, b.random.integers(-127, 128, shape), axis)


def _bias(b: Builder, x: int, w: Tensor, count: int) -> Tensor | None:
    if b.random.random() < 0.2:
        return None
    dtype = b.tensors[x].dtype
    scales = np.float32(b.tensors[x].scales) * np.float32(w.scales)
    kind = "int64" if dtype == "int16" else "int32"
    return Tensor([count], kind, scales, 0, b.random.integers(-3000, 3000, count))


def _layer_scale(b: Builder, x: int) -> float:
    return float(b.tensors[x].scales) * float(np.exp(b.random.uniform(np.log(0.3), np.log(30))))


def _strides(b: Builder) -> dict[str, int]:
    return {
        "padding": int(b.random.integers(0, 2)),
        "strideH": int(b.random.integers(1, 3)),
        "strideW": int(b.random.integers(1, 3)),
    }


@step("CONV_2D")
def _conv(b: Builder, x: int) -> Case | None:
    if not _with_rank(b, x, 4):
        return None
    channels, outputs = b.shape(x)[-1], int(b.random.integers(1, 7))
    kernel = [int(n) for n in b.random.integers(1, 4, 2)]
    w = _weights(b, b.tensors[x].dtype, [outputs, *kernel, channels], outputs, 0)
    fields = {**_strides(b), "fusedActivationFunction": _activation(b)}
    if b.random.random() < 0.2:
        fields |= {"strideH": 1, "strideW": 1, "dilationHFactor": 2, "dilationWFactor": 2}
    return Case(
        "CONV_2D", "Conv2DOptions", fields, [x, w, _bias(b, x, w, outputs)], [b.fresh(x, _layer_scale(b, x))]
    )


@step("DEPTHWISE_CONV_2D")
def _depthwise(b: Builder, x: int) -> Case | None:
    if not _with_rank(b, x, 4):
        return None
    times, channels = int(b.random.integers(1, 3)), b.shape(x)[-1]
    kernel = [int(n) for n in b.random.integers(1, 4, 2)]
    w = _weights(b, b.tensors[x].dtype, [1, *kernel, channels * times], channels * times, 3)
    fields = {**_strides(b), "depthMultiplier": times, "fusedActivationFunction": _activation(b)}
    bias = _bias(b, x, w, channels * times)
    if bias is None and b.tensors[x].dtype == "uint8":
        return None
    return Case(
        "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", fields, [x, w, bias], [b.fresh(x, _layer_scale(b, x))]
    )


@step("TRANSPOSE_CONV", "int8", "int16")
def _transpose_conv(b: Builder, x: int) -> Case | None:
    if not _with_rank(b, x, 4):
        return None
    batch, height, width, channels = b.shape(x)
    outputs, fields = int(b.random.integers(1, 5)), _strides(b)
    kernel = [int(n) for n in b.random.integers(1, 4, 2)]
    sizes = []
    for n, k, s in zip((height, width), kernel, (fields["strideH"], fields["strideW"]), strict=True):
        sizes.append(n * s if fields["padding"] == 0 else (n - 1) * s + max(k, s))
    w = _weights(b, b.tensors[x].dtype, [outputs, *kernel, channels], outputs, 0)
    inputs = [_numbers([batch, *sizes, outputs]), w, x]
    return Case("TRANSPOSE_CONV", "TransposeConvOptions", fields, inputs, [b.fresh(x, _layer_scale(b, x))])


@step("FULLY_CONNECTED")
def _dense(b: Builder, x: int) -> Case:
    depth, outputs = b.shape(x)[-1], int(b.random.integers(1, 9))
    w = _weights(b, b.tensors[x].dtype, [outputs, depth], outputs, 0)
    fields = {"keepNumDims": bool(b.random.random() < 0.6), "fusedActivationFunction": _activation(b)}
    inputs = [x, w, _bias(b, x, w, outputs)]
    return Case("FULLY_CONNECTED", "FullyConnectedOptions", fields, inputs, [b.fresh(x, _layer_scale(b, x))])


@step("BATCH_MATMUL", "int8", "int16")
def _matmul(b: Builder, x: int) -> Case:
    shape = b.shape(x)
    columns, transposed = int(b.random.integers(1, 6)), bool(b.random.random() < 0.5)
    other = [*shape[:-2], columns, shape[-1]] if transposed else [*shape[:-2], shape[-1], columns]
    given = b.constant(b.tensors[x].dtype, other)
    return Case("BATCH_MATMUL", "BatchMatMulOptions", {"adjY": transposed}, [x, given], [b.fresh(x)])


def _pool(kind: str) -> None:
    @step(kind)
    def make(b: Builder, x: int) -> Case | None:
        if not _with_rank(b, x, 4):
            return None
        height, width = (int(n) for n in b.random.integers(1, 4, 2))
        fields = {
            **_strides(b),
            "filterHeight": height,
            "filterWidth": width,
            "fusedActivationFunction": _activation(b),
        }
        return Case(kind, "Pool2DOptions", fields, [x], [b.like(x)])


def _reduction(kind: str, *dtypes: str) -> None:
    @step(kind, *dtypes)
    def make(b: Builder, x: int) -> Case:
        rank = len(b.shape(x))
        count = int(b.random.integers(1, max(rank, 2)))
        axes = sorted(int(a) for a in b.random.choice(rank, count, replace=False))
        scale = float(b.tensors[x].scales) * float(b.random.choice([1.5, 3, 10])) if kind == "SUM" else 0.0
        out = b.fresh(x, scale) if kind in ("MEAN", "SUM") else b.like(x)
        return Case(
            kind, "ReducerOptions", {"keepDims": bool(b.random.random() < 0.5)}, [x, _numbers(axes)], [out]
        )


_pool("AVERAGE_POOL_2D")
_pool("MAX_POOL_2D")
_reduction("MEAN")
_reduction("SUM", "uint8")
_reduction("REDUCE_MAX")
_reduction("REDUCE_MIN")
_reduction("REDUCE_PROD", "int8", "int16")


def _unary(kind: str, *dtypes: str, options: str = "", **ranges: tuple[float, float]) -> None:
    @step(kind, *dtypes)
    def make(b: Builder, x: int) -> Case:
        fields: dict[str, Any] = {name: float(b.random.uniform(*ends)) for name, ends in ranges.items()}
        if kind == "GELU":
            fields["approximate"] = bool(b.random.random() < 0.3) and b.tensors[x].dtype != "int16"
        return Case(kind, options, fields, [x], [b.fresh(x)])


for _kind, _types in {
    "RELU": ALL,
    "RELU6": ALL,
    "RELU_N1_TO_1": ("int8", "uint8"),
    "RELU_0_TO_1": ("int8", "uint8"),
    "LOG": ("int8", "int16"),
    "NEG": ("int8", "int16"),
    "SQRT": ("int8", "int16"),
}.items():
    _unary(_kind, *_types)
_unary("ABS", "int8", "int16", options="AbsOptions")
_unary("RSQRT", "int8", "int16")
_unary("EXP", "int8", "int16", options="ExpOptions")
_unary("GELU", options="GeluOptions")
_unary("HARD_SWISH", "int8", "uint8", options="HardSwishOptions")
_unary("LEAKY_RELU", options="LeakyReluOptions", alpha=(-0.5, 1.5))


def _on_grid(kind: str, options: str, encodings: dict[str, tuple[float, int]], **fields: float) -> None:
    @step(kind, *encodings)
    def make(b: Builder, x: int) -> Case:
        dtype = b.tensors[x].dtype
        scale, zero = encodings[dtype]
        return Case(kind, options, dict(fields), [x], [Tensor([1], dtype, np.float32(scale), zero)])


_FROM_ZERO = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (2**-15, 0)}
_AROUND_ZERO = {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (2**-15, 0)}
_on_grid("LOGISTIC", "", _FROM_ZERO)
_on_grid("SOFTMAX", "SoftmaxOptions", _FROM_ZERO, beta=1.0)
_on_grid("TANH", "", _AROUND_ZERO)
_on_grid("L2_NORMALIZATION", "L2NormOptions", {k: v for k, v in _AROUND_ZERO.items() if k != "int16"})
_on_grid("LOG_SOFTMAX", "LogSoftmaxOptions", {"int8": (1 / 16, 127), "uint8": (1 / 16, 255)})


@step("QUANTIZE")
def _quantize(b: Builder, x: int) -> Case:
    dtype = str(b.random.choice(ALL))
    return Case("QUANTIZE", "QuantizeOptions", {}, [x], [Tensor([1], dtype, **b.encoding(dtype))])


@step("PRELU", "int8", "uint8")
def _prelu(b: Builder, x: int) -> Case:
    shape = [1] * (len(b.shape(x)) - 1) + [b.shape(x)[-1] if b.random.random() < 0.7 else 1]
    dtype = b.tensors[x].dtype
    return Case("PRELU", "", {}, [x, b.constant(dtype, shape, **b.encoding(dtype, 0.01))], [b.fresh(x)])


_REALS = {
    "ABS": "AbsOptions", "NEG": "NegOptions", "SQUARE": "SquareOptions", "TANH": "", "LOGISTIC": "",
    "EXP": "ExpOptions", "LOG": "", "SQRT": "", "RSQRT": "", "FLOOR": "",
    "HARD_SWISH": "HardSwishOptions", "RELU": "", "RELU6": "",
    "ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions",
    "MAXIMUM": "MaximumMinimumOptions", "MINIMUM": "MaximumMinimumOptions",
}  # fmt: skip
"""Float operators of islands, and their options."""


@step("float island")
def _island(b: Builder, x: int) -> Case | None:
    """DEQUANTIZE at once, float operators and QUANTIZE on later runs."""
    read = {i for _, reads, _ in b.operators for i in reads}
    ends = [i for i, t in enumerate(b.tensors) if t.dtype == "float32" and t.data is None and i not in read]
    if not ends:
        return Case("DEQUANTIZE", "", {}, [x], [Tensor([1], "float32")])
    if b.random.random() < 0.5:
        return Case("QUANTIZE", "QuantizeOptions", {}, [ends[-1]], [b.fresh(x)])
    kind = str(b.random.choice(list(_REALS)))
    number = Tensor([1], "float32", data=[float(b.random.choice([0.5, 2.0, 3.0, 0.1, -1.5]))])
    more = [number] if _REALS[kind][:3].upper() in ("ADD", "SUB", "MUL", "DIV", "MAX") else []
    return Case(kind, _REALS[kind], {}, [ends[-1], *more], [Tensor([1], "float32")])


def _resize(kind: str, options: str, *dtypes: str) -> None:
    @step(kind, *dtypes)
    def make(b: Builder, x: int) -> Case | None:
        if not _with_rank(b, x, 4):
            return None
        shape, factor = b.shape(x), int(b.random.choice([1, 2, 3]))
        sizes = (
            [int(n) for n in b.random.integers(1, 12, 2)]
            if b.random.random() < 0.5
            else [n * factor for n in shape[1:3]]
        )
        align = bool(b.random.random() < 0.4)
        fields = {"alignCorners": align, "halfPixelCenters": not align and bool(b.random.random() < 0.6)}
        return Case(kind, options, fields, [x, _numbers(sizes)], [b.like(x)])


# TFLite resizes uint8 in floats; ours is the fixed point of its int8 kernel, a step off at most.
_resize("RESIZE_BILINEAR", "ResizeBilinearOptions", "int8", "int16")
_resize("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")


# --- operators that move elements ---------------------------------------------------------------------------------


def _moved(
    kind: str,
    options: str,
    make_more: Callable[[Builder, list[int]], tuple[dict[str, Any], list[Any]] | None],
) -> None:
    @step(kind)
    def make(b: Builder, x: int) -> Case | None:
        found = make_more(b, b.shape(x))
        if found is None:
            return None
        return Case(kind, options, found[0], [x, *found[1]], [b.like(x)])


def _slice_of(b: Builder, shape: list[int]) -> tuple[dict[str, Any], list[Any]]:
    begins = [int(b.random.integers(0, n)) for n in shape]
    steps = [int(b.random.choice([1, 1, 2])) for _ in shape]
    return {}, [_numbers(begins), _numbers(shape), _numbers(steps)]


def _order(b: Builder, shape: list[int]) -> tuple[dict[str, Any], list[Any]]:
    return {}, [_numbers(b.random.permutation(len(shape)))]


def _pads(b: Builder, shape: list[int], most: int) -> Tensor:
    return _numbers([[int(b.random.integers(0, min(most, n))) for _ in range(2)] for n in shape])


_moved("RESHAPE", "ReshapeOptions", lambda b, s: ({"newShape": [s[0], -1]}, [_numbers([s[0], -1])]))
_moved("TRANSPOSE", "TransposeOptions", _order)
_moved("STRIDED_SLICE", "StridedSliceOptions", _slice_of)
_moved("PAD", "PadOptions", lambda b, s: ({}, [_pads(b, [9] * len(s), 3)]))
_moved(
    "MIRROR_PAD", "MirrorPadOptions", lambda b, s: ({"mode": int(b.random.integers(0, 2))}, [_pads(b, s, 3)])
)
_moved("TILE", "TileOptions", lambda b, s: ({}, [_numbers(b.random.integers(1, 3, len(s)))]))
_moved(
    "GATHER",
    "GatherOptions",
    lambda b, s: (
        {"axis": len(s) - 1},
        [_numbers(b.random.integers(0, s[-1], int(b.random.integers(1, 5))))],
    ),
)
_moved("SPACE_TO_DEPTH", "SpaceToDepthOptions", lambda b, s: ({"blockSize": 2}, []) if len(s) == 4 else None)
_moved("DEPTH_TO_SPACE", "DepthToSpaceOptions", lambda b, s: ({"blockSize": 2}, []) if len(s) == 4 else None)
_moved(
    "SPACE_TO_BATCH_ND",
    "SpaceToBatchNDOptions",
    lambda b, s: ({}, [_numbers([2, 2]), _numbers([[0, s[1] % 2], [0, s[2] % 2]])]) if len(s) == 4 else None,
)


@step("CONCATENATION")
def _concatenation(b: Builder, x: int) -> Case:
    axis, shape, given = int(b.random.integers(0, len(b.shape(x)))), b.shape(x), b.tensors[x]
    other = list(shape)
    other[axis] = int(b.random.integers(1, 4))
    same = {"scales": given.scales, "zero_points": given.zero_points}
    several = given.dtype == "uint8" and b.random.random() < 0.5
    part = b.constant(given.dtype, other, **(b.encoding("uint8") if several else same))
    fields = {"axis": axis}
    return Case(
        "CONCATENATION", "ConcatenationOptions", fields, [x, part, x], [b.fresh(x) if several else b.like(x)]
    )


@step("SPLIT")
def _split(b: Builder, x: int) -> Case | None:
    axes = [axis for axis, n in enumerate(b.shape(x)) if n % 2 == 0]
    if not axes:
        return None
    axis = int(b.random.choice(axes))
    return Case("SPLIT", "SplitOptions", {"numSplits": 2}, [_numbers(axis), x], [b.like(x), b.like(x)])


@step("PADV2")
def _pad_v2(b: Builder, x: int) -> Case:
    given = b.tensors[x]
    value = b.constant(given.dtype, [1], scales=given.scales, zero_points=given.zero_points)
    return Case("PADV2", "PadV2Options", {}, [x, _pads(b, [9] * len(b.shape(x)), 3), value], [b.like(x)])


@step("ARG_MAX", "int8", "uint8")
def _arg_max(b: Builder, x: int) -> Case:
    axis = _numbers(int(b.random.integers(0, len(b.shape(x)))))
    return Case("ARG_MAX", "ArgMaxOptions", {"outputType": 2}, [x, axis], [Tensor([1], "int32")])
