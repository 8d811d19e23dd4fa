"""Convolutions whose channels are read in parts: a convolution for each part, with the part's curve on its way out."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.passes import legalize
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config


def gated(
    shape: tuple[int, int, int, int],
    parts: tuple[int, ...],
    *,
    kernel: tuple[int, int] = (1, 3),
    stored: DType = DType.INT16,
    rank: int = 4,
    seed: int = 1,
) -> Graph:
    """A convolution to the sum of `parts` channels, each part behind a curve of its own; the product of all of them."""
    build = LayerBuilder(seed)
    sums = build.conv(build.input("x", shape, DType.INT8), sum(parts), kernel, pad=(0, 0, 1, 1), input_zp=3)
    image = build.rescale(sums, stored, per_channel=True, shift=38 if stored is DType.INT8 else 32)
    if rank == 3:
        n, h, w, c = build.graph.tensors[image].shape
        image = build.add("RESHAPE", [image, build.shape([n, h * w, c])])
    *outer, _ = build.graph.tensors[image].shape
    first, found = 0, []
    for size in parts:
        start, extent = ([0] * len(outer) + [first], [*outer, size])
        part = build.add("SLICE", [image, build.shape(start), build.shape(extent)])
        entries = 256 if stored is DType.INT8 else 513
        found.append(build.add("TABLE", [part, build.random_constant((entries,), stored, -100, 100)]))
        first += size
    if len(set(parts)) > 1:
        for each in found:
            build.output(each)
        return build.finish()
    product = found[0]
    for other in found[1:]:
        product = build.add("MUL", [product, other, build.zero_point(DType.INT8)])
        product = build.rescale(product, DType.INT8, shift=38)
    build.output(product)
    return build.finish()


def convolutions(graph: Graph, config: str = "base") -> list[int]:
    """The output channels of each."""
    legal = legalize(graph, get_config(config))
    return [legal.tensors[each.outputs[0]].shape[-1] for each in legal.operators if each.op == "CONV2D"]


CASES = {
    "halves": dict(shape=(1, 1, 300, 64), parts=(64, 64)),
    "halves of bytes": dict(shape=(1, 20, 20, 24), parts=(32, 32), kernel=(3, 3), stored=DType.INT8),
    "a half of a matrix": dict(shape=(1, 1, 300, 64), parts=(64, 64), kernel=(1, 1), rank=3),
    "unequal parts": dict(shape=(2, 12, 40, 16), parts=(48, 16, 32), stored=DType.INT8),
}


@pytest.mark.parametrize("config", ["small", "base"])
@pytest.mark.parametrize("name", CASES)
def test_parts_equal_golden(name, config):
    graph = gated(**CASES[name])
    assert convolutions(graph) == list(CASES[name]["parts"])
    assert_equal_to_golden(graph, config, feeds(graph, 2))


APART = {
    "parts of tiles": dict(shape=(1, 1, 600, 64), parts=(24, 24)),
    "few pixels": dict(shape=(1, 1, 8, 64), parts=(64, 64)),
    "an image that comes twice": dict(shape=(1, 100, 100, 16), parts=(16, 16)),
}


@pytest.mark.parametrize("name", APART)
def test_what_would_not_gain_stays_one(name):
    graph = gated(**APART[name])
    assert convolutions(graph) == [sum(APART[name]["parts"])]
    assert_equal_to_golden(graph, "base", feeds(graph, 2))


@pytest.mark.parametrize("more", ["an output", "a reader of both", "a part of rows", "a gap"])
def test_whatever_else_sees_the_channels_keeps_them_together(more):
    build = LayerBuilder(3)
    image = build.conv(build.input("x", (1, 1, 200, 32), DType.INT8), 64, (1, 1))
    image = build.rescale(image, DType.INT8, shift=38)
    boxes = [(0, 200, 0, 32), (0, 200, 32, 32)]
    if more == "a part of rows":
        boxes[1] = (0, 100, 32, 32)
    if more == "a gap":
        boxes[1] = (0, 200, 48, 16)
    for y, rows, first, channels in boxes:
        starts, sizes = build.shape([0, 0, y, first]), build.shape([1, 1, rows, channels])
        part = build.add("SLICE", [image, starts, sizes])
        build.output(build.clamp(part, -90, 80))
    if more == "an output":
        build.output(image)
    if more == "a reader of both":
        build.output(build.clamp(image, -5, 5))
    graph = build.finish()
    assert convolutions(graph) == [64]
    assert_equal_to_golden(graph, "base", feeds(graph, 2))


def test_a_gate_is_free_beside_its_products():
    """WaveNet's: 64 channels in, kernel of 3, halves behind a tanh and a sigmoid. The array takes 48,000 cycles;
    with the curves and the product as layers of their own it was 78,000."""
    graph = gated((1, 1, 500, 64), (64, 64))
    session = Session(graph, target="emulator", config="base")
    session.run(feeds(graph, 2))
    assert session.stats["cycles"] <= 1.15 * 48_000


def test_layers_keep_the_names_of_the_network():
    graph = gated((1, 1, 300, 64), (64, 64))
    session = Session(graph, target="emulator", config="base")
    session.run({"x": np.zeros((1, 1, 300, 64), np.int8)})
    assert [layer["op"] for layer in session.stats["layers"]] == ["CONV2D", "CONV2D"]
