"""Compositional documents become flat graphs of primitives: the text's own examples, and each kind of expression."""

import pathlib

import pytest
from nnef_cases import BOTH, flat, operators

from tosaic.compiler.importers.nnef import lexer
from tosaic.compiler.importers.nnef.document import expand_document
from tosaic.compiler.importers.nnef.errors import NnefError
from tosaic.compiler.importers.nnef.flat_text import flat_text
from tosaic.compiler.importers.nnef.graph import FlatGraph, Shape, TensorValue, tensors_in
from tosaic.compiler.importers.nnef.standard_library import compound_operations, standard_operations

DOCUMENTS = pathlib.Path(__file__).parent / "documents"
NETWORKS: dict[str, tuple[Shape, int]] = {
    # Shape of the output, variables.
    "alexnet_flat": ((1, 1000, 1, 1), 16),
    "alexnet": ((1, 1000, 1, 1), 16),
    "googlenet": ((1, 1000, 7, 7), 116),
    "resnet101": ((1, 1000, 1, 1), 800),
    "lstm": ((2, 3), 10),
    "gru": ((2, 3), 7),
    "rnn": ((4, 4), 4),
}


def document(name: str) -> str:
    return (DOCUMENTS / f"{name}.nnef").read_text()


def names(graph: FlatGraph) -> list[str]:
    return [operation.name for operation in graph.operations]


@pytest.mark.parametrize("name", NETWORKS)
def test_examples_of_the_text(name: str) -> None:
    graph = expand_document(document(name), f"{name}.nnef")
    shape, variables = NETWORKS[name]
    assert graph.tensors[graph.outputs[0]].shape == shape
    assert len(graph.variables) == variables
    assert set(names(graph)).isdisjoint(compound_operations())
    made: set[int] = set()
    for operation in graph.operations:
        assert all(id(tensor) in made for tensor in tensors_in(operation.arguments))
        results = [*operation.results.values()]
        made |= {id(tensor) for tensor in tensors_in(results)}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_flat_graph_is_a_document_of_its_own(name: str) -> None:
    """Chapter 6: the flattened document is valid, and flattening it again changes nothing."""
    text = flat_text(expand_document(document(name)))
    assert flat_text(expand_document(text)) == text


@pytest.mark.parametrize("name", NETWORKS)
def test_compounds_can_stay_whole(name: str) -> None:
    whole = expand_document(document(name), whole=compound_operations())
    primitive = expand_document(document(name))
    assert len(whole.operations) < len(primitive.operations)
    assert {n: t.shape for n, t in whole.tensors.items()} == {
        n: t.shape for n, t in primitive.tensors.items()
    }


def test_shapes_inside_alexnet() -> None:
    graph = expand_document(document("alexnet"))
    shapes = [graph.tensors[f"pool{i}"].shape for i in (1, 2, 5)]
    assert shapes == [(1, 96, 27, 27), (1, 256, 13, 13), (1, 256, 6, 6)]


def test_resnet_scopes_come_from_string_expressions() -> None:
    graph = expand_document(document("resnet101"))
    assert "block3/unit23/conv2/norm/gamma" in graph.variables
    assert graph.variables["block4/unit1/shortcut/filter"][0].shape == (2048, 1024, 1, 1)


def test_the_text_has_an_example_that_is_invalid() -> None:
    """D.3.2 assigns `logits` and returns `output`."""
    with pytest.raises(NnefError) as error:
        expand_document(document("googlenet").replace("output = softmax(conv4)", "logits = softmax(conv4)"))
    assert error.value.rule == "V033"


def test_another_input_shape_is_propagated() -> None:
    graph = expand_document(document("alexnet_flat"), shapes={"input": (2, 3, 224, 224)})
    assert graph.tensors["input"].shape == (2, 3, 224, 224) and graph.tensors["output"].shape == (
        2,
        1000,
        1,
        1,
    )
    with pytest.raises(NnefError, match="no input image"):
        expand_document(document("alexnet_flat"), shapes={"image": (1,)})


def attribute(expression: str, fragments: str = "") -> object:
    """The value of an integer[] expression, as the axes of a reduction over a tensor of rank 9."""
    text = flat(f"y = sum_reduce(x, axes = {expression});", BOTH + fragments, "[1,2,3,4,5,6,7,8,9]")
    return expand_document(text).operations[-1].arguments["axes"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[1 + 2 * 3 ^ 1]", [7]),
        ("[(1 + 2) * 2, 7 / 2, 8 - 3 - 1]", [6, 3, 4]),
        ("[1] * 1 + [2,3][1:]", [1, 3]),
        ("[for i in [1,2,3] if i != 2 yield i * 2]", [2, 6]),
        ("[for i in [1,2], j in [3,4] yield i + j]", [4, 6]),
        ("[for i in range_of([7,7,7]) yield i]", [0, 1, 2]),
        ("shape_of(x)[3:5]", [4, 5]),
        ("shape_of(1.0) + [length_of('abc')]", [3]),
        ("[integer(2.9), integer('4'), integer(true)]", [2, 4, 1]),
        ("[1 if 'b' + 'c' == 'bc' && !(2 in [1,3]) else 2]", [1]),
        ("[1 if false else 2 if false else 3]", [3]),
        ("[(1,2)[1], length_of(string(12) * 3)]", [2, 6]),
        ("[1] if 1 < 2 and 2.0 >= 2.0 or false else []", [1]),
        ("[-1 + 2, +3]", [1, 3]),
        ("[length_of(string(1.5)) + length_of('abc'[1]) + length_of('abc'[1:])]", [6]),
        ("[(1,2)] == [(1,2)]", None),
        ("[1 if (1,2) in [(1,2)] else 0]", [1]),
        ("[1 / 0]", None),
        ("[2 ^ 70]", None),
        ("[integer('x')]", None),
        ("[1] * -1", None),
        ("[1 if 1 else 2]", None),
        ("[for i in [] yield 1]", None),
        ("[1 + true]", None),
    ],
)
def test_compile_time_expressions(expression: str, value: list[int] | None) -> None:
    if value is not None:
        assert attribute(expression) == value
        return
    with pytest.raises(NnefError) as error:
        attribute(expression)
    assert error.value.rule in ("operands", "arithmetic", "conversion")


def test_recursion_ends_lazily() -> None:
    recursive = (
        "fragment total( items: integer[] ) -> ( sum: integer )"
        " { sum = items[0] + total(items = items[1:]) if length_of(items) > 0 else 0; }"
    )
    assert attribute("[total(items = [1,2,3])]", recursive) == [6]


def test_generic_types_are_deduced_given_and_handed_on() -> None:
    fragments = (
        "fragment twice<?>( x: tensor<?> ) -> ( y: tensor<?> ) { y = same(copy<?>(x)); }"
        "fragment same<?>( x: tensor<?> ) -> ( y: tensor<?> ) { y = copy(x); }"
        "fragment filled<? = integer>( value: ?[] ) -> ( y: tensor<?> )"
        " { y = constant<?>(shape = [length_of(value)], value = value); }"
    )
    body = "a = twice(x > 0.0); b = filled(value = [1]); c = filled<scalar>(value = [1.0, 2.0]); y = x + c;"
    graph = expand_document(flat(body, BOTH + fragments, "[2]"))
    assert [graph.tensors[name].data for name in "abcy"] == ["logical", "integer", "scalar", "scalar"]
    for wrong in ("y = filled(value = [1.0]);", "y = select(x > 0.0, x, x > 1.0);"):
        with pytest.raises(NnefError):
            expand_document(flat(wrong, BOTH + fragments))


def test_operators_on_tensors_invoke_fragments() -> None:
    graph = expand_document(operators("t = !(x < 1.0 || x >= 2.0) && x != 3.0; y = -x ^ 2.0 if true else x;"))
    assert names(graph) == ["external", "lt", "ge", "or", "not", "ne", "and", "neg", "pow"]


def test_results_of_any_structure_are_unpacked() -> None:
    graph = expand_document(
        flat("m, v = moments(x, axes = [2,3]); [a, y] = split(x, axis = 1, ratios = [1,3]);")
    )
    assert [graph.tensors[name].shape[1] for name in ("m", "v", "a", "y")] == [4, 4, 1, 3]
    with pytest.raises(NnefError) as error:
        expand_document(flat("a, y = split(x, axis = 1, ratios = [1,3]);"))
    assert error.value.rule == "unpacking"
    with pytest.raises(NnefError) as error:
        expand_document(flat("[a, b, y] = split(x, axis = 1, ratios = [1,3]);"))
    assert error.value.rule == "unpacking"


def test_defaults_and_literals_reach_the_operation() -> None:
    operation = expand_document(flat("y = max(x, 0.5);"), whole=["max"]).operations[-1]
    assert operation.name == "max" and operation.arguments["y"] == 0.5
    assert isinstance(operation.arguments["x"], TensorValue)


def test_an_error_in_a_compound_is_reported_where_it_is_invoked() -> None:
    with pytest.raises(NnefError) as error:
        expand_document(flat("y = avg_pool(x, size = [1,1,0,3]);"), "m.nnef")
    assert str(error.value) == (
        "m.nnef:5:9: box in avg_pool: size is [1, 1, 0, 3]; its items are positive"
        " [V066: size is positive, NNEF 4.3]"
    )


def test_the_standard_has_96_operations_and_one_helper() -> None:
    assert len(standard_operations()) == 97 and len(compound_operations()) == 46


RUNAWAY = [
    "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = f(x); }",
    "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = f(f(x)) + f(x); }",
    "fragment g( n: integer ) -> ( m: integer[] ) { m = g(n = n + 1) + g(n = n + 1); }"
    "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = reshape(x, shape = g(n = 0)); }",
    "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = reshape(x, shape = [1] * 99999999999); }",
    "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = x + scalar('1' * 999999999); }",
    "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = reshape(x, shape = [1] * 100); }",
]


@pytest.mark.parametrize("fragments", RUNAWAY)
def test_runaway_expansions_end(fragments: str) -> None:
    with pytest.raises(NnefError) as error:
        expand_document(flat("y = f(x);", BOTH + fragments))
    assert error.value.rule == "limit"


@pytest.mark.parametrize(
    "expression", ["(" * 5000 + "1", "-" * 5000 + "1.0", "x" + " + x" * 5000, "[" * 5000, "x" + "[0]" * 5000]
)
def test_deep_texts_end(expression: str) -> None:
    with pytest.raises(NnefError) as error:
        expand_document(operators(f"y = {expression};"))
    assert error.value.rule == "limit"


def test_long_texts_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexer, "TOKEN_LIMIT", 1000)
    monkeypatch.setattr(lexer, "TEXT_LIMIT_CHARACTERS", 10_000)
    for text in (
        flat(f"c = constant(shape = [500], value = [{'1.0,' * 499}1.0]); y = add(x, c);"),
        "#" * 20_000,
    ):
        with pytest.raises(NnefError) as error:
            expand_document(text)
        assert error.value.rule == "limit"
    with pytest.raises(NnefError, match="20000 characters"):
        lexer.decode(bytes(20_000), "graph.nnef")
