"""Control flow between subgraphs, and variables: what the importer itself does, without a handler."""

from collections.abc import Callable, Sequence

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.allowance import MAX_TRIPS
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.values import TfliteValue
from tosaic.compiler.importers.tflite.variables import CarriedVariables

Run = Callable[[int, Sequence[TfliteValue]], list[TfliteValue]]
"""Lowers a subgraph, by its index, on given inputs."""


class ControlFlow:
    """Lowers CALL, CALL_ONCE, IF and WHILE; VAR_HANDLE, READ_VARIABLE and ASSIGN_VARIABLE."""

    def __init__(self, low: Lowering, variables: CarriedVariables, run: Run) -> None:
        self.low, self.variables, self.run = low, variables, run
        self._kinds: dict[str, Callable[[TfliteNode], list[str]]] = {
            "CALL": self._call,
            "CALL_ONCE": self._call_once,
            "IF": self._if,
            "WHILE": self._while,
            "VAR_HANDLE": lambda node: [self.variables.handle(node)],
            "READ_VARIABLE": lambda node: [self.variables.read(node)],
            "ASSIGN_VARIABLE": self._assign,
        }

    def takes(self, kind: str) -> bool:
        """Whether an operator is control flow or a variable's."""
        return kind in self._kinds

    def execute(self, node: TfliteNode) -> list[str]:
        """The results of such an operator."""
        return self._kinds[node.kind](node)

    def _assign(self, node: TfliteNode) -> list[str]:
        self.variables.assign(node)
        return []

    def _given(self, node: TfliteNode, first: int = 0) -> list[TfliteValue]:
        return [node.value(index) for index in range(first, len(node.inputs))]

    def _call(self, node: TfliteNode) -> list[str]:
        return [value.tensor for value in self.run(node.option("Subgraph"), self._given(node))]

    def _call_once(self, node: TfliteNode) -> list[str]:
        """The initialization: what it assigns is what variables start as."""
        outer, self.variables.initializing = self.variables.initializing, True
        try:
            self.run(node.option("InitSubgraphIndex"), [])
        finally:
            self.variables.initializing = outer
        return []

    def _if(self, node: TfliteNode) -> list[str]:
        """A known condition picks its branch; otherwise both are computed, and one is selected."""
        indices = [node.option("ThenSubgraphIndex"), node.option("ElseSubgraphIndex")]
        known = self.low.data(node.x())
        if known is not None:
            index = indices[0] if known.reshape(-1)[0] else indices[1]
            return [value.tensor for value in self.run(index, self._given(node, 1))]
        before = self.variables.snapshot()
        branches = []
        for index in indices:
            branches.append(self.run(index, self._given(node, 1)))
            if self.variables.snapshot() != before:
                node.unsupported(
                    "a branch assigns a variable, and both are computed", "assign it outside of the branch"
                )
        results = []
        for a, b in zip(*branches, strict=True):
            if self.low.shape(a.tensor) != self.low.shape(b.tensor):
                node.unsupported(
                    f"its branches give {list(self.low.shape(a.tensor))} and {list(self.low.shape(b.tensor))}; TOSA's "
                    "shapes are static",
                    "make them equal, or the condition a constant",
                )
            results.append(self.low.select(node.x(), a.tensor, b.tensor))
        return results

    def _while(self, node: TfliteNode) -> list[str]:
        """A loop whose condition is known before each trip is unrolled."""
        condition, body = node.option("CondSubgraphIndex"), node.option("BodySubgraphIndex")
        current = self._given(node)
        for _ in range(MAX_TRIPS):
            (goes_on,) = self.run(condition, current)
            known = self.low.data(goes_on.tensor)
            if known is None:
                node.unsupported(
                    "what ends it is computed at run time; only loops of a known number of trips are unrolled",
                    "make the number of trips a constant",
                )
            if not known.reshape(-1)[0]:
                return [value.tensor for value in current]
            current = self.run(body, current)
        node.unsupported(f"it runs more than {MAX_TRIPS} times", "make the loop shorter")
