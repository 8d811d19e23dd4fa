"""Samples in the order of their input: what a quarter of them alone shows is no reason to leave channels uneven."""

import numpy as np
import pytest

from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.driver.quantize import quantize_graph
from tosaic.sim.golden import evaluate

WIDTH, REAL = 16, DType.FP32


def curve(seed: int) -> Graph:
    """Two layers with ReLU and one without, of one input; the channels' weights differ."""
    random, build = np.random.default_rng(seed), GraphBuilder()
    result = build.input("x", (1, 1, 1, 1), REAL)
    zeros = [build.constant(np.zeros(1, np.float32), REAL) for _ in range(2)]
    sizes = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1], "acc_type": REAL}
    for read, made in ((1, WIDTH), (WIDTH, WIDTH), (WIDTH, 1)):
        weights = random.normal(0, 1, (made, 1, 1, read)) * 10 ** random.uniform(-1, 0.5, (made, 1, 1, 1))
        constants = [
            build.constant(each.astype(np.float32), REAL) for each in (weights, random.normal(0, 1, made))
        ]
        result = build.add("CONV2D", [result, *constants, *zeros], **sizes)
        if made > 1:
            result = build.add("CLAMP", [result], min_val=0.0, max_val=3e38)
    build.output(result)
    return build.finish()


@pytest.mark.parametrize(("seed", "least_db"), [(0, 35.0), (2, 45.0), (4, 47.0)])
def test_the_order_of_samples_costs_nothing(seed: int, least_db: float) -> None:
    graph = curve(seed)
    calibration = np.linspace(0, 2 * np.pi, 64, dtype=np.float32).reshape(64, 1, 1, 1)
    found = quantize_graph(graph, {"x": calibration}).result
    (name,), signal, noise = graph.outputs, 0.0, 0.0
    for x in np.random.default_rng(1).uniform(0, 2 * np.pi, (64, 1, 1, 1, 1)).astype(np.float32):
        wanted = evaluate(graph, {"x": x})[name].astype(np.float64)
        integers = evaluate(found.graph, {"x": found.inputs["x"].quantize(x)})[name]
        signal += np.square(wanted).sum()
        noise += np.square(found.outputs[name].dequantize(integers) - wanted).sum()
    assert 10 * np.log10(signal / noise) > least_db
