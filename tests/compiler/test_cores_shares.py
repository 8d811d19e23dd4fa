"""Networks cut at random: the same integers on every number of cores, and no race."""

import random

import pytest
from cascade_graphs import inverted_bottleneck
from cut_networks import assert_cut_equals_golden
from layer_graphs import LayerBuilder, feeds
from random_growth import random_graph

from tosaic.compiler.cores.share import make_share
from tosaic.compiler.ir import DType, Graph
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config

NANO, BASE = get_config("nano,cores=2"), get_config("base,cores=4,bus_words=2")


def classifier(batch: int = 1) -> Graph:
    """Two paths that are added, a pool and a fully connected layer."""
    build = LayerBuilder(3)
    x = build.input("x", (batch, 13, 11, 8), DType.INT8)
    x = build.rescale(build.conv(x, 64, (3, 3), pad=(1, 1, 1, 1), input_zp=2), DType.INT8, per_channel=True)
    y = build.rescale(build.conv(x, 64, (3, 3), pad=(1, 1, 1, 1), input_zp=3), DType.INT8, per_channel=True)
    y = build.residual(x, y)
    y = build.add("MAX_POOL2D", [y], kernel=[3, 3], stride=[2, 2], pad=[0, 0, 0, 0], nan_mode="PROPAGATE")
    y = build.rescale(build.conv(y, 40, (6, 5), input_zp=1), DType.INT8)
    build.output(build.add("RESHAPE", [y, build.shape([batch, 40])]))
    return build.finish()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("config", (NANO, BASE), ids=("nano", "base"))
@pytest.mark.parametrize("batch", (1, 3))
def test_a_classifier(config, seed, batch):
    graph = classifier(batch)
    assert assert_cut_equals_golden(graph, config, feeds(graph, seed), seed) is not None


@pytest.mark.parametrize("stride", (1, 2))
@pytest.mark.parametrize("seed", range(4))
def test_an_inverted_bottleneck(seed, stride):
    graph = inverted_bottleneck(14, stride, residual=stride == 1)
    assert assert_cut_equals_golden(graph, BASE, feeds(graph, seed), seed) is not None


def random_cuts(first: int, count: int, config) -> int:
    """Cuts random graphs; the number of those that were split."""
    split = 0
    for seed in range(first, first + count):
        g = random_graph(random.Random(seed).randint)
        try:
            plan = assert_cut_equals_golden(g.graph, config, g.feeds(seed), seed)
        except UnsupportedError:
            continue
        split += plan is not None and any(each.segment.grid.cores > 1 for each in plan.segments)
    return split


def test_random_graphs():
    assert random_cuts(600, 12, get_config("small,cores=2,bus_words=2")) >= 4


@pytest.mark.nightly
@pytest.mark.parametrize("config", ("base,cores=4,bus_words=2", "nano,cores=4"))
def test_more_random_graphs(config):
    assert random_cuts(700, 100, get_config(config)) >= 20


def moved_elements() -> Graph:
    """Elements that are joined, turned back, repeated, looked up and reshaped after a convolution."""
    build = LayerBuilder(4)
    x = build.input("x", (1, 8, 6, 32), DType.INT8)
    y = build.rescale(build.conv(x, 32, (1, 1), input_zp=2), DType.INT8)
    y = build.add("CONCAT", [x, y], axis=3)
    y = build.add("REVERSE", [y], axis=1)
    y = build.add("RESHAPE", [y, build.shape([1, 48, 64])])
    y = build.add("GATHER", [y, build.constant([[n * 7 % 48 for n in range(40)]], DType.INT32)])
    build.output(build.clamp(build.add("TILE", [y, build.shape([1, 2, 1])]), -90, 90))
    return build.finish()


@pytest.mark.parametrize("seed", range(4))
def test_elements_that_move_are_cut(seed: int) -> None:
    graph = moved_elements()
    plan = assert_cut_equals_golden(graph, BASE, feeds(graph, seed), seed)
    assert plan is not None and any(each.segment.grid.cores > 1 for each in plan.segments)


def test_a_core_reads_no_more_of_what_is_joined_than_it_makes() -> None:
    """Channels of a CONCAT that other cores make are not computed."""
    graph = moved_elements()
    numbers = {operator.op: number for number, operator in enumerate(graph.operators)}
    result = graph.operators[numbers["REVERSE"]].outputs[0]
    wanted = {result: ((0, 1), (2, 4), (0, 6), (0, 32))}
    share = make_share(graph, range(numbers["REVERSE"] + 1), (), wanted)
    assert [operator.op for operator in share.graph.operators] == ["CONCAT", "REVERSE"]
    assert share.boxes["x"] == ((0, 1), (4, 6), (0, 6), (0, 32))
