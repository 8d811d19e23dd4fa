"""Channels that residual sums, pools and CONCATs tie together are evened out as a whole, which costs no layer."""

import numpy as np
import pytest
from float_networks import Floats, activations, run_everywhere, samples, worst_db

from tosaic.compiler.importers.lowering import convolution
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.ir import DType, validate
from tosaic.compiler.ir.building import sizes
from tosaic.compiler.quantizer import canonical, equalize
from tosaic.compiler.quantizer.streams import reading, streams
from tosaic.driver.quantize import quantize_graph
from tosaic.driver.quantize.quantization import calibrate, evaluate_constant
from tosaic.driver.quantize.samples import split_samples
from tosaic.driver.session import Session
from tosaic.sim.golden import evaluate

IMAGE = (1, 24, 24, 8)
SPREAD = 2.0 ** (-0.75 * np.arange(8))


def convolve(low, x, out, kernel=1, groups=1, spread=None):
    weight = low.normal(out, kernel, kernel, low.shape(x)[-1] // groups, scale=0.3)
    windows = [AxisWindow(kernel, before=kernel // 2, after=kernel // 2)] * 2
    y = convolution.convolve(low, x, weight, low.normal(out, scale=0.1), windows, groups)
    return y if spread is None else low.mul(y, low.constant(spread.reshape(1, 1, 1, -1), DType.FP32))


def block(low, x, bend):
    """A depthwise convolution reads the stream, and its result is added to it."""
    y = convolve(low, convolve(low, x, 8, 3, groups=8), 8, spread=SPREAD)
    return bend(low, low.add(x, y))


def relu(low, x):
    return activations.relu(low, x)


def slopes(low, x):
    return activations.leaky_relu(
        low, x, low.constant(np.linspace(-0.3, 0.9, 8).reshape(1, 1, 1, 8), DType.FP32)
    )


def nothing(low, x):
    return x


def residual(low, bend):
    x = bend(low, convolve(low, low.input("x", IMAGE), 8, spread=SPREAD))
    x = block(low, block(low, x, bend), bend)
    return convolve(low, x, 4)


def pooled_and_padded(low, bend):
    """The stream goes on with half the pixels and more channels."""
    x = bend(low, convolve(low, low.input("x", IMAGE), 8, spread=SPREAD))
    x = block(low, x, bend)
    y = low.op("MAX_POOL2D", x, kernel=[2, 2], stride=[2, 2], pad=[0] * 4, nan_mode="PROPAGATE")
    y = low.op("PAD", y, sizes([0, 0, 0, 0, 0, 0, 0, 4]), low.constant([0.0], DType.FP32))
    z = convolve(low, convolve(low, y, 12, 3, groups=12), 12)
    return convolve(low, activations.relu(low, low.add(y, z)), 4)


def joined(low, bend):
    x = block(low, bend(low, convolve(low, low.input("x", IMAGE), 8, spread=SPREAD)), bend)
    y = low.op("CONCAT", x, convolve(low, low.input("y", IMAGE), 8), axis=3)
    return convolve(low, convolve(low, y, 16, 3, groups=16), 4)


@pytest.mark.parametrize("bend", [relu, slopes, nothing])
@pytest.mark.parametrize("network", [residual, pooled_and_padded, joined])
def test_the_network_means_the_same(network, bend):
    low = Floats()
    graph = low.finish(network(low, bend))
    work = canonical(graph, evaluate_constant)
    runs = split_samples(work, samples(graph))
    assert equalize(work, calibrate(work, runs))
    validate(work)
    for run in runs[:2]:
        wanted, got = evaluate(graph, run)[graph.outputs[0]], evaluate(work, run)[work.outputs[0]]
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


@pytest.mark.parametrize("bend", [relu, slopes])
def test_a_stream_is_in_memory_once(bend):
    low = Floats()
    quantization = quantize_graph(graph := low.finish(residual(low, bend)), samples(graph))
    plain = quantize_graph(graph, samples(graph), equalization=False)
    assert worst_db(quantization) >= worst_db(plain) + 3
    run_everywhere(quantization)
    session = Session(quantization.graph, "emulator", "base")
    session.run({"x": np.zeros(IMAGE, np.int8)})
    assert all(each["macs"] for each in session.stats["layers"])
    assert len(session.stats["layers"]) == 6


def test_what_others_read_keeps_its_scale():
    """A curve knows no factors: the stream that it reads is not divided."""
    low = Floats()
    x = block(low, activations.relu(low, convolve(low, low.input("x", IMAGE), 8, spread=SPREAD)), relu)
    graph = low.finish(convolve(low, x, 4), activations.hard_sigmoid(low, x, 1 / 6, 0.5))
    work = canonical(graph, evaluate_constant)
    tied = [name for stream in streams(work) for name in stream.labels if stream.free.any()]
    assert [name for name, _ in reading(work, tied) if len(work.consumers(name)) > 1] == []
