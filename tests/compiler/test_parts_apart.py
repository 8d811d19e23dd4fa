"""SLICEs whose elements do not follow each other in memory: elementwise layers read them where they are."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds
from shared_files import ABSENT, SHARED

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config

CASES = SHARED / "cases/performance"
Shape = tuple[int, ...]

LITTLE = [
    dataclasses.replace(get_config(name), name=f"{name}, 4 KiB", am_bytes=4096) for name in ("small", "nano")
]
"""Hold hardly any tensor of these graphs: they are fetched box by box."""
CONFIGS = ["nano", "small", "base", *LITTLE]


def part(b: LayerBuilder, x: str, start: Shape, size: Shape) -> str:
    return b.add("SLICE", [x, b.shape(start), b.shape(size)])


def wide(b: LayerBuilder, x: str) -> str:
    return x if b.graph.tensors[x].dtype is DType.INT32 else b.add("CAST", [x], dtype=DType.INT32)


def differences(shape: Shape, axis: int, dtype: DType) -> Graph:
    """Returns a graph of the differences of each element and the one before it along an axis."""
    b = LayerBuilder(1)
    x = b.input("x", shape, dtype)
    size = tuple(extent - (each == axis) for each, extent in enumerate(shape))
    ends = (tuple(int(each == axis) for each in range(len(shape))), (0,) * len(shape))
    y = b.add("SUB", [wide(b, part(b, x, start, size)) for start in ends])
    b.output(y if dtype is DType.INT32 else b.add("CAST", [y], dtype=dtype))
    return b.finish()


def halves(b: LayerBuilder) -> str:
    """A gated unit: the one half of the channels by a table of the other."""
    x = b.input("x", (3, 20, 68), DType.INT8)
    a, gate = (part(b, x, (0, 0, start), (3, 20, 34)) for start in (0, 34))
    gate = b.add("TABLE", [gate, b.random_constant((256,), DType.INT8, -128, 127)])
    product = b.add("MUL", [a, gate, b.zero_point(DType.INT8)], dtype=DType.INT32)
    return b.rescale(product, DType.INT8, shift=38)


def rotated(b: LayerBuilder) -> str:
    """Two layers read both halves, and broadcast what they multiply with."""
    x = b.input("x", (4, 9, 64), DType.INT16)
    a, c = (part(b, x, (0, 0, start), (4, 9, 32)) for start in (0, 32))
    turns = [b.random_constant((1, 9, 32), DType.INT16, -99, 99) for _ in range(2)]

    def product(left: str, right: str) -> str:
        return b.add("MUL", [left, right, b.zero_point(DType.INT8)], dtype=DType.INT32)

    u = b.add("SUB", [product(a, turns[0]), product(c, turns[1])])
    v = b.add("ADD", [product(c, turns[0]), product(a, turns[1])])
    return b.add("CONCAT", [b.rescale(each, DType.INT16, shift=36) for each in (u, v)], axis=2)


def inner_boxes(b: LayerBuilder) -> str:
    """Cut in every axis, in different places."""
    x = b.input("x", (4, 7, 9, 40), DType.INT8)
    starts = ((0, 1, 0, 3), (1, 2, 4, 0), (1, 0, 1, 7))
    parts = [b.rescale(part(b, x, each, (3, 5, 5, 33)), DType.INT32, shift=28) for each in starts]
    return b.rescale(b.add("ADD", [b.add("ADD", parts[:2]), parts[2]]), DType.INT8, shift=44)


def column_and_row(b: LayerBuilder) -> str:
    """A column and a row of one matrix, broadcast to each other, and to a part of another one."""
    x, y = b.input("x", (40, 50), DType.INT32), b.input("y", (44, 60), DType.INT32)
    column, row = part(b, x, (0, 7), (40, 1)), part(b, x, (9, 5), (1, 40))
    return b.add("SUB", [b.add("ADD", [column, part(b, y, (2, 8), (40, 40))]), row])


def by_channels(b: LayerBuilder) -> str:
    x = b.input("x", (5, 6, 70), DType.INT32)
    return b.rescale(part(b, x, (0, 1, 11), (5, 4, 50)), DType.INT8, per_channel=True, shift=50)


def of_computed(b: LayerBuilder) -> str:
    """Compares parts of a convolution's result, which is resident; the results are truth values."""
    x = b.rescale(b.conv(b.input("x", (1, 6, 7, 8), DType.INT8), 64, (3, 3)), DType.INT8, per_channel=True)
    low, high = (b.add("CAST", [part(b, x, (0, 0, 0, k), (1, 4, 5, 32))], dtype=DType.INT32) for k in (0, 32))
    flags = b.add("GREATER", [low, high])
    left, right = (part(b, flags, (0, 0, 0, k), (1, 4, 5, 16)) for k in (3, 16))
    return b.add("LOGICAL_XOR", [left, right])


def gate_by_channels(b: LayerBuilder) -> str:
    """Reads both halves of rows and a column, in boxes of many rows and few channels."""
    x, y = b.input("x", (60, 300), DType.INT8), b.input("y", (60, 1), DType.INT8)
    a, gate = (part(b, x, (0, start), (60, 150)) for start in (0, 150))
    zero = b.zero_point(DType.INT8)
    product = b.add("MUL", [wide(b, a), wide(b, gate), zero], dtype=DType.INT32)
    scaled = b.add("MUL", [product, wide(b, y), zero], dtype=DType.INT32)
    return b.rescale(scaled, DType.INT8, per_channel=True, shift=46)


READ = (halves, rotated, inner_boxes, column_and_row, by_channels, of_computed, gate_by_channels)


def short_rows(b: LayerBuilder) -> str:
    """Rows of one element, of which a vector has one."""
    x = b.input("x", (40, 3), DType.INT32)
    return b.add("ADD", [part(b, x, (0, 0), (40, 1)), part(b, x, (0, 1), (40, 1))])


def for_a_convolution(b: LayerBuilder) -> str:
    x = part(b, b.input("x", (1, 5, 5, 40), DType.INT8), (0, 0, 0, 2), (1, 5, 5, 32))
    b.output(b.rescale(x, DType.INT32, shift=30))
    return b.conv(x, 4, (1, 1))


def a_result(b: LayerBuilder) -> str:
    x = part(b, b.input("x", (9, 50), DType.INT32), (0, 1), (9, 40))
    b.output(b.add("ABS", [x]))
    return x


def for_a_reduction(b: LayerBuilder) -> str:
    x = part(b, b.input("x", (9, 50), DType.INT32), (0, 1), (9, 40))
    return b.add("REDUCE_SUM", [x], axis=1)


def in_another_shape(b: LayerBuilder) -> str:
    x = part(b, b.input("x", (9, 50), DType.INT32), (0, 1), (9, 40))
    b.output(b.add("ABS", [x]))
    return b.add("ABS", [b.add("RESHAPE", [x, b.shape((360,))])])


COPIED = {short_rows: 2, for_a_convolution: 1, a_result: 1, for_a_reduction: 1, in_another_shape: 1}


def built(make: Callable[[LayerBuilder], str]) -> Graph:
    b = LayerBuilder(3)
    b.output(make(b))
    return b.finish()


def slices(graph: Graph) -> int:
    """Returns the number of SLICEs that are layers on base."""
    return [layer.op for layer in compile_graph(graph, get_config("base")).layers].count("SLICE")


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("make", [*READ, *COPIED], ids=lambda make: make.__name__)
def test_parts_with_gaps_equal_golden(make: Callable[[LayerBuilder], str], config: str) -> None:
    assert_equal_to_golden(built(make), config, check_hazards=True)


@pytest.mark.parametrize("make", [*READ, *COPIED], ids=lambda make: make.__name__)
def test_which_slices_with_gaps_are_copied(make: Callable[[LayerBuilder], str]) -> None:
    assert slices(built(make)) == COPIED.get(make, 0)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.INT32])
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_differences_along_every_axis(dtype: DType, config: str) -> None:
    for shape in ((5, 6, 50), (40, 33), (3, 4, 5, 17)):
        for axis in range(len(shape)):
            assert_equal_to_golden(differences(shape, axis, dtype), config, check_hazards=True)


def cycles(model: object, config: str = "base") -> int:
    session = Session(model, "emulator", config=config)
    session.run({each.name: np.zeros(each.shape, each.numpy) for each in session.inputs})
    return session.stats["cycles"]


def test_differences_along_the_last_axis_cost_what_those_of_rows_cost() -> None:
    """11,082 cycles in three layers when the parts are copied."""
    assert cycles(differences((64, 129), 1, DType.INT32)) == 6365
    assert cycles(differences((65, 128), 0, DType.INT32)) == 6389


@pytest.mark.skipif(not CASES.exists(), reason=ABSENT)
def test_the_case_of_differences() -> None:
    assert cycles(CASES / "diff_axis0.tosa") == 6389


def test_cores_share_the_rows_of_a_part() -> None:
    """Each core reads its rows of the part where they are; 7,512 cycles when both are copied first."""
    graph = differences((64, 129), 1, DType.INT32)
    session = Session(graph, "emulator", config="base,cores=2,bus_words=2")
    session.run(feeds(graph, 1), check=True)
    assert session.stats["cycles"] < 0.7 * 6365
