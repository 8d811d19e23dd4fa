"""Moves RESHAPEs before the elementwise operators that make what they rename, where these join no layer before them.

An elementwise operator joins the layer of what it reads or of what reads it. Where its operand is stored anyway because
others read it too or because it is an input, a RESHAPE behind it would leave it a layer of its own.
"""

from tosaic.compiler.ir import Graph, Operator, data_inputs
from tosaic.compiler.ir.building import FoldingBuilder, GraphBuilder
from tosaic.compiler.machine import BASES, KIND, Kind

_JOINED = (Kind.ELEMENTWISE, Kind.REDUCTION)
"""Readers that an elementwise operator joins."""


def raise_reshapes(graph: Graph) -> None:
    """Rewrites the graph in place; the elementwise operator makes the RESHAPE's result."""
    raising = _Raising(graph)
    done: list[Operator] = []
    for operator in reversed(graph.operators):
        done += raising.visit(operator)
    graph.operators = done[::-1]


class _Raising:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.index = graph, graph.index()
        self._moved: set[int] = set()
        """Operators, by identity, that are at another place now."""

    def visit(self, operator: Operator) -> list[Operator]:
        """What takes an operator's place, last first."""
        if id(operator) in self._moved:
            return []
        maker = self._maker(operator)
        if maker is None:
            return [operator]
        self._moved.add(id(maker))
        graph, count = self.graph, len(data_inputs(maker))
        shape = graph.tensors[operator.outputs[0]].shape
        new = FoldingBuilder(GraphBuilder.replacing(graph, operator))
        names = maker.inputs[:count]
        # The factors of a square are one tensor still.
        under = {name: new.reshape(name, self._under(name, maker, shape)) for name in dict.fromkeys(names)}
        operands = [*(under[name] for name in names), *maker.inputs[count:]]
        raised = Operator(maker.op, operands, operator.outputs, maker.attributes, maker.name)
        self.index.remove(operator)
        self.index.remove(maker)
        for added in (*new.build.operators, raised):
            self.index.add(added)
        before = [after for reshape in new.build.operators[::-1] for after in self.visit(reshape)]
        return [raised, *before]

    def _maker(self, operator: Operator) -> Operator | None:
        """The elementwise operator that a RESHAPE is worth moving before."""
        if operator.op != "RESHAPE" or operator.outputs[0] in self.graph.outputs:
            return None
        readers = self.index.consumers(operator.outputs[0])
        if not readers or not all(KIND.get(reader.op) in _JOINED for reader in readers):
            return None
        maker = self._alone(operator.inputs[0], operator)
        if maker is None or KIND.get(maker.op) is not Kind.ELEMENTWISE or not self._apart(maker):
            return None
        source, target = (self.graph.tensors[name].shape for name in (maker.outputs[0], operator.outputs[0]))
        if maker.attributes.get("per_channel") and source[-1:] != target[-1:]:
            return None
        shapes = [self.graph.tensors[name].shape for name in data_inputs(maker)]
        return maker if all(shape == source or set(shape) == {1} for shape in shapes) else None

    def _alone(self, name: str, reader: Operator) -> Operator | None:
        """What makes a tensor that `reader` alone needs."""
        shared = name in self.graph.outputs or self.index.consumers(name) != [reader]
        return None if shared else self.index.producer(name)

    def _apart(self, operator: Operator) -> bool:
        """Whether all that an elementwise operator reads is in memory, or comes from such operators."""
        for name in data_inputs(operator):
            maker = self._alone(name, operator)
            kind = KIND.get(maker.op) if maker is not None else None
            if kind in BASES:
                return False
            if maker is not None and kind is Kind.ELEMENTWISE and not self._apart(maker):
                return False
        return True

    def _under(self, name: str, maker: Operator, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an operand when the result has `shape`."""
        own = self.graph.tensors[name].shape
        return shape if own == self.graph.tensors[maker.outputs[0]].shape else (1,) * len(shape)
