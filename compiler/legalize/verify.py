"""Checks a graph between passes: a pass that breaks it is found at once, and by name."""

from tosaic.compiler.ir import OPERATORS, Graph, Operator
from tosaic.compiler.ir.validate import check_operand_counts, check_shapes


class BrokenPass(AssertionError):
    """A pass of the compiler made a graph that is none: a fault of Tosaic, whatever the model is."""


def verify(graph: Graph, *, after: str, before: Graph | None = None) -> None:
    """BrokenPass naming the pass `after` which `graph` is, if the graph is not in order.

    Every name is defined once and before it is read, constants have the shape and type that they say, operators have
    their operands and the result shapes of the operator table. Types may be others than TOSA's: decompositions work
    with int48 values. Of a graph `before` the pass that is in order, operators and tensors that the pass has left as
    they were are not looked at again. O(operators)."""
    try:
        _check_names(graph)
        for operator in _changed(graph, before):
            check_operand_counts(graph, operator)
            check_shapes(graph, operator)
    except Exception as error:
        raise BrokenPass(f"after the pass {after!r}: {error}") from error


def _changed(graph: Graph, before: Graph | None) -> list[Operator]:
    """The operators that are others than in the graph before, or have others among their tensors."""
    if before is None:
        return graph.operators
    known, old, new = {id(operator) for operator in before.operators}, before.tensors, graph.tensors
    return [
        operator
        for operator in graph.operators
        if id(operator) not in known
        or any(new.get(name) is not old.get(name) for name in (*operator.inputs, *operator.outputs))
    ]


def _check_names(graph: Graph) -> None:
    known = set(graph.inputs)
    for tensor in graph.tensors.values():
        if tensor.data is not None:
            known.add(tensor.name)
            if tensor.data.shape != tuple(tensor.shape):
                raise ValueError(f"constant {tensor} has a value of shape {list(tensor.data.shape)}")
    for operator in graph.operators:
        if operator.op not in OPERATORS:
            raise ValueError(f"{operator}: {operator.op} is not a TOSA operator")
        missing = [name for name in operator.inputs if name not in known]
        if missing:
            raise ValueError(f"{operator} reads {missing[0]!r} before it is defined")
        twice = [name for name in operator.outputs if name in known]
        if twice:
            raise ValueError(f"{operator} defines {twice[0]!r} again")
        known.update(operator.outputs)
    lost = [name for name in graph.outputs if name not in known]
    if lost:
        raise ValueError(f"nothing makes the output {lost[0]!r}")
