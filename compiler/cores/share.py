"""The graph of one core's share: the operators of a segment that compute some boxes of its results."""

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np

from tosaic.compiler.cut.boxes import Box, NotCut, hull, leading_axis, part_of_array, shape_of, whole
from tosaic.compiler.cut.cut_operator import CutOperator, cut_operator
from tosaic.compiler.ir import DType, Graph, Operator, Tensor


@dataclasses.dataclass(frozen=True)
class Share:
    """A graph whose tensors are boxes of those of the network, under their names."""

    graph: Graph
    boxes: dict[str, Box]
    """Which box of the network's tensor each input and each result is."""
    wanted: dict[str, Box]
    """The core's part of each result. More of it may be computed, for layers that read it again."""


def make_share(
    network: Graph, operators: Collection[int], free: Collection[int], wanted: Mapping[str, Box]
) -> Share:
    """The share that computes the boxes `wanted` by the operators with the numbers `operators`, and by those `free`
    ones (renamings, views) that they need.
    What other operators make, and the network's inputs, are inputs: ranges of the leading axis."""
    plan = _Backwards(network, operators, free, wanted)
    return _Forwards(network, plan).share(wanted)


class _Backwards:
    """Finds, from the results back, which box of each tensor is computed, and how."""

    def __init__(
        self, network: Graph, operators: Collection[int], free: Collection[int], wanted: Mapping[str, Box]
    ):
        self.network = network
        self.boxes: dict[str, Box] = dict(wanted)
        """What is needed of each tensor."""
        self.cuts: dict[int, CutOperator] = {}
        """Cut operators by the number of the operator."""
        last = max(operators)
        for number in reversed(range(last + 1)):
            operator = network.operators[number]
            mine = number in operators or number in free
            if mine and any(name in self.boxes for name in operator.outputs):
                self._visit(number, operator)

    def _visit(self, number: int, operator: Operator) -> None:
        tensors = self.network.tensors
        cut = cut_operator(self.network, operator, self.boxes[operator.outputs[0]])
        if isinstance(cut, NotCut):
            cut = CutOperator({})
        if not cut.operands:
            self.boxes |= {name: whole(tensors[name].shape) for name in operator.outputs}
        self.cuts[number] = cut
        for place, name in enumerate(operator.inputs):
            if tensors[name].data is None and place not in cut.unread:
                box = cut.operands.get(place, whole(tensors[name].shape))
                self.boxes[name] = hull(self.boxes.get(name), box)


class _Forwards:
    """Makes the graph."""

    def __init__(self, network: Graph, plan: _Backwards):
        self.network, self.plan = network, plan
        self.graph = Graph(network.name, version=network.version)
        self.boxes: dict[str, Box] = {}
        self._parts: dict[tuple[str, Box], str] = {}

    def share(self, wanted: Mapping[str, Box]) -> Share:
        made = {name for number in self.plan.cuts for name in self.network.operators[number].outputs}
        for name in self.plan.boxes:
            if name not in made:
                self._input(name)
        for number in sorted(self.plan.cuts):
            self._operator(self.network.operators[number], self.plan.cuts[number])
        self.graph.outputs = list(wanted)
        outside = [*self.graph.inputs, *wanted]
        return Share(self.graph, {name: self.boxes[name] for name in outside}, dict(wanted))

    def _input(self, name: str) -> None:
        """A range of the leading axis lies in one piece in external memory."""
        shape, needed = self.network.tensors[name].shape, self.plan.boxes[name]
        axis = leading_axis(shape)
        ranges = [
            cut if place == axis else (0, extent)
            for place, (cut, extent) in enumerate(zip(needed, shape, strict=True))
        ]
        self._define(name, tuple(ranges))
        self.graph.inputs.append(name)

    def _define(self, name: str, box: Box) -> None:
        self.boxes[name] = box
        self.graph.tensors[name] = Tensor(name, shape_of(box), self.network.tensors[name].dtype)

    def _operator(self, operator: Operator, cut: CutOperator) -> None:
        inputs = []
        if operator.op == "SLICE" and cut.operands and operator.inputs[0] in self.boxes:
            # Of what is there, at once: a part of a part would be copied.
            here, box = self.boxes[operator.inputs[0]], cut.operands[0]
            cut = CutOperator({0: here}, constants={1: _start_within(here, box), 2: list(shape_of(box))})
        for place, name in enumerate(operator.inputs):
            if place in cut.unread:
                continue
            if place in cut.constants:
                inputs.append(self._numbers(cut.constants[place]))
                continue
            tensor = self.network.tensors[name]
            box = cut.operands.get(place, whole(tensor.shape))
            inputs.append(self._part(name, box) if tensor.data is None else self._constant(tensor, box))
        for name in operator.outputs:
            self._define(name, self.plan.boxes[name])
        attributes = {**operator.attributes, **cut.attributes}
        self.graph.operators.append(
            Operator(operator.op, inputs, list(operator.outputs), attributes, operator.name)
        )

    def _part(self, name: str, box: Box) -> str:
        """A box of a tensor that is there."""
        here = self.boxes[name]
        if here == box:
            return name
        if (name, box) not in self._parts:
            part = self._fresh(name)
            self.graph.tensors[part] = Tensor(part, shape_of(box), self.network.tensors[name].dtype)
            numbers = (_start_within(here, box), list(shape_of(box)))
            inputs = [name, *(self._numbers(each) for each in numbers)]
            self.graph.operators.append(Operator("SLICE", inputs, [part], {}, f"SLICE of {name}"))
            self._parts[name, box] = part
        return self._parts[name, box]

    def _constant(self, tensor: Tensor, box: Box) -> str:
        assert tensor.data is not None
        if box == whole(tensor.shape):
            self.graph.tensors[tensor.name] = tensor
            return tensor.name
        key = (tensor.name, box)
        if key not in self._parts:
            part = self._fresh(tensor.name)
            self.graph.tensors[part] = Tensor(
                part, shape_of(box), tensor.dtype, part_of_array(tensor.data, box)
            )
            self._parts[key] = part
        return self._parts[key]

    def _numbers(self, values: list[int]) -> str:
        name = self._fresh("numbers")
        self.graph.tensors[name] = Tensor(name, (len(values),), DType.SHAPE, np.array(values, np.int64))
        return name

    def _fresh(self, name: str) -> str:
        """A name that neither graph has."""
        count = 0
        while (found := f"{name}'{count}") in self.graph.tensors or found in self.network.tensors:
            count += 1
        return found


def _start_within(outer: Box, inner: Box) -> list[int]:
    """Where a box begins in another one."""
    return [first - low for (first, _), (low, _) in zip(inner, outer, strict=True)]
