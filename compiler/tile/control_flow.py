"""COND_IF and WHILE_LOOP: plans of their graphs, and the copies between them (clauses 2.16.1 and 2.16.2).

What goes round a loop lies at fixed places, in activation memory where it fits. What a branch results in lies at fixed
places in external memory.
"""

import typing
from collections.abc import Callable

import numpy as np

from tosaic.compiler.ir import Graph, Operator, Tensor
from tosaic.compiler.legalize.normalise import storage_names
from tosaic.compiler.legalize.passes import legalize
from tosaic.compiler.machine_numbers import COPY_BLOCK_AM_PART
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.place.placement import Copy, Placement
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.tile.box_search import halved
from tosaic.compiler.tile.work import BranchWork, ChoiceWork, CopyThrough, FlagTest, GraphPlan, LoopWork


class NestedPlanner(typing.Protocol):
    """Plans the graph that a control-flow operator runs."""

    placer: Placer

    def plan(self) -> GraphPlan:
        """Plans its layers."""

    def take_over(self, places: list[Placement]) -> None:
        """Results may lie at these places, one for each, where they are resident."""

    def result(self, index: int) -> Placement:
        """Where an output is, until `placer.close()`."""


class ControlFlowPlanner:
    """Plans control-flow operators of a graph. `enter` makes the planner of a nested one; `leaves` tells whether a
    result is wanted in external memory."""

    def __init__(
        self, placer: Placer, enter: Callable[[Graph], NestedPlanner], leaves: Callable[[str], bool]
    ):
        self.placer, self.enter, self.leaves = placer, enter, leaves
        self.graph, self.storage = placer.tensors.graph, placer.tensors.storage

    def plan(self, operator: Operator) -> LoopWork | ChoiceWork:
        """The operator, with the layers of its graphs."""
        return self._loop(operator) if operator.op == "WHILE_LOOP" else self._choice(operator)

    # --- operators

    def _loop(self, operator: Operator) -> LoopWork:
        subgraphs, attributes = self.graph.subgraphs, operator.attributes
        condition, body = subgraphs[attributes["cond_graph"]], subgraphs[attributes["body_graph"]]
        same = storage_names(body)
        unchanged = [same[b] == a for a, b in zip(body.inputs, body.outputs, strict=True)]
        # A constant that the body hands on stays one: it may be a table or weights.
        constants = [
            self._constant(name) if keeps else None
            for name, keeps in zip(operator.inputs, unchanged, strict=True)
        ]
        places, entry = [], []
        for name, output in zip(operator.inputs, operator.outputs, strict=True):
            place = self.placer.hold(output)
            entry.append(self._copy(self._located(name), place.address))
            places.append(place)
        tested = self._nested(condition, constants, places)
        condition_plan = tested.plan()
        test = self._test(tested.result(0))
        tested.placer.close()
        turn = self._nested(body, constants, places)
        turn.take_over(places)
        body_plan = turn.plan()
        body_plan.hand_over = self.hand_over([turn.result(i) for i in range(len(places))], places)
        turn.placer.close()
        results: list[Copy] = [
            self.placer.sent(name)
            for name, place in zip(operator.outputs, places, strict=True)
            if place.resident and self.leaves(name)
        ]
        return LoopWork(operator, entry, condition_plan, test, body_plan, results)

    def _choice(self, operator: Operator) -> ChoiceWork:
        subgraphs, (flag, *inputs) = self.graph.subgraphs, operator.inputs
        places = [self.placer.external(output) for output in operator.outputs]
        constants = [self._constant(name) for name in inputs]
        sources = [self._located(name) for name in inputs]
        test = self._test(self._located(flag))

        def branch(attribute: str) -> BranchWork:
            nested = self._nested(subgraphs[operator.attributes[attribute]], constants, sources)
            plan = nested.plan()
            copies = [self._copy(nested.result(i), place.address) for i, place in enumerate(places)]
            nested.placer.close()
            return BranchWork(plan, copies)

        then = branch("then_graph")
        return ChoiceWork(operator, test, then, branch("else_graph"))

    # --- graphs

    def _nested(
        self, graph: Graph, constants: list[np.ndarray | None], places: list[Placement]
    ) -> NestedPlanner:
        """A graph whose inputs lie at `places`, unless they are constants."""
        known = dict(zip(graph.inputs, constants, strict=True))
        nested = self.enter(legalize(_specialised(graph, known), self.placer.config))
        for name, place in zip(known, places, strict=True):
            if known[name] is None:
                nested.placer.adopt(name, place)
        return nested

    def _constant(self, name: str) -> np.ndarray | None:
        return self.graph.tensors[name].data

    def _located(self, name: str) -> Placement:
        return self.placer.locate(self.storage[name])

    # --- data

    def hand_over(self, results: list[Placement], places: list[Placement]) -> list[CopyThrough]:
        """Results become the arguments of the next turn, or of the next run."""
        moves = [(result, place) for result, place in zip(results, places, strict=True) if result != place]
        copies = []
        # A result that is another argument must be read before that is overwritten.
        for number, (result, place) in enumerate(moves):
            if result in places:
                aside = Placement(self.placer.memories.external.reserve(result.bytes), result.bytes)
                copies.append(self._copy(result, aside.address))
                moves[number] = (aside, place)
        return copies + [self._copy(result, place.address) for result, place in moves]

    def _copy(self, source: Placement, target: Address) -> CopyThrough:
        """Copies a tensor to another place."""
        if source.resident or target.region is Region.ACTIVATION:
            return CopyThrough(source, target)
        smallest = min(source.bytes, self.placer.config.am_bytes // COPY_BLOCK_AM_PART)
        for size in halved(source.bytes, smallest):
            buffer = self.placer.allocate(size, high=True)
            if buffer is not None:
                self.placer.arena.free(buffer)
                return CopyThrough(source, target, buffer, size)
        raise OutOfMemory(f"there is no activation memory left to copy {source.bytes} bytes through")

    def _test(self, flag: Placement) -> FlagTest:
        """Lets the next branches go by a bool."""
        if flag.resident:
            return FlagTest(flag)
        buffer = self.placer.allocate(flag.bytes, high=True)
        if buffer is None:
            raise OutOfMemory("there is no activation memory left for the condition of a branch")
        self.placer.arena.free(buffer)
        return FlagTest(flag, buffer)


def _specialised(graph: Graph, known: dict[str, np.ndarray | None]) -> Graph:
    """The graph with the inputs whose value is known as constants."""
    graph = graph.copy()
    for name, value in known.items():
        if value is not None:
            tensor = graph.tensors[name]
            graph.tensors[name] = Tensor(name, tensor.shape, tensor.dtype, value)
    graph.inputs = [name for name in graph.inputs if known[name] is None]
    return graph
