"""Pools as rows and columns, or as convolutions by ones: the same integers in fewer cycles."""

import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.cheaper_pool import cheaper_pools
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config

BASE = get_config("base")


def pool(op: str, shape, kernel, stride=(1, 1), pad=(0, 0, 0, 0), dtype=DType.INT8) -> Graph:
    build = LayerBuilder(3)
    x = build.input("x", shape, dtype)
    attributes = dict(kernel=list(kernel), pad=list(pad), stride=list(stride))
    if op == "AVG_POOL2D":
        zero_points = [build.zero_point(dtype, value if dtype is DType.INT8 else 0) for value in (7, -5)]
        build.output(build.add(op, [x, *zero_points], acc_type=DType.INT32, **attributes))
    else:
        build.output(build.add(op, [x], nan_mode="PROPAGATE", **attributes))
    return build.finish()


def operators(graph: Graph, config=BASE) -> list[str]:
    return [operator.op for operator in cheaper_pools(graph, config).operators]


MAXIMA = {
    "padded on all sides": dict(shape=(2, 9, 11, 24), kernel=(5, 5), pad=(2, 2, 2, 2)),
    "padded on one side": dict(shape=(1, 12, 13, 40), kernel=(5, 6), pad=(0, 3, 4, 0)),
    "steps along both axes": dict(shape=(1, 21, 31, 18), kernel=(7, 7), stride=(2, 3)),
    "steps longer than windows": dict(shape=(1, 20, 29, 5), kernel=(5, 5), stride=(5, 6), pad=(0, 0, 0, 0)),
}


@pytest.mark.parametrize("config", ["base", "small", "nano"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("name", MAXIMA)
def test_maxima_of_rows_and_then_of_columns(name, dtype, config):
    assert_equal_to_golden(pool("MAX_POOL2D", dtype=dtype, **MAXIMA[name]), config)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_a_maximum_is_taken_apart_where_that_is_cheaper(dtype):
    padded = pool("MAX_POOL2D", (1, 20, 20, 128), (5, 5), pad=(2, 2, 2, 2), dtype=dtype)
    rows, columns = cheaper_pools(padded, BASE).operators
    assert (rows.op, rows.attributes["kernel"], rows.attributes["pad"]) == (
        "MAX_POOL2D",
        [5, 1],
        [2, 2, 0, 0],
    )
    assert (columns.op, columns.attributes["kernel"], columns.attributes["pad"]) == (
        "MAX_POOL2D",
        [1, 5],
        [0, 0, 2, 2],
    )


def test_a_small_maximum_stays():
    assert operators(pool("MAX_POOL2D", (1, 16, 16, 64), (2, 2), (2, 2))) == ["MAX_POOL2D"]


AVERAGES = {
    "every pixel": dict(shape=(2, 12, 6, 33), kernel=(5, 5)),
    "steps": dict(shape=(1, 35, 19, 24), kernel=(7, 7), stride=(2, 2)),
    "windows side by side": dict(shape=(1, 16, 16, 16), kernel=(4, 4), stride=(4, 4)),
    "a row": dict(shape=(1, 3, 40, 20), kernel=(1, 9), stride=(1, 1)),
}


@pytest.mark.parametrize("config", ["base", "small", "nano"])
@pytest.mark.parametrize("name", AVERAGES)
def test_averages_by_the_array(name, config):
    graph = pool("AVG_POOL2D", **AVERAGES[name])
    if config == "base":
        assert operators(graph) == ["DEPTHWISE_CONV2D", "RESCALE"]
    assert_equal_to_golden(graph, config)


KEPT = {
    "windows of several sizes": dict(shape=(1, 20, 20, 16), kernel=(5, 5), pad=(2, 2, 2, 2)),
    "int16": dict(shape=(1, 20, 20, 16), kernel=(5, 5), dtype=DType.INT16),
    "the whole image": dict(shape=(1, 7, 7, 64), kernel=(7, 7)),
    "windows far apart, each of which is read whole": dict(
        shape=(1, 20, 20, 512), kernel=(5, 5), stride=(5, 5)
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_averages_that_stay(name):
    assert operators(pool("AVG_POOL2D", **KEPT[name])) == ["AVG_POOL2D"]


@pytest.mark.parametrize(
    "kernel, together",
    [((5, 3), True), ((4, 4), True), ((1, 16), True), ((6, 2), False), ((5, 4), False), ((2, 16), False)],
)
def test_averages_whose_rows_the_array_does_not_hold_at_once(kernel: tuple[int, int], together: bool) -> None:
    """16 rows of weights, and 5 lines of an image: more need partial sums."""
    graph = pool("AVG_POOL2D", (1, 20, 40, 32), kernel)
    by_ones = ["DEPTHWISE_CONV2D", "RESCALE"]
    assert operators(graph) == by_ones
    assert operators(graph, get_config("base,partial_sums=0")) == (by_ones if together else ["AVG_POOL2D"])


CYCLES = {
    "YOLO's pyramid": (pool("MAX_POOL2D", (1, 20, 20, 128), (5, 5), pad=(2, 2, 2, 2)), 35_200),
    "large windows": (pool("MAX_POOL2D", (1, 37, 33, 18), (7, 7), (2, 2)), 9_300),
    "DenseNet's transition": (pool("AVG_POOL2D", (1, 56, 56, 128), (2, 2), (2, 2)), 28_600),
    "few channels": (pool("AVG_POOL2D", (1, 23, 67, 5), (5, 5), (2, 2)), 2_400),
}


@pytest.mark.parametrize("name", CYCLES)
def test_cycles(name):
    graph, most = CYCLES[name]
    session = Session(graph, "emulator", "base")
    session.run(feeds(graph, 1), check=True)
    assert session.stats["cycles"] <= most


@pytest.mark.xdist_group("nano")
@pytest.mark.parametrize("op", ["AVG_POOL2D", "MAX_POOL2D"])
def test_on_the_rtl(op):
    graph = pool(op, (1, 11, 13, 20), (5, 5), (2, 1))
    session = Session(graph, "sim", "nano")
    session.run(feeds(graph, 2), check=True)
