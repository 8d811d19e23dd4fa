"""Translates operators with 0.30's attributes to the 1.0 meaning (tosa-versions, section 6)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tosaic.compiler.ir.building import FoldingBuilder, GraphBuilder, add_constant, sizes
from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.operators import ByOperator
from tosaic.compiler.ir.operators.conversion import MAX_RESIZE_NUMERATOR
from tosaic.compiler.ir.tensors import Operator
from tosaic.errors import UnsupportedError

_ACCUMULATORS = {DType.INT8: DType.INT32, DType.INT16: DType.INT48, DType.FP32: DType.FP32}


def to_ir(graph: Graph) -> None:
    """Rewrites every operator of the graph in place; new constants are named "<operator>/<operand>"."""
    conversion = _Conversion(graph)
    operators = graph.operators
    graph.operators = []
    for op in operators:
        _RULES.get(op.op, _keep)(conversion, op)


class _Conversion:
    """The graph being rewritten, with helpers to add constants and operators."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def dtype(self, name: str) -> DType:
        return self.graph.tensors[name].dtype

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.tensors[name].shape

    def constant(self, op: Operator, part: str, dtype: DType, values: ArrayLike) -> str:
        """Adds a constant; ModelError if a value is outside its type."""
        return add_constant(self.graph, f"{op.name}/{part}", values, dtype)

    def add(self, op: Operator, inputs: list[str], attributes: dict | None = None) -> None:
        """Adds `op` with new inputs and attributes."""
        self.graph.operators.append(Operator(op.op, inputs, op.outputs, attributes or {}, op.name))


_Rule = Callable[[_Conversion, Operator], None]
_RULES = ByOperator[_Rule]()


def _keep(conversion: _Conversion, op: Operator) -> None:
    conversion.graph.operators.append(op)


def _pick(op: Operator, *names: str) -> dict:
    return {name: op.attributes[name] for name in names}


@_RULES.of("CONV2D", "CONV3D", "DEPTHWISE_CONV2D")
def _convolution(conversion: _Conversion, op: Operator) -> None:
    attributes = _pick(op, "pad", "stride", "dilation") | _accumulation(conversion, op)
    conversion.add(op, [*op.inputs, *_convolution_zero_points(conversion, op)], attributes)


@_RULES.of("TRANSPOSE_CONV2D")
def _transpose_convolution(conversion: _Conversion, op: Operator) -> None:
    # 0.30's out_pad crops, 1.0's adds.
    out_pad = [-pad for pad in op.attributes["out_pad"]]
    attributes = {"out_pad": out_pad, **_pick(op, "stride"), **_accumulation(conversion, op)}
    conversion.add(op, [*op.inputs, *_convolution_zero_points(conversion, op)], attributes)


def _accumulation(conversion: _Conversion, op: Operator) -> dict:
    dtype = conversion.dtype(op.inputs[0])
    return {"local_bound": False, "acc_type": _ACCUMULATORS.get(dtype, DType.INT32)}


def _convolution_zero_points(conversion: _Conversion, op: Operator) -> list[str]:
    return [
        conversion.constant(op, "input_zp", conversion.dtype(op.inputs[0]), [op.attributes["input_zp"]]),
        conversion.constant(op, "weight_zp", conversion.dtype(op.inputs[1]), [op.attributes["weight_zp"]]),
    ]


@_RULES.of("FULLY_CONNECTED")
def _fully_connected(conversion: _Conversion, op: Operator) -> None:
    """Converts FULLY_CONNECTED: [N,IC] becomes a [N,1,1,IC] image, convolved with [OC,1,1,IC], reshaped to [N,OC]."""
    source, weight, bias = op.inputs
    (batch, channels), (outputs, weight_channels) = conversion.shape(source), conversion.shape(weight)
    new = FoldingBuilder(GraphBuilder.replacing(conversion.graph, op))
    result = new.op(
        "CONV2D",
        new.reshape(source, (batch, 1, 1, channels)),
        new.reshape(weight, (outputs, 1, 1, weight_channels)),
        bias,
        *_convolution_zero_points(conversion, op),
        dtype=conversion.dtype(op.outputs[0]),
        pad=[0, 0, 0, 0],
        stride=[1, 1],
        dilation=[1, 1],
        **_accumulation(conversion, op),
    )
    new.op("RESHAPE", result, sizes((batch, outputs)), output=op.outputs[0])
    conversion.graph.operators += new.build.operators


@_RULES.of("AVG_POOL2D", "MAX_POOL2D")
def _pool(conversion: _Conversion, op: Operator) -> None:
    attributes = _pick(op, "kernel", "stride", "pad")
    if op.op == "MAX_POOL2D":
        conversion.add(op, op.inputs, attributes)
        return
    dtype = conversion.dtype(op.inputs[0])
    zero_points = [
        conversion.constant(op, name, dtype, [op.attributes[name]]) for name in ("input_zp", "output_zp")
    ]
    attributes["acc_type"] = DType.FP32 if dtype.is_float else DType.INT32
    conversion.add(op, [*op.inputs, *zero_points], attributes)


@_RULES.of("MATMUL")
def _matmul(conversion: _Conversion, op: Operator) -> None:
    zero_points = [
        conversion.constant(op, name, conversion.dtype(source), [op.attributes[name]])
        for name, source in zip(("A_zp", "B_zp"), op.inputs, strict=True)
    ]
    conversion.add(op, [*op.inputs, *zero_points])


@_RULES.of("NEGATE")
def _negate(conversion: _Conversion, op: Operator) -> None:
    dtype = conversion.dtype(op.inputs[0])
    zero_points = [
        conversion.constant(op, name, dtype, [op.attributes[name]]) for name in ("input1_zp", "output_zp")
    ]
    conversion.add(op, [*op.inputs, *zero_points])


@_RULES.of("CLAMP")
def _clamp(conversion: _Conversion, op: Operator) -> None:
    kind = "fp" if conversion.dtype(op.inputs[0]).is_float else "int"
    low, high = op.attributes[f"min_{kind}"], op.attributes[f"max_{kind}"]
    conversion.add(op, op.inputs, {"min_val": low, "max_val": high})


@_RULES.of("MUL")
def _mul(conversion: _Conversion, op: Operator) -> None:
    conversion.add(op, [*op.inputs, conversion.constant(op, "shift", DType.INT8, [op.attributes["shift"]])])


@_RULES.of("TABLE")
def _table(conversion: _Conversion, op: Operator) -> None:
    # The table's own type is that of the input: int8 tables are stored as int16.
    table = conversion.constant(op, "table", conversion.dtype(op.inputs[0]), op.attributes["table"])
    conversion.add(op, [*op.inputs, table])


@_RULES.of("PAD")
def _pad(conversion: _Conversion, op: Operator) -> None:
    dtype = conversion.dtype(op.inputs[0])
    value = op.attributes["pad_const_fp" if dtype.is_float else "pad_const_int"]
    if dtype is DType.BOOL:
        value = bool(value)
    padding = conversion.constant(op, "padding", DType.SHAPE, op.attributes["padding"])
    conversion.add(op, [*op.inputs, padding, conversion.constant(op, "pad_const", dtype, [value])])


def _shaped(*names: tuple[str, str]) -> _Rule:
    """Attributes (0.30 name, 1.0 operand) that became shape operands."""

    def rule(conversion: _Conversion, op: Operator) -> None:
        shapes = [
            conversion.constant(op, operand, DType.SHAPE, op.attributes[name]) for name, operand in names
        ]
        conversion.add(op, [*op.inputs, *shapes])

    return rule


@_RULES.of("RESIZE")
def _resize(conversion: _Conversion, op: Operator) -> None:
    """The border that 0.30 files lack follows from output_size (errata B18)."""
    axes = _float_axes(op) if conversion.dtype(op.inputs[0]).is_float else _integer_axes(op)
    extents = conversion.shape(op.inputs[0])[1:3]
    border = [
        (output - 1) * step - ((size - 1) * numerator - start)
        for output, (numerator, step, start), size in zip(
            op.attributes["output_size"], axes, extents, strict=True
        )
    ]
    parameters = [
        conversion.constant(op, "scale", DType.SHAPE, [part for axis in axes for part in axis[:2]]),
        conversion.constant(op, "offset", DType.SHAPE, [start for _, _, start in axes]),
        conversion.constant(op, "border", DType.SHAPE, border),
    ]
    conversion.add(op, [*op.inputs, *parameters], {"mode": op.attributes["mode"]})


def _integer_axes(op: Operator) -> list[tuple[int, int, int]]:
    """Returns numerator 1 << shift, denominator and offset for y and x."""
    numerator = 1 << op.attributes["shift"]
    return [
        (numerator, stride, offset)
        for stride, offset in zip(op.attributes["stride"], op.attributes["offset"], strict=True)
    ]


def _float_axes(op: Operator) -> list[tuple[int, int, int]]:
    """Returns for y and x the smallest n, and d and offset, with d/n and offset/n the stride and offset in fp32."""
    return [
        _fraction(op, stride, offset)
        for stride, offset in zip(op.attributes["stride_fp"], op.attributes["offset_fp"], strict=True)
    ]


def _fraction(op: Operator, stride: float, offset: float) -> tuple[int, int, int]:
    if np.isfinite(stride) and np.isfinite(offset):
        for numerator in range(1, MAX_RESIZE_NUMERATOR + 1):
            step, start = round(stride * numerator), round(offset * numerator)
            if np.float32(step / numerator) == stride and np.float32(start / numerator) == offset:
                return numerator, step, start
    raise UnsupportedError(
        f"{op}: stride {stride} and offset {offset} are not fractions over one number up to "
        f"{MAX_RESIZE_NUMERATOR}, as TOSA 1.0 wants them; choose such an output size"
    )


@_RULES.of("RESCALE")
def _rescale(conversion: _Conversion, op: Operator) -> None:
    source, result = conversion.dtype(op.inputs[0]), conversion.dtype(op.outputs[0])
    scale32 = op.attributes["scale32"]
    multiplier = conversion.constant(
        op, "multiplier", DType.INT32 if scale32 else DType.INT16, op.attributes["multiplier"]
    )
    shift = conversion.constant(op, "shift", DType.INT8, op.attributes["shift"])
    # Unsigned constants become signed bit patterns together with the file's unsigned tensors.
    input_zp = conversion.constant(op, "input_zp", source, [op.attributes["input_zp"]])
    output_zp = conversion.constant(op, "output_zp", result, [op.attributes["output_zp"]])
    attributes = {
        "scale32": scale32,
        "rounding_mode": "DOUBLE_ROUND" if op.attributes["double_round"] else "SINGLE_ROUND",
        "per_channel": op.attributes["per_channel"],
        "input_unsigned": source.is_unsigned,
        "output_unsigned": result.is_unsigned,
    }
    conversion.add(op, [*op.inputs, multiplier, shift, input_zp, output_zp], attributes)


@_RULES.of("COND_IF")
def _cond_if(conversion: _Conversion, op: Operator) -> None:
    branches = {"then_graph": op.attributes["then_branch"], "else_graph": op.attributes["else_branch"]}
    conversion.add(op, op.inputs, branches)


@_RULES.of("WHILE_LOOP")
def _while_loop(conversion: _Conversion, op: Operator) -> None:
    branches = {"cond_graph": op.attributes["cond_branch"], "body_graph": op.attributes["body_branch"]}
    conversion.add(op, op.inputs, branches)


_RULES.of("RESHAPE")(_shaped(("new_shape", "shape")))
_RULES.of("SLICE")(_shaped(("start", "start"), ("size", "size")))
_RULES.of("TILE")(_shaped(("multiples", "multiples")))
