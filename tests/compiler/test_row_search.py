"""GATHER of a few rows of a table that does not fit the activation memory: branches find each row's block."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexed_graphs import Values, assert_equal_to_golden, move_graph
from layer_graphs import LayerBuilder
from rtl_configs import on_rtl

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.verification import verify_program
from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate
from tosaic.sim.rtl import RtlSimulator

TYPES = (DType.INT8, DType.INT16, DType.INT32)
SMALL_MEMORY = dataclasses.replace(get_config("nano"), am_bytes=1 << 12)


def embedding(
    rows: int, elements: int, indices: np.ndarray, dtype: DType = DType.INT8
) -> tuple[Graph, Values]:
    """Rows of a constant table."""
    build = LayerBuilder(rows)
    table = build.random_constant((1, rows, elements), dtype, -100, 100)
    build.output(build.add("GATHER", [table, build.input("indices", (1, len(indices)), DType.INT32)]))
    return build.finish(), {"indices": indices[None].astype(np.int32)}


def cycles_of(graph: Graph, values: Values, config: str = "base") -> int:
    session = tosaic.Session(graph, target="emulator", config=config)
    found = session.run(values)
    for name, wanted in evaluate(graph, values).items():
        np.testing.assert_array_equal(found[name], wanted)
    return session.stats["cycles"]


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1500, 3000),
    st.integers(1, 40),
    st.integers(1, 6),
    st.sampled_from(TYPES),
    st.sampled_from(["small", "base", "nano", "little"]),
)
def test_random(rows, elements, count, dtype, config):
    chosen = SMALL_MEMORY if config == "little" else dataclasses.replace(get_config(config), am_bytes=1 << 13)
    graph, values = move_graph("GATHER", (1, rows, elements), count, dtype, beyond=5, seed=rows)
    assert_equal_to_golden(graph, values, chosen)


@pytest.mark.parametrize("count", [1, 5])
def test_every_block_is_found(count):
    """17 blocks, of which the last has 3 rows: their first and last rows, and indices outside."""
    rows, step = 16 * 16 + 3, 16
    borders = np.array(
        [each + edge for each in range(0, rows, step) for edge in (-1, 0)] + [rows - 1, rows, 1 << 30]
    )
    for first in range(0, len(borders) - count, count):
        graph, values = embedding(rows, 32, borders[first : first + count])
        assert_equal_to_golden(graph, values, dataclasses.replace(get_config("base"), am_bytes=1 << 12))


@pytest.mark.parametrize("dtype", TYPES)
def test_a_row_costs_its_block_and_not_the_table(dtype):
    """An embedding of 4,000 words takes a hundredth of the cycles in which the bus brings the table, and little more
    for one that is eight times as large."""
    columns = 384 // dtype.numpy.itemsize
    few, many = (embedding(rows, columns, np.array([rows - 2]), dtype) for rows in (4_000, 32_000))
    assert cycles_of(*few) < 1_400
    assert cycles_of(*many) < 1_400 + 3 * 80


def test_the_program_is_small_beside_the_table():
    graph, _ = embedding(8_000, 384, np.array([5]))
    assert compile_graph(graph, get_config("base")).program_bytes < 8_000 * 384 / 80


def test_many_rows_take_the_whole_table():
    """The bus brings it in less time than 400 rows are found in."""
    graph, values = embedding(4_000, 96, np.arange(400) * 9)
    assert cycles_of(graph, values) < 100_000


def test_in_a_network():
    """A table of the vector unit is there before and behind the branches; the embedding is looked up twice."""
    build = LayerBuilder(4)
    x, index = build.input("x", (1, 1, 64), DType.INT8), build.input("index", (1, 1), DType.INT32)
    curve = build.random_constant((256,), DType.INT8, -128, 127)
    words = build.random_constant((1, 6000, 64), DType.INT8, -128, 127)
    other = build.add("GATHER", [words, build.add("ADD", [index, build.constant([[700]], DType.INT32)])])
    rows = [build.add("TABLE", [each, curve]) for each in (x, build.add("GATHER", [words, index]), other)]
    wide = [build.add("CAST", [each], dtype=DType.INT32) for each in rows]
    build.output(build.add("MAXIMUM", [build.add("SUB", wide[:2]), wide[2]]))
    values = {"x": np.arange(64, dtype=np.int8).reshape(1, 1, 64), "index": np.array([[4321]], np.int32)}
    graph = build.finish()
    for config in ("small", "base", "base,cores=2,bus_words=2"):
        cycles_of(graph, values, config)


@pytest.mark.parametrize("count", [1, 3])
def test_such_programs_are_verified(count):
    graph, _ = embedding(2_000, 256, np.arange(count))
    checked = verify_program(compile_graph(graph, get_config("base")))
    assert checked.pieces > 2 * 2_000 * 256 // 8192
    assert len(checked.data_loops) == (count > 1)


@pytest.mark.parametrize("config", [on_rtl(name) for name in ("nano", "small", "base")])
def test_on_the_rtl(config):
    """The same bytes as golden's."""
    chosen = get_config(config)
    rows = 5 * chosen.am_bytes // 64
    graph, values = embedding(rows, 64, np.array([0, rows - 1, rows // 2]))
    program = assert_equal_to_golden(graph, values, chosen)
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, values[port.name])
    emulated = Emulator(chosen).run(memory.copy(), program.program_address, program.program_bytes)
    run = RtlSimulator(chosen).run(memory, program.program_address, program.program_bytes)
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(memory), evaluate(graph, values)[port.name])
    assert abs(run.cycles - emulated.cycles) <= 0.03 * emulated.cycles
