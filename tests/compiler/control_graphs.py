"""Graphs with loops and branches, built from functions on tensor names."""

from collections.abc import Callable, Sequence

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator

Body = Callable[["Control", list[str]], Sequence[str]]
"""Takes a subgraph and its inputs, gives its outputs."""


class Control(GraphBuilder):
    """A GraphBuilder with COND_IF and WHILE_LOOP."""

    def __init__(self, name: str = "main", outer: "Control | None" = None):
        super().__init__(name)
        if outer is not None:
            self.graph.subgraphs = outer.graph.subgraphs

    def number(self, value: int, shape: Sequence[int] = (), dtype: DType = DType.INT32) -> str:
        return self.constant(np.full(tuple(shape), value), dtype)

    def subgraph(self, state: list[str], body: Body) -> str:
        """The name of a new subgraph that takes tensors like `state`."""
        name = f"graph {len(self.graph.subgraphs)}"
        inner = Control(name, self)
        self.graph.subgraphs[name] = inner.graph
        tensors = [self.graph.tensors[outer] for outer in state]
        inputs = [inner.input(f"in {i}", tensor.shape, tensor.dtype) for i, tensor in enumerate(tensors)]
        for output in body(inner, inputs):
            inner.output(output)
        return name

    def call(self, op: str, inputs: list[str], results: list[str], **graphs: str) -> list[str]:
        """An operator whose outputs look like `results`."""
        outputs = []
        for name in results:
            tensor = self.graph.tensors[name]
            outputs.append(self._declare(self._fresh(op.lower()), tensor.shape, tensor.dtype).name)
        self.graph.operators.append(Operator(op, list(inputs), outputs, dict(graphs), self._fresh(op)))
        return list(outputs)

    def loop(self, state: list[str], test: Body, body: Body) -> list[str]:
        graphs = {"cond_graph": self.subgraph(state, test), "body_graph": self.subgraph(state, body)}
        return self.call("WHILE_LOOP", state, state, **graphs)

    def counted(self, turns: str, state: list[str], body: Body) -> list[str]:
        """`body` as often as the int32 `turns` says; the state afterwards."""

        def test(g: Control, inputs: list[str]) -> list[str]:
            shape = g.graph.tensors[inputs[0]].shape
            return [g.add("GREATER", [inputs[0], g.number(0, shape)])]

        def step(g: Control, inputs: list[str]) -> list[str]:
            shape = g.graph.tensors[inputs[0]].shape
            return [g.add("SUB", [inputs[0], g.number(1, shape)]), *body(g, inputs[1:])]

        return self.loop([turns, *state], test, step)[1:]

    def choose(self, condition: str, state: list[str], then: Body, other: Body) -> list[str]:
        """A COND_IF whose results look like `state`."""
        graphs = {"then_graph": self.subgraph(state, then), "else_graph": self.subgraph(state, other)}
        return self.call("COND_IF", [condition, *state], state, **graphs)


def plus(value: int) -> Body:
    """Adds a number to every tensor of the state, int32."""
    return lambda g, names: [
        g.add("ADD", [name, g.number(value, (1,) * len(g.graph.tensors[name].shape))]) for name in names
    ]


def endless(g: Control, state: list[str]) -> list[str]:
    """A loop that never ends."""
    return g.loop(state, lambda inner, _: [inner.constant([True], DType.BOOL)], lambda _, names: names)


def finished(build: Control, outputs: list[str]) -> Graph:
    for name in outputs:
        build.output(name)
    return build.finish()
