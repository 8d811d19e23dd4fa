"""COND_IF and WHILE_LOOP: regions with branches between them (clauses 2.16.1 and 2.16.2).

What goes round a loop, and what a branch results in, lies at fixed places in external memory.
"""

import typing
from collections.abc import Callable

import numpy as np

from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.operands import Placement
from tosaic.compiler.ir import Graph, Operator, Tensor
from tosaic.compiler.legalize.normalise import storage_names
from tosaic.compiler.legalize.prepare import prepare
from tosaic.compiler.place.memory import OutOfMemory
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.schedule.blocks import Label
from tosaic.hw.isa import Condition


class Nested(typing.Protocol):
    """The region of a graph that control flow runs."""

    placer: Placer

    def emit(self) -> None:
        """Emits its layers."""

    def result(self, index: int) -> Placement:
        """Where an output is, until `placer.close()`."""


class ControlFlow:
    """Emits control-flow operators of a region. `enter` makes the region of a graph."""

    def __init__(
        self,
        graph: Graph,
        storage: dict[str, str],
        placer: Placer,
        emitter: Emitter,
        enter: Callable[[Graph], Nested],
    ):
        self.graph, self.storage, self.placer = graph, storage, placer
        self.emitter, self.enter = emitter, enter

    def emit(self, operator: Operator) -> None:
        """The operator, with the layers of its graphs."""
        if operator.op == "WHILE_LOOP":
            self._loop(operator)
        else:
            self._choice(operator)

    # --- operators

    def _loop(self, operator: Operator) -> None:
        subgraphs, attributes = self.graph.subgraphs, operator.attributes
        condition, body = subgraphs[attributes["cond_graph"]], subgraphs[attributes["body_graph"]]
        same = storage_names(body)
        unchanged = [same[b] == a for a, b in zip(body.inputs, body.outputs, strict=True)]
        # A constant that the body hands on stays one: it may be a table or weights.
        constants = [
            self._constant(name) if keeps else None
            for name, keeps in zip(operator.inputs, unchanged, strict=True)
        ]
        places = []
        for name, output in zip(operator.inputs, operator.outputs, strict=True):
            place = self.placer.external(output)
            self._copy(self._located(name), place.address)
            places.append(place)
        head, leave = Label(f"{operator} head"), Label(f"{operator} exit")
        self.emitter.place(head)
        test = self._region(condition, constants, places)
        test.emit()
        self._test(test.result(0))
        test.placer.close()
        self.emitter.branch(Condition.IF_CLEAR, leave)
        turn = self._region(body, constants, places)
        turn.emit()
        self._hand_over([turn.result(i) for i in range(len(places))], places)
        turn.placer.close()
        self.emitter.branch(Condition.ALWAYS, head)
        self.emitter.place(leave)

    def _choice(self, operator: Operator) -> None:
        subgraphs, (flag, *inputs) = self.graph.subgraphs, operator.inputs
        places = [self.placer.external(output) for output in operator.outputs]
        constants = [self._constant(name) for name in inputs]
        sources = [self._located(name) for name in inputs]
        otherwise, join = Label(f"{operator} else"), Label(f"{operator} end")
        self._test(self._located(flag))
        self.emitter.branch(Condition.IF_CLEAR, otherwise)
        for attribute in ("then_graph", "else_graph"):
            branch = self._region(subgraphs[operator.attributes[attribute]], constants, sources)
            branch.emit()
            for index, place in enumerate(places):
                self._copy(branch.result(index), place.address)
            branch.placer.close()
            if attribute == "then_graph":
                self.emitter.branch(Condition.ALWAYS, join)
                self.emitter.place(otherwise)
        self.emitter.place(join)

    # --- regions

    def _region(self, graph: Graph, constants: list[np.ndarray | None], places: list[Placement]) -> Nested:
        """A graph whose inputs lie at `places`, unless they are constants."""
        known = dict(zip(graph.inputs, constants, strict=True))
        nested = self.enter(prepare(_specialised(graph, known), self.placer.config))
        for name, place in zip(known, places, strict=True):
            if known[name] is None:
                nested.placer.adopt(name, place)
        return nested

    def _constant(self, name: str) -> np.ndarray | None:
        return self.graph.tensors[name].data

    def _located(self, name: str) -> Placement:
        return self.placer.locate(self.storage[name])

    # --- data

    def _hand_over(self, results: list[Placement], places: list[Placement]) -> None:
        """The body's results become the next turn's arguments."""
        moves = [(result, place) for result, place in zip(results, places, strict=True) if result != place]
        # A result that is another argument must be read before that is overwritten.
        for number, (result, place) in enumerate(moves):
            if result in places:
                aside = Placement(False, self.placer.memories.external(result.bytes), result.bytes)
                self._copy(result, aside.address)
                moves[number] = (aside, place)
        for result, place in moves:
            self._copy(result, place.address)

    def _copy(self, source: Placement, address: int) -> None:
        """Copies a tensor to external memory."""
        if source.resident:
            self.emitter.store(source.address, address, source.bytes)
            return
        size = source.bytes
        # Smaller pieces would take ages; then rather let fewer tensors be resident.
        smallest = min(size, self.placer.config.am_bytes // 16)
        while (buffer := self.placer.allocate(size, high=True)) is None:
            if size == smallest:
                raise OutOfMemory(f"there is no activation memory left to copy {source.bytes} bytes through")
            size = max(smallest, size // 2)
        for start in range(0, source.bytes, size):
            count = min(size, source.bytes - start)
            self.emitter.load(source.address + start, buffer, count)
            self.emitter.store(buffer, address + start, count)
        self.placer.arena.free(buffer)

    def _test(self, flag: Placement) -> None:
        """Lets the next branches go by a bool."""
        if flag.resident:
            self.emitter.test(flag.address)
            return
        buffer = self.placer.allocate(flag.bytes, high=True)
        if buffer is None:
            raise OutOfMemory("there is no activation memory left for the condition of a branch")
        self.emitter.load(flag.address, buffer, flag.bytes)
        self.emitter.test(buffer)
        self.placer.arena.free(buffer)


def _specialised(graph: Graph, known: dict[str, np.ndarray | None]) -> Graph:
    """The graph with the inputs whose value is known as constants."""
    graph = graph.copy()
    for name, value in known.items():
        if value is not None:
            tensor = graph.tensors[name]
            graph.tensors[name] = Tensor(name, tensor.shape, tensor.dtype, value)
    graph.inputs = [name for name in graph.inputs if known[name] is None]
    return graph
