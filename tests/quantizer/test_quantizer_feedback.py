"""Weights rounded with error feedback: errors of a row make up for each other on inputs that vary together."""

import numpy as np
import pytest
from float_networks import Floats, quantize_graph, run_everywhere, samples

from tosaic.compiler.importers.lowering import convolution
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.ir import Graph
from tosaic.driver.quantize import measure


def dense() -> Graph:
    low = Floats()
    mixed = matmul(low, low.input("x", (1, 32, 12)), low.normal(12, 96))
    return low.finish(matmul(low, low.op("TANH", low.times(mixed, 0.2)), low.normal(96, 24)))


def convolved(size: int, stride: int, dilation: int) -> Graph:
    low = Floats()
    mixed = matmul(low, low.input("x", (1, 9, 8, 4)), low.normal(4, 24))
    windows = [AxisWindow(size, stride=stride, dilation=dilation, before=1, after=2)] * 2
    return low.finish(
        convolution.convolve(low, low.op("TANH", mixed), low.normal(8, size, size, 24), None, windows)
    )


NETWORKS = {
    "dense": dense,
    "window": lambda: convolved(3, 1, 1),
    "stride": lambda: convolved(2, 2, 1),
    "dilation": lambda: convolved(2, 1, 2),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_feedback_gains_on_channels_that_vary_together(name: str) -> None:
    graph = NETWORKS[name]()
    reached = {}
    for feedback in (False, True):
        found = quantize_graph(graph, samples(graph, 64), activations="int16", error_feedback=feedback)
        reached[feedback] = measure(found, held_out=samples(graph, 8, seed=6)).outputs[0].sqnr_db
        run_everywhere(found)
    assert reached[True] > reached[False] + 2


def test_a_channel_that_never_varies_and_a_target() -> None:
    """What calibration saw as a constant has no covariance; a target chooses from integers rounded likewise."""
    graph, known = dense(), samples(dense(), 16)
    known["x"][..., 3:] = 0
    found = quantize_graph(graph, known, error_feedback=True, target_sqnr=30)
    assert measure(found).outputs[0].sqnr_db > 30
    run_everywhere(found)
    steady = quantize_graph(graph, {"x": np.ones_like(known["x"])}, error_feedback=True)
    assert measure(steady).outputs[0].sqnr_db > 30
