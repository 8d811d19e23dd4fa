"""SLICEs are no layers where elementwise operators read them: their elements follow each other in memory, or are rows
apart (see `test_parts_apart.py`); equal constants, weights and tables are placed and fetched once."""

import dataclasses

import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config

SMALL_MEMORY = dataclasses.replace(get_config("small"), name="streaming", am_bytes=4096)
"""Holds hardly any tensor of these graphs: parts are fetched, box by box."""


def part(b: LayerBuilder, x: str, start: tuple[int, ...], size: tuple[int, ...]) -> str:
    return b.add("SLICE", [x, b.shape(start), b.shape(size)])


def halves(b: LayerBuilder) -> str:
    """Two parts of one tensor are multiplied."""
    x = b.input("x", (1, 1, 4000), DType.INT16)
    a, c = (part(b, x, (0, 0, start), (1, 1, 1800)) for start in (37, 2100))
    product = b.add("MUL", [a, c, b.zero_point(DType.INT8)], dtype=DType.INT32)
    return b.rescale(product, DType.INT8, shift=52)


def rows(b: LayerBuilder) -> str:
    """Rows of an image, broadcast along them, and a part of that part under another shape."""
    x, y = b.input("x", (30, 5, 9), DType.INT32), b.input("y", (1, 5, 1), DType.INT32)
    some = part(b, x, (7, 0, 0), (20, 5, 9))
    inner = b.add("RESHAPE", [part(b, some, (3, 0, 0), (1, 5, 9)), b.shape((5, 9))])
    total = b.rescale(b.add("SUB", [some, y]), DType.INT8, shift=50)
    last = part(b, total, (19, 0, 0), (1, 5, 9))
    wide = b.rescale(b.add("RESHAPE", [last, b.shape((5, 9))]), DType.INT32, shift=11)
    b.output(b.add("ADD", [wide, inner]))
    return b.add("REDUCE_SUM", [b.add("ABS", [some])], axis=0)


def behind_the_array(b: LayerBuilder) -> str:
    """Two parts of one tensor are added to a convolution's result."""
    x, y = b.input("x", (1, 6, 7, 12), DType.INT8), b.input("y", (3, 6, 7, 20), DType.INT32)
    sums = b.rescale(b.conv(x, 20, (3, 3), pad=(1, 1, 1, 1)), DType.INT32, per_channel=True)
    for number in (2, 1):
        sums = b.add("ADD", [sums, part(b, y, (number, 0, 0, 0), (1, 6, 7, 20))])
    return sums


def strided(b: LayerBuilder) -> str:
    """Columns of a matrix lie apart."""
    x = b.input("x", (5, 24), DType.INT8)
    return b.rescale(part(b, x, (0, 3), (5, 11)), DType.INT8, shift=31)


def computed_table(b: LayerBuilder) -> str:
    """A part that is read as a table, not element by element."""
    x, entries = b.input("x", (4, 6), DType.INT8), b.input("entries", (300,), DType.INT8)
    return b.add("TABLE", [x, part(b, entries, (17,), (256,))])


GRAPHS = {each.__name__: each for each in (halves, rows, behind_the_array, strided)}


def built(make, seed: int = 3) -> Graph:
    b = LayerBuilder(seed)
    b.output(make(b))
    return b.finish()


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("config", ["base", "nano", SMALL_MEMORY], ids=["base", "nano", "streaming"])
def test_parts_equal_golden(make, config):
    assert_equal_to_golden(built(make), config, check_hazards=True)


@pytest.mark.parametrize(
    ("make", "slices"), [(halves, 0), (rows, 0), (behind_the_array, 0), (strided, 0)], ids=GRAPHS
)
def test_which_slices_are_layers(make, slices):
    session = Session(compile_graph(built(make), get_config("base")), "emulator")
    assert [layer.op for layer in session.program.layers].count("SLICE") == slices


@pytest.mark.parametrize("config", ["base", "nano"])
def test_a_part_that_is_a_table(config):
    assert_equal_to_golden(built(computed_table), config, check_hazards=True)


def steps(count: int, seed: int = 4) -> Graph:
    """The same convolution and the same table again and again."""
    b = LayerBuilder(seed)
    x = b.input("x", (1, 1, 1, 48), DType.INT8)
    entries = b.random.integers(-99, 99, 513)
    for _ in range(count):
        # The same constants under other names.
        b.random = type(b.random)(type(b.random.bit_generator)(7))
        index = b.rescale(b.conv(x, 48, (1, 1)), DType.INT16, per_channel=True)
        table = b.add("TABLE", [index, b.constant(entries, DType.INT16)], dtype=DType.INT32)
        x = b.rescale(table, DType.INT8, shift=38)
    b.output(x)
    return b.finish()


def test_repeated_steps_equal_golden():
    for config in ("base", "nano"):
        assert_equal_to_golden(steps(4), config, check_hazards=True)


def test_more_steps_need_only_more_instructions():
    short, long = (compile_graph(steps(count), get_config("base")) for count in (2, 6))
    assert [weights.bytes for weights in long.weights] == [48 * 48]
    constants = [len(program.image) - program.program_bytes for program in (short, long)]
    assert constants[0] == constants[1]


def test_weights_and_tables_stay_where_they_are():
    reads = []
    for count in (2, 6):
        graph = steps(count)
        session = Session(compile_graph(graph, get_config("base")), "emulator")
        session.run(feeds(graph, 1))
        # What is read but instructions.
        reads.append(session.stats["dram_read_bytes"] - session.program.program_bytes)
    # Three tiles of 16 biases of two bytes, multipliers and shifts for each step.
    assert reads[1] - reads[0] == 4 * 3 * 16 * 7
