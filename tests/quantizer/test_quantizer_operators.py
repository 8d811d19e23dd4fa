"""Every float operator that importers write, in integers: close to the floats, and bit-exact on the accelerator."""

import math

import numpy as np
import pytest
from float_networks import (
    IMAGE,
    Floats,
    activations,
    quantize_graph,
    run_everywhere,
    samples,
    statistics,
    worst_db,
)

from tosaic.compiler.importers.lowering import convolution, pooling
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.ir import DType

NETWORKS = {}


def network(function):
    """Registers a network: a function from Floats to outputs."""
    NETWORKS[function.__name__] = function
    return function


def _convolve(low, x, out, groups=1, kernel=3, bias=True, **window):
    channels = low.shape(x)[-1]
    spatial = low.rank(x) - 2
    weight = low.normal(out, *(kernel,) * spatial, channels // groups, scale=0.3)
    return convolution.convolve(
        low,
        x,
        weight,
        low.normal(out) if bias else None,
        [AxisWindow(kernel, before=1, after=1, **window)] * spatial,
        groups,
    )


@network
def conv2d_relu(low):
    return activations.relu(low, _convolve(low, low.input("x", IMAGE), 5))


@network
def conv2d_relu6(low):
    return low.clamp(_convolve(low, low.input("x", IMAGE), 5), 0.0, 2.0)


@network
def conv_with_batch_norm(low):
    y = _convolve(low, low.input("x", IMAGE), 8)
    y = low.add(low.mul(y, low.normal(1, 1, 1, 8)), low.normal(1, 1, 1, 8))
    return _convolve(low, activations.relu(low, y), 4)


@network
def depthwise_conv2d(low):
    return activations.relu(low, _convolve(low, low.input("x", IMAGE), 8, groups=8, dilation=1))


@network
def depthwise_multiplier(low):
    return _convolve(low, low.input("x", IMAGE), 16, groups=8, stride=2)


@network
def grouped_conv(low):
    return _convolve(low, low.input("x", IMAGE), 6, groups=2)


@network
def conv3d(low):
    return _convolve(low, low.input("x", (1, 4, 4, 4, 3)), 5)


@network
def conv1d(low):
    return _convolve(low, low.input("x", (1, 12, 6)), 5)


@network
def transpose_conv2d(low):
    x = low.input("x", (1, 4, 5, 6))
    return convolution.transpose_convolve(
        low, x, low.normal(3, 3, 3, 6, scale=0.3), low.normal(3), [AxisWindow(3, stride=2)] * 2
    )


@network
def fully_connected(low):
    y = matmul(low, low.input("x", (3, 20)), low.normal(20, 7))
    return low.add(y, low.normal(7))


@network
def matmul_of_two(low):
    return matmul(low, low.input("a", (2, 3, 5, 6)), low.input("b", (2, 3, 6, 4)))


@network
def matmul_constant_left(low):
    return matmul(low, low.normal(5, 6), low.input("b", (2, 6, 4)))


@network
def residual_add(low):
    x = activations.relu(low, _convolve(low, low.input("x", IMAGE), 8))
    return activations.relu(low, low.add(_convolve(low, x, 8), x))


@network
def arithmetic_broadcast(low):
    x, y = low.input("x", (2, 5, 6)), low.input("y", (2, 1, 6))
    return low.sub(low.mul(low.add(x, y), y), low.times(low.maximum(x, y), 0.7))


@network
def minimum_of_two(low):
    return low.minimum(low.input("x", (2, 5, 6)), low.input("y", (1, 5, 6)))


@network
def scale_per_channel_mixed_signs(low):
    return low.add(low.mul(low.input("x", (3, 8)), low.normal(8)), low.normal(8))


@network
def scale_per_row(low):
    return low.mul(low.input("x", (3, 4, 8)), low.normal(4, 1))


@network
def squeeze_and_excite(low):
    x = activations.relu(low, _convolve(low, low.input("x", IMAGE), 8))
    gate = pooling.average_pool(low, x, [AxisWindow(6), AxisWindow(6)])
    gate = low.op("SIGMOID", _convolve(low, gate, 8))
    return _convolve(low, low.mul(x, gate), 4)


@network
def abs_negate(low):
    x = low.input("x", (3, 8))
    return low.add(low.op("ABS", x), low.negate(low.times(x, 0.5)))


@network
def average_pool(low):
    return pooling.average_pool(low, low.input("x", IMAGE), [AxisWindow(3, stride=2, before=1, after=1)] * 2)


@network
def average_pool_counting_padding(low):
    window = AxisWindow(3, stride=1, before=1, after=1)
    return pooling.average_pool(low, low.input("x", IMAGE), [window] * 2, count_padding=True)


@network
def global_average(low):
    return low.reshape(low.mean(_convolve(low, low.input("x", IMAGE), 8), [1, 2]), (1, 8))


@network
def max_pool(low):
    y = _convolve(low, low.input("x", IMAGE), 8)
    return pooling.max_pool(low, y, [AxisWindow(3, stride=2, before=1, after=1)] * 2)


@network
def reduce_sum_max_min(low):
    x = low.input("x", (3, 4, 8))
    return low.add(low.add(low.reduce("SUM", x, [1]), low.reduce("MAX", x, [1])), low.reduce("MIN", x, [1]))


@network
def layout(low):
    x = low.input("x", (1, 4, 6, 8))
    y = low.transpose(low.pad(x, [(0, 0), (1, 0), (0, 2), (0, 0)], 0.5), (0, 3, 1, 2))
    y = low.tile(low.reverse(low.slice_axis(y, 1, 2, 4), 2), (1, 2, 1, 1))
    return _convolve(low, low.concat([y, low.times(y, 3.0)], 2), 4)


@network
def concat_of_ranges(low):
    x = low.input("x", IMAGE)
    a, b = _convolve(low, x, 4), low.times(_convolve(low, x, 4), 5.0)
    return _convolve(low, activations.relu(low, low.concat([a, b], 3)), 4)


@network
def embedding(low):
    rows = low.gather(low.normal(9, 8), 0, low.input("index", (5,), DType.INT32))
    return low.add(low.input("x", (5, 8)), rows)


@network
def resize_nearest(low):
    x = low.input("x", (1, 3, 4, 5))
    shapes = [low.build.shape(values) for values in ([4, 2, 4, 2], [0, 0], [2, 2])]
    return low.op("RESIZE", x, *shapes, dtype=DType.FP32, mode="NEAREST")


@network
def resize_bilinear(low):
    x = activations.relu(low, _convolve(low, low.input("x", IMAGE), 5))
    shapes = [low.build.shape(values) for values in ([4, 2, 4, 2], [0, 0], [2, 2])]
    return low.op("RESIZE", x, *shapes, dtype=DType.FP32, mode="BILINEAR")


@network
def softmax(low):
    return statistics.softmax(low, low.times(low.input("x", (4, 20)), 3.0), [1])


@network
def softmax_over_many(low):
    return statistics.softmax(low, low.input("x", (2, 700)), [1])


@network
def log_softmax(low):
    return statistics.log_softmax(low, low.input("x", (4, 10)), [1])


@network
def layer_norm(low):
    y, _, _ = statistics.standardize(low, low.times(low.input("x", (4, 32)), 4.0), [1], 1e-5)
    return low.add(low.mul(y, low.normal(32)), low.normal(32))


@network
def layer_norm_by_square_root(low):
    x = low.input("x", (4, 32))
    centred = low.sub(x, low.mean(x, [1]))
    deviation = low.sqrt(low.plus(low.mean(low.mul(centred, centred), [1]), 1e-12))
    return low.div(centred, deviation)


@network
def layer_norm_of_small_and_empty_rows(low):
    """The row of zeros stays zero, the small row is as precise as the large ones."""
    rows = low.mul(low.input("x", (4, 32)), low.constant([[1.0], [0.0], [0.03], [5.0]], DType.FP32))
    y, _, _ = statistics.standardize(low, rows, [1], 1e-6)
    return y


@network
def three_transformer_blocks(low):
    x = low.input("x", (6, 16))
    for _ in range(3):
        y, _, _ = statistics.standardize(low, x, [1], 1e-5)
        q, k, v = (matmul(low, y, low.normal(16, 16, scale=0.3)) for _ in "qkv")
        scores = low.times(matmul(low, q, low.transpose(k, (1, 0))), 0.25)
        x = low.add(x, matmul(low, statistics.softmax(low, scores, [1]), v))
        y, _, _ = statistics.standardize(low, x, [1], 1e-5)
        y = activations.gelu(low, matmul(low, y, low.normal(16, 32, scale=0.3)), tanh=True)
        x = low.add(x, matmul(low, y, low.normal(32, 16, scale=0.3)))
    return x


@network
def rms_norm(low):
    x = low.input("x", (4, 32))
    squares = low.plus(low.mean(low.mul(x, x), [1]), 1e-6)
    return low.mul(low.mul(x, low.op("RSQRT", squares)), low.normal(32))


@network
def attention_with_mask(low):
    x = low.input("x", (1, 6, 16))
    q, k, v = (
        low.transpose(low.reshape(matmul(low, x, low.normal(16, 16, scale=0.4)), (6, 2, 8)), (1, 0, 2))
        for _ in "qkv"
    )
    scores = low.times(matmul(low, q, low.transpose(k, (0, 2, 1))), 8**-0.5)
    mask = np.triu(np.full((1, 6, 6), -1e9), 1)
    weights = statistics.softmax(low, low.add(scores, low.constant(mask, DType.FP32)), [2])
    mixed = low.reshape(low.transpose(matmul(low, weights, v), (1, 0, 2)), (1, 6, 16))
    return matmul(low, mixed, low.normal(16, 8, scale=0.4))


@network
def masked_by_selection(low):
    x, keep = low.input("x", (3, 8)), low.input("keep", (3, 8), DType.BOOL)
    low_value = low.constant(np.full((1, 1), -math.inf), DType.FP32)
    kept = low.op("LOGICAL_OR", keep, low.constant(np.eye(1, 8, dtype=bool), DType.BOOL))
    return statistics.softmax(low, low.select(kept, x, low_value), [1])


@network
def prelu_per_channel(low):
    y = _convolve(low, low.input("x", IMAGE), 4)
    return activations.leaky_relu(low, y, low.constant([[[[0.1, 0.3, -0.2, 0.5]]]], DType.FP32))


@network
def comparison(low):
    x, y = low.input("x", (3, 8)), low.input("y", (3, 8))
    return low.select(low.greater(x, low.plus(y, 0.5)), low.times(x, 2.0), y)


@network
def two_outputs(low):
    x = activations.relu(low, _convolve(low, low.input("x", IMAGE), 4))
    return x, low.reduce("SUM", _convolve(low, x, 3), [1, 2])


@network
def input_is_output(low):
    x = low.input("x", (2, 4))
    return x, low.op("TANH", x)


@network
def reciprocal_of_wide_range(low):
    x = low.op("EXP", low.times(low.input("x", (4, 16)), 1.5))
    total = low.reduce("SUM", x, [1])
    return low.div(x, total)


@network
def mobilenet_v3_blocks(low):
    x = low.input("x", IMAGE)
    for _ in range(3):
        y = _convolve(low, x, 24, kernel=3)
        y = low.mul(y, activations.hard_sigmoid(low, y, 1 / 6, 0.5))
        y = _convolve(low, y, 24, groups=24)
        y = low.mul(y, activations.hard_sigmoid(low, y, 1 / 6, 0.5))
        g = pooling.average_pool(low, y, [AxisWindow(6), AxisWindow(6)])
        g = activations.relu(
            low,
            convolution.convolve(
                low, g, low.normal(6, 1, 1, 24, scale=0.3), low.normal(6), [AxisWindow(1)] * 2
            ),
        )
        g = activations.hard_sigmoid(
            low,
            convolution.convolve(
                low, g, low.normal(24, 1, 1, 6, scale=0.3), low.normal(24), [AxisWindow(1)] * 2
            ),
            1 / 6,
            0.5,
        )
        x = low.add(
            x,
            convolution.convolve(
                low, low.mul(y, g), low.normal(8, 1, 1, 24, scale=0.3), low.normal(8), [AxisWindow(1)] * 2
            ),
        )
    return x


@network
def inverted_residuals(low):
    x = low.input("x", IMAGE)
    for _ in range(4):
        y = low.clamp(
            convolution.convolve(
                low, x, low.normal(32, 1, 1, 8, scale=0.4), low.normal(32), [AxisWindow(1)] * 2
            ),
            0,
            6,
        )
        y = low.clamp(_convolve(low, y, 32, groups=32), 0, 6)
        x = low.add(
            x,
            convolution.convolve(
                low, y, low.normal(8, 1, 1, 32, scale=0.2), low.normal(8), [AxisWindow(1)] * 2
            ),
        )
    return low.reshape(low.mean(x, [1, 2]), (1, 8))


@network
def u_net(low):
    x = activations.relu(low, _convolve(low, low.input("x", (1, 8, 8, 4)), 8))
    d = pooling.max_pool(low, x, [AxisWindow(2, stride=2)] * 2)
    d = activations.leaky_relu(low, _convolve(low, d, 12), low.constant([[[[0.1]]]], DType.FP32))
    u = convolution.transpose_convolve(
        low, d, low.normal(8, 2, 2, 12, scale=0.3), low.normal(8), [AxisWindow(2, stride=2)] * 2
    )
    return low.op("SIGMOID", _convolve(low, low.concat([u, x], 3), 2))


@network
def l2_norm(low):
    x = matmul(low, low.input("x", (5, 16)), low.normal(16, 12))
    n = low.sqrt(low.plus(low.reduce("SUM", low.mul(x, x), [1]), 1e-12))
    return low.div(x, n)


@network
def gru_of_five_steps(low):
    h = low.constant(np.zeros((2, 8)), DType.FP32)
    x = low.input("x", (2, 5, 6))
    inputs = [low.normal(6, 8, scale=0.5) for _ in range(3)]
    states = [low.normal(8, 8, scale=0.5) for _ in range(3)]
    for t in range(5):
        xt = low.reshape(low.slice_axis(x, 1, t, 1), (2, 6))
        z = low.op("SIGMOID", low.add(matmul(low, xt, inputs[0]), matmul(low, h, states[0])))
        r = low.op("SIGMOID", low.add(matmul(low, xt, inputs[1]), matmul(low, h, states[1])))
        n = low.op("TANH", low.add(matmul(low, xt, inputs[2]), low.mul(r, matmul(low, h, states[2]))))
        h = low.add(low.mul(low.sub(low.scalar(1, z), z), n), low.mul(z, h))
    return h


# Where two activations of 8 bits are multiplied or subtracted, more noise is in the nature of things.
LEAST_DB = {"matmul_of_two": 28, "arithmetic_broadcast": 28, "scale_per_channel_mixed_signs": 28}


@pytest.mark.parametrize("activation_type", ["int8", "int16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_close_to_floats_and_bit_exact(name, activation_type):
    low = Floats()
    outputs = NETWORKS[name](low)
    graph = low.finish(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    quantization = quantize_graph(graph, samples(graph), activations=activation_type)
    assert quantization.graph.inputs == graph.inputs
    assert quantization.graph.outputs == graph.outputs
    assert not any(tensor.dtype.is_float for tensor in quantization.graph.tensors.values())
    least = LEAST_DB.get(name, 30) if activation_type == "int8" else 38
    assert worst_db(quantization) >= least
    run_everywhere(quantization)
