"""Slopes of each channel below zero (PReLU) and factors of each channel apply on a convolution's way out."""

import numpy as np
import pytest
from float_networks import IMAGE, Floats, run_everywhere, samples, worst_db

from tosaic.compiler.importers.lowering import activations, convolution
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.ir import DType
from tosaic.driver.quantize import quantize_graph
from tosaic.driver.session import Session

SPREAD = (2.0 ** (-0.75 * np.arange(8))).reshape(1, 1, 1, 8)
"""Gains of the channels, different enough that evening them out pays."""


def convolve(low, x, out, groups=1):
    weight = low.normal(out, 3, 3, low.shape(x)[-1] // groups, scale=0.3)
    windows = [AxisWindow(3, before=1, after=1)] * 2
    return convolution.convolve(low, x, weight, low.normal(out), windows, groups)


def slopes(low, channels, least=-0.8, most=1.6):
    return low.constant(np.linspace(least, most, channels).reshape(1, 1, 1, channels), DType.FP32)


def behind_a_sum(low):
    x = activations.relu(low, convolve(low, low.input("x", IMAGE), 8))
    y = activations.leaky_relu(low, low.add(convolve(low, x, 8), x), slopes(low, 8))
    return convolve(low, y, 4)


def written_the_other_way(low):
    x = convolve(low, low.input("x", IMAGE), 8)
    y = low.select(low.greater(x, low.scalar(0, x)), x, low.mul(slopes(low, 8), x))
    return convolve(low, y, 4)


def evened_out(low):
    """Channels of very different ranges, which a depthwise convolution reads."""
    x = convolve(low, low.input("x", IMAGE), 8)
    y = activations.leaky_relu(low, low.mul(x, low.constant(SPREAD, DType.FP32)), slopes(low, 8))
    return convolve(low, y, 8, groups=8)


def evened_out_behind_a_curve(low):
    x = low.mul(convolve(low, low.input("x", IMAGE), 8), low.constant(SPREAD, DType.FP32))
    y = low.mul(x, activations.hard_sigmoid(low, x, 1 / 6, 0.5))
    return convolve(low, y, 8, groups=8)


def evened_out_behind_one_that_is_off_its_centre(low):
    """The centre of the curve's table is a constant between the convolution and the scale of its channels."""
    x = convolve(low, low.input("x", IMAGE), 8)
    x = low.mul(low.add(x, low.scalar(4, x)), low.constant(SPREAD, DType.FP32))
    y = low.mul(x, activations.hard_sigmoid(low, x, 1 / 6, 0.5))
    return convolve(low, y, 8, groups=8)


def read_by_others(low):
    """What is bent is added as it is, too."""
    x = convolve(low, low.input("x", IMAGE), 8)
    y = activations.leaky_relu(low, x, slopes(low, 8))
    return convolve(low, low.add(y, x), 4)


def steep(low):
    x = convolve(low, low.input("x", IMAGE), 8)
    return convolve(low, activations.leaky_relu(low, x, slopes(low, 8, -20, 12)), 4)


def behind_a_matrix(low):
    """Applies slopes to a tensor of rank 2, as Keras' PReLU does after a dense layer, and to the network's input."""
    x = low.reshape(activations.leaky_relu(low, low.input("x", IMAGE), slopes(low, 8)), (1, 288))
    y = matmul(low, x, low.normal(288, 16, scale=0.1))
    line = low.constant(np.linspace(-0.5, 1.5, 16).reshape(1, 16), DType.FP32)
    return matmul(low, activations.leaky_relu(low, y, line), low.normal(16, 4))


LAYERS = {
    behind_a_sum: 3,
    written_the_other_way: 2,
    evened_out: 2,
    evened_out_behind_a_curve: 2,
    evened_out_behind_one_that_is_off_its_centre: 2,
    read_by_others: None,
    steep: None,
    behind_a_matrix: None,
}
"""Number of layers; None for more than there are convolutions."""


@pytest.mark.parametrize("network, layers", LAYERS.items())
def test_close_to_floats_and_in_few_layers(network, layers):
    low = Floats()
    quantization = quantize_graph(graph := low.finish(network(low)), samples(graph))
    assert worst_db(quantization) >= 28
    run_everywhere(quantization)
    if layers is not None:
        session = Session(quantization.graph, "emulator", "base")
        session.run({"x": np.zeros(IMAGE, np.int8)})
        assert all(each["macs"] for each in session.stats["layers"])
        assert len(session.stats["layers"]) == layers
