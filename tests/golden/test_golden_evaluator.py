"""Evaluation of graphs: order, constants, control flow, and the errors users can cause."""

import numpy as np
import pytest
from control_flow_graphs import choice, countdown, graph, tensor

from tosaic.compiler.ir import OPERATORS, DType, Operator
from tosaic.errors import InputError, ModelError, UnsupportedError
from tosaic.sim.golden import evaluate, evaluate_operator, supported_operators


def chain():
    """c = (a + one) - a."""
    return graph(
        "chain",
        ["a"],
        ["c"],
        [tensor("a"), tensor("one", (1,), data=[1]), tensor("b"), tensor("c")],
        [Operator("ADD", ["a", "one"], ["b"], {}, "ADD_0"), Operator("SUB", ["b", "a"], ["c"], {}, "SUB_1")],
    )


A = np.array([5, -7], dtype=np.int32)


def test_outputs_only():
    outputs = evaluate(chain(), {"a": A})
    assert list(outputs) == ["c"]
    assert outputs["c"].dtype == np.int32 and outputs["c"].tolist() == [1, 1]


def test_keep_returns_every_tensor_written():
    outputs = evaluate(chain(), {"a": A}, keep=True)
    assert sorted(outputs) == ["b", "c"]
    assert outputs["b"].tolist() == [6, -6]


def test_graph_outputs_may_be_inputs_and_constants():
    g = graph("through", ["a"], ["a", "k"], [tensor("a"), tensor("k", data=[3, 4])], [])
    outputs = evaluate(g, {"a": A})
    assert outputs["a"].tolist() == [5, -7] and outputs["k"].tolist() == [3, 4]


def test_progress_is_reported_before_each_operator():
    calls = []
    evaluate(chain(), {"a": A}, on_operator=lambda op, index, total: calls.append((op.name, index, total)))
    assert calls == [("ADD_0", 0, 2), ("SUB_1", 1, 2)]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize(("condition", "expected"), [(True, [6, -5]), (False, [4, -9])])
def test_cond_if(shape, condition, expected):
    outputs = evaluate(choice(shape), {"flag": np.full(shape, condition), "a": A})
    assert outputs["z"].tolist() == expected


@pytest.mark.parametrize(("start", "total"), [(-3, 0), (0, 0), (1, 1), (10, 55)])
def test_while_loop(start, total):
    outputs = evaluate(countdown(), {"n": np.array([start], dtype=np.int32)})
    assert outputs["m"].tolist() == [min(start, 0)] and outputs["total"].tolist() == [total]


def test_missing_input():
    with pytest.raises(InputError, match=r"^input 'a' int32\[2\] is missing$"):
        evaluate(chain(), {})


def test_unknown_input():
    with pytest.raises(InputError, match=r"^graph 'chain' has no input 'x'; its inputs are: a$"):
        evaluate(chain(), {"x": A, "a": A})


def test_wrong_shape():
    with pytest.raises(InputError, match=r"^input 'a' int32\[2\]: the array given has shape \[3\]$"):
        evaluate(chain(), {"a": np.zeros(3, dtype=np.int32)})


def test_wrong_dtype():
    message = r"^input 'a' int32\[2\]: the array given is float64, not int32$"
    with pytest.raises(InputError, match=message):
        evaluate(chain(), {"a": np.zeros(2)})


def test_value_outside_int48():
    g = graph("wide", ["w"], ["w"], [tensor("w", (1,), DType.INT48)], [])
    with pytest.raises(InputError, match=r"values must lie in -140737488355328\.\.140737488355327$"):
        evaluate(g, {"w": np.array([1 << 47])})


def test_declared_shape_is_checked():
    g = chain()
    g.tensors["b"].shape = (3,)
    message = r"^ADD_0: the result has shape \[2\], its tensor is 'b' int32\[3\]$"
    with pytest.raises(ModelError, match=message):
        evaluate(g, {"a": A})


def test_value_read_before_it_is_written():
    g = chain()
    g.operators.reverse()
    with pytest.raises(ModelError, match=r"^tensor 'b' int32\[2\] has no value when SUB_1 reads it"):
        evaluate(g, {"a": A})


def test_missing_branch():
    g = countdown()
    del g.subgraphs["body"]
    message = r"^WHILE_LOOP_0: body_graph names the graph 'body', which does not exist$"
    with pytest.raises(ModelError, match=message):
        evaluate(g, {"n": np.array([1], dtype=np.int32)})


def test_operator_without_kernel_is_refused_by_name():
    way_out = "replace it by operators of the specification"
    message = f"^EXP: the golden model does not compute EXP on integers; {way_out}$"
    with pytest.raises(UnsupportedError, match=message):
        evaluate_operator("EXP", [A], {}, [DType.INT32])
    value = np.zeros(1, dtype=np.float32)
    message = f"^CLZ_0: the golden model does not compute CLZ on floats; {way_out}$"
    with pytest.raises(UnsupportedError, match=message):
        evaluate_operator("CLZ", [value], {}, [DType.INT32], label="CLZ_0")
    with pytest.raises(
        UnsupportedError, match=f"^mine: the golden model does not compute CUSTOM; {way_out}$"
    ):
        evaluate_operator("CUSTOM", [A], {}, [DType.INT32], label="mine")


def test_missing_operand_and_attribute():
    with pytest.raises(ModelError, match=r"^ADD: ADD takes 2 operands, not 1$"):
        evaluate_operator("ADD", [A], {}, [DType.INT32])
    with pytest.raises(ModelError, match=r"^CLAMP: CLAMP lacks the attribute max_val$"):
        evaluate_operator("CLAMP", [A], {"min_val": 0}, [DType.INT32])


def test_every_operator_has_a_kernel():
    # A tensor's data; the evaluator's; not defined by TOSA; stateful, which the checker refuses.
    elsewhere = {"CONST", "CONST_SHAPE", "COND_IF", "WHILE_LOOP", "CUSTOM"}
    elsewhere |= {"VARIABLE", "VARIABLE_READ", "VARIABLE_WRITE"}
    assert OPERATORS.keys() - elsewhere == set(supported_operators())


@pytest.mark.parametrize("count", [1, 3])
def test_operands_that_are_missing_or_too_many(count):
    x = np.zeros(2, np.int32)
    with pytest.raises(ModelError, match=f"^ADD: ADD takes 2 operands, not {count}$"):
        evaluate_operator("ADD", [x] * count, {}, [DType.INT32])
