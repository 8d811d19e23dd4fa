"""Moves RESHAPEs behind the elementwise operators that read them, which can then join the layer before the RESHAPE.

A layer ends where a tensor is read under another shape. What a convolution's accumulators become behind a RESHAPE
(scaled, added, looked up) would be a layer of its own that reads them from memory as int32.
"""

from tosaic.compiler.ir import Graph, Operator, Tensor, data_inputs
from tosaic.compiler.ir.building import FoldingBuilder, GraphBuilder, fresh_name
from tosaic.compiler.machine import BASES, KIND, Kind

Shape = tuple[int, ...]


def sink_reshapes(graph: Graph) -> None:
    """Rewrites the graph in place. A result that is computed in another shape is called like its old one with "'"
    behind it; a RESHAPE makes the old one where somebody needs it."""
    sinking = _ReshapeSinking(graph)
    for operator in graph.operators:
        sinking.visit(operator)
    for name in graph.outputs:
        sinking.settle(name)
    graph.operators = sinking.done


class _ReshapeSinking:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.index = graph, graph.index()
        self.done: list[Operator] = []
        self.pending: dict[str, tuple[str, Operator]] = {}
        """Tensors that are not computed yet: the one with the same elements, and the RESHAPE that they come from."""
        self.origins: dict[str, Kind | None] = {}
        """What a chain of elementwise operators begins with."""

    def visit(self, operator: Operator) -> None:
        """The next operator in order: put off, moved before RESHAPEs, or left as it is."""
        kind = KIND.get(operator.op)
        if operator.op == "RESHAPE" and self._worth_moving(operator):
            self.pending[operator.outputs[0]] = (self._source(operator.inputs[0]), operator)
            return
        if kind is Kind.ELEMENTWISE:
            names = [name for name in data_inputs(operator) if name in self.pending]
            moving = next((name for name in names if self._sinks(operator, name)), None)
            if moving is not None:
                self._move(operator, moving)
                return
        for name in operator.inputs:
            self.settle(name)
        self._note(operator)
        self.done.append(operator)

    def settle(self, name: str) -> None:
        """Computes a tensor that was put off, by a RESHAPE."""
        if name in self.pending:
            source, reshape = self.pending.pop(name)
            self.done.append(Operator("RESHAPE", [source, *reshape.inputs[1:]], [name], {}, reshape.name))

    def _source(self, name: str) -> str:
        """The tensor that is computed and has the elements of one that may be put off."""
        return self.pending[name][0] if name in self.pending else name

    def _note(self, operator: Operator) -> None:
        origin = kind = KIND.get(operator.op)
        if kind is Kind.ELEMENTWISE:
            found = [self.origins.get(name) for name in operator.inputs]
            origin = next((each for each in found if each in BASES), Kind.ELEMENTWISE)
        self.origins.update(dict.fromkeys(operator.outputs, origin))

    def _worth_moving(self, reshape: Operator) -> bool:
        """Whether what precedes a RESHAPE can take in all that follows it."""
        source, target = self._source(reshape.inputs[0]), reshape.outputs[0]
        if target in self.graph.outputs or self.origins.get(source) not in (*BASES, Kind.ELEMENTWISE):
            return False
        self.pending[target] = (source, reshape)
        readers = self.index.consumers(target)
        moves = all(reader.op == "RESHAPE" or self._sinks(reader, target) for reader in readers)
        del self.pending[target]
        return moves and bool(readers)

    def _sinks(self, operator: Operator, name: str) -> bool:
        """Whether an elementwise operator can work in the shape that its operand `name` had before."""
        if KIND.get(operator.op) is not Kind.ELEMENTWISE or len(operator.outputs) != 1:
            return False
        tensors, source = self.graph.tensors, self.pending[name][0]
        shape, inner = tensors[operator.outputs[0]].shape, tensors[source].shape
        data = data_inputs(operator)
        if len(data) > 1 and self.origins.get(source) not in BASES:
            # Another operand may come from an operator that is a better neighbour.
            return False
        same_line = shape[-1:] == inner[-1:]
        if operator.attributes.get("per_channel") and not same_line:
            return False
        return tensors[name].shape == shape and all(
            self._under(operand, shape, inner) is not None for operand in data
        )

    def _under(self, operand: str, shape: Shape, inner: Shape) -> Shape | None:
        """The shape of an operand of a result that becomes `inner` instead of `shape`; None if it has none."""
        own = self.graph.tensors[operand].shape
        if own == shape:
            return inner
        if all(size == 1 for size in own):
            return (1,) * len(inner)
        along_last = own[-1] == shape[-1] == inner[-1:][0] if inner else False
        return (*(1,) * (len(inner) - 1), own[-1]) if along_last and all(n == 1 for n in own[:-1]) else None

    def _move(self, operator: Operator, name: str) -> None:
        graph, (source, reshape) = self.graph, self.pending[name]
        result = graph.tensors[operator.outputs[0]]
        inner = graph.tensors[source].shape
        count = len(data_inputs(operator))
        new = FoldingBuilder(GraphBuilder.replacing(graph, operator))
        operands = []
        for operand in operator.inputs[:count]:
            wanted = self._under(operand, result.shape, inner)
            assert wanted is not None
            before = self._source(operand)
            if graph.tensors[before].shape != wanted:
                before = new.reshape(before, wanted)
            operands.append(before)
        early = Tensor(fresh_name(graph, f"{result.name}'"), inner, result.dtype)
        graph.tensors[early.name] = early
        moved = Operator(
            operator.op,
            [*operands, *operator.inputs[count:]],
            [early.name],
            operator.attributes,
            operator.name,
        )
        self.done += [*new.build.operators, moved]
        self._note(moved)
        self.pending[result.name] = (early.name, reshape)
