"""One order of axes for operators that work in any: that in which the fewest bytes are turned around them.

A U-Net of an ONNX file joins two images as planes, between convolutions that have channels last: both are turned to
planes, joined, and the result is turned back. Elementwise operators, reductions, CONCAT, PAD and SLICE do the same in
every order. Those that read each other's results are a group; it takes the order in which the TRANSPOSEs of what enters
and of what leaves move the fewest bytes.
"""

import dataclasses
import math
from collections.abc import Iterator

from tosaic.compiler.ir import Graph, GraphIndex, Operator, Tensor, data_inputs
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.strided import is_multiplied
from tosaic.compiler.machine import ELEMENT, KIND, Kind

Order = tuple[int, ...]
"""A tensor's axes, in the order in which a TRANSPOSE by it puts them."""


def agree_on_axes(graph: Graph) -> Graph:
    """A graph with the same outputs, in which groups of operators work in the order that is cheapest for them."""
    if sum(operator.op == "TRANSPOSE" for operator in graph.operators) < 2:
        return graph
    graph = graph.copy()
    while True:
        # What one group becomes is what the next one reads. Each time fewer bytes are turned than before.
        index, place = graph.index(), {id(operator): place for place, operator in enumerate(graph.operators)}
        groups = (_OrderGroup(graph, index, members, place) for members in _groups(graph, index))
        found = ((group, order) for group in groups if (order := group.cheapest()) is not None)
        group, order = next(found, (None, None))
        if group is None or order is None:
            return graph
        turned = _Turned(group, order)
        replaced = turned.operators()
        graph.operators = [new for old in graph.operators for new in replaced.get(id(old), [old])]
        for operator in graph.operators:
            operator.inputs = [turned.same.get(name, name) for name in operator.inputs]


def _groups(graph: Graph, index: GraphIndex) -> Iterator[list[Operator]]:
    """The operators that work in any order, in groups of those that read each other's results, each in the graph's
    order."""
    above: dict[int, int] = {}
    """A member's place -> that of another member of its group, or its own: the first one's in the end."""

    def first(place: int) -> int:
        while above[place] != place:
            above[place] = place = above[above[place]]
        return place

    place_of = {id(operator): place for place, operator in enumerate(graph.operators)}
    for place, operator in enumerate(graph.operators):
        if not _works_in_any(graph, operator):
            continue
        above[place] = place
        for name in operator.inputs:
            maker = index.producer(name)
            before = place_of[id(maker)] if maker is not None else place
            if before in above:
                ends = first(before), first(place)
                above[max(ends)] = min(ends)
    groups: dict[int, list[Operator]] = {}
    for place in above:
        groups.setdefault(first(place), []).append(graph.operators[place])
    yield from groups.values()


def _works_in_any(graph: Graph, operator: Operator) -> bool:
    rank = len(graph.tensors[operator.outputs[0]].shape) if operator.outputs else 0
    if rank < 2 or any(len(graph.tensors[name].shape) != rank for name in data_inputs(operator)):
        return False
    if operator.op in ("PAD", "SLICE"):
        return all(graph.tensors[name].data is not None for name in operator.inputs[1:])
    return (
        operator.op == "CONCAT"
        or KIND.get(operator.op) is Kind.REDUCTION
        or (KIND.get(operator.op) is Kind.ELEMENTWISE and not operator.attributes.get("per_channel"))
    )


def _inverse(order: Order) -> Order:
    return tuple(order.index(axis) for axis in range(len(order)))


def _then(first: Order, second: Order) -> Order:
    """The order that one TRANSPOSE after another comes to."""
    return tuple(first[axis] for axis in second)


def _moves(shape: tuple[int, ...], order: Order) -> bool:
    moved = [axis for axis in order if shape[axis] > 1]
    return moved != sorted(moved)


def _bytes(tensor: Tensor) -> int:
    element = ELEMENT[tensor.dtype].bytes if tensor.dtype in ELEMENT else tensor.dtype.bits
    return math.prod(tensor.shape) * element


def _order_of(operator: Operator) -> Order:
    return tuple(operator.attributes["perms"])


@dataclasses.dataclass
class _OrderGroup:
    """Operators, and the tensors at their border."""

    graph: Graph
    index: GraphIndex
    members: list[Operator]
    """The operators, in the graph's order."""
    place: dict[int, int]
    """Where each operator of the graph stands."""

    def __post_init__(self) -> None:
        self.inside = {id(member) for member in self.members}
        made = {member.outputs[0] for member in self.members}
        tensors = self.graph.tensors
        entering = (name for member in self.members for name in data_inputs(member))
        self.entering = [
            name for name in dict.fromkeys(entering) if name not in made and tensors[name].data is None
        ]
        self.leaving = [
            member.outputs[0]
            for member in self.members
            if member.outputs[0] in self.graph.outputs or self.readers(member.outputs[0])
        ]

    def readers(self, name: str) -> list[Operator]:
        """The operators outside the group that read a tensor."""
        return [reader for reader in self.index.consumers(name) if id(reader) not in self.inside]

    def source(self, name: str) -> tuple[str, Order]:
        """Where a tensor that enters comes from: the tensor that a TRANSPOSE turns, and its order; else itself."""
        maker = self.index.producer(name)
        if maker is not None and maker.op == "TRANSPOSE":
            return maker.inputs[0], _order_of(maker)
        return name, tuple(range(len(self.graph.tensors[name].shape)))

    def turned_already(self, source: str, order: Order) -> str | None:
        """What a TRANSPOSE before the group makes of a tensor for others."""
        for reader in self.index.consumers(source):
            if reader.op == "TRANSPOSE" and _order_of(reader) == order and self.is_needed(reader.outputs[0]):
                if self.place[id(reader)] < self.place[id(self.members[0])]:
                    return reader.outputs[0]
        return None

    def is_needed(self, name: str) -> bool:
        """Whether somebody beside the group reads what enters it."""
        return name in self.graph.outputs or bool(self.readers(name))

    def cheapest(self) -> Order | None:
        """The order that the group had better take; None where its own is as good."""
        orders = dict.fromkeys(
            [
                *(_inverse(self.source(name)[1]) for name in self.entering),
                *(_order_of(reader) for name in self.leaving for reader in self._transposes(name)),
            ]
        )
        same = tuple(range(len(self.graph.tensors[self.members[0].outputs[0]].shape)))
        orders.pop(same, None)
        turned = [reader.outputs[0] for name in self.leaving for reader in self._transposes(name)]
        if not orders or any(is_multiplied(self.graph, self.index, name) for name in turned):
            return None
        costs = {order: self._turned_bytes(order) for order in (same, *orders)}
        best = min(costs, key=lambda order: costs[order])
        return best if costs[best] < costs[same] else None

    def _transposes(self, name: str) -> list[Operator]:
        return [reader for reader in self.readers(name) if reader.op == "TRANSPOSE"]

    def _turned_bytes(self, order: Order) -> int:
        """The bytes that are turned around the group in an order of its own."""
        tensors, turned = self.graph.tensors, dict[tuple[str, Order], int]()
        for name in self.entering:
            source, before = self.source(name)
            whole = _then(before, order)
            if _moves(tensors[source].shape, whole) and self.turned_already(source, whole) is None:
                turned[source, whole] = _bytes(tensors[source])
        for name in self.leaving:
            shape = tuple(tensors[name].shape[axis] for axis in order)
            readers = self.readers(name)
            behind = {_order_of(each) for each in readers if each.op == "TRANSPOSE"}
            if name in self.graph.outputs or any(each.op != "TRANSPOSE" for each in readers):
                behind.add(tuple(range(len(order))))
            for wanted in behind:
                whole = _then(_inverse(order), wanted)
                if _moves(shape, whole):
                    turned[name, whole] = _bytes(tensors[name])
        return sum(turned.values())


class _Turned:
    """A group in another order."""

    def __init__(self, group: _OrderGroup, order: Order) -> None:
        self.group, self.order = group, order
        self.names: dict[str, str] = {}
        """What stands for a tensor, in the group's order."""
        self.same: dict[str, str] = {}
        """Results of TRANSPOSEs that are in the group's order: what stands for them."""

    def operators(self) -> dict[int, list[Operator]]:
        """The operators that take the place of old ones, by these."""
        group, done = self.group, dict[int, list[Operator]]()
        for name in group.entering:
            maker = group.index.producer(name)
            if maker is not None and maker.op == "TRANSPOSE" and not group.is_needed(name):
                done[id(maker)] = []
        for member in group.members:
            done[id(member)] = self._member(member)
        for name in group.leaving:
            for reader in group.readers(name):
                if reader.op == "TRANSPOSE":
                    done[id(reader)] = self._leaving(name, reader)
        return done

    def _member(self, member: Operator) -> list[Operator]:
        group, new, (result,) = self.group, Rewriting(self.group.graph, member), member.outputs
        count = len(data_inputs(member))
        data = [self._entering(new, name) for name in member.inputs[:count]]
        rest, attributes = list(member.inputs[count:]), dict(member.attributes)
        if member.op == "PAD":
            pads = new.graph.operand_value(member, "padding").reshape(-1, 2)
            rest[0] = new.sizes([int(n) for axis in self.order for n in pads[axis]])
        elif member.op == "SLICE":
            values = [new.graph.operand_value(member, name) for name in ("start", "size")]
            rest = [new.sizes([int(value[axis]) for axis in self.order]) for value in values]
        elif "axis" in attributes:
            attributes["axis"] = self.order.index(member.attributes["axis"])
        shape = [new.shape(result)[axis] for axis in self.order]
        self.names[result] = new.add(member.op, [*data, *rest], shape, new.dtype(result), **attributes)
        readers = group.readers(result)
        if result in group.graph.outputs or any(reader.op != "TRANSPOSE" for reader in readers):
            new.transpose(self.names[result], _inverse(self.order), result)
        return new.operators

    def _entering(self, new: Rewriting, name: str) -> str:
        """A data operand in the group's order."""
        tensor = new.graph.tensors[name]
        if tensor.data is not None:
            return new.constant(tensor.data.transpose(self.order), tensor.dtype)
        if name not in self.names:
            source, before = self.group.source(name)
            whole = _then(before, self.order)
            known = self.group.turned_already(source, whole)
            self.names[name] = new.transpose(source, whole) if known is None else known
        return self.names[name]

    def _leaving(self, name: str, reader: Operator) -> list[Operator]:
        """What makes the result of a TRANSPOSE of what leaves the group."""
        new, (result,) = Rewriting(self.group.graph, reader), reader.outputs
        whole = _then(_inverse(self.order), _order_of(reader))
        if whole == tuple(range(len(whole))) and result not in new.graph.outputs:
            self.same[result] = self.names[name]
            return []
        new.transpose(self.names[name], whole, result)
        return new.operators
