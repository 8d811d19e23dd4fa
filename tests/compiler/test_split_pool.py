"""Pools whose window does not fit the memory or an instruction, as reductions."""

import dataclasses

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.oversize import split_oversize
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate

TINY = dataclasses.replace(get_config("small"), name="tiny", am_bytes=1 << 10, wm_bytes=1 << 10)


def pool(op: str, shape, kernel, pad, stride, dtype=DType.INT8) -> Graph:
    build = LayerBuilder(3)
    x = build.input("x", shape, dtype)
    attributes = dict(kernel=list(kernel), pad=list(pad), stride=list(stride))
    if op == "AVG_POOL2D":
        zero_points = [build.zero_point(dtype, 7 if dtype is DType.INT8 else 0) for _ in range(2)]
        build.output(build.add(op, [x, *zero_points], acc_type=DType.INT32, **attributes))
    else:
        build.output(build.add(op, [x], nan_mode="PROPAGATE", **attributes))
    return build.finish()


LARGE = {
    "whole image": dict(shape=(2, 20, 30, 3), kernel=(20, 30), pad=(0, 0, 0, 0), stride=(1, 1)),
    "padded": dict(shape=(1, 20, 30, 5), kernel=(21, 29), pad=(1, 2, 0, 3), stride=(1, 2)),
    "tall": dict(shape=(1, 900, 1, 2), kernel=(899, 1), pad=(0, 0, 0, 0), stride=(1, 1)),
}


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("op", ["AVG_POOL2D", "MAX_POOL2D"])
@pytest.mark.parametrize("name", LARGE)
def test_windows_larger_than_the_memory(name, op, dtype):
    graph = pool(op, dtype=dtype, **LARGE[name])
    assert op not in [operator.op for operator in split_oversize(graph, TINY).operators]
    assert_equal_to_golden(graph, TINY)


@pytest.mark.parametrize("op", ["AVG_POOL2D", "MAX_POOL2D"])
def test_more_taps_than_an_instruction_repeats(op):
    graph = pool(op, (1, 256, 257, 1), (256, 257), (0, 0, 0, 0), (1, 1))
    assert_equal_to_golden(graph, "base")


def test_a_pool_of_a_whole_image_fills_the_slots():
    """Four vectors of 16 channels for each of 125 positions: partial results take turns where the running values alone
    would wait for each other."""
    session = Session(pool("AVG_POOL2D", (1, 25, 5, 64), (25, 5), (0, 0, 0, 0), (1, 1)), "emulator", "base")
    session.run(feeds(session.graph, 1), check=True)
    assert session.stats["counters"]["vector_active"] < 700
    (layer,) = session.program.layers
    assert layer.op == "REDUCE_SUM"


def test_a_window_that_reaches_over_the_image():
    """Padding counts for nothing: the window is the whole image."""
    graph = pool("AVG_POOL2D", (1, 3, 4, 20), (5, 5), (1, 1, 0, 1), (1, 1))
    assert_equal_to_golden(graph, "small")


def test_a_whole_image_of_many_channels_is_one_layer():
    """[1, 7, 7, 2048] as int32 is larger than the memory of `base`, but its reduction along both axes reads bytes."""
    session = Session(pool("AVG_POOL2D", (1, 7, 7, 2048), (7, 7), (0, 0, 0, 0), (1, 1)), "emulator", "base")
    session.run(feeds(session.graph, 1), check=True)
    assert [layer.op for layer in session.program.layers] == ["REDUCE_SUM"]


@pytest.mark.parametrize("op", ["AVG_POOL2D", "MAX_POOL2D"])
def test_two_windows_of_two_sizes(op):
    """Windows of 300 and of 600 elements have a scale each."""
    graph = pool(op, (1, 600, 1, 2), (600, 1), (300, 0, 0, 0), (300, 1), DType.INT16)
    assert op not in [operator.op for operator in split_oversize(graph, TINY).operators]
    values = np.random.default_rng(2).integers(20_000, 30_000, (1, 600, 1, 2), dtype=np.int16)
    assert_equal_to_golden(graph, TINY, {"x": values})


def test_as_many_taps_as_an_instruction_repeats():
    base = get_config("base")
    for rows, split in ((255, False), (256, True)):
        graph = pool("MAX_POOL2D", (1, rows + 1, 257, 1), (rows, 257), (0, 0, 0, 0), (1, 1))
        operators = [operator.op for operator in split_oversize(graph, base).operators]
        assert ("MAX_POOL2D" not in operators) == split


@pytest.mark.parametrize("op", ["AVG_POOL2D", "MAX_POOL2D"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize(
    "how",
    [
        dict(shape=(2, 7, 9, 3), kernel=(5, 7), pad=(2, 2, 0, 0), stride=(1, 2)),
        dict(shape=(1, 7, 9, 3), kernel=(5, 7), pad=(0, 0, 3, 3), stride=(2, 1)),
        dict(shape=(1, 7, 9, 2), kernel=(5, 7), pad=(0, 2, 6, 0), stride=(1, 1)),
        dict(shape=(1, 6, 9, 2), kernel=(6, 9), pad=(5, 0, 0, 8), stride=(1, 1)),
        dict(shape=(2, 7, 9, 5), kernel=(5, 7), pad=(0, 0, 0, 0), stride=(1, 1)),
    ],
    ids=["above and below", "left and right", "a corner", "as large as the image", "no padding"],
)
def test_windows_of_every_size(how: dict, dtype: DType, op: str) -> None:
    """An image has several rows and columns of results, each of which may have a divisor of its own."""
    graph = pool(op, dtype=dtype, **how)
    found = split_oversize(graph, dataclasses.replace(TINY, am_bytes=128))
    assert op not in [operator.op for operator in found.operators]
    (output,) = graph.outputs
    values = feeds(graph, 3)
    np.testing.assert_array_equal(evaluate(found, values)[output], evaluate(graph, values)[output])
