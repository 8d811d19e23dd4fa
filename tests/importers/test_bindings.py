"""Inputs bound to values: constants of the import, of every format; and branches that cannot run."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tosaic.compiler.importers.bindings import Bindings, bind_values
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.compiler.ir import DType, Graph, Operator, Tensor
from tosaic.driver.session import Session
from tosaic.errors import InputError, ModelError
from tosaic.sim.golden import evaluate

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def branch(name, *nodes):
    return helper.make_graph(list(nodes), name, [], [value(nodes[-1].output[0], FLOAT, None)])


def by_rate(other):
    """y = Relu(x) at 16000, else what the nodes `other` make of x [1, 4]."""
    nodes = [
        helper.make_node("Constant", [], ["rate"], value=numpy_helper.from_array(np.array(16000))),
        helper.make_node("Equal", ["sr", "rate"], ["same"]),
        helper.make_node(
            "If",
            ["same"],
            ["y"],
            "choice",
            then_branch=branch("then", helper.make_node("Relu", ["x"], ["a"])),
            else_branch=branch("else", *other),
        ),
    ]
    inputs = [value("x", FLOAT, [1, 4]), value("sr", INT64, [])]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)


NEGATED = (helper.make_node("Neg", ["x"], ["b"]),)
RESHAPED = (
    helper.make_node("Constant", [], ["three"], value=numpy_helper.from_array(np.array([1, 3]))),
    helper.make_node("Reshape", ["x", "three"], ["b"]),
)
X = np.array([[1, -2, 3, -4]], np.float32)


@pytest.mark.parametrize(("rate", "wanted"), [(16000, [[1, 0, 3, 0]]), (8000, [[-1, 2, -3, 4]])])
def test_a_bound_input_is_a_constant_and_its_branch_the_only_one(rate, wanted):
    graph = import_onnx(by_rate(NEGATED), Bindings({}, {"sr": rate}))
    assert (graph.inputs, len(graph.operators)) == (["x"], 1)
    assert np.array_equal(evaluate(graph, {"x": X})["y"], np.array(wanted, np.float32))


def test_a_branch_that_cannot_have_its_shape_is_left_out():
    with pytest.warns(UserWarning, match="If 'choice': its else_branch cannot run: .*--value sr="):
        graph = import_onnx(by_rate(RESHAPED))
    assert [op.op for op in graph.operators] == ["CLAMP"]
    assert np.array_equal(evaluate(graph, {"x": X, "sr": np.array(16000, np.int32)})["y"], np.maximum(X, 0))


def test_both_branches_that_cannot_run_are_an_error():
    model = by_rate(RESHAPED)
    for attribute in model.graph.node[2].attribute:
        if attribute.name == "then_branch":
            attribute.g.CopyFrom(branch("then", *RESHAPED))
    with pytest.raises(ModelError, match="Reshape 'b'"):
        import_onnx(model)


def test_a_value_of_a_name_that_is_no_input():
    with pytest.raises(InputError, match="--value rate: the model has no such input; its inputs: x, sr"):
        import_onnx(by_rate(NEGATED), Bindings({}, {"rate": 1}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1.0, 2.0], r"--value sr: 2 numbers for an input of shape \[\]: give one, or 1"),
        (0.5, "--value sr: the input is int64, which does not hold 0.5"),
    ],
)
def test_a_value_that_does_not_fit(given, message):
    with pytest.raises(InputError, match=message):
        import_onnx(by_rate(NEGATED), Bindings({}, {"sr": given}))


def test_an_input_of_a_tosa_graph_is_bound():
    tensors = {name: Tensor(name, (3,), DType.INT32) for name in "xyz"}
    graph = Graph("g", ["x", "y"], ["z"], tensors, [Operator("ADD", ["x", "y"], ["z"])])
    bind_values(graph, {"y": [10, 20, 30]})
    outputs = Session(graph, "emulator", "small").run({"x": np.array([1, 2, 3], np.int32)}, check=True)
    assert (graph.inputs, outputs["z"].tolist()) == (["x"], [11, 22, 33])
