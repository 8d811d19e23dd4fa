"""Operands that are computed at run time: indices, weights of depthwise convolutions, divisors."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.hw.config_text import get_config


def moved(
    op: str, dtype: DType, n: int = 1, *, known: bool = False, rows: int = 6, turn: bool = False
) -> Graph:
    """GATHER or SCATTER of `rows` rows of 5 elements; `turn`: the table is upside down."""
    build = LayerBuilder(1)
    shape = (n, rows, 5)
    table = build.random_constant(shape, dtype, -100, 100) if known else build.input("t", shape, dtype)
    table = build.add("REVERSE", [table], axis=1) if turn else table
    operands = [table, build.input("i", (n, 4), DType.INT32)]
    operands += [build.input("new", (n, 4, 5), dtype)] if op == "SCATTER" else []
    build.output(build.add(op, operands))
    return build.finish()


@pytest.mark.parametrize("config", ["nano", "base"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.INT32])
@pytest.mark.parametrize(("op", "known"), [("GATHER", False), ("GATHER", True), ("SCATTER", False)])
def test_rows_at_indices_that_are_inputs(op: str, known: bool, dtype: DType, config: str) -> None:
    done = tosaic.certify(moved(op, dtype, 3, known=known), config=config)
    assert done.verdict == "EQUAL" and sum(done.assumptions.values()) == 12
    assert done.lemmas["PICK" if op == "GATHER" else "PUT"] > 0


@pytest.mark.parametrize("op", ["GATHER", "SCATTER"])
def test_an_index_that_cannot_leave_the_table_assumes_nothing(op: str) -> None:
    build = LayerBuilder(1)
    index = build.add("CAST", [build.clamp(build.input("i", (1, 4), DType.INT8), 1, 4)], dtype=DType.INT32)
    operands = [build.input("t", (1, 6, 5), DType.INT8), index]
    operands += [build.input("new", (1, 4, 5), DType.INT8)] if op == "SCATTER" else []
    build.output(build.add(op, operands))
    done = tosaic.certify(build.finish(), config="base")
    assert (done.verdict, done.assumptions) == ("EQUAL", {})


@pytest.mark.parametrize("op", ["GATHER", "SCATTER"])
def test_rows_of_a_table_that_is_upside_down_differ(op: str) -> None:
    """The program of another graph, which a witness with indices inside of the table shows."""
    for turn in (False, True):
        program = compile_graph(moved(op, DType.INT8, turn=not turn), get_config("base"))
        done = tosaic.certify(moved(op, DType.INT8, turn=turn), program)
        assert done.verdict == "DIFFERENT" and done.witness is not None
        index = done.witness.inputs["i"]
        assert index.min() >= 0 and index.max() < 6


def test_a_constant_index_outside_of_the_table_is_undecided() -> None:
    build = LayerBuilder(1)
    index = build.add("CAST", [build.clamp(build.input("i", (1, 4), DType.INT8), 9, 12)], dtype=DType.INT32)
    build.output(build.add("GATHER", [build.input("t", (1, 6, 5), DType.INT8), index]))
    done = tosaic.certify(build.finish(), config="base")
    assert done.verdict == "UNDECIDED"
    assert done.reason == "the method does not reach the specification leaves a result open for every input"


@pytest.mark.parametrize("config", ["nano", "base"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_weights_of_a_depthwise_convolution(dtype: DType, config: str) -> None:
    build = LayerBuilder(1)
    total = DType.INT32 if dtype is DType.INT8 else DType.INT48
    operands = [
        build.input("x", (1, 5, 6, 3), dtype),
        build.input("w", (3, 2, 3, 2), DType.INT8),
        build.random_constant((6,), total, -500, 500),
        build.zero_point(dtype, 7 if dtype is DType.INT8 else 0),
        build.zero_point(DType.INT8, -3),
    ]
    window = {"pad": [1, 1, 0, 1], "stride": [1, 1], "dilation": [1, 1], "local_bound": False}
    sums = build.add("DEPTHWISE_CONV2D", operands, **window, acc_type=total)
    build.output(build.rescale(sums, DType.INT8, double=False) if total is DType.INT32 else sums)
    try:
        program = compile_graph(build.finish(), get_config(config))
    except tosaic.UnsupportedError:
        assert (dtype, config) == (DType.INT16, "nano")
        return
    assert tosaic.certify(build.graph, program).verdict == "EQUAL"


@pytest.mark.parametrize("config", ["nano", "base"])
@pytest.mark.parametrize("divisor", ["input", "numbers", "one number", "dividends"])
def test_division(divisor: str, config: str) -> None:
    """INTDIV of what is not known, and by or of constants, 0 and the ends among them."""
    build, shape = LayerBuilder(1), (3, 17)
    numbers = np.random.default_rng(1).integers(-1000, 1000, shape)
    numbers[0, :7] = [1, -1, 2, -2, 1 << 30, -(1 << 31), (1 << 31) - 1]
    numbers[numbers == 0] = 3
    numbers = np.full(shape, -7) if divisor == "one number" else numbers
    constant = build.constant(numbers, DType.INT32)
    n = constant if divisor == "dividends" else build.input("n", shape, DType.INT32)
    d = constant if "number" in divisor else build.input("d", shape, DType.INT32)
    build.output(build.add("INTDIV", [n, d]))
    done = tosaic.certify(build.finish(), config=config)
    assert done.verdict == "EQUAL" and done.axioms["division"] == 51
    # Where d may be 0, or -2^31 / -1 is possible.
    assert sum(done.assumptions.values()) == {"numbers": 1, "one number": 0}.get(divisor, 51)


def test_a_division_with_a_wrong_step_is_not_equal() -> None:
    """INTDIV beside a program that divides by d + 1."""
    graphs = []
    for more in range(2):
        build = LayerBuilder(1)
        n, d = (build.input(name, (2, 5), DType.INT32) for name in "nd")
        d = build.add("ADD", [d, build.constant(np.full((1, 1), more), DType.INT32)])
        build.output(build.add("INTDIV", [n, d]))
        graphs.append(build.finish())
    done = tosaic.certify(graphs[0], compile_graph(graphs[1], get_config("base")))
    assert done.verdict == "DIFFERENT" and done.witness is not None


@pytest.mark.parametrize("config", ["nano", "base"])
@pytest.mark.parametrize("rows", [None, 20])
def test_numbers_that_count_from_the_end(rows: int | None, config: str) -> None:
    """x + 20 where x is negative, of any int32, and the row of that number: an embedding."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 5), DType.INT32)
    zero, count = (build.constant(np.full((1, 1), number), DType.INT32) for number in (0, 20))
    index = build.add("SELECT", [build.add("GREATER", [zero, x]), build.add("ADD", [x, count]), x])
    table = build.random_constant((1, rows or 1, 8), DType.INT8, -100, 100)
    build.output(index if rows is None else build.add("GATHER", [table, index]))
    assert tosaic.certify(build.finish(), config=config).verdict == "EQUAL"
