"""How much the compiler does for graphs of a kind and of twice the size, counted in calls of functions: processor time
depends on the machine, calls do not. Twice the graph may take a little more than twice the calls (n log n)."""

import sys

import numpy as np
import pytest

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.hw.config_text import get_config

MOST = 2.2
"""Times the calls for twice the graph; a quadratic part shows as up to 4."""


def elementwise_chain(n: int) -> Graph:
    build = GraphBuilder("chain")
    x, y = (build.input(name, (64,), DType.INT32) for name in "xy")
    for number in range(n):
        x = build.add(("ADD", "SUB", "BITWISE_XOR")[number % 3], [x, y])
    build.output(x)
    return build.finish()


def live_tensors(n: int) -> Graph:
    """All in the activation memory until the end, as the skip connections of a very deep network."""
    build, held = GraphBuilder("live"), []
    x = build.input("x", (64,), DType.INT32)
    for number in range(n):
        x = build.add(("ABS", "CLZ")[number % 2], [x])
        held.append(build.add("REVERSE", [x], axis=0))
    for other in reversed(held):
        x = build.add("ADD", [x, other])
    build.output(x)
    return build.finish()


def fan(n: int) -> Graph:
    build = GraphBuilder("fan")
    x = build.input("x", (1, 64), DType.INT32)
    parts = [build.add("ADD", [x, build.constant([[number]], DType.INT32)]) for number in range(n)]
    build.output(build.add("CONCAT", parts, axis=0))
    return build.finish()


def many_outputs(n: int) -> Graph:
    build = GraphBuilder("outputs")
    x = build.input("x", (64,), DType.INT32)
    for number in range(n):
        build.output(build.add("ADD", [x, build.constant([number], DType.INT32)]))
    return build.finish()


def many_constants(n: int) -> Graph:
    build = GraphBuilder("constants")
    x = build.input("x", (256,), DType.INT32)
    for number in range(n):
        x = build.add("ADD", [x, build.constant(np.arange(256) * number % 99, DType.INT32)])
    build.output(x)
    return build.finish()


def convolutions(n: int) -> Graph:
    build = GraphBuilder("convolutions")
    x = build.input("x", (1, 8, 8, 16), DType.INT8)
    zero, bias = build.constant([0], DType.INT8), build.constant(np.zeros(16), DType.INT32)
    for number in range(n):
        weights = build.constant(
            (np.arange(16 * 16) * (number + 7) % 251 - 125).reshape(16, 1, 1, 16), DType.INT8
        )
        sums = build.add(
            "CONV2D",
            [x, weights, bias, zero, zero],
            pad=[0] * 4,
            stride=[1, 1],
            dilation=[1, 1],
            acc_type=DType.INT32,
            local_bound=False,
        )
        scale = [build.constant([1 << 30], DType.INT32), build.constant([38], DType.INT8)]
        x = build.add(
            "RESCALE",
            [sums, *scale, build.constant([0], DType.INT32), zero],
            dtype=DType.INT8,
            scale32=True,
            rounding_mode="SINGLE_ROUND",
            per_channel=False,
            input_unsigned=False,
            output_unsigned=False,
        )
    build.output(x)
    return build.finish()


def boxes_of_a_sum(n: int) -> Graph:
    build = GraphBuilder("boxes")
    x, y = (build.input(name, (n, 1024), DType.INT32) for name in "xy")
    build.output(build.add("ADD", [x, y]))
    return build.finish()


def boxes_of_a_reduction(n: int) -> Graph:
    build = GraphBuilder("reduction")
    build.output(build.add("REDUCE_ALL", [build.input("x", (n, 17), DType.BOOL)], axis=1))
    return build.finish()


KINDS = (
    (elementwise_chain, 100),
    (live_tensors, 160),
    (fan, 120),
    (many_outputs, 80),
    (many_constants, 80),
    (convolutions, 50),
    (boxes_of_a_sum, 1024),
    (boxes_of_a_reduction, 100_000),
)


def calls(graph: Graph) -> int:
    """Functions of Python and of C that are called to compile a graph."""
    count = 0

    def on_event(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(on_event)
    try:
        compile_graph(graph, get_config("base"))
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.long
@pytest.mark.parametrize(("kind", "size"), KINDS, ids=lambda each: getattr(each, "__name__", str(each)))
def test_twice_the_graph_takes_about_twice_the_work(kind, size):
    calls(kind(size // 8))  # What is made once and kept.
    once, twice = calls(kind(size)), calls(kind(2 * size))
    assert twice <= MOST * once, f"{once} calls became {twice}"


def test_boxes_of_a_reduction_take_the_passes_that_are_there():
    """A box of which another one is a copy, but for addresses outside, takes about what it takes to schedule it."""
    n = 200_000
    boxes = (calls(boxes_of_a_reduction(2 * n)) - calls(boxes_of_a_reduction(n))) / (n / 1926)
    assert boxes <= 3_000
