"""Who defines and who uses each tensor: single definitions, no undefined names, no cycles."""

import heapq

from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.tensors import Operator
from tosaic.errors import ModelError


def check_names(graph: Graph) -> dict[str, int]:
    """Checks that every name is declared and every tensor has exactly one definition.

    Returns the index of the operator that defines each computed tensor. Graph inputs and constants count as
    definitions. ModelError names the tensor and the operators.
    """
    producers: dict[str, int] = {}
    inputs = set(graph.inputs)
    if len(inputs) != len(graph.inputs):
        raise ModelError(f"graph {graph.name!r} lists an input twice: {graph.inputs}")
    for name in (*graph.inputs, *graph.outputs):
        graph.tensor(name)
    for name in graph.inputs:
        if graph.tensors[name].data is not None:
            raise ModelError(f"tensor {name!r} is an input of graph {graph.name!r} and also a constant")
    for index, op in enumerate(graph.operators):
        for name in (*op.inputs, *op.outputs):
            if name not in graph.tensors:
                raise ModelError(f"{op}: tensor {name!r} is not declared in graph {graph.name!r}")
        for name in op.outputs:
            if name in producers:
                raise ModelError(
                    f"tensor {name!r} is defined twice, by {graph.operators[producers[name]]} and {op}"
                )
            if name in inputs:
                raise ModelError(
                    f"tensor {name!r} is an input of graph {graph.name!r} and also defined by {op}"
                )
            if graph.tensors[name].data is not None:
                raise ModelError(f"tensor {name!r} is a constant and also defined by {op}")
            producers[name] = index
    for op in graph.operators:
        for name in op.inputs:
            if name not in producers and name not in inputs and graph.tensors[name].data is None:
                raise ModelError(
                    f"{op}: tensor {graph.tensors[name]} has no value: no operator defines it and it is "
                    f"neither a constant nor an input of graph {graph.name!r}"
                )
    for name in graph.outputs:
        if name not in producers and name not in inputs and graph.tensors[name].data is None:
            raise ModelError(f"output {graph.tensors[name]} of graph {graph.name!r} is never defined")
    return producers


def sort_operators(graph: Graph) -> None:
    """Puts `graph.operators` in topological order, keeping the given order where it is free.

    Checks names first (`check_names`); ModelError names an operator on a cycle if there is one.
    """
    producers = check_names(graph)
    waiting: list[int] = []
    users: list[list[int]] = [[] for _ in graph.operators]
    for index, op in enumerate(graph.operators):
        sources = {producers[name] for name in op.inputs if name in producers}
        waiting.append(len(sources))
        for source in sources:
            users[source].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    ordered: list[Operator] = []
    while ready:
        index = heapq.heappop(ready)
        ordered.append(graph.operators[index])
        for user in users[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, user)
    if len(ordered) < len(graph.operators):
        stuck = next(op for op, count in zip(graph.operators, waiting, strict=True) if count)
        raise ModelError(f"graph {graph.name!r} has a cycle: {stuck} waits for a result that waits for it")
    graph.operators = ordered
