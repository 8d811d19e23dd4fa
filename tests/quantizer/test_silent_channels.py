"""Channels that say nothing in one sample and much in the next: their factors must not make them saturate."""

import numpy as np
import pytest

from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.driver.quantize import quantize_graph
from tosaic.sim.golden import evaluate

CHANNELS, ROWS, LOUD = 128, 32, 60.0


def rarely_loud(count: int, seed: int) -> np.ndarray:
    """Each sample has one loud element, in a channel of its own; behind SiLU all others are small."""
    random = np.random.default_rng(seed)
    samples = random.uniform(-4, -1, (count, ROWS, CHANNELS)).astype(np.float32)
    for sample in samples:
        sample[random.integers(ROWS), random.integers(CHANNELS)] = LOUD
    return samples


def gated() -> Graph:
    build, real = GraphBuilder(), DType.FP32
    x = build.input("x", (1, ROWS, CHANNELS), real)
    product = build.add("MUL", [x, build.add("SIGMOID", [x]), build.constant([0], DType.INT8)])
    weights = np.random.default_rng(2).normal(0, 1, (1, CHANNELS, 256)).astype(np.float32)
    zeros = [build.constant(np.zeros(1, np.float32), real) for _ in range(2)]
    build.output(build.add("MATMUL", [product, build.constant(weights, real), *zeros], output="y"))
    return build.finish()


@pytest.mark.parametrize("count", [4, 6, 16])
def test_new_data_is_as_good_as_the_calibration_s(count: int) -> None:
    graph = gated()
    found = quantize_graph(graph, {"x": rarely_loud(count, seed=0)}).result
    signal = noise = 0.0
    for x in rarely_loud(8, seed=1)[:, None]:
        wanted = evaluate(graph, {"x": x})["y"].astype(np.float64)
        integers = evaluate(found.graph, {"x": found.inputs["x"].quantize(x)})["y"]
        signal += np.square(wanted).sum()
        noise += np.square(found.outputs["y"].dequantize(integers) - wanted).sum()
    assert 10 * np.log10(signal / noise) > 20
