"""Passes of legalization are verified: one that breaks the graph is named."""

from collections.abc import Callable

import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize import passes
from tosaic.compiler.legalize.verify import BrokenPass
from tosaic.hw.config_text import get_config


def sum_of_two() -> Graph:
    build = LayerBuilder(1)
    x, y = build.input("x", (4, 5), DType.INT32), build.input("y", (4, 1), DType.INT32)
    build.output(build.add("ADD", [x, y]))
    return build.finish()


def without_an_operand(graph: Graph) -> None:
    graph.operators[0].inputs.pop()


def with_one_more(graph: Graph) -> None:
    graph.operators[0].inputs.append("x")


def of_another_shape(graph: Graph) -> None:
    graph.tensors[graph.outputs[0]].shape = (4, 6)


def without_its_operator(graph: Graph) -> None:
    graph.operators.clear()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (without_an_operand, "inputs"),
        (with_one_more, "inputs"),
        (of_another_shape, "shape"),
        (without_its_operator, "nothing makes the output"),
    ],
)
def test_a_pass_that_breaks_the_graph_is_named(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Graph], None], told: str
) -> None:
    def run(graph: Graph, config: object) -> Graph:
        graph = graph.copy()
        change(graph)
        return graph

    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES, passes.Pass("break it", run)))
    with pytest.raises(BrokenPass, match=f"^after the pass 'break it': .*{told}"):
        passes.legalize(sum_of_two(), get_config("nano"))
