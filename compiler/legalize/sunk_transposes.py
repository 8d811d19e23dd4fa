"""Moves TRANSPOSEs behind elementwise operators that make their tensor smaller, or that add what exists in both orders.

A ConvNeXt block ends with TRANSPOSE and a residual: what is added to is the block's input, which its first operator has
transposed already. In the convolution's order both are there, the residual joins the convolution's layer, and bytes are
turned in place of wider elements.
"""

import dataclasses

from tosaic.compiler.ir import Graph, Operator, data_inputs
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine import ELEMENT, KIND, Kind
from tosaic.compiler.machine_numbers import TRANSPOSE_MOST_STEPS


@dataclasses.dataclass
class _Chain:
    """Elementwise operators behind a TRANSPOSE."""

    transpose: Operator
    steps: list[Operator] = dataclasses.field(default_factory=list)
    joins: int = 0
    """Operands that exist in the other order, up to the last of `steps`."""


def sink_transposes(graph: Graph) -> Graph:
    """A graph with the same outputs; operators that nobody reads any more are left in it."""
    if not any(operator.op == "TRANSPOSE" for operator in graph.operators):
        return graph
    graph = graph.copy()
    _TransposesSunk(graph).run()
    return graph


def _bytes(graph: Graph, name: str) -> int:
    dtype = graph.tensors[name].dtype
    return ELEMENT[dtype].bytes if dtype in ELEMENT else dtype.bits


def _elementwise(graph: Graph, operator: Operator) -> bool:
    """Whether an operator does the same with all elements of tensors of its result's shape, or with one number. Other
    constants have an order."""
    if KIND.get(operator.op) is not Kind.ELEMENTWISE:
        return False
    shape = graph.tensors[operator.outputs[0]].shape
    data = [graph.tensors[name] for name in data_inputs(operator)]
    same = all(tensor.shape == shape if tensor.data is None else tensor.data.size == 1 for tensor in data)
    return same and not operator.attributes.get("per_channel")


def _inverse(a: Operator, b: Operator) -> bool:
    """Whether one TRANSPOSE after another moves nothing."""
    first, second = a.attributes["perms"], b.attributes["perms"]
    return [first[axis] for axis in second] == list(range(len(first)))


class _TransposesSunk:
    """Rewrites one graph in place."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.index = graph, graph.index()
        self.place = {id(operator): number for number, operator in enumerate(graph.operators)}
        self.taken: set[int] = set()
        """Operators that others stand for."""
        self.kept: set[int] = set()
        """TRANSPOSEs whose results moved operators read."""

    def run(self) -> None:
        moved: dict[int, list[Operator]] = {}
        for operator in self.graph.operators:
            if operator.op != "TRANSPOSE" or id(operator) in self.kept:
                continue
            chain = self._chain(operator)
            if chain is not None and self.taken.isdisjoint(map(id, chain.steps)):
                moved[id(chain.steps[-1])] = self._turned_later(chain)
                self.taken.update(map(id, (operator, *chain.steps)))
        done = []
        for operator in self.graph.operators:
            if id(operator) in moved:
                done += moved[id(operator)]
            elif id(operator) not in self.taken:
                done.append(operator)
        self.graph.operators = done

    def _chain(self, transpose: Operator) -> _Chain | None:
        """The operators that a TRANSPOSE moves behind; None where that is not worth it."""
        graph, index, name = self.graph, self.index, transpose.outputs[0]
        chain, best, least = _Chain(transpose), None, _bytes(graph, name)
        while name not in graph.outputs and len(index.consumers(name)) == 1:
            (reader,) = index.consumers(name)
            if not _elementwise(graph, reader):
                break
            data = data_inputs(reader)
            others = [each for each in data if each != name and graph.tensors[each].data is None]
            if any(self._other_order(each, transpose, reader) is None for each in others):
                break
            chain = _Chain(transpose, [*chain.steps, reader], chain.joins + len(others))
            name = reader.outputs[0]
            size = _bytes(graph, name)
            if size < least or (size == least and chain.joins > (best.joins if best else 0)):
                least, best = size, chain
        return best

    def _other_order(self, name: str, transpose: Operator, reader: Operator) -> list[Operator] | None:
        """What computes an operand of `reader` in the order before `transpose`: a TRANSPOSE that does, then operators
        to repeat; None where nothing does."""
        graph, steps = self.graph, list[Operator]()
        while len(steps) <= TRANSPOSE_MOST_STEPS:
            for other in self.index.consumers(name):
                if other.op != "TRANSPOSE" or other is transpose or id(other) in self.taken:
                    continue
                if self.place[id(other)] < self.place[id(reader)] and _inverse(other, transpose):
                    return [other, *reversed(steps)]
            maker = self.index.producer(name)
            if maker is None or not _elementwise(graph, maker):
                return None
            data = [each for each in data_inputs(maker) if graph.tensors[each].data is None]
            if len(data) != 1:
                return None
            steps.append(maker)
            name = data[0]
        return None

    def _turned_later(self, chain: _Chain) -> list[Operator]:
        """The operators of a chain in the order before its TRANSPOSE, and then that."""
        graph, transpose, last = self.graph, chain.transpose, chain.steps[-1]
        new = Rewriting(graph, last)
        name, current = transpose.outputs[0], transpose.inputs[0]
        shape = new.shape(current)

        def again(operator: Operator, replaced: dict[str, str]) -> str:
            inputs = [replaced.get(each, each) for each in operator.inputs]
            return new.add(operator.op, inputs, shape, new.dtype(operator.outputs[0]), **operator.attributes)

        for step in chain.steps:
            replaced = {name: current}
            for other in data_inputs(step):
                if other == name or graph.tensors[other].data is not None:
                    continue
                found = self._other_order(other, transpose, step)
                assert found is not None
                self.kept.add(id(found[0]))
                source, here = found[0].inputs[0], found[0].outputs[0]
                for repeated in found[1:]:
                    here = again(repeated, {source: here})
                    source = repeated.outputs[0]
                replaced[other] = here
            current = again(step, replaced)
            name = step.outputs[0]
        new.transpose(current, transpose.attributes["perms"], last.outputs[0])
        return new.operators
