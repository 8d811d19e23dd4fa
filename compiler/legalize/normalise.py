"""Folds what needs no accelerator: layout operators on constants, and operators that only rename a tensor."""

import numpy as np

from tosaic.compiler.ir import Graph, Operator, Tensor

RENAMING = ("RESHAPE", "IDENTITY")


def normalise(graph: Graph) -> Graph:
    """A graph with the same outputs in which no operator has only constant operands it can fold."""
    graph = graph.copy()
    kept: list[Operator] = []
    for operator in graph.operators:
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
    _sink_reshapes(graph)
    return graph


_UNARY = ("CLAMP", "TABLE", "ABS", "CLZ", "NEGATE", "BITWISE_NOT", "LOGICAL_NOT", "CAST", "RESCALE")


def _sink_reshapes(graph: Graph) -> None:
    """Moves a RESHAPE behind the unary operator that reads it, which can then join the layer before the RESHAPE.

    The operator's new result is called like its old one with "'" behind it; the RESHAPE makes the old one."""
    index_of = graph.index()
    places = {id(operator): place for place, operator in enumerate(graph.operators)}
    for index, reshape in enumerate(graph.operators):
        if reshape.op != "RESHAPE" or reshape.outputs[0] in graph.outputs:
            continue
        readers = index_of.consumers(reshape.outputs[0])
        if len(readers) != 1 or readers[0].op not in _UNARY or readers[0].attributes.get("per_channel"):
            continue
        unary, shape = readers[0], graph.tensors[reshape.inputs[0]].shape
        result = graph.tensors[unary.outputs[0]]
        if result.name + "'" in graph.tensors:
            continue
        early = Tensor(result.name + "'", shape, result.dtype)
        graph.tensors[early.name] = early
        moved = Operator(
            unary.op, [reshape.inputs[0], *unary.inputs[1:]], [early.name], unary.attributes, unary.name
        )
        later = Operator("RESHAPE", [early.name, *reshape.inputs[1:]], [result.name], {}, reshape.name)
        for old in (reshape, unary):
            index_of.remove(old)
        for new in (moved, later):
            index_of.add(new)
        graph.operators[places.pop(id(unary))] = later
        graph.operators[index] = moved


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
