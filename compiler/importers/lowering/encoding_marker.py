"""Markers in float graphs: from here on a tensor is known to be integers, real = scale * (q - zero_point).

A marker is a CUSTOM operator, which nothing evaluates: only the quantizer reads such graphs.
"""

import json

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.ir import DType, Operator, Tensor

_DOMAIN, _NAME = "tosaic", "encoded"


def mark(low: Lowering, x: str, dtype: DType, scale: float, zero_point: int) -> str:
    """x, as it is after a round trip through integers of that encoding."""
    name = f"encoded_{len(low.graph.operators)}"
    source = low.graph.tensors[x]
    low.graph.tensors[name] = Tensor(name, source.shape, source.dtype)
    text = json.dumps({"dtype": dtype.name, "scale": scale, "zero_point": zero_point})
    attributes = {"operator_name": _NAME, "domain_name": _DOMAIN, "implementation_attrs": text.encode()}
    low.graph.operators.append(Operator("CUSTOM", [x], [name], attributes, f"CUSTOM_{name}"))
    return name


def marked(op: Operator) -> tuple[DType, float, int] | None:
    """Type, scale and zero point of a marker; None for any other operator."""
    if op.op != "CUSTOM" or op.attributes.get("domain_name") != _DOMAIN:
        return None
    found = json.loads(op.attributes["implementation_attrs"])
    return DType[found["dtype"]], float(found["scale"]), int(found["zero_point"])
