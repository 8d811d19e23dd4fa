"""Inputs and outputs that lie in external memory in the order of axes that the network works in.

An ONNX or PyTorch network takes an image of planes, and turns it before its first convolution. The host writes the
input's bytes anyway: it writes them pixel by pixel, and the TRANSPOSE is gone. Graphs and users go on with planes;
`Graph.orders` and `Port.order` tell how they lie in memory. An output that a TRANSPOSE makes likewise.
"""

import dataclasses
from collections.abc import Sequence

from tosaic.compiler.ir import Graph, GraphIndex, Operator, data_inputs
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.strided import is_multiplied
from tosaic.compiler.legalize.sunk_transposes import same_for_all
from tosaic.compiler.machine import KIND, Kind


def order_ports(graph: Graph) -> Graph:
    """A graph whose inputs and outputs have their axes as `Graph.orders` tells: those of the argument, as they are read
    or made."""
    if not any(operator.op == "TRANSPOSE" for operator in graph.operators):
        return graph
    graph = graph.copy()
    for name in graph.run_inputs:
        _order_input(graph, name)
    for name in graph.run_outputs:
        _order_output(graph, name)
    return graph


@dataclasses.dataclass(frozen=True)
class _Way:
    """Operators between a port and a TRANSPOSE, in the graph's order: what does the same with all elements, or adds
    and removes axes of one element."""

    steps: list[Operator]
    transpose: Operator

    def order(self, graph: Graph, port: str, perms: Sequence[int]) -> tuple[int, ...] | None:
        """The order of the port's axes when `perms` turns the TRANSPOSE's tensor on the port's side; None where they
        lie so already."""
        shape = graph.tensors[port].shape
        if all(KIND[step.op] is Kind.ELEMENTWISE for step in self.steps):
            moved = [axis for axis in perms if shape[axis] > 1]
            return None if moved == sorted(moved) else tuple(perms)
        side = self.transpose.outputs[0] if port in graph.outputs else self.transpose.inputs[0]
        inner = [axis for axis, size in enumerate(graph.tensors[side].shape) if size > 1]
        own = [axis for axis, size in enumerate(shape) if size > 1]
        moved = [own[inner.index(axis)] for axis in perms if axis in inner]
        return None if moved == own else (*(axis for axis, n in enumerate(shape) if n == 1), *moved)


def _passes(graph: Graph, operator: Operator) -> bool:
    """Whether a TRANSPOSE moves past an operator."""
    if KIND.get(operator.op) is Kind.RENAMING:
        before, after = (graph.tensors[name].shape for name in (operator.inputs[0], operator.outputs[0]))
        return [n for n in before if n > 1] == [n for n in after if n > 1]
    return same_for_all(graph, operator)


def _order_input(graph: Graph, name: str) -> None:
    index = graph.index()
    found = [_way_from(graph, index, reader) for reader in index.consumers(name)]
    ways = [way for way in found if way is not None]
    orders = {way.order(graph, name, way.transpose.attributes["perms"]) for way in ways}
    if len(ways) < len(found) or name in graph.outputs or len(orders) != 1:
        return
    if any(is_multiplied(graph, index, way.transpose.outputs[0]) for way in ways):
        # Products mostly find the elements where they are, and the host need not turn a cache.
        return
    (order,) = orders
    if order is None:
        return
    _turn(graph, name, order)
    for way in ways:
        _replace(graph, way, name, way.transpose.outputs[0])


def _order_output(graph: Graph, name: str) -> None:
    index = graph.index()
    way = _way_to(graph, index, name)
    if way is None or index.consumers(name) or name in graph.orders:
        return
    perms = way.transpose.attributes["perms"]
    order = way.order(graph, name, [perms.index(axis) for axis in range(len(perms))])
    source = way.transpose.inputs[0]
    if order is not None and index.producer(source) is not None:
        _turn(graph, name, order)
        _replace(graph, way, source, name)


def _way_from(graph: Graph, index: GraphIndex, reader: Operator) -> _Way | None:
    """The way from a port by its reader to a TRANSPOSE; None where it ends before, or others read what is on it."""
    steps = list[Operator]()
    while reader.op != "TRANSPOSE" and _passes(graph, reader):
        steps.append(reader)
        readers = index.consumers(reader.outputs[0])
        if reader.outputs[0] in graph.outputs or len(readers) != 1:
            return None
        (reader,) = readers
    if reader.op != "TRANSPOSE" or reader.outputs[0] in graph.outputs:
        return None
    return _Way(steps, reader)


def _way_to(graph: Graph, index: GraphIndex, name: str) -> _Way | None:
    """The same of a port that is made behind a TRANSPOSE."""
    steps, maker = list[Operator](), index.producer(name)
    while maker is not None and maker.op != "TRANSPOSE" and _passes(graph, maker):
        steps.append(maker)
        before = _inner(graph, maker)
        if before in graph.outputs or len(index.consumers(before)) != 1:
            return None
        maker = index.producer(before)
    if maker is None or maker.op != "TRANSPOSE":
        return None
    return _Way(steps[::-1], maker)


def _inner(graph: Graph, operator: Operator) -> str:
    """The operand of an operator of a way that is no constant."""
    return next(name for name in data_inputs(operator) if graph.tensors[name].data is None)


def _turn(graph: Graph, name: str, order: Sequence[int]) -> None:
    """A port has its axes in that order from now on."""
    tensor = graph.tensors[name]
    graph.tensors[name] = dataclasses.replace(tensor, shape=tuple(tensor.shape[axis] for axis in order))
    graph.orders[name] = tuple(order)


def _replace(graph: Graph, way: _Way, source: str, result: str) -> None:
    """What is on a way, without its TRANSPOSE: from `source` to `result`, whose elements lie in one order."""
    computing = [step for step in way.steps if KIND[step.op] is Kind.ELEMENTWISE]
    new, shape = Rewriting(graph, way.transpose), graph.tensors[result].shape
    last = len(computing) - 1
    current = new.reshape(source, shape) if computing else new.reshape(source, shape, result)
    for number, step in enumerate(computing):
        inner, output = _inner(graph, step), result if number == last else None
        inputs = [current if name == inner else _number(new, name, len(shape)) for name in step.inputs]
        current = new.add(step.op, inputs, shape, new.dtype(step.outputs[0]), output, **step.attributes)
        new.operators[-1].name = step.name
    gone = {id(step) for step in (*way.steps, way.transpose)}
    ends = (
        way.transpose if result == way.transpose.outputs[0] else way.steps[-1] if way.steps else way.transpose
    )
    done = list[Operator]()
    for operator in graph.operators:
        if operator is ends:
            done += new.operators
        elif id(operator) not in gone:
            done.append(operator)
    graph.operators = done


def _number(new: Rewriting, name: str, rank: int) -> str:
    """A constant operand of a result that has another rank: a number has the result's, parameters stay as they are."""
    tensor = new.graph.tensors[name]
    if tensor.data is None or tensor.data.size > 1 or len(tensor.shape) < 2 or len(tensor.shape) == rank:
        return name
    return new.constant(tensor.data.reshape((1,) * rank), tensor.dtype)
