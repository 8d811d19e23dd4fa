"""What `--explain` predicts for a program, beside the cycles that it takes on the emulator."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder
from test_weave import attention

from tosaic.compiler.explain import explain
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config


def _convolutions(channels: int, kernel: int) -> Graph:
    """Three layers of the array, one after the other."""
    build = LayerBuilder(5)
    x = build.input("x", (1, 28, 30, channels), DType.INT8)
    for _ in range(3):
        x = build.rescale(build.conv(x, channels, (kernel, kernel)), DType.INT8, double=False, shift=42)
    build.output(x)
    return build.finish()


def _elementwise() -> Graph:
    """A layer of VECTOR alone, whose operands come over the bus."""
    build = LayerBuilder(6)
    x, y = (build.input(name, (1, 60, 60, 48), DType.INT8) for name in "xy")
    wide = [build.rescale(each, DType.INT32, double=False, shift=30) for each in (x, y)]
    build.output(build.rescale(build.add("ADD", wide), DType.INT8, double=False, shift=31))
    return build.finish()


GRAPHS = {
    "convolutions": lambda: _convolutions(48, 3),
    "pointwise": lambda: _convolutions(64, 1),
    "elementwise": _elementwise,
    "layers that run together": lambda: attention(weights=True, products=True),
    "of odd sizes": lambda: attention(weights=True, products=True, heads=3, rows=197),
}


@pytest.mark.parametrize("config", ["base", "small"])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_prediction_is_within_two_percent(name: str, config: str) -> None:
    _assert_close(GRAPHS[name](), config, MemorySpeed())


def test_a_slow_memory_is_predicted_too() -> None:
    _assert_close(_elementwise(), "base", MemorySpeed(4, 200))


def _assert_close(graph: Graph, config: str, speed: MemorySpeed) -> None:
    options = dict(memory_bandwidth=speed.bandwidth_bytes, memory_latency=speed.latency_cycles)
    session = Session(graph, "emulator", config, **options)
    session.run({each.name: np.zeros(each.shape, each.numpy) for each in session.inputs})
    [line] = [text for text in explain(graph, get_config(config), speed) if text.startswith("predicted: ")]
    predicted = int(line.removeprefix("predicted: ").removesuffix(" cycles"))
    assert predicted == pytest.approx(session.stats["cycles"], rel=0.02)
