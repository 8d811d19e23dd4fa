"""Weights of one pixel, as behind a global pool, come while layers before compute; the array then reads four words of
them in a cycle. Where the bus is what all wait for, it follows them word by word as they come."""

import dataclasses

import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session
from tosaic.hw.config import CONFIGS


def excited(size: int, channels: int = 64, wide: int = 256) -> Graph:
    """A convolution of an image, its mean, and two convolutions of that."""
    b = LayerBuilder(1)
    x = b.conv(b.input("x", (1, size, size, channels), DType.INT8), channels, (3, 3), pad=(1, 1, 1, 1))
    x = b.rescale(x, DType.INT8, per_channel=True)
    x = b.rescale(
        b.add("REDUCE_SUM", [b.add("REDUCE_SUM", [b.rescale(x, DType.INT32, shift=31)], axis=1)], axis=2),
        DType.INT8,
        shift=38,
    )
    for count in (wide, channels):
        x = b.rescale(b.conv(x, count, (1, 1)), DType.INT8, per_channel=True)
    b.output(x)
    return b.finish()


def cycles(graph: Graph, config: str) -> list[int]:
    """Those of the last two layers."""
    session = Session(graph, "emulator", config)
    session.run(feeds(graph, 1), check=True)
    return [layer["cycles"] for layer in session.stats["layers"][-2:]]


def test_words_are_read_four_at_a_time() -> None:
    """64 x 256 weights are 1,024 words."""
    assert max(cycles(excited(24), "base")) < 1024 / 4 + 200
    assert min(cycles(excited(24), "base,weight_banks=1")) >= 1024


def test_a_free_bus_is_needed() -> None:
    """An image of one pixel leaves no time for weights to come ahead."""
    assert min(cycles(excited(1), "base")) >= 1024


@pytest.mark.parametrize("config", ["base", "nano", "base,weight_banks=2", "base,wm_bytes=8K"])
@pytest.mark.parametrize("wide", [16, 100, 400])
def test_equal_to_golden(wide: int, config: str) -> None:
    assert_equal_to_golden(excited(9, 32, wide), config, check_hazards=True)


@pytest.mark.xdist_group("base")
def test_on_the_rtl() -> None:
    graph = excited(8, 32, 144)
    Session(graph, "sim", "base").run(feeds(graph, 2), check=True)


def test_every_row_reads_its_own_words_where_weights_have_a_zero_point() -> None:
    """The array divides its rows only for weights without one."""
    config = dataclasses.replace(CONFIGS["base"], name="base")
    b = LayerBuilder(3)
    x = b.rescale(b.conv(b.input("x", (1, 16, 16, 16), DType.INT8), 64, (16, 16)), DType.INT8)
    weights = b.random_constant((48, 1, 1, 64), DType.INT8, -99, 99)
    bias, zeros = b.constant([7] * 48, DType.INT32), [b.zero_point(DType.INT8, each) for each in (3, -2)]
    window = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}
    y = b.add("CONV2D", [x, weights, bias, *zeros], acc_type=DType.INT32, local_bound=False, **window)
    b.output(b.rescale(y, DType.INT8))
    assert_equal_to_golden(b.finish(), config)
