"""Operators of an encoded ONNX model that no pair encloses: what a convolution or product reads is not rounded anew."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_pairs import Pairs

from tosaic import Session
from tosaic.compiler.ir import DType
from tosaic.driver.quantize import import_encoded
from tosaic.sim.golden import evaluate

SHAPE = [1, 4, 8, 8]
_TIE = 1e-4


def source(p):
    return p.pair("x", 0.031, -10)


def behind(p, x, channels=4):
    """A convolution without a pair in front of it."""
    return p.model(SHAPE, p.pair(p.node("Conv", x, p.weight((4, channels, 1, 1))), 0.06, 3))


def pooled_relu(p):
    return behind(p, p.node("Relu", p.node("MaxPool", source(p), kernel_shape=[2, 2], strides=[2, 2])))


def maximum(p):
    return behind(p, p.node("Max", source(p), p.constant(np.float32(0))))


def flat_relu(p):
    x = p.node("Relu", p.node("Flatten", source(p)))
    return p.model(SHAPE, p.pair(p.node("Gemm", x, p.weight((12, 256)), transB=1), 0.09, -5))


def sliced(p):
    ends = (p.constant(np.array([value])) for value in (1, 3, 1))
    return behind(p, p.node("Slice", p.node("Relu", source(p)), *ends), 2)


def clip(p):
    """The upper bound lies between two integers."""
    return behind(p, p.node("Clip", source(p), p.constant(np.float32(0)), p.constant(np.float32(2.991))))


def average(p):
    return behind(p, p.node("AveragePool", source(p), kernel_shape=[2, 2], strides=[2, 2]))


def mean(p):
    return behind(p, p.node("GlobalAveragePool", source(p)))


def leaky(p):
    return behind(p, p.node("LeakyRelu", source(p), alpha=0.1))


def concat(p):
    a = source(p)
    b = p.pair(p.node("Conv", a, p.weight((4, 4, 1, 1))), 0.04, 9)
    return behind(p, p.node("Concat", a, b, axis=1), 8)


def total(p):
    a = source(p)
    return behind(p, p.node("Add", a, p.pair(p.node("Conv", a, p.weight((4, 4, 1, 1))), 0.04, 9)))


def two(p):
    return behind(p, p.node("Conv", source(p), p.weight((8, 4, 3, 3)), pads=[1] * 4), 8)


def resize(p):
    factors = p.constant(np.float32([1, 1, 2, 2]))
    return p.model(SHAPE, p.pair(p.node("Resize", source(p), "", factors, mode="linear"), 0.0173, -3))


def differences(model, samples=6):
    """(differences from ONNX Runtime in steps, which of them are not ties) of all outputs of random inputs."""
    quantized = import_encoded(model)
    quantize = [node for node in model.graph.node if node.op_type == "QuantizeLinear"][-1]
    before = helper.make_tensor_value_info(quantize.input[0], TensorProto.FLOAT, None)
    model.graph.output.append(before)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    source, result = quantized.inputs["x"], quantized.outputs["y"]
    steps, plain = [], []
    for seed in range(samples):
        x = (1.6 * np.random.default_rng(seed).standard_normal(SHAPE)).astype(np.float32)
        wanted, real = session.run(None, {"x": x})
        got = evaluate(quantized.graph, {"x": source.quantize(x)})["y"].astype(int)
        integers = np.rint(wanted / result.scale + result.zero_point).astype(int)
        steps.append(np.abs(got - integers).reshape(-1))
        fraction = np.abs(np.modf(real.astype(np.float64) / result.scale)[0]).reshape(-1)
        plain.append((steps[-1] > 0) & (np.abs(fraction - 0.5) > _TIE))
    return np.concatenate(steps), np.concatenate(plain)


@pytest.mark.parametrize("network", [pooled_relu, maximum, flat_relu, sliced, mean, resize])
def test_what_keeps_the_grid_is_exact_but_for_ties(network):
    steps, plain = differences(network(Pairs()))
    assert steps.max() <= 1
    assert plain.sum() == 0


@pytest.mark.parametrize("network", [clip, average, leaky, concat, total, two])
def test_what_leaves_the_grid_is_read_in_16_bits(network):
    """In 8 bits 0.8 to 45 % of the integers differ, by up to 10 steps."""
    model = network(Pairs())
    graph = import_encoded(model).graph
    last = [op for op in graph.operators if op.op == "CONV2D"][-1]
    assert graph.tensors[last.inputs[0]].dtype is DType.INT16
    steps, plain = differences(model)
    assert steps.max() <= 1
    assert plain.mean() < (0.015 if network is two else 0.005)


def test_biases_are_the_models_own():
    """A channel whose weights share a factor, or are zero, has no coarser step for its bias."""
    p = Pairs()
    values = p.random.integers(-127, 128, (8, 4, 3, 3), dtype=np.int8)
    values[:4] = values[:4] // 42 * 42
    values[4:6] = 0
    values[4, 1, 1, 1] = 100
    scales, unit = np.full(8, 0.02, np.float32), np.float32(0.031) * np.float32(0.02)
    weight = p.node(
        "DequantizeLinear", *(p.constant(c) for c in (values, scales, np.zeros(8, np.int8))), axis=0
    )
    integers = p.random.integers(-3000, 3000, 8, dtype=np.int32)
    bias = p.node("DequantizeLinear", *(p.constant(c) for c in (integers, np.full(8, unit))), axis=0)
    model = p.model(SHAPE, p.pair(p.node("Conv", source(p), weight, bias, pads=[1] * 4), 0.07, -15))
    steps, plain = differences(model)
    assert steps.max() <= 1
    assert plain.sum() == 0


@pytest.mark.parametrize("level", [-3.5, 3.5])
def test_means_near_the_ends_of_an_encoding_do_not_saturate(level):
    """Random values have means near the middle; a real image may be white."""
    model = mean(Pairs())
    quantized = import_encoded(model)
    x = np.full(SHAPE, level, np.float32)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    result = quantized.outputs["y"]
    got = evaluate(quantized.graph, {"x": quantized.inputs["x"].quantize(x)})["y"]
    assert np.array_equal(got, np.rint(wanted / result.scale + result.zero_point))


def test_an_encoded_operand_of_a_product_stays_as_it_is():
    """Both operands of a MATMUL have one type: one that has no pair takes the other's."""
    p = Pairs()
    x = source(p)
    model = p.model(SHAPE, p.pair(p.node("MatMul", x, p.node("Sigmoid", x)), 0.05, 0))
    graph = import_encoded(model).graph
    (product,) = (op for op in graph.operators if op.op == "MATMUL")
    assert [graph.tensors[name].dtype for name in product.inputs[:2]] == [DType.INT8, DType.INT8]


def test_the_accelerator_computes_the_same():
    for network in (leaky, resize):
        graph = import_encoded(network(Pairs())).graph
        session = Session(graph, target="emulator")
        session.run({"x": np.random.default_rng(1).integers(-128, 128, SHAPE, dtype=np.int8)}, check=True)
