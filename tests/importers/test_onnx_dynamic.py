"""Dynamically quantized models: layers in reals, beside what ONNX Runtime computes of them."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from tosaic import Session
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.driver.quantize import quantize_graph
from tosaic.errors import ModelError, UnsupportedError
from tosaic.sim.golden import evaluate

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]


def made(nodes, inputs, outputs, constants):
    """A model of opset 17."""

    def info(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes,
        "dynamic",
        [info(name, shape) for name, shape in inputs.items()],
        [info(name, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=8)


def network(random):
    """A convolution, a biLSTM over time, a dense layer."""

    def weights(*shape):
        return random.normal(0, 0.3, shape).astype(np.float32)

    nodes = [
        helper.make_node("Conv", ["x", "k"], ["a"], kernel_shape=[3], pads=[1, 1]),
        helper.make_node("Transpose", ["a"], ["t"], perm=[2, 0, 1]),
        helper.make_node("LSTM", ["t", "w", "r", "b"], ["y", "h"], hidden_size=8, direction="bidirectional"),
        helper.make_node("Transpose", ["h"], ["u"], perm=[1, 0, 2]),
        helper.make_node("Flatten", ["u"], ["f"], axis=1),
        helper.make_node("MatMul", ["f", "d"], ["out"]),
    ]
    constants = {
        "k": weights(6, 5, 3),
        "w": weights(2, 32, 6),
        "r": weights(2, 32, 8),
        "b": weights(2, 64),
        "d": weights(16, 4),
    }
    return made(nodes, {"x": [1, 5, 7]}, ["out"], constants)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
def test_as_near_as_onnx_runtimes_rounding(per_channel, kind, tmp_path):
    random = np.random.default_rng(5)
    source, path = tmp_path / "float.onnx", tmp_path / "dynamic.onnx"
    source.write_bytes(network(random).SerializeToString())
    quantize_dynamic(
        source,
        path,
        per_channel=per_channel,
        weight_type=kind,
        op_types_to_quantize=["Conv", "LSTM", "MatMul"],
    )
    session = onnxruntime.InferenceSession(str(path))
    graph = import_onnx(path)
    x = random.normal(0, 1, (20, 1, 5, 7)).astype(np.float32)
    wanted = np.concatenate([session.run(None, {"x": each})[0] for each in x])
    found = np.concatenate([evaluate(graph, {"x": each})["out"] for each in x])
    error = np.square(found - wanted).sum() / np.square(wanted).sum()
    assert 10 * np.log10(1 / error) > 30
    # The weights are those of the file: ONNX Runtime's float network differs by what 8 bits leave of them.
    assert np.abs(found - wanted).max() > 0


def test_weights_are_exact(tmp_path):
    random = np.random.default_rng(6)
    whole, zero_point = random.integers(0, 256, (6, 4)).astype(np.uint8), np.uint8(117)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["i"]),
        helper.make_node("Cast", ["i"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "ws"], ["m"]),
        helper.make_node("Mul", ["c", "m"], ["y"]),
    ]
    scale = np.float32(0.02)
    graph = import_onnx(made(nodes, {"x": [3, 6]}, ["y"], {"w": whole, "wz": zero_point, "ws": scale}))
    x = random.normal(0, 1, (3, 6)).astype(np.float32)
    wanted = x @ ((whole.astype(np.float32) - 117) * scale)
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], wanted, rtol=1e-5, atol=1e-5)


def test_it_can_be_quantized(tmp_path):
    random = np.random.default_rng(7)
    source, path = tmp_path / "float.onnx", tmp_path / "dynamic.onnx"
    source.write_bytes(network(random).SerializeToString())
    quantize_dynamic(source, path, op_types_to_quantize=["Conv", "LSTM", "MatMul"])
    samples = random.normal(0, 1, (16, 1, 5, 7)).astype(np.float32)
    result = quantize_graph(import_onnx(path), {"x": samples}).result
    session = Session(result, target="emulator", config="nano")
    sample = random.normal(0, 1, (1, 5, 7)).astype(np.float32)
    session.run({"x": result.inputs["x"].quantize(sample)}, check=True)


def test_a_zero_point_that_something_else_reads_stays():
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["i"]),
        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["z"], ["n"], to=TensorProto.FLOAT),
    ]
    weights = np.ones((4, 3), np.int8)
    with pytest.raises(UnsupportedError, match="dynamically quantized models.*tosaic quantize"):
        import_onnx(made(nodes, {"x": [2, 4]}, ["y", "n"], {"w": weights}))


def test_weights_that_contradict_their_scales():
    constants = {
        "w": np.ones((1, 3, 8), np.int8),
        "r": np.ones((1, 2, 8), np.int8),
        "s": np.ones((1, 5), np.float32),
        "z": np.zeros(1, np.int8),
    }
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        ["x", "w", "r", "", "", "", "", "", "s", "z", "s", "z"],
        ["y"],
        hidden_size=2,
        domain="com.microsoft",
    )
    with pytest.raises(ModelError, match="DynamicQuantizeLSTM"):
        import_onnx(made([node], {"x": [4, 1, 3]}, ["y"], constants))


@pytest.mark.parametrize("per_channel", [False, True])
def test_as_onnx_runtimes_optimizer_writes_it(per_channel, tmp_path):
    """DynamicQuantizeMatMul and MatMulIntegerToFloat, with and without a bias: the same reals as before."""
    random = np.random.default_rng(3)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "c"], ["b"]),
        helper.make_node("Relu", ["b"], ["d"]),
        helper.make_node("MatMul", ["d", "v"], ["e"]),
        helper.make_node("MatMul", ["d", "u"], ["f"]),
        helper.make_node("Add", ["f", "e"], ["y"]),
    ]
    shapes = {"w": (16, 8), "c": (8,), "v": (8, 6), "u": (8, 6)}
    constants = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    float_path, plain, optimized = (tmp_path / f"{name}.onnx" for name in ("float", "plain", "optimized"))
    float_path.write_bytes(made(nodes, {"x": [4, 16]}, ["y"], constants).SerializeToString())
    quantize_dynamic(float_path, plain, per_channel=per_channel)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(optimized)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(str(plain), options, providers=["CPUExecutionProvider"])
    feeds = {"x": random.standard_normal((4, 16)).astype(np.float32)}
    wanted, result = (evaluate(import_onnx(path), feeds)["y"] for path in (plain, optimized))
    assert b"MatMulIntegerToFloat" in optimized.read_bytes()
    np.testing.assert_allclose(result, wanted, atol=1e-5)
