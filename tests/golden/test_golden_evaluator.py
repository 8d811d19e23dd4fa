"""Evaluation of graphs: order, constants, control flow, and the errors users can cause."""

import numpy as np
import pytest
from tosaic.compiler.ir import (
    OPERATORS,
    DType,
    Graph,
    InputError,
    ModelError,
    Operator,
    Tensor,
    UnsupportedError,
)
from tosaic.sim.golden import evaluate, evaluate_operator, supported_operators


def tensor(name, shape=(2,), dtype=DType.INT32, data=None):
    return Tensor(name, shape, dtype, None if data is None else np.array(data, dtype=dtype.numpy))


def graph(name, inputs, outputs, tensors, operators, subgraphs=None):
    return Graph(name, inputs, outputs, {t.name: t for t in tensors}, operators, (1, 0, 0), subgraphs or {})


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


def branches():
    """Two graphs of (p, q): their sum and their difference."""

    def branch(name, op):
        return graph(
            name, ["p", "q"], ["r"], [tensor("p"), tensor("q"), tensor("r")], [Operator(op, ["p", "q"], ["r"])]
        )

    return {"sum": branch("sum", "ADD"), "difference": branch("difference", "SUB")}


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize(("condition", "expected"), [(True, [6, -5]), (False, [4, -9])])
def test_cond_if(shape, condition, expected):
    g = graph(
        "choose",
        ["flag", "a"],
        ["z"],
        [tensor("flag", shape, DType.BOOL), tensor("a"), tensor("b", data=[1, 2]), tensor("z")],
        [Operator("COND_IF", ["flag", "a", "b"], ["z"], {"then_graph": "sum", "else_graph": "difference"})],
        branches(),
    )
    outputs = evaluate(g, {"flag": np.full(shape, condition), "a": A})
    assert outputs["z"].tolist() == expected


def countdown(start):
    """while (0 < i) { total += i; i -= 1 } from i = start, total = 0."""
    condition = graph(
        "cond",
        ["i", "t"],
        ["go"],
        [tensor("i", (1,)), tensor("t", (1,)), tensor("zero", (1,), data=[0]), tensor("go", (1,), DType.BOOL)],
        [Operator("GREATER", ["i", "zero"], ["go"])],
    )
    body = graph(
        "body",
        ["i", "t"],
        ["i2", "t2"],
        [tensor(n, (1,)) for n in ("i", "t", "i2", "t2")] + [tensor("one", (1,), data=[1])],
        [Operator("ADD", ["t", "i"], ["t2"]), Operator("SUB", ["i", "one"], ["i2"])],
    )
    return graph(
        "main",
        ["n"],
        ["m", "total"],
        [tensor("n", (1,)), tensor("m", (1,)), tensor("total", (1,)), tensor("zero", (1,), data=[0])],
        [Operator("WHILE_LOOP", ["n", "zero"], ["m", "total"], {"cond_graph": "cond", "body_graph": "body"})],
        {"cond": condition, "body": body},
    )


@pytest.mark.parametrize(("start", "total"), [(0, 0), (1, 1), (10, 55)])
def test_while_loop(start, total):
    outputs = evaluate(countdown(start), {"n": np.array([start], dtype=np.int32)})
    assert outputs["m"].tolist() == [0] and outputs["total"].tolist() == [total]


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
    message = r"^input 'a' int32\[2\]: the array given is float64, convert it to int32$"
    with pytest.raises(InputError, match=message):
        evaluate(chain(), {"a": np.zeros(2)})


def test_value_outside_int48():
    g = graph("wide", ["w"], ["w"], [tensor("w", (1,), DType.INT48)], [])
    with pytest.raises(InputError, match=r"values must lie in -140737488355328\.\.140737488355327$"):
        evaluate(g, {"w": np.array([1 << 47])})


def test_declared_shape_is_checked():
    g = chain()
    g.tensors["b"].shape = (3,)
    with pytest.raises(ModelError, match=r"^ADD_0: the result has shape \[2\], its tensor is 'b' int32\[3\]$"):
        evaluate(g, {"a": A})


def test_value_read_before_it_is_written():
    g = chain()
    g.operators.reverse()
    with pytest.raises(ModelError, match=r"^tensor 'b' int32\[2\] has no value when SUB_1 reads it"):
        evaluate(g, {"a": A})


def test_missing_branch():
    g = countdown(1)
    del g.subgraphs["body"]
    with pytest.raises(ModelError, match=r"^WHILE_LOOP: body_graph names the graph 'body', which does not exist$"):
        evaluate(g, {"n": np.array([1], dtype=np.int32)})


def test_float_is_refused_by_name():
    value = np.zeros(1, dtype=np.float32)
    message = r"^ADD_0: the golden model computes ADD on integers only; quantize the model first$"
    with pytest.raises(UnsupportedError, match=message):
        evaluate_operator("ADD", [value, value], {}, [DType.FP32], label="ADD_0")


def test_operator_without_kernel_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"^EXP: the golden model has no integer kernel for EXP$"):
        evaluate_operator("EXP", [A], {}, [DType.INT32])


def test_missing_operand_and_attribute():
    with pytest.raises(ModelError, match=r"^ADD: ADD takes 2 operands, not 1$"):
        evaluate_operator("ADD", [A], {}, [DType.INT32])
    with pytest.raises(ModelError, match=r"^CLAMP: CLAMP lacks the attribute max_val$"):
        evaluate_operator("CLAMP", [A], {"min_val": 0}, [DType.INT32])


def test_every_integer_operator_of_base_inference_has_a_kernel():
    elsewhere = {"CONST", "COND_IF", "WHILE_LOOP", "CUSTOM"}  # tensors' data, the evaluator, undefined by TOSA
    base_inference = {op for op, spec in OPERATORS.items() if spec.is_integer and "0.30" in spec.versions}
    assert base_inference - elsewhere <= set(supported_operators())
