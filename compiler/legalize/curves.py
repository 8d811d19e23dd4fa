"""Tensors that are a function of one tensor of few values: what each of these becomes."""

import dataclasses

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator, Trait, data_inputs, operators_with
from tosaic.compiler.ir.building.integer_folding import ConstantOperator, integer_result
from tosaic.compiler.machine_numbers import CURVE_MOST_VALUES

_TYPES = (DType.INT8, DType.INT16, DType.INT32)
_RENAMES, _PICKS, _ELEMENTWISE = (
    operators_with(trait) for trait in (Trait.RENAMES, Trait.PICKS, Trait.ELEMENTWISE)
)


@dataclasses.dataclass(frozen=True)
class Curve:
    """A tensor each of whose elements depends on that of tensor `origin` at the same place."""

    origin: str
    low: int
    """The smallest value that `origin` may have."""
    values: np.ndarray
    """int64: what becomes of it and of those that follow."""


def curves(graph: Graph) -> dict[str, Curve]:
    """Returns the curve of each tensor that is a function of another. One that is not, and has few values, is
    its own.
    """
    found: dict[str, Curve] = {}
    ranges: dict[str, tuple[int, int]] = {}
    largest: dict[str, str] = {}

    def curve_of(name: str) -> Curve | None:
        tensor = graph.tensors[name]
        if name not in found and tensor.data is None and _held(tensor.dtype):
            low, high = ranges.get(name, (tensor.dtype.min, tensor.dtype.max))
            if high - low < CURVE_MOST_VALUES:
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
    if operator.op in _PICKS:
        return first
    second = of(operator.inputs[1]) if operator.op == "SUB" else None
    if second is None:
        return None
    # Nothing is more than the largest along an axis.
    most = 0 if largest.get(operator.inputs[1]) == operator.inputs[0] else first[1] - second[0]
    return first[0] - second[1], most


def _values(graph: Graph, operator: Operator, operands: list[Curve | None]) -> np.ndarray | None:
    """What an operator makes of its operands' values; None unless they are functions of one tensor."""
    if operator.op in _RENAMES:
        return operands[0].values if operands[0] is not None else None
    shape = graph.tensors[operator.outputs[0]].shape
    if operator.op not in _ELEMENTWISE:
        return None
    values, origins, data = [], set(), len(data_inputs(operator))
    for place, (name, curve) in enumerate(zip(operator.inputs, operands, strict=True)):
        tensor = graph.tensors[name]
        if tensor.data is not None:
            one = tensor.data if operator.op == "TABLE" else _scalar(tensor.data)
            if one is None:
                return None
            values.append(np.asarray(one, np.int64))
        elif curve is None or place >= data or tensor.shape != shape:
            return None
        else:
            values.append(curve.values)
            origins.add(curve.origin)
    if len(origins) != 1:
        return None
    source, target = (graph.tensors[names[0]].dtype for names in (operator.inputs, operator.outputs))
    return integer_result(operator.op, ConstantOperator(values, source, target, operator.attributes))


def _scalar(constant: np.ndarray) -> np.int64 | None:
    """The one value that all elements have."""
    flat = constant.reshape(-1)
    return np.int64(flat[0]) if flat.size and (flat == flat[0]).all() else None
