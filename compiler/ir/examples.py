"""A small legal graph of every operator and mode, made from the operator table, for documentation and tests."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from .dtypes import DType
from .graph import Graph, Operator, Tensor
from .operators import OPERATORS, Mode, Operand, OperatorSpec, OpView
from .schema_0_30.to_ir import to_ir

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Example:
    """One operator in one mode; `label` says what else is special about it, "" if nothing."""

    spec: OperatorSpec
    mode: Mode | None
    graph: Graph
    label: str = ""


@dataclasses.dataclass(frozen=True)
class _Recipe:
    """Shapes and values of an operator's operands, and its attributes; what is missing follows from the table."""

    shapes: dict[str, Shape] = dataclasses.field(default_factory=dict)
    values: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)


_IMAGE: Shape = (1, 5, 6, 3)
_WINDOW = {"kernel": [2, 3], "stride": [1, 1], "pad": [1, 0, 1, 1]}
_CONVOLUTION = {"pad": [1, 0, 1, 1], "stride": [1, 1], "dilation": [1, 1]}
_PLAIN = _Recipe()
_FFT = _Recipe({"input_real": (1, 4, 8), "input_imag": (1, 4, 8)}, {}, {"inverse": False})

_RECIPES: dict[str, _Recipe] = {
    "ARGMAX": _Recipe({"input": (2, 3, 4)}, {}, {"axis": 2}),
    "AVG_POOL2D": _Recipe({"input": _IMAGE}, {}, _WINDOW),
    "MAX_POOL2D": _Recipe({"input": _IMAGE}, {}, _WINDOW),
    "CONV2D": _Recipe({"input": _IMAGE, "weight": (4, 2, 3, 3), "bias": (4,)}, {}, _CONVOLUTION),
    "CONV3D": _Recipe(
        {"input": (1, 3, 4, 5, 2), "weight": (4, 2, 2, 3, 2), "bias": (4,)},
        {},
        {"pad": [0, 0, 1, 0, 1, 1], "stride": [1, 1, 1], "dilation": [1, 1, 1]},
    ),
    "DEPTHWISE_CONV2D": _Recipe({"input": _IMAGE, "weight": (2, 3, 3, 2), "bias": (6,)}, {}, _CONVOLUTION),
    "TRANSPOSE_CONV2D": _Recipe(
        {"input": _IMAGE, "weight": (4, 2, 3, 3), "bias": (4,)},
        {},
        {"out_pad": [0, 0, 0, 0], "stride": [2, 2]},
    ),
    "FULLY_CONNECTED": _Recipe({"input": (2, 5), "weight": (4, 5), "bias": (4,)}),
    "MATMUL": _Recipe({"A": (2, 3, 4), "B": (2, 4, 5)}),
    "FFT2D": _FFT,
    "RFFT2D": _FFT,
    "CLAMP": _Recipe({}, {}, {"min_val": -5, "max_val": 90}),
    "ARITHMETIC_RIGHT_SHIFT": _Recipe({}, {"input2": [3]}, {"round": True}),
    "LOGICAL_LEFT_SHIFT": _Recipe({}, {"input2": [3]}),
    "LOGICAL_RIGHT_SHIFT": _Recipe({}, {"input2": [3]}),
    "INTDIV": _Recipe({}, {"input2": [3]}),
    "REDUCE_SUM": _Recipe({"input": (2, 3, 4)}),
    "CONCAT": _Recipe({}, {}, {"axis": 1}),
    "PAD": _Recipe({}, {"padding": [1, 0, 0, 2], "pad_const": [1]}),
    "RESHAPE": _Recipe({}, {"shape": [3, 2]}),
    "SLICE": _Recipe({}, {"start": [0, 1], "size": [2, 2]}),
    "TILE": _Recipe({}, {"multiples": [2, 3]}),
    "TRANSPOSE": _Recipe({}, {}, {"perms": [1, 0]}),
    "GATHER": _Recipe({"values": (2, 5, 3)}, {"indices": [0, 4, 2, 1]}),
    "SCATTER": _Recipe({"values_in": (2, 5, 3), "input": (2, 2, 3)}, {"indices": [0, 4, 2, 1]}),
    "RESIZE": _Recipe({"input": _IMAGE}, {"scale": [4, 2, 4, 2], "offset": [-1, -1], "border": [1, 1]}),
    "RESCALE": _Recipe({}, {"multiplier": [1 << 14], "shift": [14]}, {"per_channel": False}),
}
_INDICES: Shape = (2, 2)
_LATE = {"weight": "weights computed at run time", "bias": "bias computed at run time"}


def examples() -> Iterator[Example]:
    """Every operator of the table but CONST and its kin, in every mode; modes with INT64 are not in the table."""
    for spec in OPERATORS.values():
        if not spec.operands or spec.extension == "EXT-VARIABLE" or spec.name == "CUSTOM":
            continue
        if spec.runs_graphs:
            for dtype in (DType.BOOL, DType.INT8, DType.INT16, DType.INT32):
                yield Example(spec, Mode({"data": dtype}, spec.extension), _control(spec, dtype))
            continue
        for mode in spec.modes:
            yield Example(spec, mode, _graph(spec, mode))
            if mode.is_float:
                continue
            for operand, label in _LATE.items():
                if any(known.name == operand for known in spec.operands):
                    if mode.types.get("weight_t") is not DType.INT4 or operand == "bias":
                        yield Example(spec, mode, _graph(spec, mode, frozenset((operand,))), label)


def inputs_of(graph: Graph) -> dict[str, np.ndarray]:
    """Legal values for the inputs of an example."""
    values = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        count = np.arange(int(np.prod(tensor.shape)))
        # From -3 to 7, which an int4 holds too.
        values[name] = ((count * 5) % 11 - 3).reshape(tensor.shape).astype(tensor.dtype.numpy)
    return values


def _graph(spec: OperatorSpec, mode: Mode, late: frozenset[str] = frozenset()) -> Graph:
    recipe, graph = _RECIPES.get(spec.name, _PLAIN), Graph("example")
    for operand in spec.operands:
        _operand(graph, spec, operand, mode, recipe, late)
    operator = Operator(spec.name, list(graph.tensors), [], _attributes(spec, mode, recipe), f"{spec.name}_0")
    if spec.operands[-1].variadic:
        operator.inputs = operator.inputs * 2
    if spec.versions == ("0.30",):
        _file_attributes(graph, operator)
    node = OpView(graph, operator, spec)
    shapes = spec.infer(node) if spec.infer is not None else []
    for result, shape in zip(spec.results, shapes, strict=True):
        graph.tensors[result.name] = Tensor(result.name, tuple(shape), _type(result, mode))
        operator.outputs.append(result.name)
    graph.outputs, graph.operators = list(operator.outputs), [operator]
    if spec.versions == ("0.30",):
        to_ir(graph)
    return graph


def _type(operand: Operand, mode: Mode) -> DType:
    if isinstance(operand.type, DType):
        return operand.type
    if operand.type == "mul_t":
        return DType.INT16 if mode.types["in_t"] is DType.INT48 else DType.INT32
    return mode.types[operand.type]


def _operand(
    graph: Graph, spec: OperatorSpec, operand: Operand, mode: Mode, recipe: _Recipe, late: frozenset[str]
) -> None:
    dtype, name = _type(operand, mode), operand.name
    shape = recipe.shapes.get(name)
    values = recipe.values.get(name)
    fixed = operand.constant or dtype is DType.SHAPE or (name in ("weight", "bias") and name not in late)
    if name == "indices":
        shape = _INDICES
    elif name == "table":
        shape = (256,) if dtype is DType.INT8 else (513,)
    elif values is not None:
        shape = (len(values),) if operand.ranks == (1, 1) else (1, 1)
    elif operand.constant:
        shape = shape or (1,)
    shape = shape or (2, 3)
    if not fixed and values is None:
        graph.inputs.append(name)
        graph.tensors[name] = Tensor(name, shape, dtype)
        return
    count = int(np.prod(shape))
    flat = (
        np.array(values)
        if values is not None
        else np.zeros(count)
        if operand.constant
        else np.arange(count) % 5
    )
    graph.tensors[name] = Tensor(name, shape, dtype, flat.reshape(shape).astype(dtype.numpy))


def _attributes(spec: OperatorSpec, mode: Mode, recipe: _Recipe) -> dict[str, Any]:
    given: dict[str, Any] = dict(recipe.attributes)
    for attribute in spec.attributes:
        if attribute.name in given:
            continue
        match attribute.name:
            case "axis":
                given["axis"] = 0
            case "acc_type":
                given["acc_type"] = mode.types["acc_t"]
            case "mode":
                given["mode"] = "NEAREST" if mode.types["in_t"] is mode.types["out_t"] else "BILINEAR"
            case "scale32":
                given["scale32"] = mode.types["in_t"] is not DType.INT48
            case "rounding_mode":
                given["rounding_mode"] = "SINGLE_ROUND"
    return {name: list(value) if isinstance(value, list) else value for name, value in given.items()}


def _file_attributes(graph: Graph, operator: Operator) -> None:
    """0.30 keeps zero points in attributes."""
    for name in list(operator.inputs):
        if name.endswith("_zp"):
            graph.tensors.pop(name)
            operator.inputs.remove(name)
            operator.attributes[name] = 0


def _control(spec: OperatorSpec, dtype: DType) -> Graph:
    """COND_IF between two branches, or WHILE_LOOP that counts to 3, on a tensor of the type."""
    graph = Graph("example")
    flip = "LOGICAL_NOT" if dtype is DType.BOOL else "BITWISE_NOT"
    if spec.name == "COND_IF":
        for name, op in (("then_graph", flip), ("else_graph", "IDENTITY")):
            graph.subgraphs[name] = _part(name, {"x": dtype}, [(op, ["x"], "y", dtype)], {}, ["y"])
        graph.tensors["condition"] = Tensor("condition", (1,), DType.BOOL)
        graph.inputs = ["condition", "x"]
        graph.outputs = ["y"]
    else:
        carried = {"n": DType.INT32, "x": dtype}
        test = [("GREATER", ["limit", "n"], "go", DType.BOOL)]
        graph.subgraphs["cond_graph"] = _part("cond_graph", carried, test, {"limit": 3}, ["go"])
        step = [("ADD", ["n", "one"], "m", DType.INT32), (flip, ["x"], "y", dtype)]
        graph.subgraphs["body_graph"] = _part("body_graph", carried, step, {"one": 1}, ["m", "y"])
        graph.tensors |= {name: Tensor(name, (1,), DType.INT32) for name in ("n", "m")}
        graph.inputs = ["n", "x"]
        graph.outputs = ["m", "y"]
    graph.tensors |= {name: Tensor(name, (2, 3), dtype) for name in ("x", "y")}
    branches = {name: name for name in graph.subgraphs}
    operator = Operator(spec.name, list(graph.inputs), list(graph.outputs), branches, f"{spec.name}_0")
    graph.operators = [operator]
    return graph


def _part(
    name: str,
    inputs: dict[str, DType],
    steps: list[tuple[str, list[str], str, DType]],
    constants: dict[str, int],
    outputs: list[str],
) -> Graph:
    part = Graph(name, list(inputs), outputs)

    def shape(tensor: str) -> Shape:
        return (2, 3) if tensor in ("x", "y") else (1,)

    for tensor, dtype in inputs.items():
        part.tensors[tensor] = Tensor(tensor, shape(tensor), dtype)
    for tensor, value in constants.items():
        part.tensors[tensor] = Tensor(tensor, (1,), DType.INT32, np.array([value], np.int32))
    for op, sources, result, dtype in steps:
        part.tensors[result] = Tensor(result, shape(result), dtype)
        part.operators.append(Operator(op, sources, [result], {}, f"{name}_{op}"))
    return part
