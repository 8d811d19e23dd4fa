"""Elementwise layers with a number for each row (a mean, a maximum, a scale): the slots are rows, and the number stays
in a register."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session

LARGEST = 1 << 31


def centred(
    shape: tuple[int, ...], *, dtype: DType = DType.INT16, known: bool = True, op: str = "SUB"
) -> Graph:
    """RESCALE(x) less a number of each row, as int16; `known`: the number is one of a few bits."""
    build = LayerBuilder(3)
    x = build.input("x", shape, dtype)
    row = build.input("row", (*shape[:-1], 1), DType.INT16 if known else DType.INT32)
    number = build.rescale(row, DType.INT32, shift=30, double=False) if known else row
    build.output(number)
    total = build.add(op, [build.rescale(x, DType.INT32, shift=29, double=False), number])
    one = [build.constant([1 << 30], DType.INT32), build.constant([30], DType.INT8)]
    zeros = [build.zero_point(DType.INT32), build.zero_point(DType.INT16)]
    how = dict(scale32=True, rounding_mode="SINGLE_ROUND", per_channel=False)
    how |= dict(input_unsigned=False, output_unsigned=False)
    build.output(build.add("RESCALE", [total, *one, *zeros], dtype=DType.INT16, **how))
    return build.finish()


def scaled(shape: tuple[int, ...], rows: int = 1) -> Graph:
    """x times numbers of each row, as int8."""
    build = LayerBuilder(4)
    total = build.input("x", shape, DType.INT16)
    for place in range(rows):
        row = build.input(f"row{place}", (*shape[:-1], 1), DType.INT16)
        total = build.add("MUL", [total, row, build.zero_point(DType.INT8, 0)], dtype=DType.INT32)
        total = build.rescale(total, DType.INT16, double=False, shift=44)
    build.output(build.rescale(total, DType.INT8, double=False, shift=36))
    return build.finish()


def vector_active(graph: Graph) -> int:
    session = Session(graph, target="emulator", config="base")
    session.run(feeds(graph, 1))
    return session.stats["counters"]["vector_active"]


@pytest.mark.parametrize("config", ["base", "nano", "base,lane_columns=4", "small,am_bytes=8K"])
@pytest.mark.parametrize("shape", [(33, 48), (1, 5, 16, 19), (2, 3, 40), (16, 2), (1, 16, 1)])
def test_equal_to_golden(shape: tuple[int, ...], config: str) -> None:
    graphs = [centred(shape, op="ADD"), centred(shape), scaled(shape), scaled(shape, 2)]
    for graph in [*graphs, centred(shape, dtype=DType.INT8)]:
        assert_equal_to_golden(graph, config, check_hazards=True)


@pytest.mark.parametrize("op", ["ADD", "SUB"])
def test_sums_beyond_int32_wrap(op: str) -> None:
    graph = centred((32, 32), known=False, op=op)
    values = feeds(graph, 1)
    values["row"] = np.resize(np.array([LARGEST - 1, -LARGEST, LARGEST - 70, 5], np.int32), (32, 1))
    assert_equal_to_golden(graph, "base", values, check_hazards=True)


def test_rows_in_external_memory() -> None:
    assert_equal_to_golden(centred((400, 410)), "base,am_bytes=32K", check_hazards=True)


@pytest.mark.parametrize(
    "graph, vectors, beats", [(centred((64, 256)), 1024, 4), (scaled((64, 256)), 1024, 4)]
)
def test_what_a_row_has_takes_a_cycle_for_a_row(graph: Graph, vectors: int, beats: int) -> None:
    """Two beats of x, in one micro-operation with the row's number; int16 is stored in two beats, int8 in one."""
    others = 64 * 4
    assert vectors * beats <= vector_active(graph) <= vectors * beats + others


@pytest.mark.parametrize("graph", [centred((2, 512)), scaled((3, 40))])
def test_few_rows_are_walked_vector_by_vector(graph: Graph) -> None:
    """Batches of few slots would wait for the results of their own micro-operations."""
    session = Session(graph, target="emulator", config="base")
    session.run(feeds(graph, 1))
    assert session.stats["cycles"] < 900
