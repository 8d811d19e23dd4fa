"""Operators that leave every element as it is and where it is, by their sizes: a RESHAPE takes their place, and costs
nothing."""

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator
from tosaic.compiler.ir.building import add_constant


def as_reshape(graph: Graph, operator: Operator) -> Operator:
    """The RESHAPE that does the same, whose shape becomes a constant of the graph; the operator itself if it works."""
    if not _idle(graph, operator):
        return operator
    (name,) = operator.outputs
    shape = add_constant(graph, f"{name}'shape", np.array(graph.tensors[name].shape, np.int64), DType.SHAPE)
    return Operator("RESHAPE", [operator.inputs[0], shape], [name], {}, operator.name)


def _idle(graph: Graph, operator: Operator) -> bool:
    if not operator.inputs or len(operator.outputs) != 1:
        return False
    shape, result = (graph.tensors[name].shape for name in (operator.inputs[0], operator.outputs[0]))
    match operator.op:
        case "SLICE" | "PAD" | "TILE":
            return shape == result
        case "CONCAT":
            return len(operator.inputs) == 1
        case "TRANSPOSE":
            moved = [axis for axis in operator.attributes["perms"] if shape[axis] > 1]
            return moved == sorted(moved)
        case "MAX_POOL2D":
            return operator.attributes["kernel"] == [1, 1] and shape == result
        case "REVERSE":
            return shape[operator.attributes["axis"]] == 1
    return operator.op.startswith("REDUCE_") and shape[operator.attributes["axis"]] == 1
