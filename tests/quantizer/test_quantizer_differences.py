"""Differences that are small beside what they are made of: these are read as they are computed, not as 8 bits."""

import sys
from pathlib import Path

import numpy as np
import pytest
from float_networks import Floats, quantize_graph, run_everywhere, samples, worst_db

from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.ir import DType

BENCH = Path(__file__).parents[2] / "bench"
sys.path.append(str(BENCH))
from weak_spots import LOSS_DB, integers_db, limit_db, read_case  # noqa: E402 (the path comes first)

ROWS, WIDTH = 16, 12


def _linear(low: Floats, x: str, gain: float = 1.0) -> str:
    return matmul(low, x, low.normal(low.shape(x)[-1], WIDTH, scale=gain * low.shape(x)[-1] ** -0.5))


def _means(low: Floats) -> str:
    """What is large beside its deviations."""
    return low.constant(np.linspace(-3, 3, WIDTH).reshape(1, 1, -1), DType.FP32)


def variances(low: Floats, x: str) -> list[str]:
    x = low.add(_linear(low, x, 0.2), _means(low))
    mean = low.mean(x, (1,))
    variance = low.sub(low.mean(low.mul(x, x), (1,)), low.mul(mean, mean))
    return [_linear(low, low.concat([low.times(mean, 0.1), low.sqrt(variance)], 2)), _linear(low, x)]


def less_the_mean(low: Floats, x: str) -> list[str]:
    x = low.add(_linear(low, x, 0.2), _means(low))
    return [_linear(low, low.sub(x, low.mean(x, (1,)))), _linear(low, x)]


def neighbours(low: Floats, x: str) -> list[str]:
    x = low.add(_linear(low, x, 0.2), _means(low))
    parts = [low.slice_axis(x, 1, start, ROWS - 1) for start in (1, 0)]
    return [_linear(low, low.sub(*parts)), _linear(low, x)]


def neighbours_turned(low: Floats, x: str) -> list[str]:
    x = low.add(_linear(low, x, 0.2), _means(low))
    turned = low.transpose(x, (0, 2, 1))
    parts = [low.slice_axis(turned, 2, start, ROWS - 1) for start in (1, 0)]
    return [_linear(low, low.transpose(low.sub(*parts), (0, 2, 1))), _linear(low, x)]


def residual(low: Floats, x: str) -> list[str]:
    x = _linear(low, x)
    y = low.add(x, low.times(low.op("TANH", _linear(low, x)), 0.02))
    return [_linear(low, low.sub(_linear(low, y), _linear(low, x))), low.sub(y, x)]


def opposite_signs(low: Floats, x: str) -> list[str]:
    x = low.add(_linear(low, x, 0.2), _means(low))
    return [_linear(low, low.add(x, low.negate(low.mean(x, (1,))))), _linear(low, x)]


def less_a_constant(low: Floats, x: str) -> list[str]:
    x = low.add(_linear(low, x, 0.2), _means(low))
    return [
        _linear(low, low.sub(low.op("TANH", low.times(x, 0.1)), low.op("TANH", low.times(_means(low), 0.1)))),
        _linear(low, x),
    ]


NETWORKS = (
    variances,
    less_the_mean,
    neighbours,
    neighbours_turned,
    residual,
    opposite_signs,
    less_a_constant,
)


@pytest.mark.parametrize("network", NETWORKS)
def test_differences_of_likes(network) -> None:
    """With operands in 8 bits the variances would have 40.7 dB, the residual 4.2, the others 27."""
    found = {}
    for kind in ("int8", "int16"):
        low = Floats()
        graph = low.finish(*network(low, low.input("x", (1, ROWS, WIDTH))))
        quantization = quantize_graph(graph, samples(graph), activations=kind)
        run_everywhere(quantization)
        found[kind] = worst_db(quantization)
    assert found["int8"] >= (42 if network is variances else 33) and found["int16"] > found["int8"] + 5


@pytest.mark.parametrize(
    "name", ["E[x^2] - m^2", "difference of neighbours", "LayerNorm, outlier x60", "magnitude"]
)
def test_weak_spots(name: str) -> None:
    graph, known, fresh = read_case(name)
    narrow, wide = (integers_db(graph, known, fresh, kind) for kind in ("int8", "int16"))
    assert narrow >= limit_db(graph, known, fresh) - LOSS_DB and wide > narrow
