"""Markers in float graphs: here reals become integers, or integers reals, real = scale * (q - zero_point).

A marker is a CUSTOM operator, which nothing evaluates: only the quantizer reads such graphs.
"""

import json

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.ir import DType, Operator, Tensor

_DOMAIN, _NAME = "tosaic", "encoded"


def mark_quantized(low: Lowering, x: str, dtype: DType, scale: float, zero_point: int) -> str:
    """The integers that stand for the reals x."""
    return _marker(low, x, dtype, (dtype, scale, zero_point))


def mark_dequantized(low: Lowering, q: str, dtype: DType, scale: float, zero_point: int) -> str:
    """The reals of type `dtype` that the integers q stand for."""
    return _marker(low, q, dtype, (low.dtype(q), scale, zero_point))


def _marker(low: Lowering, source: str, dtype: DType, encoding: tuple[DType, float, int]) -> str:
    name = f"encoded_{len(low.graph.operators)}"
    low.graph.tensors[name] = Tensor(name, low.shape(source), dtype)
    held, scale, zero_point = encoding
    text = json.dumps({"dtype": held.name, "scale": scale, "zero_point": zero_point})
    attributes = {"operator_name": _NAME, "domain_name": _DOMAIN, "implementation_attrs": text.encode()}
    low.graph.operators.append(Operator("CUSTOM", [source], [name], attributes, f"CUSTOM_{name}"))
    return name


def marked(op: Operator) -> tuple[DType, float, int] | None:
    """Type of the integers, scale and zero point of a marker; None for any other operator."""
    if op.op != "CUSTOM" or op.attributes.get("domain_name") != _DOMAIN:
        return None
    found = json.loads(op.attributes["implementation_attrs"])
    return DType[found["dtype"]], float(found["scale"]), int(found["zero_point"])
