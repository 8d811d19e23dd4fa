"""Cleaning a whole graph in place: constants folded, identities dropped, what no output needs removed."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from tosaic.compiler.ir.building.folding import fold
from tosaic.compiler.ir.float_formats import nearest
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.tensors import Operator

Evaluate = Callable[[Graph, Operator], Sequence[np.ndarray] | None]
"""Values of an operator's results from its constant operands; None if it is to stay."""


def evaluate_folded(graph: Graph, op: Operator) -> list[np.ndarray] | None:
    """An `Evaluate` that is the constant folder."""
    result = graph.tensors[op.outputs[0]] if len(op.outputs) == 1 else None
    if result is None:
        return None
    folded = fold(op.op, [graph.tensors[name] for name in op.inputs], op.attributes, result.dtype)
    if folded is None:
        return None
    data = folded[0]
    return [
        nearest(data, result.dtype) if result.dtype.is_float else data.astype(result.dtype.numpy, copy=False)
    ]


def fold_constants(
    graph: Graph, evaluate: Evaluate = evaluate_folded, only: Collection[str] | None = None
) -> None:
    """Replaces the results of operators of constants by constants; `only` names the operators that may go."""
    kept = []
    for op in graph.operators:
        values = None
        if (only is None or op.op in only) and op.inputs:
            if all(graph.tensors[name].data is not None for name in op.inputs):
                values = evaluate(graph, op)
        if values is None:
            kept.append(op)
            continue
        for name, value in zip(op.outputs, values, strict=True):
            graph.tensors[name].data = value
    graph.operators = kept


def drop_identities(graph: Graph) -> None:
    """Takes out every IDENTITY whose result is no output: its readers read its operand."""
    aliases: dict[str, str] = {}
    kept = []
    for op in graph.operators:
        op.inputs = [aliases.get(name, name) for name in op.inputs]
        if op.op == "IDENTITY" and op.outputs[0] not in graph.outputs:
            aliases[op.outputs[0]] = op.inputs[0]
        else:
            kept.append(op)
    graph.operators = kept


def rename_tensor(graph: Graph, old: str, new: str) -> None:
    """Gives a tensor another name, which none has, everywhere in the graph."""
    rename_tensors(graph, {old: new})


def rename_tensors(graph: Graph, names: Mapping[str, str]) -> None:
    """Gives tensors other names, which none has and which differ, in one walk over the graph."""
    for old, new in names.items():
        tensor = graph.tensors.pop(old)
        tensor.name = new
        graph.tensors[new] = tensor
    for op in graph.operators:
        op.inputs = [names.get(name, name) for name in op.inputs]
        op.outputs = [names.get(name, name) for name in op.outputs]
    graph.inputs = [names.get(name, name) for name in graph.inputs]
    graph.outputs = [names.get(name, name) for name in graph.outputs]


def remove_dead(graph: Graph) -> None:
    """Drops operators and tensors that no output needs; inputs stay. Operators must be in topological order."""
    needed, alive = set(graph.outputs), []
    for op in reversed(graph.operators):
        if not needed.isdisjoint(op.outputs):
            alive.append(op)
            needed.update(op.inputs)
            needed.update(op.outputs)
    graph.operators = alive[::-1]
    graph.tensors = {n: t for n, t in graph.tensors.items() if n in needed or n in graph.inputs}
