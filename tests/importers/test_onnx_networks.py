"""Whole ONNX networks against the reference evaluator: layers together, layout, quantized integers."""

import collections
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_node_cases import differs, first_data_set, imported, run_model

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.driver.session import Session
from tosaic.errors import UnsupportedError
from tosaic.install import install_command
from tosaic.sim.golden import evaluate

RANDOM = np.random.default_rng(7)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def build(nodes, shape, outputs, constants, kind=TensorProto.FLOAT, opset=17):
    graph = helper.make_graph(
        [helper.make_node(op, inputs, results, **attributes) for op, inputs, results, attributes in nodes],
        "network",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(name, of, None) for name, of in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def residual_network():
    """Convolution with a remainder, batch normalization, a branch, groups, pools, concatenation, a classifier."""
    constants = {
        "w1": normal(8, 3, 3, 3),
        "b1": normal(8),
        "scale": normal(8),
        "shift": normal(8),
        "mean": normal(8),
        "variance": np.abs(normal(8)) + 1,
        "w2": normal(8, 1, 3, 3),
        "w3": normal(8, 4, 1, 1),
        "wf": normal(16, 5),
        "bf": normal(5),
    }
    nodes = [
        ("Conv", ["x", "w1", "b1"], ["c1"], {"strides": [2, 2], "pads": [1, 0, 1, 2]}),
        ("BatchNormalization", ["c1", "scale", "shift", "mean", "variance"], ["n1"], {}),
        ("Relu", ["n1"], ["r1"], {}),
        ("Conv", ["r1", "w2"], ["c2"], {"group": 8, "auto_pad": "SAME_LOWER"}),
        ("Conv", ["c2", "w3"], ["c3"], {"group": 2}),
        ("Add", ["c3", "r1"], ["sum"], {}),
        ("MaxPool", ["sum"], ["p1"], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
        ("AveragePool", ["sum"], ["p2"], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
        ("Concat", ["p1", "p2"], ["both"], {"axis": 1}),
        ("GlobalAveragePool", ["both"], ["g"], {}),
        ("Flatten", ["g"], ["flat"], {}),
        ("Gemm", ["flat", "wf", "bf"], ["logits"], {}),
        ("Softmax", ["logits"], ["y"], {}),
    ]
    return build(nodes, [2, 3, 11, 14], [("y", TensorProto.FLOAT), ("sum", TensorProto.FLOAT)], constants)


def test_residual_network():
    model = residual_network()
    graph = import_onnx(model)
    x = normal(2, 3, 11, 14)
    got = evaluate(graph, {"x": x})
    wanted = ReferenceEvaluator(model).run(None, {"x": x})
    for name, value in zip(("y", "sum"), wanted, strict=True):
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)


def test_transposes_stand_at_the_borders_only():
    operators = collections.Counter(op.op for op in import_onnx(residual_network()).operators)
    # The input, and the output `sum` in the middle: what follows the global pool has no pixels to move.
    assert operators["TRANSPOSE"] == 2
    assert operators["DEPTHWISE_CONV2D"] == 1


def quantized_network():
    """Two QLinearConv of uint8 with a pool and a matrix product in between and after."""
    scales = {
        name: np.float32(value) for name, value in {"sx": 0.02, "sw": 0.01, "s1": 0.05, "s2": 0.04}.items()
    }
    constants = {
        **scales,
        "zx": np.uint8(120),
        "zw": np.int8(0),
        "z1": np.uint8(100),
        "z2": np.uint8(130),
        "w1": RANDOM.integers(-127, 128, (8, 3, 3, 3), np.int8),
        "b1": RANDOM.integers(-1000, 1000, 8, np.int32),
        "w2": RANDOM.integers(-127, 128, (4, 8, 1, 1), np.int8),
    }
    first = ["x", "sx", "zx", "w1", "sw", "zw", "s1", "z1", "b1"]
    nodes = [
        ("QLinearConv", first, ["a"], {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("MaxPool", ["a"], ["p"], {"kernel_shape": [2, 2]}),
        ("QLinearConv", ["p", "s1", "z1", "w2", "sw", "zw", "s2", "z2"], ["y"], {}),
    ]
    return build(nodes, [1, 3, 8, 8], [("y", TensorProto.UINT8)], constants, TensorProto.UINT8)


def test_quantized_network_on_the_accelerator():
    """The emulator equals golden; ONNX rounds ties to even, which may be one step away."""
    model = quantized_network()
    x = RANDOM.integers(0, 256, (1, 3, 8, 8), np.uint8)
    session = Session(import_onnx(model), target="emulator", config="base")
    got = session.run({"x": x.view(np.int8)}, check=True)["y"].view(np.uint8)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    assert np.abs(got.astype(int) - wanted.astype(int)).max() <= 1
    assert np.mean(got == wanted) > 0.95


def exports():
    from onnx.backend.test.loader import load_model_tests

    found = [*load_model_tests(kind="pytorch-converted"), *load_model_tests(kind="pytorch-operator")]
    return {case.name: case for case in found}


@pytest.mark.parametrize("name", sorted(exports()))
def test_pytorch_export(name):
    """Real exports of opset 6 and later, converted to opset 7 by the package; double precision is refused."""
    case = exports()[name]
    model, _, _ = first_data_set(case)
    if any(value.type.tensor_type.elem_type == TensorProto.DOUBLE for value in model.graph.input):
        with pytest.raises(UnsupportedError, match="has data type float64"):
            run_model(case)
        return
    for result in run_model(case):
        assert differs(result, case.rtol, max(case.atol, 1e-5)) is None


def test_loop_is_unrolled():
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["still"]),
            helper.make_node("Mul", ["carried", "two"], ["doubled"]),
            helper.make_node("Identity", ["doubled"], ["seen"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("trip", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", TensorProto.FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("doubled", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("seen", TensorProto.FLOAT, [2]),
        ],
    )
    constants = {"trips": np.array(3, np.int64), "true": np.array(True), "two": np.float32(2)}
    outputs = [("y", TensorProto.FLOAT), ("all", TensorProto.FLOAT)]
    model = build([("Loop", ["trips", "true", "x"], ["y", "all"], {"body": body})], [2], outputs, constants)
    x = np.array([1, -3], np.float32)
    got = evaluate(imported(model, {"x": x})[0], {"x": x})
    assert np.array_equal(got["y"], 8 * x)
    assert np.array_equal(got["all"], [2 * x, 4 * x, 8 * x])


def test_if_of_a_run_time_condition_selects():
    def branch(op, name):
        result = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
        return helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [result])

    nodes = [
        ("ReduceSum", ["x"], ["sum"], {"keepdims": 0}),
        ("Greater", ["sum", "zero"], ["positive"], {}),
        ("If", ["positive"], ["y"], {"then_branch": branch("Neg", "a"), "else_branch": branch("Exp", "b")}),
    ]
    graph = import_onnx(build(nodes, [2], [("y", TensorProto.FLOAT)], {"zero": np.float32(0)}))
    for x in (np.array([1, 2], np.float32), np.array([-1, -2], np.float32)):
        wanted = -x if x.sum() > 0 else np.exp(x)
        np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], wanted, rtol=1e-6)


def test_without_the_package(monkeypatch, tmp_path):
    """One line that says how to install it."""
    import sys

    onnx.save(residual_network(), tmp_path / "m.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UnsupportedError, match=re.escape(install_command("onnx"))):
        import_onnx(tmp_path / "m.onnx")
