"""Moves TRANSPOSEs behind elementwise operators that make their tensor smaller: bytes are turned in place of wider
elements."""

from tosaic.compiler.ir import Graph, GraphIndex, Operator, data_inputs
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine import ELEMENT, KIND, Kind


def sink_transposes(graph: Graph) -> Graph:
    """A graph with the same outputs."""
    if not any(operator.op == "TRANSPOSE" for operator in graph.operators):
        return graph
    graph = graph.copy()
    index, moved = graph.index(), dict[int, list[Operator]]()
    for operator in graph.operators:
        steps = _steps(graph, index, operator) if operator.op == "TRANSPOSE" else []
        if steps:
            moved |= {id(each): [] for each in (operator, *steps)}
            moved[id(steps[-1])] = _turned_later(graph, operator, steps)
    graph.operators = [new for old in graph.operators for new in moved.get(id(old), [old])]
    return graph


def same_for_all(graph: Graph, operator: Operator) -> bool:
    """Whether an operator does the same with all elements of one tensor: its other operands are numbers."""
    if KIND.get(operator.op) is not Kind.ELEMENTWISE or operator.attributes.get("per_channel"):
        return False
    data = [graph.tensors[name] for name in data_inputs(operator)]
    inner = [tensor for tensor in data if tensor.data is None]
    shape = graph.tensors[operator.outputs[0]].shape
    numbers = all(tensor.data is None or tensor.data.size == 1 for tensor in data)
    return numbers and len(inner) == 1 and inner[0].shape == shape


def _bytes(graph: Graph, name: str) -> int:
    dtype = graph.tensors[name].dtype
    return ELEMENT[dtype].bytes if dtype in ELEMENT else dtype.bits


def _steps(graph: Graph, index: GraphIndex, transpose: Operator) -> list[Operator]:
    """The operators that a TRANSPOSE moves behind."""
    name, steps, best = transpose.outputs[0], list[Operator](), 0
    least = _bytes(graph, name)
    while name not in graph.outputs:
        readers = index.consumers(name)
        if len(readers) != 1 or not same_for_all(graph, readers[0]):
            break
        steps += readers
        name = readers[0].outputs[0]
        if _bytes(graph, name) < least:
            least, best = _bytes(graph, name), len(steps)
    return steps[:best]


def _turned_later(graph: Graph, transpose: Operator, steps: list[Operator]) -> list[Operator]:
    """The operators in the order before a TRANSPOSE, and then that."""
    new, before = Rewriting(graph, steps[-1]), transpose.outputs[0]
    current = transpose.inputs[0]
    for step in steps:
        inputs = [current if name == before else name for name in step.inputs]
        dtype = new.dtype(step.outputs[0])
        current = new.add(step.op, inputs, new.shape(current), dtype, **step.attributes)
        before = step.outputs[0]
    new.transpose(current, transpose.attributes["perms"], before)
    return new.operators
