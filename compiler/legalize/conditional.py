"""COND_IF without a branch: the operators of its graphs where it stands (clause 2.16.1)."""

import math
from collections.abc import Iterator

import numpy as np

from tosaic.compiler.ir import OPERATORS, Graph, Operator, Trait, operators_with
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine_numbers import BRANCH_INLINED_ELEMENTS

_COSTLY = operators_with(Trait.SUMS_PRODUCTS)


def both_are_computed(graph: Graph, operator: Operator) -> bool:
    """Whether SELECT chooses between the results of both branches of this COND_IF: those with loops may be endless
    where they are not taken, and large ones take longer than a branch."""
    branches = [graph.subgraphs[operator.attributes[name]] for name in ("then_graph", "else_graph")]
    parts = [part for branch in branches for part in _within(branch)]
    operators = [(part, inner) for part in parts for inner in part.operators]
    if any(inner.op in ("WHILE_LOOP", *_COSTLY) for _, inner in operators):
        return False
    elements = sum(math.prod(part.tensors[name].shape) for part, inner in operators for name in inner.outputs)
    return elements <= BRANCH_INLINED_ELEMENTS


def _within(graph: Graph) -> Iterator[Graph]:
    """A graph and those that it runs."""
    yield graph
    for operator in graph.operators:
        for value in operator.attributes.values():
            if OPERATORS[operator.op].runs_graphs and value in graph.subgraphs:
                yield from _within(graph.subgraphs[value])


def inline_branches(new: Rewriting) -> bool:
    """The branch that a constant chooses, or both branches of a COND_IF, of which SELECT takes one: nothing in TOSA has
    side effects or traps."""
    graph, operator = new.graph, new.operator
    condition, *arguments = operator.inputs
    constant = graph.const(condition)
    if constant is None and not both_are_computed(graph, operator):
        return False
    results = []
    for name in ("then_graph", "else_graph"):
        branch = graph.subgraphs[operator.attributes[name]]
        taken = constant is None or bool(constant.reshape(-1)[0]) == (name == "then_graph")
        results.append(_inlined(new, branch, arguments) if taken else None)
    then, other = results
    for index, output in enumerate(operator.outputs):
        tensor = graph.tensors[output]
        if then is None or other is None:
            chosen = then or other
            assert chosen is not None
            new.add("IDENTITY", [chosen[index]], tensor.shape, tensor.dtype, output)
            continue
        flag = new.reshape(condition, (1,) * len(tensor.shape))
        new.add("SELECT", [flag, then[index], other[index]], tensor.shape, tensor.dtype, output)
    return True


def _inlined(new: Rewriting, branch: Graph, arguments: list[str]) -> list[str]:
    """The branch's operators on the arguments; names of its results in the outer graph."""
    names = dict(zip(branch.inputs, arguments, strict=True))
    for name, tensor in branch.tensors.items():
        if name not in names and tensor.data is not None:
            names[name] = new.constant(np.asarray(tensor.data), tensor.dtype)
    for inner in branch.operators:
        for name in inner.outputs:
            tensor = branch.tensors[name]
            names[name] = new.declare(tensor.shape, tensor.dtype)
        inputs, outputs = [names[name] for name in inner.inputs], [names[name] for name in inner.outputs]
        new.operators.append(Operator(inner.op, inputs, outputs, dict(inner.attributes), inner.name))
    return [names[name] for name in branch.outputs]
