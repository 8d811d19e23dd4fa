"""Tensors that are a function of one tensor of few values: what each of these becomes."""

import dataclasses
from collections.abc import Callable

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator

MOST_VALUES = 512
"""Of a tensor that others are functions of."""
_TYPES = (DType.INT8, DType.INT16, DType.INT32)
_SAME = ("RESHAPE", "IDENTITY")
"""The elements stay in their order."""
_WITHIN = (*_SAME, "REDUCE_MAX", "REDUCE_MIN", "MAX_POOL2D", "TRANSPOSE", "SLICE", "REVERSE")
"""The result's elements are some of the operand's."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """A tensor each of whose elements depends on that of tensor `origin` at the same place."""

    origin: str
    low: int
    """The smallest value that `origin` may have."""
    values: np.ndarray
    """int64: what becomes of it and of those that follow."""


def curves(graph: Graph) -> dict[str, Curve]:
    """For tensors of the graph that are functions of others. One that is not, and has few values, is its own."""
    found: dict[str, Curve] = {}
    ranges: dict[str, tuple[int, int]] = {}
    largest: dict[str, str] = {}

    def curve_of(name: str) -> Curve | None:
        tensor = graph.tensors[name]
        if name not in found and tensor.data is None and _held(tensor.dtype):
            low, high = ranges.get(name, (tensor.dtype.min, tensor.dtype.max))
            if high - low < MOST_VALUES:
                found[name] = Curve(name, low, np.arange(low, high + 1, dtype=np.int64))
        return found.get(name)

    for operator in graph.operators:
        if not operator.outputs or not _held(graph.tensors[operator.outputs[0]].dtype):
            continue
        operands = [curve_of(name) for name in operator.inputs]
        values = _values(graph, operator, operands)
        name = operator.outputs[0]
        if operator.op == "REDUCE_MAX":
            largest[name] = operator.inputs[0]
        if values is not None:
            first = next(curve for curve in operands if curve is not None)
            found[name] = Curve(first.origin, first.low, values)
            ranges[name] = int(values.min()), int(values.max())
        elif (bounds := _range(operator, ranges, found, largest)) is not None:
            ranges[name] = bounds
    return found


def _held(dtype: DType) -> bool:
    return dtype in _TYPES


def _range(
    operator: Operator, ranges: dict[str, tuple[int, int]], found: dict[str, Curve], largest: dict[str, str]
) -> tuple[int, int] | None:
    """The least and the largest value of a result that is no function of one tensor. `largest`: results of REDUCE_MAX
    and what they reduce."""

    def of(name: str) -> tuple[int, int] | None:
        curve = found.get(name)
        return (int(curve.values.min()), int(curve.values.max())) if curve is not None else ranges.get(name)

    first = of(operator.inputs[0]) if operator.inputs else None
    if first is None:
        return None
    if operator.op in _WITHIN:
        return first
    second = of(operator.inputs[1]) if operator.op == "SUB" else None
    if second is None:
        return None
    # Nothing is more than the largest along an axis.
    most = 0 if largest.get(operator.inputs[1]) == operator.inputs[0] else first[1] - second[0]
    return first[0] - second[1], most


def _values(graph: Graph, operator: Operator, operands: list[Curve | None]) -> np.ndarray | None:
    """What an operator makes of its operands' values; None unless they are functions of one tensor."""
    if operator.op in _SAME:
        return operands[0].values if operands[0] is not None else None
    evaluate, shape = _EVALUATE.get(operator.op), graph.tensors[operator.outputs[0]].shape
    if evaluate is None:
        return None
    values, origins = [], set()
    for place, (name, curve) in enumerate(zip(operator.inputs, operands, strict=True)):
        tensor = graph.tensors[name]
        if tensor.data is not None:
            one = tensor.data if operator.op == "TABLE" else _scalar(tensor.data)
            if one is None:
                return None
            values.append(np.asarray(one))
        elif curve is None or place >= _DATA_OPERANDS.get(operator.op, 1) or tensor.shape != shape:
            return None
        else:
            values.append(curve.values)
            origins.add(curve.origin)
    if len(origins) != 1:
        return None
    target = graph.tensors[operator.outputs[0]].dtype
    return evaluate(operator, values, target)


# --- operators: operands (constants as they are) and the result's type to int64 values, or None


def _scalar(constant: np.ndarray) -> np.int64 | None:
    """The one value that all elements have."""
    flat = constant.reshape(-1)
    return np.int64(flat[0]) if flat.size and (flat == flat[0]).all() else None


def _wrapped(values: np.ndarray, dtype: DType) -> np.ndarray:
    half = np.int64(1) << (dtype.bits - 1)
    return ((values + half) & (2 * half - 1)) - half


def _binary(operator: Operator, operands: list[np.ndarray], target: DType) -> np.ndarray | None:
    a, b = operands[:2]
    match operator.op:
        case "ADD":
            result = a + b
        case "SUB":
            result = a - b
        case "LOGICAL_LEFT_SHIFT":
            result = a << (b & _SHIFTS)
        case "ARITHMETIC_RIGHT_SHIFT":
            amount = b & _SHIFTS
            result = a >> amount
            if operator.attributes["round"]:
                result = result + np.where(amount > 0, (a >> np.maximum(amount - 1, 0)) & 1, 0)
        case _:
            shift = int(operands[2].reshape(-1)[0])
            result = a * b
            if shift:
                result = (result + (np.int64(1) << (shift - 1))) >> np.int64(shift)
    return _wrapped(result, target)


def _table(operator: Operator, operands: list[np.ndarray], target: DType) -> np.ndarray | None:
    values, table = operands[0], operands[1].reshape(-1).astype(np.int64)
    if target is DType.INT8:
        return table[values + 128]
    place, part = (values + 32768) >> 7, values & 127
    return (table[place] << 7) + (table[place + 1] - table[place]) * part


def _rescale(operator: Operator, operands: list[np.ndarray], target: DType) -> np.ndarray | None:
    """RESCALE as TOSA's apply_scale_32 has it (clause 2.10.2); other forms are not followed."""
    attributes = operator.attributes
    if not attributes["scale32"] or attributes.get("input_unsigned") or attributes.get("output_unsigned"):
        return None
    multiplier, shift, input_zp, output_zp = operands[1:]
    values = operands[0] - input_zp
    rounding = np.int64(1) << (shift - 1)
    if attributes["rounding_mode"] == "DOUBLE_ROUND" and shift > 31:
        rounding = rounding + np.where(values >= 0, 1 << 30, -(1 << 30))
    return np.clip(((values * multiplier + rounding) >> shift) + output_zp, target.min, target.max)


def _clamp(operator: Operator, operands: list[np.ndarray], target: DType) -> np.ndarray | None:
    return np.clip(operands[0], operator.attributes["min_val"], operator.attributes["max_val"])


def _cast(operator: Operator, operands: list[np.ndarray], target: DType) -> np.ndarray | None:
    return _wrapped(operands[0], target)


_SHIFTS = 31
_BINARY = ("ADD", "SUB", "MUL", "LOGICAL_LEFT_SHIFT", "ARITHMETIC_RIGHT_SHIFT")
_DATA_OPERANDS = dict.fromkeys(_BINARY, 2)
"""Operands that may depend on the input; of other operators the first."""
_EVALUATE: dict[str, Callable[[Operator, list[np.ndarray], DType], np.ndarray | None]] = {
    "TABLE": _table,
    "RESCALE": _rescale,
    "CLAMP": _clamp,
    "CAST": _cast,
    **dict.fromkeys(_BINARY, _binary),
}
