"""ONNX models that bring their encodings (QuantizeLinear, DequantizeLinear): to integers, as the model says."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_pairs import Pairs

from tosaic import Session
from tosaic.compiler.ir import DType
from tosaic.driver.quantize import import_encoded, probes
from tosaic.sim.golden import evaluate


def convolutions(p):
    x = p.pair("x", 0.03, -10)
    x = p.node(
        "Conv",
        x,
        p.weight((8, 3, 3, 3)),
        p.constant(p.random.standard_normal(8).astype(np.float32)),
        pads=[1] * 4,
    )
    x = p.pair(p.node("Relu", x), 0.05, -128)
    x = p.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    skip = p.pair(x, 0.05, -128)
    x = p.pair(p.node("Conv", skip, p.weight((8, 1, 3, 3)), group=8, pads=[1] * 4), 0.08, 5)
    x = p.pair(p.node("Add", x, skip), 0.09, -40)
    x = p.pair(p.node("GlobalAveragePool", x), 0.03, -20)
    x = p.node("Flatten", x)
    x = p.pair(p.node("MatMul", x, p.weight((8, 5), 1)), 0.02, 3)
    return p.model([2, 3, 8, 8], x)


def products(p):
    x = p.pair(p.node("Reshape", "x", p.constant(np.array([2, 4, 6]))), 0.03, 7)
    y = p.pair(p.node("Sigmoid", x), 1 / 256, -128)
    x = p.pair(p.node("Mul", x, y), 0.02, -9)
    x = p.pair(p.node("MatMul", x, p.node("Transpose", y, perm=[0, 2, 1])), 0.03, 0)
    x = p.pair(p.node("Concat", x, x, axis=2), 0.03, 0)
    return p.model([2, 24], p.pair(p.node("HardSwish", x), 0.025, -100))


def attention(p):
    x = p.pair("x", 0.03, 2)
    norm = p.node(
        "LayerNormalization",
        x,
        *(p.constant(p.random.uniform(0.5, 1.5, 16).astype(np.float32)) for _ in "gb"),
    )
    x = p.pair(norm, 0.03, -5)
    q, k = (p.pair(p.node("MatMul", x, p.weight((16, 16), 1, 0.002)), 0.02, 1) for _ in "qk")
    scores = p.pair(p.node("MatMul", q, p.node("Transpose", k, perm=[0, 2, 1])), 0.03, 4)
    weights = p.pair(p.node("Softmax", scores, axis=-1), 1 / 256, -128)
    return p.model([1, 6, 16], p.pair(p.node("MatMul", weights, x), 0.015, 0))


def trained_unfused(p):
    """Quantization-aware training of modules that are not fused: the Relu has no pair of its own."""
    x = p.pair("x", 0.03, -10)
    x = p.pair(p.node("Conv", x, p.weight((8, 3, 3, 3)), pads=[1] * 4), 0.07, -15)
    x = p.node("Relu", x)
    return p.model([1, 3, 8, 8], p.pair(p.node("Conv", x, p.weight((4, 8, 1, 1))), 0.06, 3))


def test_a_relu_behind_a_pair_keeps_its_grid():
    """max(q, zero point): no integer is rounded anew."""
    graph = import_encoded(trained_unfused(Pairs())).graph
    assert [op.op for op in graph.operators if op.op not in ("TRANSPOSE", "CONV2D")] == [
        "RESCALE",
        "CLAMP",
        "RESCALE",
    ]
    (clamp,) = (op for op in graph.operators if op.op == "CLAMP")
    assert (clamp.attributes["min_val"], clamp.attributes["max_val"]) == (-15, 127)


def test_nothing_between_pairs_is_computed_to_open_a_model(monkeypatch):
    """A network of convolutions needs no ranges but those of its pairs."""
    monkeypatch.setattr(probes, "evaluate", None)
    assert import_encoded(convolutions(Pairs())).graph.inputs == ["x"]


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("network", "steps"), [(convolutions, 1), (products, 1), (trained_unfused, 1), (attention, 3)]
)
def test_integers_are_those_of_the_model(network, steps, kind):
    """ONNX rounds ties to even, TOSA upwards: one step after another. Softmax and norms are approximations."""
    model = network(Pairs(kind))
    quantized = import_encoded(model)
    source, result = quantized.inputs["x"], quantized.outputs["y"]
    assert all(not tensor.dtype.is_float for tensor in quantized.graph.tensors.values())
    assert quantized.graph.tensors["x"].dtype is DType.INT8
    shape = quantized.graph.tensors["x"].shape
    equal, total = 0, 0
    for seed in range(6):
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
        got = evaluate(quantized.graph, {"x": source.quantize(x)})["y"].astype(int)
        difference = got - np.rint(wanted / result.scale + result.zero_point).astype(int)
        assert np.abs(difference).max() <= steps
        equal, total = equal + (difference == 0).sum(), total + difference.size
    assert equal / total > (0.98 if steps == 1 else 0.6)
    session = Session(quantized.graph, target="emulator", keep_layers=True)
    session.run({"x": source.quantize(x)}, check=True)


@pytest.mark.parametrize(("zero", "low", "high"), [(0, -128, 128), (140, 0, 256), (3, -100, 100)])
def test_weights_with_zero_points(zero, low, high):
    """int8 down to -128, uint8 and int8 with a zero point of their own: the very integers, and TOSA's weight_zp."""
    p = Pairs()
    kind = np.uint8 if low == 0 else np.int8
    values = p.random.integers(low, high, (4, 3, 3, 3)).astype(kind)
    values[0, 0, 0, :2] = low, high - 1
    parameters = (p.constant(np.float32(0.004)), p.constant(kind(zero)))
    weight = p.node("DequantizeLinear", p.constant(values), *parameters)
    model = p.model([1, 3, 6, 6], p.pair(p.node("Conv", p.pair("x", 0.02, 1), weight), 0.05, 0))
    quantized = import_encoded(model)
    (conv,) = (op for op in quantized.graph.operators if op.op == "CONV2D")
    held = quantized.graph.tensors[conv.inputs[1]].data.astype(int)
    zero_point = int(quantized.graph.tensors[conv.inputs[4]].data[0])
    assert np.array_equal(held - zero_point, values.transpose(0, 2, 3, 1).astype(int) - zero)
    session = Session(quantized.graph, target="emulator")
    session.run({"x": np.random.default_rng(1).integers(-128, 128, (1, 3, 6, 6), dtype=np.int8)}, check=True)


def test_session_takes_the_file(tmp_path):
    onnx.save(convolutions(Pairs()), tmp_path / "net.onnx")
    session = Session(tmp_path / "net.onnx", target="emulator")
    assert session.inputs[0].encoding.scale == pytest.approx(0.03)
    assert session.inputs[0].encoding.zero_point == -10
    assert session.outputs[0].encoding.zero_point == 3
    session.run({"x": np.zeros((2, 3, 8, 8), np.int8)}, check=True)


def test_models_without_pairs_are_not_touched():
    p = Pairs()
    assert import_encoded(p.model([2, 3], p.node("Exp", "x"))) is None
