"""Folds what needs no accelerator: operators of constants, CASTs there and back, and what only renames a tensor."""

import math

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator, Tensor, Trait, data_inputs, operators_with
from tosaic.compiler.ir.building import evaluate_folded, fresh_name
from tosaic.compiler.legalize.idle import as_reshape
from tosaic.compiler.legalize.raised_reshapes import raise_reshapes
from tosaic.compiler.legalize.reshapes import sink_reshapes
from tosaic.compiler.machine import KIND, Kind
from tosaic.compiler.machine_numbers import (
    CONSTANT_GROWTH_FACTOR,
    CONSTANT_SMALL_BYTES,
    CONSTANTS_SMALL_BYTES,
)

RENAMING = operators_with(Trait.RENAMES)
_SAME_BYTES = operators_with(Trait.REORDERS)
"""The result takes its operand's place in the program."""
_MOVING = operators_with(Trait.MOVES | Trait.PICKS)


def normalise(graph: Graph, *, again: bool = False) -> Graph:
    """A graph with the same outputs in which no operator has only constant operands it can fold. `again`: it has been
    done before, and the graph's constants have grown by it."""
    graph = graph.copy()
    graph.operators = [as_reshape(graph, operator) for operator in graph.operators]
    _fold(graph, 0 if again else CONSTANT_GROWTH_FACTOR)
    _join_casts(graph)
    graph.operators = live_operators(graph)
    sink_reshapes(graph)
    raise_reshapes(graph)
    return graph


def live_operators(graph: Graph) -> list[Operator]:
    """The operators that an output depends on."""
    needed, live = set(graph.outputs), []
    for operator in reversed(graph.operators):
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


# --- constants


def _fold(graph: Graph, growth: int) -> None:
    """Computes what depends on constants alone, as far as the program does not grow much by it."""
    own = {name: tensor.data.nbytes for name, tensor in graph.tensors.items() if tensor.data is not None}
    left_bytes = CONSTANTS_SMALL_BYTES + growth * sum(own.values())
    origins = {name: frozenset({name}) for name in own}
    folded: dict[str, Operator] = {}
    for place, operator in enumerate(graph.operators):
        if len(operator.outputs) != 1 or not operator.inputs or not origins.keys() >= set(operator.inputs):
            continue
        result = graph.tensors[operator.outputs[0]]
        moved = operator.op in _SAME_BYTES
        size_bytes = 0 if moved else math.prod(result.shape) * result.dtype.numpy.itemsize
        comes_from = frozenset[str]().union(*(origins[name] for name in operator.inputs))
        most_bytes = max(CONSTANT_SMALL_BYTES, CONSTANT_GROWTH_FACTOR * sum(own[name] for name in comes_from))
        values = evaluate_folded(graph, operator) if size_bytes <= min(most_bytes, left_bytes) else None
        if values is not None:
            result.data = np.ascontiguousarray(values[0]).reshape(result.shape)
            left_bytes -= size_bytes
            origins[result.name] = comes_from
            operator = _widened_last(graph, operator, folded.get(operator.inputs[0]))
            graph.operators[place] = folded[result.name] = operator
    index = graph.index()
    for name, operator in folded.items():
        readers = [reader for reader in index.consumers(name) if reader.outputs[0] not in folded]
        if name not in graph.outputs and readers and _widened_by_readers(graph, operator, readers):
            graph.tensors[name].data = None
    graph.operators = [each for each in graph.operators if graph.tensors[each.outputs[0]].data is None]


def _widened_last(graph: Graph, operator: Operator, before: Operator | None) -> Operator:
    """What makes an operator's result of a smaller constant, if the operator moves elements that the one `before` it
    makes wider; else the operator. All of them are constants."""
    if before is None or operator.op not in _MOVING or not _widens(graph, before):
        return operator
    result = graph.tensors[operator.outputs[0]]
    narrow = fresh_name(graph, f"{result.name}'")
    dtype = graph.tensors[before.inputs[0]].dtype
    graph.tensors[narrow] = Tensor(narrow, result.shape, dtype)
    moved = Operator(operator.op, [before.inputs[0], *operator.inputs[1:]], [narrow], operator.attributes)
    values = evaluate_folded(graph, moved)
    assert values is not None, f"{operator} was computed of wider elements"
    graph.tensors[narrow].data = np.ascontiguousarray(values[0]).reshape(result.shape)
    return Operator(before.op, [narrow, *before.inputs[1:]], [result.name], before.attributes, before.name)


def _widens(graph: Graph, operator: Operator) -> bool:
    """Whether an operator does the same with all elements of a tensor, and makes them wider."""
    if operator.op not in ("CAST", "RESCALE") or operator.attributes.get("per_channel"):
        return False
    source, result = (graph.tensors[names[0]].dtype.numpy for names in (operator.inputs, operator.outputs))
    return source.itemsize < result.itemsize


def _widened_by_readers(graph: Graph, operator: Operator, readers: list[Operator]) -> bool:
    """Whether the micro-programs of its `readers` make a constant wider as they read it: in memory it is smaller as it
    is. Not so for a number, which costs nothing where it is known."""
    result = graph.tensors[operator.outputs[0]]
    assert result.data is not None
    if not _widens(graph, operator) or (result.data == result.data.flat[0]).all():
        return False
    return all(
        KIND.get(reader.op) is Kind.ELEMENTWISE
        and result.name in data_inputs(reader)
        and graph.tensors[reader.outputs[0]].shape == result.shape
        for reader in readers
    )


# --- casts


def _join_casts(graph: Graph) -> None:
    """A CAST of a CAST's result takes what that one takes, where that is the same: there and back is nothing."""
    made: dict[str, Operator] = {}
    for place, operator in enumerate(graph.operators):
        if operator.op != "CAST":
            continue
        before = made.get(operator.inputs[0])
        if before is not None:
            types = [
                graph.tensors[name].dtype for name in (*before.inputs, *operator.inputs, *operator.outputs)
            ]
            if _passes_through(*types):
                same = types[0] is types[2]
                operator = Operator(
                    "IDENTITY" if same else "CAST", list(before.inputs), operator.outputs, {}, operator.name
                )
                graph.operators[place] = operator
        made[operator.outputs[0]] = operator


def _passes_through(source: DType, between: DType, result: DType) -> bool:
    """Whether a CAST to a type on the way changes nothing: it keeps the bits that the result needs."""
    if source is DType.BOOL or between is DType.BOOL:
        return source is DType.BOOL
    needed = source.bits if result is DType.BOOL else min(source.bits, result.bits)
    return between.bits >= needed
