"""A constant line along the channels is an operand on the sums' way out of the array: the slopes of a PReLU."""

import dataclasses

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds
from rtl_configs import on_rtl

from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.passes import legalize
from tosaic.compiler.machine import KIND, Kind
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Element

BASE = get_config("base")


def bent(build, x, limit):
    """x (int32) + slopes * min(x, 0) / 2^14, with slopes of each channel up to `limit`."""
    channels = build.graph.tensors[x].shape[-1]
    below = build.add("MINIMUM", [x, build.constant(np.zeros((1, 1, 1, 1)), DType.INT32)])
    line = build.random_constant((1, 1, 1, channels), DType.INT32, -limit, limit)
    bend = build.add("MUL", [below, line, build.constant(np.array([14]), DType.INT8)])
    return build.add("ADD", [x, bend])


def sloped(shape, channels, kernel=3, *, depthwise=False, limit=1 << 14, layers=1):
    build = LayerBuilder(6)
    x, pad = build.input("x", shape, DType.INT8), (kernel // 2,) * 4
    for _ in range(layers):
        sums = build.conv(x, channels, (kernel, kernel), pad=pad, depthwise=depthwise)
        wide = build.rescale(sums, DType.INT32, per_channel=True, shift=36)
        x = build.rescale(bent(build, wide, limit), DType.INT8, shift=38, output_zp=-3)
    build.output(x)
    return build.finish()


SHAPES = [
    ((1, 7, 9, 12), 24, {}),  # pixels of which some are over
    ((1, 12, 13, 12), 24, {}),  # batches of 13 pixels
    ((1, 9, 10, 12), 24, {}),  # two tiles, the last one half empty
    ((1, 9, 10, 12), 8, {}),  # two pixels in a vector
    ((1, 6, 8, 12), 40, {}),  # two pixels in five tiles
    ((1, 9, 10, 20), 1, {"depthwise": True}),
    ((1, 9, 10, 8), 2, {"depthwise": True}),
    ((1, 4, 4, 64), 200, {}),
    ((1, 1, 1, 64), 512, {"kernel": 1}),  # many tiles by one command
    ((2, 5, 7, 9), 19, {"kernel": 1}),
]


@pytest.mark.long
@pytest.mark.parametrize("config", ["base", "small", "nano"])
@pytest.mark.parametrize("shape, channels, options", SHAPES)
def test_any_pixels_and_channels(config, shape, channels, options):
    assert_equal_to_golden(sloped(shape, channels, **options), config, check_hazards=True)


@pytest.mark.parametrize(
    "limit, element", [(100, Element.INT8), (1 << 14, Element.INT16), (1 << 17, Element.INT32)]
)
def test_one_layer_with_the_narrowest_elements(limit, element):
    graph = sloped((1, 9, 10, 12), 24, limit=limit)
    (layer,) = Fuser(legalize(graph, BASE), BASE).layers(set())
    assert KIND[layer.base.op] is Kind.ARRAY and list(layer.lines) == [0]
    assert [load.element for load in layer.program.loads] == [element]
    assert_equal_to_golden(graph, "base")


@pytest.mark.parametrize("config", [on_rtl("nano"), on_rtl("base")])
def test_on_rtl(config):
    graph = sloped((1, 7, 9, 12), 24)
    Session(graph, "sim", config).run(feeds(graph, 1), check=True)


def test_a_line_takes_no_cycles_of_a_pixel():
    """Five micro-operations of a cycle each; int16 slopes would take another one, for each vector."""
    graph = sloped((1, 32, 32, 16), 64, kernel=1)
    session = Session(graph, "emulator", "base")
    session.run(feeds(graph, 1), check=True)
    vectors, lines = 32 * 32 * 64 // 16, 4 * 16 * 2
    assert session.stats["counters"]["vector_active"] <= 5 * vectors + 4 * lines


@pytest.mark.parametrize("cores", [2, 4])
def test_split_over_cores(cores):
    for shape, channels in (((1, 24, 20, 16), 48), ((1, 4, 4, 32), 96)):
        graph = sloped(shape, channels)
        session = Session(graph, "emulator", f"base,cores={cores},bus_words=2")
        session.run(feeds(graph, 1), check=True)
        assert session.stats["bit_exact"]


def test_layers_in_stripes():
    config = dataclasses.replace(BASE, am_bytes=1 << 14)
    assert_equal_to_golden(sloped((1, 40, 40, 16), 16, layers=3), config, check_hazards=True)


def test_lines_of_other_shapes_are_layers_of_their_own():
    build = LayerBuilder(7)
    sums = build.conv(build.input("x", (1, 6, 5, 8), DType.INT8), 16, (1, 1))
    wide = build.rescale(sums, DType.INT32, per_channel=True, shift=36)
    line = build.random_constant((1, 6, 1, 16), DType.INT32, -99, 99)
    build.output(build.rescale(build.add("MUL", [wide, line, build.zero_point(DType.INT8)]), DType.INT8))
    graph = build.finish()
    assert len(Fuser(legalize(graph, BASE), BASE).layers(set())) == 2
    assert_equal_to_golden(graph, "base")
