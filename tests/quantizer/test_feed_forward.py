"""A curve between two matrices of a transformer: one layer with the first, though both scale by channel."""

import numpy as np
import pytest
from float_networks import Floats, run_everywhere, samples, worst_db

from tosaic.compiler.importers.lowering import activations, matrix
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.quantize import quantize_graph
from tosaic.driver.session import Session

SPREAD = 2.0 ** (-0.1 * (np.arange(128) % 32))


def feed_forward(curve: str, rank: int) -> Graph:
    """Channels of different sizes behind the curve, which are evened out for the second matrix."""
    low = Floats()
    x = low.input("x", (1,) * (rank - 2) + (48, 32))
    inner = matrix.matmul(low, x, low.constant(low.random.standard_normal((32, 128)) * SPREAD, DType.FP32))
    if curve == "gelu":
        inner = activations.gelu(low, inner)
    else:
        inner = low.mul(inner, low.op("SIGMOID", inner))
    outer = matrix.matmul(low, inner, low.constant(low.random.standard_normal((128, 512)), DType.FP32))
    return low.finish(outer)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("curve", ["gelu", "silu"])
def test_two_layers(curve: str, rank: int) -> None:
    graph = feed_forward(curve, rank)
    quantization = quantize_graph(graph, samples(graph))
    session = Session(quantization.graph, target="emulator")
    encoding = quantization.result.inputs["x"]
    session.run({"x": encoding.quantize(quantization.samples[0]["x"])}, check=True)
    assert [layer["op"] for layer in session.stats["layers"]] == ["CONV2D", "CONV2D"]
    assert worst_db(quantization) > 28
    run_everywhere(quantization)
