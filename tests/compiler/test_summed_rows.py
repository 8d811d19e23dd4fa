"""Means over an image whose rows are added up on their way out of the array."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate


def mean_after(
    shape, channels, kernel=(1, 1), *, depthwise=False, residual=False, also=False, pad=(0, 0, 0, 0)
) -> Graph:
    """A convolution, perhaps an addition, and the average of the whole image."""
    build = LayerBuilder(7)
    x = build.input("x", shape, DType.INT8)
    y = build.conv(x, channels, kernel, depthwise=depthwise, pad=pad, input_zp=3)
    y = build.rescale(y, DType.INT8, per_channel=True, output_zp=-4)
    if residual:
        y = build.residual(y, build.input("r", build.graph.tensors[y].shape, DType.INT8))
    _, height, width, _ = build.graph.tensors[y].shape
    zero = build.zero_point(DType.INT8)
    mean = build.add(
        "AVG_POOL2D",
        [y, zero, zero],
        kernel=[height, width],
        stride=[1, 1],
        pad=[0, 0, 0, 0],
        acc_type=DType.INT32,
    )
    build.output(mean)
    if also:
        build.output(y)
    return build.finish()


def stored(graph: Graph, config: str = "base") -> bool:
    """Whether a layer makes the image itself."""
    image = next(operator for operator in graph.operators if operator.op == "AVG_POOL2D").inputs[0]
    return any(layer.output == image for layer in compile_graph(graph, get_config(config)).layers)


SUMMED = {
    "pixelwise": dict(shape=(1, 25, 5, 64), channels=64),
    "of few channels, pixels in pairs": dict(shape=(1, 20, 8, 40), channels=8, kernel=(3, 3)),
    "windows": dict(shape=(1, 9, 8, 16), channels=20, kernel=(3, 3), pad=(1, 1, 1, 1)),
    "with an operand": dict(
        shape=(1, 10, 6, 64), channels=16, kernel=(3, 3), pad=(1, 1, 1, 1), residual=True
    ),
    "boxes of an image outside": dict(shape=(1, 700, 7, 64), channels=33, kernel=(3, 1)),
    "boxes with an operand": dict(shape=(1, 900, 8, 64), channels=48, kernel=(3, 1), residual=True),
}


@pytest.mark.long
@pytest.mark.parametrize("config", ["base", "small"])
@pytest.mark.parametrize("name", SUMMED)
def test_sums_are_golden(name, config):
    assert_equal_to_golden(mean_after(**SUMMED[name]), config, check_hazards=True)


@pytest.mark.parametrize("name", SUMMED)
def test_the_image_is_not_stored(name):
    assert not stored(mean_after(**SUMMED[name]))


STORED = {
    "depthwise, faster than VECTOR adds": dict(
        shape=(1, 20, 17, 24), channels=1, kernel=(3, 3), depthwise=True
    ),
    "an image that somebody else reads": dict(shape=(1, 12, 5, 32), channels=64, also=True),
    "few rows": dict(shape=(1, 3, 8, 32), channels=64),
    "rows longer than VECTOR has slots": dict(shape=(1, 12, 20, 16), channels=16),
    "two images": dict(shape=(2, 12, 5, 16), channels=16),
}


@pytest.mark.parametrize("name", STORED)
def test_images_that_are_stored(name):
    graph = mean_after(**STORED[name])
    assert stored(graph)
    assert_equal_to_golden(graph, "base")


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_shape(data):
    height, width = data.draw(st.integers(5, 40)), data.draw(st.integers(2, 16))
    channels = data.draw(st.integers(1, 70))
    depthwise = data.draw(st.booleans())
    graph = mean_after(
        (1, height, width, data.draw(st.integers(1, 40))),
        1 if depthwise else channels,
        data.draw(st.sampled_from([(1, 1), (3, 2)])),
        depthwise=depthwise,
        residual=data.draw(st.booleans()),
        pad=(1, 1, 1, 0),
    )
    assert_equal_to_golden(graph, data.draw(st.sampled_from(["base", "small"])), check_hazards=True)


def test_cycles():
    """An image of 25 × 5 pixels and 64 channels that is read again takes VECTOR more cycles."""
    cycles = []
    for also in (False, True):
        graph = mean_after((1, 25, 5, 64), 64, also=also)
        session = Session(graph, "emulator", "base")
        values = feeds(graph, 1)
        results = session.run(values)
        for name, wanted in evaluate(graph, values).items():
            np.testing.assert_array_equal(results[name], wanted)
        cycles.append(session.stats["cycles"])
    assert cycles[0] + 100 < cycles[1]
