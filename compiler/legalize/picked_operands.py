"""A SLICE that lies in one operand of a CONCAT is cut from that operand.

The last state of a recurrence then need not wait until all states are put together, which nobody may read.
"""

from tosaic.compiler.cut.boxes import Box, NotCut, whole
from tosaic.compiler.cut.cut_operator import cut_operator
from tosaic.compiler.cut.rules import numbers
from tosaic.compiler.ir import Graph, GraphIndex, Operator
from tosaic.compiler.legalize.normalise import live_operators
from tosaic.compiler.legalize.rewriting import Rewriting


def pick_operands(graph: Graph) -> Graph:
    """A graph with the same outputs; the argument is unchanged."""
    graph = graph.copy()
    index, changed = graph.index(), dict[int, list[Operator]]()
    for operator in graph.operators:
        found = _picked(graph, index, operator) if operator.op == "SLICE" else None
        if found is not None:
            new, (name, box) = Rewriting(graph, operator), found
            (result,) = operator.outputs
            new.reshape(new.box(name, box), new.shape(result), output=result)
            changed[id(operator)] = new.operators
    if not changed:
        return graph
    graph.operators = [new for old in graph.operators for new in changed.get(id(old), [old])]
    graph.operators = live_operators(graph)
    return graph


def _picked(graph: Graph, index: GraphIndex, cut: Operator) -> tuple[str, Box] | None:
    """The operand of a CONCAT, with or without RESHAPEs behind that, and the box of it that a SLICE cuts."""
    starts, name, inside = numbers(graph, cut, 1), cut.inputs[0], False
    if starts is None:
        return None
    sizes = graph.tensors[cut.outputs[0]].shape
    box = tuple((first, first + size) for first, size in zip(starts, sizes, strict=True))
    while (producer := index.producer(name)) is not None and producer.op in ("CONCAT", "RESHAPE"):
        part = cut_operator(graph, producer, box)
        if isinstance(part, NotCut):
            break
        operands = part.operands or {
            number: whole(graph.tensors[each].shape) for number, each in enumerate(producer.inputs[:1])
        }
        if len(operands) > 1 or (producer.op == "CONCAT" and not part.operands):
            break
        ((number, box),) = operands.items()
        name, inside = producer.inputs[number], inside or producer.op == "CONCAT"
    return (name, box) if inside else None
