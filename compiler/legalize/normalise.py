"""Folds what needs no accelerator: layout operators on constants, and operators that only rename a tensor."""

import numpy as np

from tosaic.compiler.ir import Graph, Operator, Tensor
from tosaic.compiler.legalize.idle import as_reshape
from tosaic.compiler.legalize.raised_reshapes import raise_reshapes
from tosaic.compiler.legalize.reshapes import sink_reshapes

RENAMING = ("RESHAPE", "IDENTITY")


def normalise(graph: Graph) -> Graph:
    """A graph with the same outputs in which no operator has only constant operands it can fold."""
    graph = graph.copy()
    kept: list[Operator] = []
    for operator in graph.operators:
        operator = as_reshape(graph, operator)
        source = graph.tensors[operator.inputs[0]].data if operator.inputs else None
        if source is not None and operator.op in RENAMING:
            target = graph.tensors[operator.outputs[0]]
            graph.tensors[target.name] = Tensor(
                target.name, target.shape, target.dtype, source.reshape(target.shape)
            )
        elif source is not None and operator.op == "TRANSPOSE":
            target = graph.tensors[operator.outputs[0]]
            data = np.ascontiguousarray(source.transpose(operator.attributes["perms"]))
            graph.tensors[target.name] = Tensor(target.name, target.shape, target.dtype, data)
        else:
            kept.append(operator)
    graph.operators = _live(graph, kept)
    sink_reshapes(graph)
    raise_reshapes(graph)
    return graph


def _live(graph: Graph, operators: list[Operator]) -> list[Operator]:
    """The operators that an output depends on."""
    needed, live = set(graph.outputs), []
    for operator in reversed(operators):
        if needed.intersection(operator.outputs):
            live.append(operator)
            needed.update(operator.inputs)
    return live[::-1]


def storage_names(graph: Graph) -> dict[str, str]:
    """Tensor name -> the name of the tensor whose bytes it shares: RESHAPE and IDENTITY move nothing."""
    names = {name: name for name in graph.tensors}
    for operator in graph.operators:
        if operator.op in RENAMING:
            names[operator.outputs[0]] = names[operator.inputs[0]]
    return names
