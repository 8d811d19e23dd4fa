"""`tosaic import`, and ONNX models given to the other verbs."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tosaic.compiler.ir import DType, read_tosa


@pytest.fixture
def scaled_relu(here):
    """relu.onnx: relu(2 * x) for x fp32[N, 3, 4, 4]."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3, 4, 4]) for name in "xy")
    two = helper.make_tensor("two", TensorProto.FLOAT, [], [2.0])
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["scaled"], "double"),
        helper.make_node("Relu", ["scaled"], ["y"], "positive"),
    ]
    graph = helper.make_graph(nodes, "scaled_relu", [x], [y], [two])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "relu.onnx"
    )
    return here / "relu.onnx"


def test_import_writes_tosa(tosaic, scaled_relu):
    outcome = tosaic("import", scaled_relu, "-o", "relu.tosa", "--shape", "N=2")
    assert (outcome.code, outcome.err) == (0, "")
    graph = read_tosa(scaled_relu.with_suffix(".tosa").read_bytes())
    assert [op.op for op in graph.operators] == ["MUL", "CLAMP"]
    assert (graph.inputs, graph.outputs) == (["x"], ["y"])
    assert (graph.tensors["x"].shape, graph.tensors["x"].dtype) == ((2, 3, 4, 4), DType.FP32)


def test_open_dimension_is_asked_for(tosaic, scaled_relu):
    outcome = tosaic("import", scaled_relu, "-o", "relu.tosa")
    assert outcome.code == 1
    assert outcome.err == (
        "tosaic: error: input 'x': dimension 'N' is open, and TOSA needs static shapes; give --shape N=1\n"
    )


def test_onnx_runs_on_golden(tosaic, scaled_relu):
    x = np.random.default_rng(1).standard_normal((1, 3, 4, 4)).astype(np.float32)
    np.save("in.npy", x)
    arguments = ("run", scaled_relu, "-i", "x=in.npy", "-o", "out", "--on", "golden", "--shape", "x=1,3,4,4")
    outcome = tosaic(*arguments)
    assert (outcome.code, outcome.err) == (0, "")
    assert np.array_equal(np.load("out/y.npy"), np.maximum(2 * x, 0))


def test_check_names_the_onnx_nodes(tosaic, scaled_relu):
    outcome = tosaic("check", scaled_relu, "--shape", "N=1")
    assert outcome.code == 0
    assert outcome.out.splitlines()[1:4] == [
        "direct            Mul  double   MUL",
        "direct            Relu positive CLAMP",
        "2 operators in the source: 2 direct",
    ]
    assert "positive:CLAMP_0" in outcome.out


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (
            "N=0",
            "--shape N=0: write NAME=SIZE or NAME=SIZE,SIZE,... with positive sizes",
        ),
        ("M=1", "input 'x': dimension 'N' is open, and TOSA needs static shapes; give --shape N=1"),
        ("x=1,4,4,4", "--shape x: [1, 4, 4, 4] does not fit the declared shape ['N', 3, 4, 4]"),
    ],
)
def test_wrong_shapes(tosaic, scaled_relu, shape, message):
    outcome = tosaic("import", scaled_relu, "-o", "relu.tosa", "--shape", shape)
    assert (outcome.code, outcome.err) == (1, f"tosaic: error: {message}\n")


def test_damaged_file(tosaic, here):
    (here / "bad.onnx").write_bytes(b"no protobuf at all")
    outcome = tosaic("import", "bad.onnx", "-o", "bad.tosa")
    assert outcome.code == 1
    assert outcome.err.startswith("tosaic: error: bad.onnx is not an ONNX model")
    assert outcome.err.count("\n") == 1


def test_an_input_is_bound_to_a_value(tosaic, here):
    x, factor, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "factor", "y")
    )
    nodes = [helper.make_node("Mul", ["x", "factor"], ["y"])]
    graph = helper.make_graph(nodes, "scaled", [x, factor], [y])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "scaled.onnx"
    )
    outcome = tosaic("import", "scaled.onnx", "-o", "scaled.tosa", "--value", "factor=2,-3")
    assert (outcome.code, outcome.err) == (0, "")
    graph = read_tosa((here / "scaled.tosa").read_bytes())
    assert graph.inputs == ["x"]
    np.save("in.npy", np.array([5, 7], np.float32))
    arguments = ("run", "scaled.tosa", "-i", "x=in.npy", "-o", "out", "--on", "golden")
    assert tosaic(*arguments).code == 0
    assert np.load("out/y.npy").tolist() == [10, -21]
    outcome = tosaic("import", "scaled.onnx", "-o", "scaled.tosa", "--value", "factor=fast")
    assert outcome.err == "tosaic: error: --value factor=fast: write NAME=NUMBER or NAME=NUMBER,NUMBER,...\n"
