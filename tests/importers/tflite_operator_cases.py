"""TFLite models of one operator with random shapes, options and encodings, and LiteRT's reference kernels on them."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tosaic.compiler.importers import import_model
from tosaic.sim.golden import evaluate

TYPES = {
    "int8": schema.TensorType.INT8,
    "uint8": schema.TensorType.UINT8,
    "int16": schema.TensorType.INT16,
    "int32": schema.TensorType.INT32,
    "int64": schema.TensorType.INT64,
    "float32": schema.TensorType.FLOAT32,
    "bool": schema.TensorType.BOOL,
}


OPTIMIZED = ("ELU", "CEIL", "ROUND")
"""Operators that LiteRT 2.3 has no reference kernel of; the optimized one is the same."""

VERSIONS = {"BROADCAST_TO": 2}
"""First versions of operators that LiteRT runs, where they are not 1."""


@dataclasses.dataclass
class Tensor:
    """A tensor of a case: an input of the graph, or a constant (`data`), or the operator's result."""

    shape: Sequence[int]
    dtype: str
    scales: Any = None
    zero_points: Any = 0
    data: Any = None
    axis: int = 0
    variable: bool = False


@dataclasses.dataclass
class Case:
    """An operator, its options (a table's name and its fields), and its tensors."""

    kind: str
    options: str
    fields: dict[str, Any]
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    intermediates: Sequence[Tensor] = ()
    """Tensors that only tell encodings of what the kernel computes inside."""
    spread: float = 1.0
    every: Any = None
    """The input, where it is no random one."""


def model_of(case: Case, *following: Case) -> bytes:
    """The flatbuffer of a model of this operator, and of others that read the result of the one before first."""
    tensors: list[schema.TensorT] = []
    buffers, codes, operators, inputs = [schema.BufferT()], [], [], []
    for number, each in enumerate((case, *following)):
        first = [len(tensors) - 1] if number else []
        reads = list(first)
        for tensor in each.inputs:
            if tensor is None:
                reads.append(-1)
                continue
            reads.append(len(tensors))
            if tensor.data is None and not tensor.variable:
                inputs.append(len(tensors))
            tensors.append(packed_tensor(tensor, len(tensors), buffers))
        writes = list(range(len(tensors), len(tensors) + len(each.outputs)))
        tensors += [
            packed_tensor(tensor, index, buffers) for index, tensor in zip(writes, each.outputs, strict=True)
        ]
        inner = list(range(len(tensors), len(tensors) + len(each.intermediates)))
        tensors += [
            packed_tensor(tensor, index, buffers)
            for index, tensor in zip(inner, each.intermediates, strict=True)
        ]
        operators.append(packed_operator(each, number, reads, writes))
        operators[-1].intermediates = inner or None
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, each.kind)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), VERSIONS.get(each.kind, 1)
        codes.append(code)
    graph = schema.SubGraphT()
    graph.tensors, graph.operators, graph.name = tensors, operators, b"main"
    graph.inputs, graph.outputs = inputs, operators[-1].outputs
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, codes, [graph], buffers
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def packed_tensor(tensor: Tensor, index: int, buffers: list[schema.BufferT]) -> schema.TensorT:
    made = schema.TensorT()
    made.shape, made.type, made.name = list(tensor.shape), TYPES[tensor.dtype], f"t{index}".encode()
    if tensor.scales is not None:
        made.quantization = schema.QuantizationParametersT()
        scales = np.atleast_1d(np.float32(tensor.scales))
        made.quantization.scale = scales.tolist()
        made.quantization.zeroPoint = np.broadcast_to(tensor.zero_points, scales.shape).tolist()
        made.quantization.quantizedDimension = tensor.axis
    made.buffer, made.isVariable = 0, tensor.variable
    if tensor.data is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.asarray(tensor.data).astype(tensor.dtype).tobytes(), np.uint8)
        made.buffer = len(buffers)
        buffers.append(buffer)
    return made


def packed_operator(case: Case, code: int, reads: list[int], writes: list[int]) -> schema.OperatorT:
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = code, reads, writes
    if case.options:
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, case.options)
        operator.builtinOptions = getattr(schema, f"{case.options}T")()
        for name, value in case.fields.items():
            assert hasattr(operator.builtinOptions, name), name
            setattr(operator.builtinOptions, name, value)
    return operator


def feeds_of(case: Case, random: np.random.Generator) -> list[np.ndarray]:
    """Random values of the inputs: integers of the whole range, now and then of a small one or at its ends."""
    feeds: list[np.ndarray] = []
    if case.every is not None:
        return [np.asarray(case.every, case.inputs[0].dtype)]
    for tensor in case.inputs:
        if tensor is None or tensor.data is not None or tensor.variable:
            continue
        if tensor.dtype == "float32":
            feeds.append((random.normal(0, case.spread, tensor.shape)).astype(np.float32))
        elif tensor.dtype == "bool":
            feeds.append(random.random(tensor.shape) < 0.5)
        else:
            info = np.iinfo(tensor.dtype)
            low, high = max(info.min, -1000000), min(info.max, 1000000)
            x = random.integers(low, high + 1, tensor.shape)
            if random.random() < 0.2:
                x = random.choice([low, high], tensor.shape)
            feeds.append(x.astype(tensor.dtype))
    return feeds


def reference(data: bytes, feeds: Sequence[np.ndarray], optimized: bool = False) -> list[np.ndarray]:
    """What LiteRT's reference kernels make of it, or its optimized ones."""
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if optimized else OpResolverType.BUILTIN_REF
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kernels, num_threads=1)
    interpreter.allocate_tensors()
    for details, feed in zip(interpreter.get_input_details(), feeds, strict=True):
        interpreter.set_tensor(details["index"], feed)
    interpreter.invoke()
    return [interpreter.get_tensor(details["index"]) for details in interpreter.get_output_details()]


def agree(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether two results are equal; reals to what float32 leaves."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    close = {"atol": 3e-5, "rtol": 3e-6} if found.dtype.kind == "f" else {"atol": 0, "rtol": 0}
    return bool(np.allclose(found, wanted, **close, equal_nan=True))


def bits(array: np.ndarray) -> np.ndarray:
    """An array as a graph of TOSA holds it."""
    if array.dtype.kind == "u":
        return array.view(np.dtype(f"int{array.itemsize * 8}"))
    return array.astype(np.int32) if array.dtype == np.int64 else array


def both(
    case: Case, feeds: Sequence[np.ndarray], folder: pathlib.Path
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ours and LiteRT's results of a case."""
    data = model_of(case)
    wanted = reference(data, feeds, case.kind in OPTIMIZED)
    path = folder / "case.tflite"
    path.write_bytes(data)
    graph = import_model(path)
    found = evaluate(graph, dict(zip(graph.inputs, map(bits, feeds), strict=True)))
    return [(found[name], bits(value)) for name, value in zip(graph.outputs, wanted, strict=True)]


# --- random cases -------------------------------------------------------------------------------------------------

Make = Callable[[np.random.Generator, str], Case]
CASES: dict[str, tuple[Make, tuple[str, ...]]] = {}
"""Makers of random cases by name, and the types that they are made for."""


def case(name: str, *dtypes: str) -> Callable[[Make], Make]:
    """Registers a maker."""

    def register(make: Make) -> Make:
        CASES[name] = (make, dtypes)
        return make

    return register


def encoding(random: np.random.Generator, dtype: str, scale: float | None = None) -> dict[str, Any]:
    """A random scale and zero point."""
    scale = scale or float(np.exp(random.uniform(np.log(0.004), np.log(0.3)))) / (
        128 if dtype == "int16" else 1
    )
    zero = 0 if dtype == "int16" else int(random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1))
    return {"scales": np.float32(scale), "zero_points": zero}


def shape_of(random: np.random.Generator, rank: int, most: int = 6) -> list[int]:
    """Random sizes."""
    return [int(n) for n in random.integers(1, most + 1, rank)]


ACTIVATIONS = (0, 1, 2, 3)
"""Codes of NONE, RELU, RELU_N1_TO_1 and RELU6."""


def _activation(random: np.random.Generator) -> int:
    return int(random.choice(ACTIVATIONS))


def _pair(random: np.random.Generator) -> tuple[list[int], list[int], list[int]]:
    """Two shapes that broadcast, and the result's."""
    shape = shape_of(random, int(random.integers(1, 5)))
    kind = random.integers(0, 4)
    other = (
        list(shape)
        if kind < 2
        else [1] * len(shape)
        if kind == 2
        else [n if random.random() < 0.5 else 1 for n in shape]
    )
    return shape, other, shape


def _binary(kind: str, options: str) -> None:
    @case(kind, "int8", "uint8", "int16")
    def make(random: np.random.Generator, dtype: str) -> Case:
        a, b, out = _pair(random)
        same = encoding(random, dtype)
        encodings = [encoding(random, dtype), encoding(random, dtype), encoding(random, dtype)]
        if kind in ("MAXIMUM", "MINIMUM"):
            encodings = [same] * 3
        fields = {"fusedActivationFunction": _activation(random)} if kind in ("ADD", "SUB", "MUL") else {}
        if kind in ("ADD", "SUB"):
            fields["potScaleInt16"] = False
        second = Tensor(b, dtype, **encodings[1])
        if random.random() < 0.3:
            info = np.iinfo(dtype)
            second.data = random.integers(info.min, info.max + 1, b)
        return Case(
            kind,
            options,
            fields,
            [Tensor(a, dtype, **encodings[0]), second],
            [Tensor(out, dtype, **encodings[2])],
        )


for _kind, _options in {
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
}.items():
    _binary(_kind, _options)


@case("SQUARED_DIFFERENCE", "int8")
def _squared_difference(random: np.random.Generator, dtype: str) -> Case:
    a, b, out = _pair(random)
    ins = [Tensor(s, dtype, **encoding(random, dtype)) for s in (a, b)]
    return Case(
        "SQUARED_DIFFERENCE",
        "SquaredDifferenceOptions",
        {},
        ins,
        [Tensor(out, dtype, **encoding(random, dtype))],
    )


def _comparison(kind: str, options: str) -> None:
    @case(kind, "int8", "uint8", "int32", "float32")
    def make(random: np.random.Generator, dtype: str) -> Case:
        a, b, out = _pair(random)
        more = [encoding(random, dtype) if "int8" in dtype else {} for _ in range(2)]
        if random.random() < 0.5:
            more[1] = more[0]
        ins = [Tensor(s, dtype, **m) for s, m in zip((a, b), more, strict=True)]
        return Case(kind, options, {}, ins, [Tensor(out, "bool")])


for _kind in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
    _comparison(_kind, "".join(part.capitalize() for part in _kind.split("_")) + "Options")


def _weights(
    random: np.random.Generator, dtype: str, shape: Sequence[int], channels: int, axis: int
) -> Tensor:
    if dtype == "uint8":
        return Tensor(shape, "uint8", **encoding(random, "uint8", 0.02), data=random.integers(0, 256, shape))
    scales = np.exp(random.uniform(np.log(0.002), np.log(0.05), channels))
    return Tensor(shape, "int8", scales, 0, random.integers(-127, 128, shape), axis)


def _bias(random: np.random.Generator, dtype: str, count: int, x: Tensor, w: Tensor) -> Tensor:
    scales = np.float32(x.scales) * np.float32(w.scales)
    kind = "int64" if dtype == "int16" else "int32"
    return Tensor([count], kind, scales, 0, random.integers(-3000, 3000, count))


def _convolution(kind: str) -> None:
    @case(kind, "int8", "uint8", "int16")
    def make(random: np.random.Generator, dtype: str) -> Case:
        image = [
            int(random.integers(1, 3)),
            *(int(n) for n in random.integers(4, 10, 2)),
            int(random.integers(1, 6)),
        ]
        kernel = [int(n) for n in random.integers(1, 4, 2)]
        fields = {
            "padding": int(random.integers(0, 2)),
            "strideH": int(random.integers(1, 4)),
            "strideW": int(random.integers(1, 4)),
            "fusedActivationFunction": _activation(random),
        }
        if random.random() < 0.3 and dtype != "int16":
            fields |= {
                "dilationHFactor": 2 if kernel[0] < 3 else 1,
                "dilationWFactor": 2,
                "strideH": 1,
                "strideW": 1,
            }
            kernel = [min(n, 2) for n in kernel]
        x = Tensor(image, dtype, **encoding(random, dtype))
        if kind == "CONV_2D":
            outputs = int(random.integers(1, 7))
            w = _weights(random, dtype, [outputs, *kernel, image[3]], outputs, 0)
        else:
            multiplier = int(random.integers(1, 3))
            outputs = image[3] * multiplier
            fields["depthMultiplier"] = multiplier
            w = _weights(random, dtype, [1, *kernel, outputs], outputs, 3)
        options = "Conv2DOptions" if kind == "CONV_2D" else "DepthwiseConv2DOptions"
        out = Tensor([1], dtype, **encoding(random, dtype, float(random.uniform(0.05, 0.6))))
        return Case(kind, options, fields, [x, w, _bias(random, dtype, outputs, x, w)], [out])


_convolution("CONV_2D")
_convolution("DEPTHWISE_CONV_2D")


@case("FULLY_CONNECTED", "int8", "uint8", "int16")
def _fully_connected(random: np.random.Generator, dtype: str) -> Case:
    # Many sums: few are so near to a tie that one more bit of a scale decides.
    rows, depth, outputs = (int(n) for n in random.integers(1, (400, 24, 30)))
    x = Tensor([rows, depth], dtype, **encoding(random, dtype))
    per_channel = dtype == "int8" and random.random() < 0.5
    w = _weights(random, dtype, [outputs, depth], outputs if per_channel else 1, 0)
    fields = {"fusedActivationFunction": _activation(random), "keepNumDims": bool(random.random() < 0.5)}
    out = Tensor([1], dtype, **encoding(random, dtype, float(random.uniform(0.02, 0.4))))
    return Case(
        "FULLY_CONNECTED", "FullyConnectedOptions", fields, [x, w, _bias(random, dtype, outputs, x, w)], [out]
    )


@case("TRANSPOSE_CONV", "int8", "int16")
def _transpose_conv(random: np.random.Generator, dtype: str) -> Case:
    batch, height, width, channels = 1, *(int(n) for n in random.integers(2, 6, 3))
    kernel, strides = random.integers(1, 4, 2), random.integers(1, 3, 2)
    same = bool(random.random() < 0.5)
    sizes = [
        int(n * s if same else (n - 1) * s + max(k, s))
        for n, s, k in zip((height, width), strides, kernel, strict=True)
    ]
    outputs = int(random.integers(1, 5))
    x = Tensor([batch, height, width, channels], dtype, **encoding(random, dtype))
    w = _weights(random, dtype, [outputs, *map(int, kernel), channels], outputs, 0)
    fields = {"padding": 0 if same else 1, "strideH": int(strides[0]), "strideW": int(strides[1])}
    shape = Tensor([4], "int32", data=[batch, *sizes, outputs])
    inputs = [shape, w, x]
    if random.random() < 0.5:
        inputs.append(_bias(random, dtype, outputs, x, w))
    out = Tensor([1], dtype, **encoding(random, dtype, float(random.uniform(0.05, 0.6))))
    return Case("TRANSPOSE_CONV", "TransposeConvOptions", fields, inputs, [out])


def _pool(kind: str) -> None:
    @case(kind, "int8", "uint8", "int16")
    def make(random: np.random.Generator, dtype: str) -> Case:
        image = [
            int(random.integers(1, 3)),
            *(int(n) for n in random.integers(4, 9, 2)),
            int(random.integers(1, 6)),
        ]
        same = encoding(random, dtype)
        fields = {
            "padding": int(random.integers(0, 2)),
            "strideH": int(random.integers(1, 4)),
            "strideW": int(random.integers(1, 4)),
            "filterHeight": int(random.integers(1, 5)),
            "filterWidth": int(random.integers(1, 5)),
            "fusedActivationFunction": _activation(random),
        }
        return Case(
            kind, "Pool2DOptions", fields, [Tensor(image, dtype, **same)], [Tensor([1], dtype, **same)]
        )


_pool("AVERAGE_POOL_2D")
_pool("MAX_POOL_2D")


def _reduction(kind: str) -> None:
    # LiteRT 2.3's reference kernel of SUM takes int8 and int16 for uint8.
    @case(kind, *(("uint8",) if kind == "SUM" else ("int8", "uint8", "int16")))
    def make(random: np.random.Generator, dtype: str) -> Case:
        shape = shape_of(random, int(random.integers(2, 5)), 7)
        axes = sorted(
            int(a) for a in random.choice(len(shape), int(random.integers(1, len(shape))), replace=False)
        )
        first = encoding(random, dtype)
        second = encoding(random, dtype) if kind in ("MEAN", "SUM") and random.random() < 0.7 else first
        if kind == "SUM":
            second = encoding(random, dtype, 0.5)
        inputs = [Tensor(shape, dtype, **first), Tensor([len(axes)], "int32", data=axes)]
        return Case(
            kind,
            "ReducerOptions",
            {"keepDims": bool(random.random() < 0.5)},
            inputs,
            [Tensor([1], dtype, **second)],
        )


for _kind in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"):
    _reduction(_kind)


def _unary(
    kind: str,
    *dtypes: str,
    options: str = "",
    fields: Callable[[np.random.Generator], dict[str, Any]] = lambda _: {},
    out: tuple[float, int] | None = None,
    positive: bool = False,
    spread: tuple[float, float] = (0.004, 0.2),
) -> None:
    @case(kind, *dtypes)
    def make(random: np.random.Generator, dtype: str) -> Case:
        first = encoding(random, dtype, float(np.exp(random.uniform(*np.log(spread)))))
        if dtype == "int16":
            first["scales"] = np.float32(first["scales"] / 128)
        if positive:
            first["zero_points"] = -128
        second = encoding(random, dtype, float(np.exp(random.uniform(*np.log(spread)))))
        if dtype == "int16":
            second["scales"] = np.float32(second["scales"] / 128)
        if out is not None:
            second = {"scales": np.float32(out[0]), "zero_points": out[1] + (128 if dtype == "uint8" else 0)}
        shape = [4, 300] if dtype != "int16" else [2, 2000]
        return Case(
            kind, options, fields(random), [Tensor(shape, dtype, **first)], [Tensor(shape, dtype, **second)]
        )


_unary("RELU", "int8", "uint8", "int16")
_unary("RELU6", "int8", "uint8", "int16")
_unary("RELU_N1_TO_1", "int8", "uint8")
_unary("LOGISTIC", "int8", "uint8", out=(1 / 256, -128))
_unary("TANH", "int8", "uint8", out=(1 / 128, 0))
_unary(
    "LEAKY_RELU",
    "int8",
    "uint8",
    "int16",
    options="LeakyReluOptions",
    fields=lambda r: {"alpha": float(r.uniform(0, 0.9))},
)
_unary("HARD_SWISH", "int8", "uint8", options="HardSwishOptions", spread=(0.02, 0.1))
_unary("ELU", "int8")
_unary(
    "GELU", "int8", "uint8", options="GeluOptions", fields=lambda r: {"approximate": bool(r.random() < 0.5)}
)
_unary("EXP", "int8", "int16", options="ExpOptions", spread=(0.005, 0.05))
_unary("LOG", "int8", "int16", positive=False)
_unary("ABS", "int8", options="AbsOptions")
_unary("RSQRT", "int8", positive=True)
_unary("QUANTIZE", "int8", "uint8", "int16", options="QuantizeOptions")


def _every_value(kind: str) -> None:
    @case(f"{kind} of all values", "int16")
    def make(random: np.random.Generator, dtype: str) -> Case:
        plain = 2.0 ** -int(random.integers(11, 13))
        scale = plain if random.random() < 0.3 else float(random.uniform(0.5, 8) / 2**15)
        every = np.arange(-(1 << 15), 1 << 15).reshape(1, -1)
        x, y = (Tensor(every.shape, dtype, np.float32(s), 0) for s in (scale, 2**-15))
        return Case(kind, "", {}, [x], [y], every=every)


_every_value("LOGISTIC")
_every_value("TANH")


@case("PRELU", "int8", "uint8")
def _prelu(random: np.random.Generator, dtype: str) -> Case:
    shape = [1, *shape_of(random, 3)]
    slopes = [1, 1, shape[-1]] if random.random() < 0.7 else [1, 1, 1]
    info = np.iinfo(dtype)
    alpha = Tensor(
        slopes, dtype, **encoding(random, dtype, 0.01), data=random.integers(info.min, info.max + 1, slopes)
    )
    return Case(
        "PRELU",
        "",
        {},
        [Tensor(shape, dtype, **encoding(random, dtype)), alpha],
        [Tensor(shape, dtype, **encoding(random, dtype))],
    )


@case("SOFTMAX", "int8", "uint8", "int16")
def _softmax(random: np.random.Generator, dtype: str) -> Case:
    shape = [int(random.integers(1, 4)), int(random.choice([1, 2, 3, 10, 100, 400]))]
    out = {"scales": np.float32(1 / 256), "zero_points": -128 if dtype == "int8" else 0}
    if dtype == "int16":
        out = {"scales": np.float32(2**-15), "zero_points": 0}
    first = encoding(
        random,
        dtype,
        float(np.exp(random.uniform(np.log(0.0005), np.log(1.0)))) / (256 if dtype == "int16" else 1),
    )
    return Case(
        "SOFTMAX",
        "SoftmaxOptions",
        {"beta": float(random.choice([1.0, 0.5, 2.0]))},
        [Tensor(shape, dtype, **first)],
        [Tensor(shape, dtype, **out)],
    )


@case("RESIZE_BILINEAR", "int8", "int16")
def _resize(random: np.random.Generator, dtype: str) -> Case:
    image, same = [int(random.integers(1, 3)), *shape_of(random, 3, 7)], encoding(random, dtype)
    factor = int(random.choice([1, 2, 4]))
    sizes = shape_of(random, 2, 14) if random.random() < 0.6 else [n * factor for n in image[1:3]]
    align = bool(random.random() < 0.4)
    fields = {"alignCorners": align, "halfPixelCenters": not align and bool(random.random() < 0.6)}
    return Case(
        "RESIZE_BILINEAR",
        "ResizeBilinearOptions",
        fields,
        [Tensor(image, dtype, **same), Tensor([2], "int32", data=sizes)],
        [Tensor([1], dtype, **same)],
    )


@case("RESIZE_NEAREST_NEIGHBOR", "int8", "uint8", "float32")
def _resize_nearest(random: np.random.Generator, dtype: str) -> Case:
    made = _resize(random, "int8")
    same = encoding(random, dtype) if dtype != "float32" else {}
    first = Tensor(made.inputs[0].shape, dtype, **same)
    return Case(
        "RESIZE_NEAREST_NEIGHBOR",
        "ResizeNearestNeighborOptions",
        made.fields,
        [first, made.inputs[1]],
        [Tensor([1], dtype, **same)],
    )


@case("BATCH_MATMUL", "int8", "int16")
def _batch_matmul(random: np.random.Generator, dtype: str) -> Case:
    rows, inner, columns, batch = (int(n) for n in random.integers(1, 6, 4))
    x, y = bool(random.random() < 0.5), bool(random.random() < 0.5)
    a = [batch, inner, rows] if x else [batch, rows, inner]
    b = [batch, columns, inner] if y else [batch, inner, columns]
    ins = [Tensor(s, dtype, **encoding(random, dtype, 0.02)) for s in (a, b)]
    return Case(
        "BATCH_MATMUL",
        "BatchMatMulOptions",
        {"adjX": x, "adjY": y},
        ins,
        [Tensor([1], dtype, **encoding(random, dtype, 0.1))],
    )
