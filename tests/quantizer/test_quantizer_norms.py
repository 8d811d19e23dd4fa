"""Norms of channels that differ by 1,000, and softmaxes of rows that differ: 16 bits are never worse than 8."""

import numpy as np
import pytest
from float_networks import Floats, activations, quantize_graph, run_everywhere, samples, statistics, worst_db
from shared_files import ABSENT, SHARED

from tosaic.compiler.importers.lowering import convolution
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.ir import DType
from tosaic.driver.models import open_model
from tosaic.driver.quantize import load_samples

CASES = SHARED / "cases/numerics"
IMAGE, CHANNELS = (1, 8, 8, 6), 12
SPREAD = np.geomspace(1, 1e-3, CHANNELS)
EPSILON = 1e-9


def _convolve(
    low: Floats, x: str, spread: np.ndarray | float = 1.0, groups: int = 1, out: int = CHANNELS
) -> str:
    size = 3 if groups > 1 else 1
    line = np.broadcast_to(spread, (out,))
    weight = low.random.standard_normal((out, size, size, low.shape(x)[-1] // groups)) * 0.3
    weight, bias = weight * line[:, None, None, None], 0.1 * low.random.standard_normal(out) * line
    constants = (low.constant(each, DType.FP32) for each in (weight, bias))
    return convolution.convolve(
        low, x, *constants, [AxisWindow(size, before=size // 2, after=size // 2)] * 2, groups
    )


def _normalized(low: Floats, x: str, axes: list[int]) -> str:
    return statistics.standardize(low, x, axes, EPSILON)[0]


def _by_groups(low: Floats) -> str:
    y = _convolve(low, low.input("x", IMAGE), np.repeat(SPREAD[::4], 4))
    y = _normalized(low, low.reshape(y, (1, 64, 3, 4)), [1, 3])
    return low.reshape(y, (1, 8, 8, CHANNELS))


def _channels_first(low: Floats) -> str:
    y = low.transpose(_convolve(low, low.input("x", IMAGE), SPREAD), [0, 3, 1, 2])
    return low.transpose(_normalized(low, y, [2, 3]), [0, 2, 3, 1])


def _by_length(low: Floats) -> str:
    y = _convolve(low, low.input("x", IMAGE), SPREAD)
    return low.mul(y, low.op("RSQRT", low.plus(low.reduce("SUM", low.mul(y, y), [1, 2]), 1e-12)))


NETWORKS = {
    "instance norm": lambda low: activations.relu(
        low, _normalized(low, _convolve(low, low.input("x", IMAGE), SPREAD), [1, 2])
    ),
    "behind a depthwise convolution": lambda low: _normalized(
        low, _convolve(low, _convolve(low, low.input("x", IMAGE)), SPREAD, CHANNELS), [1, 2]
    ),
    "behind a Relu": lambda low: _normalized(
        low, activations.relu(low, _convolve(low, low.input("x", IMAGE), SPREAD)), [1, 2]
    ),
    "group norm": _by_groups,
    "channels first": _channels_first,
    "length": _by_length,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_channels_that_differ_by_1000(name: str) -> None:
    found = {}
    for kind in ("int8", "int16"):
        low = Floats()
        graph = low.finish(_convolve(low, NETWORKS[name](low), out=4))
        quantization = quantize_graph(graph, samples(graph), activations=kind)
        run_everywhere(quantization)
        found[kind] = worst_db(quantization)
    assert found["int8"] > 31 and found["int16"] > found["int8"] + 5


def test_sums_of_small_squares_beside_large_ones() -> None:
    """A stream that two convolutions add to keeps its channels; small ones are added up before they are rounded off."""
    for kind, least in (("int8", 26), ("int16", 25)):
        low = Floats()
        x = low.input("x", (1, 16, 16, 6))
        y = low.add(_convolve(low, x, SPREAD), _convolve(low, x, SPREAD))
        graph = low.finish(_convolve(low, _normalized(low, y, [1, 2]), out=4))
        assert worst_db(quantize_graph(graph, samples(graph, 4), activations=kind)) > least


def test_lengths_over_decades() -> None:
    """The cosine of vectors whose squared lengths span 1 to 10,000, divided by the root of their product: 16 bits of
    a length say nothing of the short ones."""
    low = Floats()
    x, y = (low.input(name, (1, 8, 8, 6)) for name in ("x", "y"))
    squares = low.mul(*(low.reduce("SUM", low.mul(each, each), [3]) for each in (x, y)))
    dot = low.reduce("SUM", low.mul(x, y), [3])
    graph = low.finish(low.mul(dot, low.op("RSQRT", low.plus(squares, 1e-12))))
    arrays = samples(graph, 16)
    arrays["x"] *= (10.0 ** np.linspace(0, 2, 16, dtype=np.float32)).reshape(16, 1, 1, 1, 1)
    wide = quantize_graph(graph, arrays, activations="int16")
    assert worst_db(wide) > 40
    run_everywhere(wide)


def test_case_of_an_instance_norm() -> None:
    path = CASES / "instancenorm_1000.onnx"
    if not path.exists():
        pytest.skip(ABSENT)
    graph, arrays = open_model(str(path)), load_samples(CASES / "instancenorm_1000_cal.npz")
    assert worst_db(quantize_graph(graph, arrays)) > 33
    assert worst_db(quantize_graph(graph, arrays, activations="int16")) > 40


@pytest.mark.parametrize("weights", ["int8", "int16"])
def test_a_softmax_of_flat_and_of_peaky_rows_in_16_bits(weights: str) -> None:
    """Sums of 1 to 512: the edge of a piece of the reciprocal's table is beyond int32."""
    low = Floats()
    gains = low.constant(np.array([100.0, 30.0, 0.01, 0.001]).reshape(1, 4, 1), DType.FP32)
    graph = low.finish(statistics.softmax(low, low.mul(low.input("x", (1, 4, 512)), gains), [2]))
    assert worst_db(quantize_graph(graph, samples(graph, 4), activations="int16", weights=weights)) > 60


@pytest.mark.long
@pytest.mark.parametrize("weights", ["int8", "int16"])
def test_case_of_heads_that_differ(weights: str) -> None:
    path = CASES / "attention_512_mixed_heads.onnx"
    if not path.exists():
        pytest.skip(ABSENT)
    graph = open_model(str(path))
    arrays = {
        name: values[:1] for name, values in load_samples(CASES / "attention_512_mixed_heads_cal.npz").items()
    }
    assert worst_db(quantize_graph(graph, arrays, activations="int16", weights=weights)) > 40
