"""A unit that is nearly always silent and sometimes huge, as transformers have them: it has convolutions of its own."""

from collections.abc import Callable

import numpy as np
import pytest
from float_networks import Floats, activations, quantize_graph, run_everywhere, samples, statistics

from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.quantize import measure

TOKENS, WIDTH, HIDDEN = 16, 256, 320
UNIT, RESULT = 77, 5
"""The unit, and the channel behind it that is huge with it."""
Curve = Callable[[Floats, str, str], str]


def gelu(low: Floats, x: str, _: str) -> str:
    return activations.gelu(low, x)


def relu(low: Floats, x: str, _: str) -> str:
    return low.clamp(x, 0.0, 1e38)


def scaled_by_channel(low: Floats, x: str, _: str) -> str:
    line = low.constant(np.linspace(0.5, 2, HIDDEN).reshape(1, 1, -1), DType.FP32)
    return low.mul(activations.gelu(low, x), line)


def gated(low: Floats, x: str, gate: str) -> str:
    return low.mul(low.mul(gate, low.op("SIGMOID", gate)), x)


def shifted(low: Floats, x: str, _: str) -> str:
    """Not 0 where nothing comes in."""
    return low.plus(activations.gelu(low, x), 0.2)


def leaky(low: Floats, x: str, _: str) -> str:
    return activations.leaky_relu(low, x, low.constant(np.full((1, 1, 1), 0.1), DType.FP32))


CURVES = (gelu, relu, leaky, scaled_by_channel, gated, shifted)


def network(curve: Curve, huge: float, wakes: float = 24.0, is_read_twice: bool = False) -> Graph:
    """A block behind whose sum a norm hides what is huge; token 0 alone wakes the unit."""
    low = Floats()
    first = np.zeros((1, TOKENS, WIDTH))
    first[0, 0, 0] = wakes
    x = low.add(low.input("x", (1, TOKENS, WIDTH)), low.constant(first, DType.FP32))
    parts = []
    for _ in range(2):
        weight = low.random.standard_normal((WIDTH, HIDDEN)) / WIDTH**0.5
        weight[0, UNIT] = 1.5
        silence = np.where(np.arange(HIDDEN) == UNIT, -8.0, 0.1).reshape(1, 1, -1)
        parts.append(
            low.add(matmul(low, x, low.constant(weight, DType.FP32)), low.constant(silence, DType.FP32))
        )
    hidden = curve(low, *parts)
    back = low.random.standard_normal((HIDDEN, WIDTH)) / HIDDEN**0.5
    back[UNIT, RESULT] = huge
    y = low.add(x, low.add(matmul(low, hidden, low.constant(back, DType.FP32)), low.normal(1, 1, WIDTH)))
    gains = low.constant(np.where(np.arange(WIDTH) == RESULT, 0.05, 1.0).reshape(1, 1, -1), DType.FP32)
    y = low.mul(statistics.standardize(low, y, (2,), 1e-5)[0], gains)
    y = matmul(low, y, low.normal(WIDTH, 32, scale=WIDTH**-0.5))
    return low.finish(y, *([hidden] if is_read_twice else []))


def decibels(graph: Graph, **options) -> float:
    found = quantize_graph(graph, samples(graph, 16), **options)
    run_everywhere(found)
    return measure(found, held_out=samples(graph, 4, seed=6)).outputs[0].sqnr_db


@pytest.mark.parametrize("curve", CURVES)
def test_an_outlier_costs_the_other_channels_nothing(curve: Curve) -> None:
    """In one convolution with all others it costs 3.5 to 20 dB."""
    graph = network(curve, huge=2.0 if curve is gated else 30.0)
    assert decibels(graph) > max(decibels(graph, equalization=False) + 3.5, 28)


def test_without_outliers_nothing_is_taken_apart() -> None:
    graph = network(gelu, huge=0.05, wakes=0.0)
    counts = {
        wide: [op.op for op in quantize_graph(graph, samples(graph, 16), weights=wide).graph.operators].count(
            "CONV2D"
        )
        for wide in ("int8", "int16")
    }
    assert counts == {"int8": 3, "int16": 6}


@pytest.mark.parametrize("channels", [1, 2, 8])
def test_of_few_channels_none_is_apart(channels: int) -> None:
    low = Floats()
    hidden = activations.gelu(
        low, matmul(low, low.input("x", (1, TOKENS, WIDTH)), low.normal(WIDTH, channels))
    )
    graph = low.finish(matmul(low, hidden, low.normal(channels, WIDTH)))
    found = quantize_graph(graph, samples(graph, 16))
    assert [op.op for op in found.graph.operators].count("CONV2D") == 2


def test_the_layer_has_its_name_still() -> None:
    graph = network(gelu, huge=30.0)
    second = [op for op in graph.operators if op.op == "MATMUL"][2].outputs[0]
    assert decibels(graph, keep_int16=[second]) > decibels(graph)


def test_a_tensor_that_others_read_stays_whole() -> None:
    graph = network(gelu, huge=30.0, is_read_twice=True)
    found = quantize_graph(graph, samples(graph, 16))
    assert [op.op for op in found.graph.operators].count("CONV2D") == 3
    run_everywhere(found)
