"""Operators once more, for a part of their results."""

from collections.abc import Mapping

from tosaic.compiler.cut.boxes import Box, NotCut, whole
from tosaic.compiler.cut.cut_operator import CutOperator, cut_operator
from tosaic.compiler.ir import Graph, GraphIndex, Operator
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine import KIND, Kind


class PartRewriting(Rewriting):
    """Operators that make parts of what others made. `index`: the graph as it was."""

    def __init__(self, graph: Graph, operator: Operator, index: GraphIndex):
        super().__init__(graph, operator)
        self.index = index

    def part(
        self, operator: Operator, cut: CutOperator, given: Mapping[str, str], output: str | None = None
    ) -> str:
        """What an operator that is cut makes; the tensor's name. `given` are the parts of operands that there are."""
        operands = []
        for number, name in enumerate(operator.inputs):
            if number in cut.constants:
                operands.append(self.sizes(cut.constants[number]))
            elif name in given:
                operands.append(given[name])
            else:
                operands.append(self._operand_part(operator, name, cut.operands.get(number)))
        dtype = self.graph.tensors[operator.outputs[0]].dtype
        attributes = {**operator.attributes, **cut.attributes}
        made = self.build.add(operator.op, operands, dtype=dtype, output=output, **attributes)
        self.operators[-1].name = operator.name
        return made

    def _operand_part(self, reader: Operator, name: str, box: Box | None) -> str:
        """A box of an operand. An elementwise operator that nobody but `reader` reads makes that box only."""
        shape = self.shape(name)
        if box is None or box == whole(shape):
            return name
        producer = self.index.producer(name)
        alone = self.index.consumers(name) == [reader] and name not in self.graph.outputs
        if producer is not None and alone and KIND.get(producer.op) is Kind.ELEMENTWISE:
            cut = cut_operator(self.graph, producer, box)
            if not isinstance(cut, NotCut):
                return self.part(producer, cut, {})
        return self.box(name, box)
