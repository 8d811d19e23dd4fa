"""Names, definitions and order of a graph's operators."""

import pytest

from tosaic.compiler.ir import DType, Graph, Operator, Tensor, validate
from tosaic.compiler.ir.topology import sort_operators
from tosaic.errors import ModelError


def chain(*links: tuple[str, str], inputs: tuple[str, ...] = ("a",), outputs: tuple[str, ...] = ()) -> Graph:
    """A graph of ABS operators (from, to)."""
    names = {name for link in links for name in link} | set(inputs)
    tensors = {name: Tensor(name, (2,), DType.INT32) for name in sorted(names)}
    operators = [Operator("ABS", [x], [y], {}, f"ABS_{i}") for i, (x, y) in enumerate(links)]
    return Graph("main", list(inputs), list(outputs), tensors, operators)


def test_sorts_and_keeps_the_given_order_where_free() -> None:
    graph = chain(("c", "d"), ("a", "x"), ("b", "c"), ("a", "b"), ("a", "y"))
    sort_operators(graph)
    assert [op.name for op in graph.operators] == ["ABS_1", "ABS_3", "ABS_2", "ABS_0", "ABS_4"]


def test_a_long_chain_backwards_is_sorted_quickly() -> None:
    count = 20_000
    graph = chain(*[(f"t{i}", f"t{i + 1}") for i in reversed(range(count))], inputs=("t0",))
    sort_operators(graph)
    assert [op.outputs[0] for op in graph.operators] == [f"t{i + 1}" for i in range(count)]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            chain(("a", "b"), ("c", "d"), ("d", "c")),
            "has a cycle: ABS_1 waits for a result that waits for it",
        ),
        (chain(("a", "b"), ("b", "b")), "tensor 'b' is defined twice, by ABS_0 and ABS_1"),
        (chain(("b", "b")), "has a cycle: ABS_0"),
        (chain(("a", "b"), ("a", "b")), "tensor 'b' is defined twice, by ABS_0 and ABS_1"),
        (chain(("b", "a")), "tensor 'a' is an input of graph 'main' and also defined by ABS_0"),
        (chain(("b", "c")), "ABS_0: tensor 'b' int32\\[2\\] has no value"),
        (chain(("a", "b"), inputs=("a", "a")), "lists an input twice"),
        (chain(("a", "b"), outputs=("z",)), "graph 'main' has no tensor 'z'"),
        (chain(("a", "b"), inputs=("a",), outputs=("b", "z")), "graph 'main' has no tensor 'z'"),
    ],
)
def test_bad_names(graph: Graph, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        sort_operators(graph)


def test_an_undeclared_tensor() -> None:
    graph = chain(("a", "b"))
    graph.operators[0].inputs = ["z"]
    with pytest.raises(ModelError, match="ABS_0: tensor 'z' is not declared in graph 'main'"):
        sort_operators(graph)


def test_an_output_that_is_never_defined() -> None:
    graph = chain(("a", "b"), outputs=("c",))
    graph.tensors["c"] = Tensor("c", (2,), DType.INT32)
    with pytest.raises(ModelError, match="output 'c' int32\\[2\\] of graph 'main' is never defined"):
        sort_operators(graph)


def test_validate_wants_topological_order() -> None:
    with pytest.raises(ModelError, match="ABS_0: input 'b' is used before the operator that defines it"):
        validate(chain(("b", "c"), ("a", "b")))
