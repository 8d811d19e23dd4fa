"""GATHER and SCATTER on the emulator equal golden: tables in memory whole, and in every kind of tile."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexed_graphs import assert_equal_to_golden, instructions, move_graph
from layer_graphs import LayerBuilder
from rtl_configs import on_rtl

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode
from tosaic.sim.golden import evaluate
from tosaic.sim.rtl import RtlSimulator

TYPES = (DType.INT8, DType.INT16, DType.INT32)
BOTH = ("GATHER", "SCATTER")
SMALL_MEMORY = dataclasses.replace(get_config("nano"), am_bytes=1 << 11)


@st.composite
def moves(draw):
    op, dtype = draw(st.sampled_from(BOTH)), draw(st.sampled_from(TYPES))
    shape = (draw(st.integers(1, 4)), draw(st.integers(1, 60)), draw(st.integers(1, 70)))
    count = draw(st.integers(1, 60 if op == "GATHER" else shape[1]))
    flags = {name: draw(st.booleans()) for name in ("constant", "same")}
    return move_graph(op, shape, count, dtype, seed=draw(st.integers(0, 999)), **flags)


@settings(max_examples=60, deadline=None)
@given(moves(), st.sampled_from(["nano", "small", "base", "large"]))
def test_random(move, config):
    assert_equal_to_golden(*move, get_config(config))


@settings(max_examples=40, deadline=None)
@given(moves())
def test_random_in_little_memory(move):
    assert_equal_to_golden(*move, SMALL_MEMORY)


# (table, count, bytes of the rows that are loaded into a tile; less than all rows at a time?)
TILES = {
    "the whole table": ((2, 20, 9), 10, None, False),
    "batches": ((9, 20, 11), 7, None, False),
    "more indices than offsets": ((3, 40, 3), 40, None, False),
    "long rows": ((2, 3, 1000), 3, 252, False),
    "bytes of every row": ((2, 100, 40), 30, 12, False),
    "one bus word of every row": ((1, 300, 9), 20, 4, False),
    "a range of rows": ((2, 900, 6), 50, 4, True),
    "a range of single bytes": ((1, 5000, 1), 300, 1, True),
}


@pytest.mark.parametrize("kind", ["run time", "constant", "same"])
@pytest.mark.parametrize("name", TILES)
@pytest.mark.parametrize("op", BOTH)
def test_tiles(op, name, kind):
    shape, count, row_bytes, cut = TILES[name]
    graph, values = move_graph(op, shape, count, constant=kind != "run time", same=kind == "same")
    program = assert_equal_to_golden(graph, values, SMALL_MEMORY)
    table = next(port for port in program.inputs if port.name == "values")
    loads = [i for i in instructions(program) if i.opcode == Opcode.LOAD_GO]
    loads = [i for i in loads if table.address <= i.memory_address < table.address + table.bytes]
    if row_bytes is not None:
        # Rows that follow each other are loaded as one.
        assert max(load.row_bytes for load in loads if load.rows > 1 or row_bytes == shape[2]) >= row_bytes
        assert (max(load.rows * load.row_bytes for load in loads) < row_bytes * shape[1]) == cut


@pytest.mark.parametrize("shape", [(2, 20, 9), (1, 900, 6)])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("config", [get_config("base"), SMALL_MEMORY], ids=["base", "little memory"])
def test_indices_outside_the_table_are_clipped(config, constant, shape):
    assert_equal_to_golden(*move_graph("GATHER", shape, 40, constant=constant, beyond=2000), config)


def test_the_extremes_of_int32_are_clipped():
    graph, values = move_graph("GATHER", (1, 7, 5), 4)
    values["indices"][0] = [-(1 << 31), (1 << 31) - 1, 0, 6]
    assert_equal_to_golden(graph, values, get_config("small"))


def test_a_scatter_outside_the_table_touches_nothing_else():
    """Which row of the table changes is unpredictable; that memory around it stays as it is, is not."""
    build = LayerBuilder(3)
    table, rows = build.input("table", (1, 6, 40), DType.INT8), build.input("rows", (1, 2, 40), DType.INT8)
    indices = build.input("indices", (1, 2), DType.INT32)
    other = build.add("REVERSE", [rows], axis=2)
    build.output(build.add("SCATTER", [table, indices, rows]))
    build.output(build.add("ADD", [build.add("CAST", [other], dtype=DType.INT32)] * 2))
    values = {
        "table": np.arange(240, dtype=np.int8).reshape(1, 6, 40),
        "rows": np.full((1, 2, 40), 99, np.int8),
        "indices": np.array([[-100, 1 << 30]], np.int32),
    }
    assert_equal_to_golden(build.finish(), values, get_config("nano"))


def test_between_other_layers():
    """An embedding: rows of a constant table, by indices that an operator computes."""
    build = LayerBuilder(4)
    x = build.input("x", (1, 30), DType.INT32)
    indices = build.add("BITWISE_AND", [x, build.constant([[15]], DType.INT32)])
    table = build.random_constant((1, 16, 24), DType.INT8, -128, 127)
    rows = build.add("GATHER", [table, indices])
    moved = build.add("SCATTER", [build.add("REVERSE", [rows], axis=1), build.constant([[3]], DType.INT32),
                                  build.random_constant((1, 1, 24), DType.INT8, -128, 127)])  # fmt: skip
    build.output(build.clamp(moved, -100, 90))
    values = {"x": build.random.integers(0, 1 << 20, (1, 30), dtype=np.int32)}
    graph = build.finish()
    for config in ("nano", "base"):
        assert_equal_to_golden(graph, values, get_config(config))


def test_what_does_not_fit_says_so():
    config = dataclasses.replace(get_config("nano"), am_bytes=1 << 6)
    with pytest.raises(UnsupportedError, match="GATHER_0: .*use a configuration with more activation memory"):
        compile_graph(move_graph("GATHER", (1, 50, 50), 20)[0], config)


ON_RTL = {
    "run time": dict(shape=(3, 70, 21), count=37),
    "constant": dict(shape=(3, 70, 21), count=37, constant=True),
    "same": dict(shape=(3, 70, 5), count=37, constant=True, same=True),
    "tiles": dict(shape=(1, 800, 600), count=700),
    "outside": dict(shape=(2, 9, 16), count=40, beyond=50),
}


@pytest.mark.parametrize("config", [on_rtl(name) for name in ("nano", "small", "base")])
@pytest.mark.parametrize("name", ON_RTL)
@pytest.mark.parametrize("op", BOTH)
def test_on_the_rtl(op, name, config):
    """The same bytes as golden's and the emulator's."""
    if op == "SCATTER" and name == "outside":
        name = "run time"
    graph, values = move_graph(op, **ON_RTL[name])
    program = assert_equal_to_golden(graph, values, get_config(config))
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, values[port.name])
    RtlSimulator(program.config).run(memory, program.program_address, program.program_bytes)
    wanted = evaluate(graph, values)
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(memory), wanted[port.name])
