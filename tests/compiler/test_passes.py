"""Passes of legalization are verified: one that breaks the graph is named."""

import itertools
from collections.abc import Callable, Sequence

import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType, Graph, Operator, Tensor
from tosaic.compiler.legalize import passes
from tosaic.compiler.legalize.verify import BrokenPass, verify
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


def chain() -> Graph:
    """x -> a -> b -> c, each by an operator."""
    tensors = {name: Tensor(name, (4, 5), DType.INT32) for name in "xabc"}
    operators = [Operator("ABS", [source], [result]) for source, result in itertools.pairwise("xabc")]
    return Graph("chain", ["x"], ["c"], tensors, operators)


def renewed(graph: Graph, operators: Sequence[int], tensors: str) -> Graph:
    """Equal to the graph: the operators at these places and the tensors of these names are others."""
    other = graph.copy()
    for place, operator in enumerate(graph.operators):
        if place not in operators:
            other.operators[place] = operator
    other.tensors |= {name: tensor for name, tensor in graph.tensors.items() if name not in tensors}
    return other


CHANGES = [
    ([], "", []),
    ([0], "", [0]),
    ([1, 2], "", [1, 2]),
    ([], "x", [0]),
    ([], "b", [1, 2]),
    ([], "c", [2]),
    ([0], "c", [0, 2]),
    ([1], "b", [1, 2]),
    ([0, 1, 2], "xabc", [0, 1, 2]),
]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("operators, tensors, seen", CHANGES)
def test_what_a_pass_has_changed_is_looked_at(
    operators: list[int], tensors: str, seen: list[int], place: int
) -> None:
    """An operator that is another one or has another tensor, as the operand or the result; what was in order before,
    and is as it was, is left."""
    before = chain()
    graph = renewed(before, operators, tensors)
    verify(graph, after="any", before=before)
    graph.operators[place].inputs *= 2
    with pytest.raises(BrokenPass, match="^after the pass 'any': .*inputs"):
        verify(graph, after="any")
    if place in seen:
        with pytest.raises(BrokenPass, match="^after the pass 'any': .*inputs"):
            verify(graph, after="any", before=before)
    else:
        verify(graph, after="any", before=before)


@pytest.mark.parametrize("name", "abc")
def test_a_tensor_that_a_pass_has_given_another_shape_is_told(name: str) -> None:
    before = chain()
    graph = renewed(before, [], name)
    graph.tensors[name].shape = (4, 6)
    with pytest.raises(BrokenPass, match="^after the pass 'any': .*shape"):
        verify(graph, after="any", before=before)


def test_operators_and_tensors_that_a_pass_adds_are_looked_at() -> None:
    graph = chain()
    before = renewed(graph, [], "")
    del before.operators[2], before.tensors["c"]
    verify(graph, after="any", before=before)
    graph.operators[2].inputs.clear()
    with pytest.raises(BrokenPass, match="^after the pass 'any': .*inputs"):
        verify(graph, after="any", before=before)
