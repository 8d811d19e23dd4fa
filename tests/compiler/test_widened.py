"""Bytes read as wider integers by reductions: made wider in the reductions' layers, or behind them."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.widened import widen_at_readers
from tosaic.driver.session import Session


def rescaled(build: LayerBuilder, x: str, dtype: DType, multiplier: int = 1 << 30, shift: int = 30) -> str:
    source = build.graph.tensors[x].dtype
    operands = [build.constant([multiplier], DType.INT32), build.constant([shift], DType.INT8)]
    zero_points = [build.zero_point(each, 3 if each is DType.INT8 else 0) for each in (source, dtype)]
    return build.add(
        "RESCALE",
        [x, *operands, *zero_points],
        dtype=dtype,
        scale32=True,
        rounding_mode="DOUBLE_ROUND",
        per_channel=False,
        input_unsigned=False,
        output_unsigned=False,
    )


def softmax_start(op: str, shape=(1, 40, 50), multiplier: int = 1 << 30) -> Graph:
    """Elements less their largest, as TFLite's softmax begins."""
    build = LayerBuilder(1)
    wide = rescaled(build, build.input("x", shape, DType.INT8), DType.INT32, multiplier, 24)
    axis = len(shape) - 1
    extreme = {} if op == "REDUCE_SUM" else {"nan_mode": "PROPAGATE"}
    build.output(build.add("SUB", [wide, build.add(op, [wide], axis=axis, **extreme)]))
    return build.finish()


def made(graph: Graph) -> list[tuple[str, DType]]:
    rewritten = widen_at_readers(graph)
    return [(each.op, rewritten.tensors[each.outputs[0]].dtype) for each in rewritten.operators]


@pytest.mark.parametrize("op", ["REDUCE_MAX", "REDUCE_MIN"])
def test_extremes_are_taken_of_bytes(op):
    graph = softmax_start(op)
    wide, narrow = ("RESCALE", DType.INT32), (op, DType.INT8)
    assert made(graph) == [wide, narrow, wide, ("SUB", DType.INT32)]
    assert_equal_to_golden(graph, "base")


def test_a_sum_has_a_rescale_of_its_own():
    graph = softmax_start("REDUCE_SUM")
    wide = ("RESCALE", DType.INT32)
    assert made(graph) == [wide, wide, ("REDUCE_SUM", DType.INT32), ("SUB", DType.INT32)]
    assert_equal_to_golden(graph, "base")


@pytest.mark.parametrize("multiplier", [0, 1, (1 << 31) - 1])
@pytest.mark.parametrize("op", ["REDUCE_MAX", "REDUCE_MIN", "REDUCE_SUM"])
def test_every_scale(op, multiplier):
    assert_equal_to_golden(softmax_start(op, (7, 5), multiplier), "nano")


def test_a_sum_of_squares_has_a_rescale_of_its_own():
    """What divides by the root of that sum waits for it, so it is another layer, which makes the bytes wider again."""
    build = LayerBuilder(6)
    wide = rescaled(build, build.input("x", (128, 576), DType.INT8), DType.INT32, 1 << 30, 24)
    zero = build.zero_point(DType.INT8)
    squares = rescaled(build, build.add("MUL", [wide, wide, zero]), DType.INT32, shift=40)
    mean = rescaled(build, build.add("REDUCE_SUM", [squares], axis=1), DType.INT32, shift=50)
    build.output(rescaled(build, build.add("MUL", [wide, mean, zero]), DType.INT8, shift=50))
    graph = build.finish()
    session = Session(graph, "emulator", "base")
    session.run(feeds(graph, 1), check=True)
    assert [layer.op for layer in session.program.layers] == ["REDUCE_SUM", "RESCALE"]
    # 91,300 when the int32 lay in memory, and the first row waited for the last.
    assert session.stats["cycles"] <= 36_000


def test_elementwise_readers_share_one():
    """They are one layer, in which a second RESCALE would be a second step."""
    build = LayerBuilder(2)
    wide = rescaled(build, build.input("x", (4, 24), DType.INT8), DType.INT32)
    build.output(build.add("SUB", [build.add("MUL", [wide, wide, build.zero_point(DType.INT8)]), wide]))
    graph = build.finish()
    assert [op for op, _ in made(graph)] == ["RESCALE", "MUL", "SUB"]


def test_what_is_an_output_stays():
    build = LayerBuilder(2)
    wide = rescaled(build, build.input("x", (4, 24), DType.INT8), DType.INT32)
    build.output(build.add("REDUCE_SUM", [wide], axis=1))
    build.output(wide)
    assert [op for op, _ in made(build.finish())] == ["RESCALE", "REDUCE_SUM"]


def test_unsigned_bytes_stay_where_they_are():
    """Their order is another one."""
    build = LayerBuilder(2)
    x = build.input("x", (4, 24), DType.INT8)
    scale = [build.constant([1 << 30], DType.INT32), build.constant([30], DType.INT8)]
    wide = build.add(
        "RESCALE",
        [x, *scale, build.zero_point(DType.INT8, 0), build.zero_point(DType.INT16)],
        dtype=DType.INT16,
        scale32=True,
        rounding_mode="SINGLE_ROUND",
        per_channel=False,
        input_unsigned=True,
        output_unsigned=False,
    )
    build.output(build.add("REDUCE_MAX", [wide], axis=1, nan_mode="PROPAGATE"))
    graph = build.finish()
    assert made(graph) == [("RESCALE", DType.INT16), ("REDUCE_MAX", DType.INT16)]
    assert_equal_to_golden(graph, "base")


def test_cycles_of_the_start_of_a_softmax():
    """46,366 when the int32 between them lay in memory."""
    graph = softmax_start("REDUCE_MAX", (214, 160))
    session = Session(graph, "emulator", "base")
    session.run(feeds(graph, 1), check=True)
    assert session.stats["cycles"] <= 25_900
    assert [layer.op for layer in session.program.layers] == ["REDUCE_MAX", "SUB"]


@pytest.mark.xdist_group("nano")
@pytest.mark.parametrize("op", ["REDUCE_MAX", "REDUCE_SUM"])
def test_on_the_rtl(op):
    graph = softmax_start(op, (3, 37))
    session = Session(graph, "sim", "nano")
    found = session.run(feeds(graph, 3), check=True)
    assert all(isinstance(each, np.ndarray) for each in found.values())
