"""Elementwise layers with a number for each channel (a gate, a scale): the number stays in a register while the pixels
of a group of channels pass."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds
from rtl_configs import on_rtl

from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session

SHAPES = [(1, 24, 24, 40), (1, 7, 7, 35), (49, 33), (2, 5, 6, 24), (3, 1, 17, 16), (1, 4, 48), (1, 1, 1, 20)]


def doubled(build: LayerBuilder, x: str, times: int) -> str:
    """`x` as int32, doubled some times."""
    scale = [build.constant([1 << 30], DType.INT32), build.constant([30 - times], DType.INT8)]
    zeros = [build.zero_point(build.graph.tensors[x].dtype), build.zero_point(DType.INT32)]
    how = dict(scale32=True, rounding_mode="SINGLE_ROUND", per_channel=False)
    how |= dict(input_unsigned=False, output_unsigned=False)
    return build.add("RESCALE", [x, *scale, *zeros], dtype=DType.INT32, **how)


def gated(
    shape: tuple[int, ...],
    *,
    dtype: DType = DType.INT16,
    gate: tuple[int, ...] | None = None,
    per_channel: bool = False,
    op: str = "MUL",
) -> Graph:
    """x, eight times doubled, and a gate for each channel, as int8; `gate`: its shape."""
    build = LayerBuilder(3)
    x = build.input("x", shape, dtype)
    line = build.input("line", gate or (*(1 for _ in shape[:-1]), shape[-1]), DType.INT16)
    value, number = doubled(build, x, 8), doubled(build, line, 0)
    build.output(number)
    if op == "MUL":
        value = build.add("MUL", [value, number, build.zero_point(DType.INT8, 17)], dtype=DType.INT32)
    else:
        value = build.add(op, [value, number])
    build.output(build.rescale(value, DType.INT8, double=False, shift=40, per_channel=per_channel))
    return build.finish()


@pytest.mark.parametrize("config", ["base", "nano", "base,lane_columns=4", "small,am_bytes=8K"])
@pytest.mark.parametrize("shape", SHAPES)
def test_equal_to_golden(shape: tuple[int, ...], config: str) -> None:
    for per_channel in (False, True):
        for op in ("MUL", "SUB"):
            graph = gated(shape, op=op, per_channel=per_channel)
            assert_equal_to_golden(graph, config, check_hazards=True)


@pytest.mark.parametrize("gate", [(2, 1, 1, 24), (2, 6, 1, 24), (1, 6, 1, 24), (2, 1, 5, 24)])
def test_gates_of_images_and_of_rows(gate: tuple[int, ...]) -> None:
    for per_channel in (False, True):
        graph = gated((2, 6, 5, 24), gate=gate, per_channel=per_channel)
        assert_equal_to_golden(graph, "base", check_hazards=True)


def test_boxes_of_a_larger_tensor() -> None:
    graph = gated((1, 40, 40, 72), per_channel=True)
    assert_equal_to_golden(graph, "base,am_bytes=32K", check_hazards=True)


@pytest.mark.parametrize("config", [on_rtl("nano"), on_rtl("base")])
def test_on_rtl(config: str) -> None:
    for per_channel in (False, True):
        graph = gated((1, 7, 7, 35), per_channel=per_channel)
        Session(graph, "sim", config).run(feeds(graph, 1), check=True)


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_gate_takes_no_cycles_of_a_pixel(per_channel: bool) -> None:
    """Two beats of an int16, in one micro-operation with the gate, whose doublings are a part of its shift; and one of
    the result."""
    graph = gated((1, 32, 32, 64), per_channel=per_channel)
    session = Session(graph, "emulator", "base")
    session.run(feeds(graph, 1), check=True)
    vectors, gates, boxes = 32 * 32 * 64 // 16, 4 * 16 * 4, 8
    assert session.stats["counters"]["vector_active"] <= 3 * vectors + (boxes + 1) * gates


@pytest.mark.parametrize("times", [0, 8, 15])
def test_extremes_of_a_product_that_is_shifted_less(times: int) -> None:
    build = LayerBuilder(5)
    x, y = (build.input(name, (1, 4, 64), DType.INT16) for name in "xy")
    factors, shift = [doubled(build, x, times), doubled(build, y, 0)], build.zero_point(DType.INT8, 15)
    build.output(build.add("MUL", [*factors, shift], dtype=DType.INT32))
    ends = np.array([-32768, -32767, -3, -1, 0, 1, 5, 32767], np.int16)
    values = {"x": np.resize(ends, (1, 4, 64)), "y": np.resize(np.repeat(ends, 8), (1, 4, 64))}
    assert_equal_to_golden(build.finish(), "base", values)
