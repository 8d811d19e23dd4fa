"""The graph's questions: constants, producers, consumers, operands, copies."""

import numpy as np
import pytest
from one_operator_graphs import conv2d, while_loop

from tosaic.compiler.ir import DType, GraphBuilder, validate
from tosaic.errors import ModelError, UnsupportedError


def test_questions() -> None:
    graph = conv2d()
    (op,) = graph.operators
    assert graph.operand(op, "input") == "x"
    assert graph.operand(op, "weight_zp") == "weight_zp"
    assert graph.operand_value(op, "input_zp").tolist() == [-3]
    assert graph.const("x") is None
    assert graph.const("weight").shape == (4, 3, 3, 3)
    assert graph.producer("y") is op
    assert graph.producer("x") is None
    assert graph.consumers("bias") == [op]
    assert graph.consumers("y") == []


def test_an_index_answers_as_the_graph_does() -> None:
    build = GraphBuilder()
    x = build.input("x", (2,), DType.INT32)
    twice = build.add("ADD", [x, x], output="twice")
    build.output(build.add("SUB", [twice, build.add("ABS", [x], output="size")], output="y"))
    graph = build.graph
    index = graph.index()
    for name in graph.tensors:
        assert index.producer(name) is graph.producer(name)
        assert index.consumers(name) == graph.consumers(name)
    assert [op.op for op in index.consumers("x")] == ["ADD", "ABS"], "ADD reads x twice and is told of once"


def test_an_index_follows_changes_that_it_is_told_of() -> None:
    build = GraphBuilder()
    x = build.input("x", (2,), DType.INT32)
    build.output(build.add("ABS", [build.add("CLZ", [x], output="a")], output="y"))
    graph = build.graph
    index = graph.index()
    first, last = graph.operators
    index.remove(last)
    last.inputs = ["x"]
    index.add(last)
    assert (index.consumers("x"), index.consumers("a"), index.producer("y")) == ([first, last], [], last)
    index.remove(first)
    assert (index.consumers("x"), index.producer("a")) == ([last], None)


def test_operands_that_are_missing() -> None:
    graph = conv2d()
    (op,) = graph.operators
    op.inputs = op.inputs[:3]
    assert graph.operand(op, "weight_zp") is None
    with pytest.raises(ModelError, match="CONV2D_0: operand weight_zp is missing"):
        graph.operand_value(op, "weight_zp")
    with pytest.raises(UnsupportedError, match="CONV2D_0: operand input .* is computed at run time"):
        graph.operand_value(op, "input")
    with pytest.raises(ValueError, match="CONV2D has no operand 'inputs'; it has input, weight, bias"):
        graph.operand(op, "inputs")
    with pytest.raises(ModelError, match="graph 'main' has no tensor 'nothing'"):
        graph.const("nothing")


def test_a_copy_is_independent() -> None:
    graph = while_loop()
    twin = graph.copy()
    twin.operators[0].attributes["cond_graph"] = "other"
    twin.subgraphs["body"].operators[0].inputs[1] = "limit"
    twin.subgraphs["body"].tensors["x"].shape = (5,)
    twin.tensors["x"].dtype = DType.INT8
    twin.inputs.pop()
    validate(graph)
    assert twin.subgraphs["body"].subgraphs is twin.subgraphs
    constants = [t for t in graph.subgraphs["body"].tensors.values() if t.data is not None]
    assert constants[0].data is twin.subgraphs["body"].tensors[constants[0].name].data


def test_a_copy_keeps_lists_apart() -> None:
    graph = conv2d()
    graph.copy().operators[0].attributes["pad"][0] = 9
    assert graph.operators[0].attributes["pad"] == [1, 0, 0, 1]


def test_the_builder_infers_shape_and_type() -> None:
    build = GraphBuilder()
    x = build.input("x", (2, 3), DType.INT16)
    shift = build.constant([0], DType.INT8)
    y = build.add("MUL", [x, x, shift])
    z = build.add("REDUCE_SUM", [y], axis=1)
    assert (build.graph.tensors[y].dtype, build.graph.tensors[y].shape) == (DType.INT32, (2, 3))
    assert build.graph.tensors[z].shape == (2, 1)
    build.output(z)
    assert build.finish().outputs == [z]


def test_the_builder_asks_for_a_type_that_is_not_determined() -> None:
    build = GraphBuilder()
    x = build.input("x", (2,), DType.INT8)
    with pytest.raises(ValueError, match="CAST: state the output's dtype, it can be BF16, BOOL, FP16"):
        build.add("CAST", [x])
    with pytest.raises(ModelError, match="no supported combination of data types has in_out_t=int8_t"):
        build.add("ABS", [x])


def test_the_builder_refuses_constants_that_do_not_fit() -> None:
    with pytest.raises(ModelError, match="constant w does not fit int4_t: 0 to 8"):
        GraphBuilder().constant(np.array([0, 8]), DType.INT4, "w")
    build = GraphBuilder()
    build.constant([1], DType.INT8, "w")
    with pytest.raises(ModelError, match="tensor 'w' is declared twice"):
        build.input("w", (1,), DType.INT8)
