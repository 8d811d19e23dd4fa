"""MATMULs of one row with a transposed matrix: the matrix is multiplied as it was."""

import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.passes import legalize
from tosaic.hw.config_text import get_config


def attention_of_a_token(keys, perms, between=None, heads=3, depth=20):
    """A query [heads, 1, depth] with `keys` that TRANSPOSE, and perhaps a RESHAPE, bring to [heads, depth, tokens]."""
    build = LayerBuilder(2)
    query = build.input("query", (heads, 1, depth), DType.INT8)
    x = build.add("TRANSPOSE", [build.input("keys", keys, DType.INT8)], perms=perms)
    if between is not None:
        x = build.add("RESHAPE", [x, build.shape(between)])
    x = build.add("MATMUL", [query, x, build.zero_point(DType.INT8, -5), build.zero_point(DType.INT8, 9)])
    build.output(build.rescale(x, DType.INT16, output_zp=0))
    return build.finish()


def operators(graph):
    return [operator.op for operator in legalize(graph, get_config("base")).operators]


@pytest.mark.parametrize(
    "keys, perms, between",
    [
        ((3, 33, 20), [0, 2, 1], None),
        ((1, 3, 33, 20), [0, 1, 3, 2], (3, 20, 33)),
    ],
)
@pytest.mark.parametrize("config", ["base", "small", "nano"])
def test_no_transpose_is_left(keys, perms, between, config):
    graph = attention_of_a_token(keys, perms, between)
    assert operators(graph) == ["RESHAPE", "RESHAPE", "MATMUL", "RESCALE", "RESHAPE"][between is None :]
    assert_equal_to_golden(graph, config, check_hazards=True)


@pytest.mark.parametrize(
    "keys, perms, between, heads, depth",
    [
        ((33, 3, 20), [1, 2, 0], None, 3, 20),  # rows of a head lie apart
        ((20, 33, 3), [2, 0, 1], None, 3, 20),  # the channels do
        ((4, 6, 10, 5), [0, 1, 3, 2], (3, 40, 10), 3, 40),  # the axes of the product have no stride
    ],
)
def test_other_transposes_stay(keys, perms, between, heads, depth):
    graph = attention_of_a_token(keys, perms, between, heads, depth)
    assert "TRANSPOSE" in operators(graph)
    assert_equal_to_golden(graph, "base", check_hazards=True)


def test_a_transpose_that_others_read_stays():
    graph = attention_of_a_token((3, 33, 20), [0, 2, 1])
    graph.outputs.append(graph.operators[0].outputs[0])
    assert operators(graph)[0] == "TRANSPOSE"
    assert_equal_to_golden(graph, "base")


def test_several_rows_stay_as_they_are():
    build = LayerBuilder(2)
    x = build.add("TRANSPOSE", [build.input("b", (2, 9, 20), DType.INT8)], perms=[0, 2, 1])
    zero = build.zero_point(DType.INT8)
    build.output(build.add("MATMUL", [build.input("a", (2, 2, 20), DType.INT8), x, zero, zero]))
    assert operators(build.finish()) == ["TRANSPOSE", "MATMUL"]
