"""Translates operators with 0.30's attributes to the 1.0 meaning (tosa-versions, section 6)."""

from collections.abc import Callable, Sequence

import numpy as np

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.float_formats import nearest
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.operators.conversion import MAX_RESIZE_NUMERATOR
from tosaic.compiler.ir.tensors import Operator, Tensor
from tosaic.errors import ModelError, UnsupportedError

_ACCUMULATORS = {DType.INT8: DType.INT32, DType.INT16: DType.INT48, DType.FP32: DType.FP32}


def lower(graph: Graph) -> None:
    """Rewrites every operator of the graph in place; new constants are named "<operator>/<operand>"."""
    lowering = _Lowering(graph)
    operators = graph.operators
    graph.operators = []
    for op in operators:
        _LOWERINGS.get(op.op, _keep)(lowering, op)


class _Lowering:
    """The graph being rewritten, with helpers to add constants and operators."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def dtype(self, name: str) -> DType:
        return self.graph.tensors[name].dtype

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.tensors[name].shape

    def name(self, op: Operator, part: str) -> str:
        """A tensor name that the file does not use."""
        name = f"{op.name}/{part}"
        while name in self.graph.tensors:
            name += "'"
        return name

    def constant(self, op: Operator, part: str, dtype: DType, values: Sequence[int | float]) -> str:
        """Adds a rank-1 constant; ModelError if a value is outside its type."""
        array = np.asarray(values)
        if dtype.is_integer and array.size and not dtype.min <= array.min() <= array.max() <= dtype.max:
            raise ModelError(f"{op}: {part} must be in the range of {dtype.spelling}; found {list(values)}")
        name = self.name(op, part)
        data = nearest(array, dtype) if dtype.is_float else array.astype(dtype.numpy)
        self.graph.tensors[name] = Tensor(name, array.shape, dtype, data)
        return name

    def shape_constant(self, op: Operator, part: str, values: Sequence[int]) -> str:
        """Adds a shape_t constant."""
        return self.constant(op, part, DType.SHAPE, list(values))

    def add(self, op: Operator, inputs: list[str], attributes: dict | None = None) -> None:
        """Adds `op` with new inputs and attributes."""
        self.graph.operators.append(Operator(op.op, inputs, op.outputs, attributes or {}, op.name))


_Rule = Callable[[_Lowering, Operator], None]


def _keep(lowering: _Lowering, op: Operator) -> None:
    lowering.graph.operators.append(op)


def _pick(op: Operator, *names: str) -> dict:
    return {name: op.attributes[name] for name in names}


def _convolution(lowering: _Lowering, op: Operator) -> None:
    attributes = _pick(op, "pad", "stride", "dilation") | _accumulation(lowering, op)
    lowering.add(op, [*op.inputs, *_convolution_zero_points(lowering, op)], attributes)


def _transpose_convolution(lowering: _Lowering, op: Operator) -> None:
    # 0.30's out_pad crops, 1.0's adds.
    out_pad = [-pad for pad in op.attributes["out_pad"]]
    attributes = {"out_pad": out_pad, **_pick(op, "stride"), **_accumulation(lowering, op)}
    lowering.add(op, [*op.inputs, *_convolution_zero_points(lowering, op)], attributes)


def _accumulation(lowering: _Lowering, op: Operator) -> dict:
    dtype = lowering.dtype(op.inputs[0])
    return {"local_bound": False, "acc_type": _ACCUMULATORS.get(dtype, DType.INT32)}


def _convolution_zero_points(lowering: _Lowering, op: Operator) -> list[str]:
    return [
        lowering.constant(op, "input_zp", lowering.dtype(op.inputs[0]), [op.attributes["input_zp"]]),
        lowering.constant(op, "weight_zp", lowering.dtype(op.inputs[1]), [op.attributes["weight_zp"]]),
    ]


def _fully_connected(lowering: _Lowering, op: Operator) -> None:
    """[N,IC] becomes a [N,1,1,IC] image, convolved with [OC,1,1,IC], reshaped to [N,OC]."""
    graph = lowering.graph
    source, weight, bias = op.inputs
    (batch, channels), (outputs, weight_channels) = lowering.shape(source), lowering.shape(weight)
    image = _reshape(lowering, op, source, "input", (batch, 1, 1, channels))
    kernel = _reshape(lowering, op, weight, "weight", (outputs, 1, 1, weight_channels))
    result = lowering.name(op, "output")
    graph.tensors[result] = Tensor(result, (batch, 1, 1, outputs), lowering.dtype(op.outputs[0]))
    attributes = {"pad": [0, 0, 0, 0], "stride": [1, 1], "dilation": [1, 1], **_accumulation(lowering, op)}
    inputs = [image, kernel, bias, *_convolution_zero_points(lowering, op)]
    graph.operators.append(Operator("CONV2D", inputs, [result], attributes, op.name))
    shape = lowering.shape_constant(op, "output_shape", (batch, outputs))
    graph.operators.append(Operator("RESHAPE", [result, shape], op.outputs, {}, f"{op.name}/output"))


def _reshape(lowering: _Lowering, op: Operator, source: str, part: str, shape: tuple[int, ...]) -> str:
    tensor = lowering.graph.tensors[source]
    name = lowering.name(op, part)
    if tensor.data is not None:
        lowering.graph.tensors[name] = Tensor(name, shape, tensor.dtype, tensor.data.reshape(shape))
        return name
    lowering.graph.tensors[name] = Tensor(name, shape, tensor.dtype)
    shape_name = lowering.shape_constant(op, f"{part}_shape", shape)
    lowering.graph.operators.append(
        Operator("RESHAPE", [source, shape_name], [name], {}, f"{op.name}/{part}")
    )
    return name


def _pool(lowering: _Lowering, op: Operator) -> None:
    attributes = _pick(op, "kernel", "stride", "pad")
    if op.op == "MAX_POOL2D":
        lowering.add(op, op.inputs, attributes)
        return
    dtype = lowering.dtype(op.inputs[0])
    zero_points = [
        lowering.constant(op, name, dtype, [op.attributes[name]]) for name in ("input_zp", "output_zp")
    ]
    attributes["acc_type"] = DType.FP32 if dtype.is_float else DType.INT32
    lowering.add(op, [*op.inputs, *zero_points], attributes)


def _matmul(lowering: _Lowering, op: Operator) -> None:
    zero_points = [
        lowering.constant(op, name, lowering.dtype(source), [op.attributes[name]])
        for name, source in zip(("A_zp", "B_zp"), op.inputs, strict=True)
    ]
    lowering.add(op, [*op.inputs, *zero_points])


def _negate(lowering: _Lowering, op: Operator) -> None:
    dtype = lowering.dtype(op.inputs[0])
    zero_points = [
        lowering.constant(op, name, dtype, [op.attributes[name]]) for name in ("input1_zp", "output_zp")
    ]
    lowering.add(op, [*op.inputs, *zero_points])


def _clamp(lowering: _Lowering, op: Operator) -> None:
    kind = "fp" if lowering.dtype(op.inputs[0]).is_float else "int"
    low, high = op.attributes[f"min_{kind}"], op.attributes[f"max_{kind}"]
    lowering.add(op, op.inputs, {"min_val": low, "max_val": high})


def _mul(lowering: _Lowering, op: Operator) -> None:
    lowering.add(op, [*op.inputs, lowering.constant(op, "shift", DType.INT8, [op.attributes["shift"]])])


def _table(lowering: _Lowering, op: Operator) -> None:
    # The table's own type is that of the input: int8 tables are stored as int16.
    table = lowering.constant(op, "table", lowering.dtype(op.inputs[0]), op.attributes["table"])
    lowering.add(op, [*op.inputs, table])


def _pad(lowering: _Lowering, op: Operator) -> None:
    dtype = lowering.dtype(op.inputs[0])
    value = op.attributes["pad_const_fp" if dtype.is_float else "pad_const_int"]
    if dtype is DType.BOOL:
        value = bool(value)
    padding = lowering.shape_constant(op, "padding", op.attributes["padding"])
    lowering.add(op, [*op.inputs, padding, lowering.constant(op, "pad_const", dtype, [value])])


def _shaped(*names: tuple[str, str]) -> _Rule:
    """Attributes (0.30 name, 1.0 operand) that became shape operands."""

    def rule(lowering: _Lowering, op: Operator) -> None:
        shapes = [lowering.shape_constant(op, operand, op.attributes[name]) for name, operand in names]
        lowering.add(op, [*op.inputs, *shapes])

    return rule


def _resize(lowering: _Lowering, op: Operator) -> None:
    """The border that 0.30 files lack follows from output_size (errata B18)."""
    axes = _float_axes(op) if lowering.dtype(op.inputs[0]).is_float else _integer_axes(op)
    sizes = lowering.shape(op.inputs[0])[1:3]
    border = [
        (output - 1) * step - ((size - 1) * numerator - start)
        for output, (numerator, step, start), size in zip(
            op.attributes["output_size"], axes, sizes, strict=True
        )
    ]
    parameters = [
        lowering.shape_constant(op, "scale", [part for axis in axes for part in axis[:2]]),
        lowering.shape_constant(op, "offset", [start for _, _, start in axes]),
        lowering.shape_constant(op, "border", border),
    ]
    lowering.add(op, [*op.inputs, *parameters], {"mode": op.attributes["mode"]})


def _integer_axes(op: Operator) -> list[tuple[int, int, int]]:
    """For y and x: numerator 1 << shift, denominator and offset."""
    numerator = 1 << op.attributes["shift"]
    return [
        (numerator, stride, offset)
        for stride, offset in zip(op.attributes["stride"], op.attributes["offset"], strict=True)
    ]


def _float_axes(op: Operator) -> list[tuple[int, int, int]]:
    """For y and x: the smallest n, and d and offset, with d/n and offset/n the stride and offset in fp32."""
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


def _rescale(lowering: _Lowering, op: Operator) -> None:
    source, result = lowering.dtype(op.inputs[0]), lowering.dtype(op.outputs[0])
    scale32 = op.attributes["scale32"]
    multiplier = lowering.constant(
        op, "multiplier", DType.INT32 if scale32 else DType.INT16, op.attributes["multiplier"]
    )
    shift = lowering.constant(op, "shift", DType.INT8, op.attributes["shift"])
    # Unsigned constants become signed bit patterns together with the file's unsigned tensors.
    input_zp = lowering.constant(op, "input_zp", source, [op.attributes["input_zp"]])
    output_zp = lowering.constant(op, "output_zp", result, [op.attributes["output_zp"]])
    attributes = {
        "scale32": scale32,
        "rounding_mode": "DOUBLE_ROUND" if op.attributes["double_round"] else "SINGLE_ROUND",
        "per_channel": op.attributes["per_channel"],
        "input_unsigned": source.is_unsigned,
        "output_unsigned": result.is_unsigned,
    }
    lowering.add(op, [*op.inputs, multiplier, shift, input_zp, output_zp], attributes)


def _cond_if(lowering: _Lowering, op: Operator) -> None:
    branches = {"then_graph": op.attributes["then_branch"], "else_graph": op.attributes["else_branch"]}
    lowering.add(op, op.inputs, branches)


def _while_loop(lowering: _Lowering, op: Operator) -> None:
    branches = {"cond_graph": op.attributes["cond_branch"], "body_graph": op.attributes["body_branch"]}
    lowering.add(op, op.inputs, branches)


_LOWERINGS: dict[str, _Rule] = {
    "CONV2D": _convolution,
    "CONV3D": _convolution,
    "DEPTHWISE_CONV2D": _convolution,
    "TRANSPOSE_CONV2D": _transpose_convolution,
    "FULLY_CONNECTED": _fully_connected,
    "AVG_POOL2D": _pool,
    "MAX_POOL2D": _pool,
    "MATMUL": _matmul,
    "NEGATE": _negate,
    "CLAMP": _clamp,
    "MUL": _mul,
    "TABLE": _table,
    "PAD": _pad,
    "RESHAPE": _shaped(("new_shape", "shape")),
    "SLICE": _shaped(("start", "start"), ("size", "size")),
    "TILE": _shaped(("multiples", "multiples")),
    "RESIZE": _resize,
    "RESCALE": _rescale,
    "COND_IF": _cond_if,
    "WHILE_LOOP": _while_loop,
}
