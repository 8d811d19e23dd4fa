"""Last axes of a few elements come first where they are reduced, or where tensors are stacked along them."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.short_rows import turn_short_rows
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate

BASE = get_config("base")


def cycles(graph):
    session = Session(graph, "emulator", "base")
    session.run(feeds(graph, 3), check=True)
    return session.stats["cycles"]


def operators(graph):
    return [operator.op for operator in turn_short_rows(graph, BASE).operators]


def squares(shape, dtype=DType.INT16, reduce="REDUCE_SUM"):
    """The sum of the squares of a row, each times a factor of its place before the last axis."""
    build = LayerBuilder(5)
    x = build.input("x", shape, dtype)
    line = build.random_constant((*(1,) * (len(shape) - 2), shape[-2], 1), dtype, -9, 9)
    shift = build.constant(np.array([0]), DType.INT8)
    scaled = build.rescale(build.add("MUL", [x, line, shift], dtype=DType.INT32), DType.INT16, shift=36)
    square = build.add("MUL", [scaled, scaled, shift], dtype=DType.INT32)
    build.output(build.add(reduce, [square], axis=len(shape) - 1))
    return build.finish()


@pytest.mark.parametrize("config", ["base", "nano"])
@pytest.mark.parametrize("reduce", ["REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize("shape", [(1, 12, 20, 2), (2, 9, 16, 3), (31, 7, 5), (3, 100, 8)])
def test_reductions(shape, reduce, config):
    graph = squares(shape, reduce=reduce)
    assert "TRANSPOSE" in operators(graph)
    assert_equal_to_golden(graph, config, check_hazards=True)


def test_what_is_turned_is_the_narrowest_and_turned_once():
    build = LayerBuilder(6)
    x = build.input("x", (400, 4), DType.INT8)
    wide = build.rescale(x, DType.INT32, shift=20)
    build.output(build.add("REDUCE_SUM", [wide], axis=1))
    build.output(build.add("REDUCE_MAX", [wide], axis=1))
    graph = build.finish()
    turned = turn_short_rows(graph, BASE)
    (transpose,) = [operator for operator in turned.operators if operator.op == "TRANSPOSE"]
    assert transpose.inputs == ["x"]
    assert_equal_to_golden(graph, "base")


@pytest.mark.parametrize(
    "readers, turned",
    [("reduce", "x"), ("reduce add", "x"), ("reduce move", "wide"), ("reduce output", "wide")],
)
def test_who_else_may_read_what_is_computed_in_the_other_order(readers, turned):
    """Reductions of the rows and elementwise operators; for all others the tensor itself is turned, int16 here."""
    build = LayerBuilder(6)
    x = build.input("x", (400, 4), DType.INT8)
    wide = build.rescale(x, DType.INT16, shift=20)
    build.output(build.add("REDUCE_MAX", [wide], axis=1))
    if "add" in readers:
        build.output(build.clamp(wide, -5, 5))
    if "move" in readers:
        build.output(build.add("REVERSE", [wide], axis=0))
    if "output" in readers:
        build.output(wide)
    found = turn_short_rows(build.finish(), BASE)
    (transpose,) = [operator for operator in found.operators if operator.op == "TRANSPOSE"]
    assert transpose.inputs == [wide if turned == "wide" else "x"]


@pytest.mark.parametrize("kind", ["long", "few", "wide", "scales", "other axis"])
def test_others_stay(kind):
    build = LayerBuilder(7)
    shape = {"long": (200, 40), "few": (60, 4)}.get(kind, (400, 4))
    x = build.input("x", shape, DType.INT32 if kind == "wide" else DType.INT8)
    if kind == "scales":
        # Another multiplier for each channel, and a second operand as wide.
        x = build.rescale(x, DType.INT32, per_channel=True, shift=20)
        x = build.add("ADD", [x, build.input("y", shape, DType.INT32)])
    axis = 0 if kind == "other axis" else 1
    build.output(build.add("REDUCE_MAX", [x], axis=axis))
    graph = build.finish()
    assert "TRANSPOSE" not in operators(graph)
    assert_equal_to_golden(graph, "base")


@pytest.mark.parametrize("config", ["base", "nano"])
@pytest.mark.parametrize(
    "dtype, count", [(DType.INT8, 2), (DType.INT8, 7), (DType.BOOL, 3), (DType.INT16, 2)]
)
def test_stacks(dtype, count, config):
    build = LayerBuilder(8)
    parts = [build.input(f"x{place}", (1, 9, 21, 1), dtype) for place in range(count)]
    build.output(build.add("CONCAT", parts, axis=3))
    graph = build.finish()
    assert operators(graph)[-2:] == ["TRANSPOSE", "RESHAPE"]
    assert_equal_to_golden(graph, config, check_hazards=True)


def test_it_takes_half_the_cycles_at_most():
    """Without turning, one lane of sixteen would work, or one element would be copied per cycle."""
    rows, lanes = 4000, 16
    assert cycles(squares((rows, 2))) < rows * 6
    build = LayerBuilder(9)
    parts = [build.input(f"x{place}", (rows, 1), DType.INT8) for place in range(4)]
    build.output(build.add("CONCAT", parts, axis=1))
    assert cycles(build.finish()) < rows * 4 / 2 < rows * lanes


def test_an_operand_that_is_read_twice_is_brought_in_once():
    """And so the next stripe comes while this one is worked on."""
    build, shape = LayerBuilder(10), (1, 53148)
    x, y = (build.input(name, shape, DType.INT32) for name in "xy")

    def number(value):
        return build.constant(np.full((1, 1), value), DType.INT32)

    value = build.add("SUB", [x, number(77)])
    for place in range(6):
        value = build.add("BITWISE_XOR", [value, number(place + 5)])
    build.output(build.add("SELECT", [build.add("GREATER", [number(100), x]), y, value]))
    graph = build.finish()
    session = Session(graph, "emulator", "base")
    session.run(feeds(graph, 1), check=True)
    size = 4 * shape[1]
    assert session.stats["dram_read_bytes"] < 2 * size + 9216
    # 22 cycles for each vector, and little beside.
    assert session.stats["cycles"] < 1.15 * 22 * shape[1] / 16


def choice(shape, dtype=DType.INT8):
    """The place of the largest of a row."""
    build = LayerBuilder(8)
    x = build.input("x", shape, dtype)
    build.output(build.add("ARGMAX", [x], axis=len(shape) - 1, nan_mode="PROPAGATE"))
    return build.finish()


@pytest.mark.parametrize("config", ["base", "small", "nano"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("shape", [(1, 12, 20, 2), (2, 9, 16, 3), (200, 12), (300, 15), (130, 48)])
def test_the_place_of_the_largest(shape, dtype, config):
    assert_equal_to_golden(choice(shape, dtype), config, check_hazards=True)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_the_first_of_equal_elements_is_told(dtype):
    graph = choice((200, 6), dtype)
    session = Session(graph, "emulator", "base")
    assert "TRANSPOSE" in operators(graph)
    rows = np.tile(np.array([1, 5, 5, -3, 5, 0], dtype.numpy), (200, 1))
    assert (next(iter(session.run({"x": rows}).values())) == 1).all()


def test_cycles_of_classes_by_pixel():
    """21 classes of a picture of 64 by 64: 117,000 cycles as they lie, one element of a row a cycle."""
    assert cycles(choice((1, 64, 64, 21))) <= 50_000


@pytest.mark.parametrize(
    ("config", "turned"), [("base", [True] * 3), ("small", [True, True, False]), ("nano", [False] * 3)]
)
def test_rows_that_fill_the_lanes_stay(config, turned):
    """Rows have 2, 5 and 16 elements: turning takes longer than the idle ones of 4 lanes cost."""
    for length, expected in zip((2, 5, 16), turned, strict=True):
        build = LayerBuilder(9)
        x = build.input("x", (400, length), DType.INT8)
        build.output(build.add("REDUCE_MAX", [x], axis=1, nan_mode="PROPAGATE"))
        found = turn_short_rows(build.finish(), get_config(config)).operators
        assert ("TRANSPOSE" in [operator.op for operator in found]) == expected


def test_what_is_turned_keeps_its_order_behind_an_axis_of_one():
    build = LayerBuilder(8)
    x = build.input("x", (400, 1, 4), DType.INT8)
    build.output(build.add("REDUCE_MAX", [x], axis=2, nan_mode="PROPAGATE"))
    build.output(build.add("REDUCE_SUM", [build.rescale(x, DType.INT32, shift=20)], axis=2))
    graph = build.finish()
    assert "TRANSPOSE" in operators(graph)
    assert_equal_to_golden(graph, "base")


def turns(op: str, machine: str, rows: int, length: int, dtype: DType) -> bool:
    """Whether the last axis comes first, of one operator."""
    build = LayerBuilder(9)
    if op == "CONCAT":
        names = [build.input(f"x{number}", (rows, 1), dtype) for number in range(length)]
        build.output(build.add(op, names, axis=1))
    else:
        x = build.input("x", (rows, length), dtype)
        build.output(build.add(op, [x], axis=1, nan_mode="PROPAGATE"))
    found = turn_short_rows(build.finish(), get_config(machine)).operators
    return "TRANSPOSE" in [operator.op for operator in found]


@pytest.mark.parametrize(
    "op, machine, dtype, longest",
    [
        ("REDUCE_MAX", "base", DType.INT8, 16),
        ("REDUCE_MIN", "base", DType.INT16, 8),
        ("REDUCE_MAX", "small", DType.INT8, 5),
        ("REDUCE_MAX", "small", DType.INT16, 2),
        ("REDUCE_MAX", "large", DType.INT8, 37),
        ("CONCAT", "base", DType.INT8, 16),
        ("CONCAT", "base", DType.INT16, 8),
        ("CONCAT", "small", DType.INT16, 2),
        ("ARGMAX", "base", DType.INT8, 48),
        ("ARGMAX", "base", DType.INT16, 16),
        ("ARGMAX", "small", DType.INT8, 16),
        ("ARGMAX", "small", DType.INT16, 5),
    ],
)
def test_the_longest_rows_that_are_turned(op: str, machine: str, dtype: DType, longest: int) -> None:
    assert get_config("large").columns == 32
    found = [length for length in range(1, longest + 3) if turns(op, machine, 128, length, dtype)]
    assert found == list(range(2, longest + 1))


@pytest.mark.parametrize("op", ["REDUCE_MAX", "CONCAT", "ARGMAX"])
def test_the_fewest_rows_that_are_turned(op: str) -> None:
    assert [turns(op, "base", rows, 4, DType.INT8) for rows in (127, 128)] == [False, True]


def test_elements_that_are_turned_are_bytes_or_two() -> None:
    """The narrowest tensors that lead to the reduction count; a second one counts, too, but not twice."""

    def made(count: int, dtype: DType) -> bool:
        build = LayerBuilder(9)
        names = [build.input(f"x{number}", (200, 4), dtype) for number in range(count)]
        wide = [build.rescale(name, DType.INT32, shift=20) for name in names]
        total = build.add("MUL", [wide[0], wide[-1], build.zero_point(DType.INT8)])
        build.output(build.add("REDUCE_SUM", [total], axis=1))
        return "TRANSPOSE" in operators(build.finish())

    found = [made(count, dtype) for dtype in (DType.INT8, DType.INT16) for count in (1, 2)]
    assert found == [True, True, True, False]


@pytest.mark.parametrize(
    "shape, constant, turned",
    [
        ((400, 4), True, True),
        ((1, 4), True, True),
        ((400, 1), True, True),
        ((400, 1), False, True),
        ((1, 1), False, True),
        ((1, 4), False, False),
        ((400, 4), False, False),
    ],
)
def test_an_operand_that_is_not_turned_costs_nothing(
    shape: tuple[int, int], constant: bool, turned: bool
) -> None:
    """A constant has the other order from the start, and one element in a row has none."""
    build = LayerBuilder(9)
    wide = build.rescale(build.input("x", (400, 4), DType.INT16), DType.INT32, shift=20)
    if constant:
        other = build.random_constant(shape, DType.INT32, -9, 9)
    else:
        other = build.input("y", shape, DType.INT32)
    build.output(build.add("REDUCE_SUM", [build.add("ADD", [wide, other])], axis=1))
    graph = build.finish()
    found = turn_short_rows(graph, BASE)
    moved = [operator.inputs for operator in found.operators if operator.op == "TRANSPOSE"]
    assert moved == ([["x"]] if turned else [])
    (output,) = graph.outputs
    values = feeds(graph, 2)
    np.testing.assert_array_equal(evaluate(found, values)[output], evaluate(graph, values)[output])
