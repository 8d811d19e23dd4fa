"""Translates operators from the 1.0 meaning back to 0.30's attributes; the inverse of `to_ir`."""

from collections.abc import Callable

import numpy as np

from tosaic.compiler.ir.building import fresh_name
from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.operators import OPERATORS, ByOperator, Trait
from tosaic.compiler.ir.schema_0_30.rules import MAX_RANK, RANK_LIMITED, UNSIGNED_PAIRS, file_operand_count
from tosaic.compiler.ir.tensors import Operator, Tensor
from tosaic.errors import UnsupportedError

_Attributes = dict[str, object]
_TRANSLATIONS = ByOperator[Callable[[Graph, Operator], _Attributes]]()
"""The attributes that a 0.30 file has, by operator; of others those of 1.0."""
_UNSIGNED = {DType.INT8: DType.UINT8, DType.INT16: DType.UINT16}


def file_operator(graph: Graph, op: Operator, constants: dict[str, Tensor]) -> Operator:
    """`op` as a 0.30 file stores it.

    Constants that have to be stored differently (a broadcast bias) are added to `constants`.
    UnsupportedError says what 0.30 cannot express.
    """
    if "0.30" not in OPERATORS[op.op].versions:
        raise _unsupported(op, f"{op.op} does not exist there")
    if op.op in RANK_LIMITED and not 1 <= len(graph.tensor(op.inputs[0]).shape) <= MAX_RANK:
        raise _unsupported(op, f"its input {graph.tensor(op.inputs[0])} must have rank 1 to {MAX_RANK}")
    if op.attributes.get("nan_mode", "PROPAGATE") != "PROPAGATE":
        raise _unsupported(op, f"nan_mode {op.attributes['nan_mode']} does not exist there")
    inputs = op.inputs[: file_operand_count(op.op)]
    translate = _TRANSLATIONS.get(op.op)
    attributes = translate(graph, op) if translate else dict(op.attributes)
    if Trait.CONVOLVES in OPERATORS[op.op].traits:
        inputs[2] = _full_bias(graph, op, constants)
    return Operator(op.op, inputs, op.outputs, attributes, op.name)


def _unsupported(op: Operator, reason: str) -> UnsupportedError:
    return UnsupportedError(f"{op} cannot be written as TOSA 0.30: {reason}; write 1.0")


def _scalar(graph: Graph, op: Operator, operand: str) -> int | float:
    return graph.operand_value(op, operand).reshape(-1)[0].item()


def _ints(graph: Graph, op: Operator, operand: str) -> list[int]:
    return graph.operand_value(op, operand).reshape(-1).astype(np.int64).tolist()


def _zero_point(graph: Graph, op: Operator, operand: str) -> int:
    return int(_scalar(graph, op, operand))


def _full_bias(graph: Graph, op: Operator, constants: dict[str, Tensor]) -> str:
    """0.30 needs one bias element per output channel; 1.0 may broadcast one."""
    bias, channels = graph.tensor(op.inputs[2]), graph.tensor(op.outputs[0]).shape[-1]
    if bias.shape == (channels,):
        return bias.name
    if bias.data is None:
        raise _unsupported(op, f"its bias {bias} is broadcast to {channels} channels at run time")
    name = fresh_name(graph, f"{op.name}/bias")
    constants[name] = Tensor(name, (channels,), bias.dtype, np.repeat(bias.data, channels))
    return name


@_TRANSLATIONS.of("CONV2D", "CONV3D", "DEPTHWISE_CONV2D")
def _convolution(graph: Graph, op: Operator) -> _Attributes:
    return {
        **{name: op.attributes[name] for name in ("pad", "stride", "dilation")},
        "input_zp": _zero_point(graph, op, "input_zp"),
        "weight_zp": _zero_point(graph, op, "weight_zp"),
    }


@_TRANSLATIONS.of("TRANSPOSE_CONV2D")
def _transpose_convolution(graph: Graph, op: Operator) -> _Attributes:
    out_pad = [-pad for pad in op.attributes["out_pad"]]
    if min(out_pad) < 0:
        raise _unsupported(op, f"out_pad {op.attributes['out_pad']} adds to the output, which 0.30 cannot")
    return {
        "out_pad": out_pad,
        "stride": op.attributes["stride"],
        "out_shape": graph.tensor(op.outputs[0]).shape,
        "input_zp": _zero_point(graph, op, "input_zp"),
        "weight_zp": _zero_point(graph, op, "weight_zp"),
    }


@_TRANSLATIONS.of("AVG_POOL2D", "MAX_POOL2D")
def _pool(graph: Graph, op: Operator) -> _Attributes:
    attributes: _Attributes = {name: op.attributes[name] for name in ("pad", "kernel", "stride")}
    if op.op == "AVG_POOL2D":
        attributes |= _zero_points("input_zp", "output_zp")(graph, op)
    return attributes


def _zero_points(*operands: str) -> Callable[[Graph, Operator], _Attributes]:
    return lambda graph, op: {operand: _zero_point(graph, op, operand) for operand in operands}


@_TRANSLATIONS.of("CLAMP")
def _clamp(graph: Graph, op: Operator) -> _Attributes:
    kind = "fp" if graph.tensor(op.inputs[0]).dtype.is_float else "int"
    return {f"min_{kind}": op.attributes["min_val"], f"max_{kind}": op.attributes["max_val"]}


@_TRANSLATIONS.of("PAD")
def _pad(graph: Graph, op: Operator) -> _Attributes:
    value = _scalar(graph, op, "pad_const")
    if graph.tensor(op.inputs[0]).dtype.is_float:
        return {"padding": _ints(graph, op, "padding"), "pad_const_fp": float(value)}
    return {"padding": _ints(graph, op, "padding"), "pad_const_int": int(value)}


@_TRANSLATIONS.of("RESIZE")
def _resize(graph: Graph, op: Operator) -> _Attributes:
    y_n, y_d, x_n, x_d = scale = _ints(graph, op, "scale")
    if graph.tensor(op.inputs[0]).dtype.is_float:
        offset = _ints(graph, op, "offset")
        return {
            "output_size": graph.tensor(op.outputs[0]).shape[1:3],
            "shift": 0,
            "stride_fp": [y_d / y_n, x_d / x_n],
            "offset_fp": [offset[0] / y_n, offset[1] / x_n],
            "mode": op.attributes["mode"],
        }
    shift = y_n.bit_length() - 1
    if y_n != x_n or y_n != 1 << shift or not 1 <= shift <= 11:
        raise _unsupported(op, f"scale {scale} needs one power of two, 2 to 2048, as both numerators")
    return {
        "output_size": graph.tensor(op.outputs[0]).shape[1:3],
        "stride": [y_d, x_d],
        "offset": _ints(graph, op, "offset"),
        "shift": shift,
        "mode": op.attributes["mode"],
    }


@_TRANSLATIONS.of("RESCALE")
def _rescale(graph: Graph, op: Operator) -> _Attributes:
    sides = {}
    for side, name in (("input", op.inputs[0]), ("output", op.outputs[0])):
        dtype, zero_point = graph.tensor(name).dtype, _zero_point(graph, op, f"{side}_zp")
        if op.attributes.get(f"{side}_unsigned"):
            dtype, zero_point = _UNSIGNED[dtype], zero_point & ((1 << dtype.bits) - 1)
        sides[side] = (dtype, zero_point)
    pair = (sides["input"][0], sides["output"][0])
    if any(dtype.is_unsigned for dtype in pair) and pair not in UNSIGNED_PAIRS:
        raise _unsupported(op, f"{pair[0].spelling} to {pair[1].spelling} is not one of its pairs")
    return {
        "input_zp": sides["input"][1],
        "output_zp": sides["output"][1],
        "multiplier": _ints(graph, op, "multiplier"),
        "shift": _ints(graph, op, "shift"),
        "scale32": op.attributes["scale32"],
        # 0.30 has no inexact rounding; single rounding always lies in its range.
        "double_round": op.attributes["rounding_mode"] == "DOUBLE_ROUND",
        "per_channel": op.attributes["per_channel"],
    }


@_TRANSLATIONS.of("COND_IF")
def _cond_if(graph: Graph, op: Operator) -> _Attributes:
    condition = graph.tensor(op.inputs[0])
    if condition.shape:
        raise _unsupported(op, f"its condition {condition} must have rank 0")
    return {"then_branch": op.attributes["then_graph"], "else_branch": op.attributes["else_graph"]}


@_TRANSLATIONS.of("WHILE_LOOP")
def _while_loop(_graph: Graph, op: Operator) -> _Attributes:
    return {"cond_branch": op.attributes["cond_graph"], "body_branch": op.attributes["body_graph"]}


@_TRANSLATIONS.of("CUSTOM")
def _custom(_graph: Graph, op: Operator) -> _Attributes:
    if any(op.attributes.values()):
        raise _unsupported(op, "its attributes have no place there")
    return {}


_TRANSLATIONS.of("MATMUL")(_zero_points("A_zp", "B_zp"))
_TRANSLATIONS.of("NEGATE")(_zero_points("input1_zp", "output_zp"))


@_TRANSLATIONS.of("MUL")
def _mul(graph: Graph, op: Operator) -> _Attributes:
    return {"shift": int(_scalar(graph, op, "shift"))}


@_TRANSLATIONS.of("TABLE")
def _table(graph: Graph, op: Operator) -> _Attributes:
    return {"table": _ints(graph, op, "table")}


@_TRANSLATIONS.of("RESHAPE")
def _reshape(graph: Graph, op: Operator) -> _Attributes:
    return {"new_shape": _ints(graph, op, "shape")}


@_TRANSLATIONS.of("SLICE")
def _slice(graph: Graph, op: Operator) -> _Attributes:
    return {"start": _ints(graph, op, "start"), "size": _ints(graph, op, "size")}


@_TRANSLATIONS.of("TILE")
def _tile(graph: Graph, op: Operator) -> _Attributes:
    return {"multiples": _ints(graph, op, "multiples")}
