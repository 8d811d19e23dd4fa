"""TRANSPOSEs with RESHAPEs between them as one TRANSPOSE.

Patches of an image, as a transformer of an ONNX file takes them, are a TRANSPOSE to planes, a RESHAPE that splits rows
and columns, and a TRANSPOSE that gathers them. On the axes that both shapes are made of these are one step, which often
moves whole pixels.
"""

import math
from collections.abc import Sequence

from tosaic.compiler.ir import Graph, GraphIndex, Operator
from tosaic.compiler.ir.operators.spec import MAX_RANK
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.strided import is_multiplied
from tosaic.compiler.machine import KIND, Kind

_Axes = list[tuple[int, int]]
"""(length, elements from one to the next in the source) of axes, the slowest first."""


def join_transposes(graph: Graph) -> Graph:
    """A graph with the same outputs."""
    if sum(operator.op == "TRANSPOSE" for operator in graph.operators) < 2:
        return graph
    graph = graph.copy()
    again = True
    while again:
        index, again, done = graph.index(), False, list[Operator]()
        gone = set[int]()
        for operator in graph.operators:
            way = _way(graph, index, operator) if operator.op == "TRANSPOSE" else None
            new = Rewriting(graph, operator)
            if way is not None and gone.isdisjoint(map(id, way)) and _joined(new, way):
                again, gone = True, gone | {id(each) for each in (*way, operator)}
                done += new.operators
            else:
                done.append(operator)
        graph.operators = [operator for operator in done if id(operator) not in gone]
    return graph


def _way(graph: Graph, index: GraphIndex, last: Operator) -> list[Operator] | None:
    """The TRANSPOSE before another one, and the RESHAPEs between, which nobody else reads; None where there is none, or
    products find the elements without the last one."""
    way, name = list[Operator](), last.inputs[0]
    if is_multiplied(graph, index, last.outputs[0]):
        return None
    while not way or way[0].op != "TRANSPOSE":
        maker = index.producer(name)
        if maker is None or len(index.consumers(name)) != 1 or name in graph.outputs:
            return None
        if maker.op != "TRANSPOSE" and KIND.get(maker.op) is not Kind.RENAMING:
            return None
        way.insert(0, maker)
        name = maker.inputs[0]
    return way


def _joined(new: Rewriting, way: Sequence[Operator]) -> bool:
    """One TRANSPOSE for the replaced one and a way before it; False where axes of the two do not fit together."""
    first, last, result = way[0], new.operator, new.operator.outputs[0]
    source = first.inputs[0]
    shape, target = new.shape(source), new.shape(result)
    dense = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    turned = [(shape[axis], dense[axis]) for axis in first.attributes["perms"]]
    parts = _under(turned, new.shape(last.inputs[0]))
    if parts is None:
        return False
    axes = _merged([part for axis in last.attributes["perms"] for part in parts[axis]])
    order = sorted(range(len(axes)), key=lambda place: -axes[place][1])
    if len(axes) > MAX_RANK:
        return False
    if len(axes) > 1:
        split = new.reshape(source, [axes[place][0] for place in order])
        source = new.transpose(split, [order.index(place) for place in range(len(axes))])
    new.reshape(source, target, result)
    return True


def _under(axes: _Axes, shape: Sequence[int]) -> list[_Axes] | None:
    """What each axis of another shape consists of; None where it is no whole number of the axes or of parts of them."""
    left = [axis for axis in axes if axis[0] > 1]
    found: list[_Axes] = []
    for size in shape:
        parts: _Axes = []
        while size > 1:
            length, stride = left.pop(0)
            part = math.gcd(length, size)
            if part not in (length, size):
                return None
            parts.append((part, stride * (length // part)))
            if part < length:
                left.insert(0, (length // part, stride))
            size //= part
        found.append(parts)
    return found


def _merged(axes: _Axes) -> _Axes:
    """The axes with those joined that follow each other in the source, too."""
    found: _Axes = []
    for length, stride in axes:
        if found and found[-1][1] == length * stride:
            length *= found.pop()[0]
        found.append((length, stride))
    return found
