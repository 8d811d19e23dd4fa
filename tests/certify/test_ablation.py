"""Each axiom is needed: without it, a program that is EQUAL is UNDECIDED."""

import dataclasses

import numpy as np
import pytest
from layer_graphs import LayerBuilder

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.hw.config_text import get_config
from tosaic.sim.terms import AXIOMS, Algebra


def scaled() -> Graph:
    """A network's limits, which often change nothing."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 4, 4, 3), DType.INT8)
    build.output(build.clamp(build.rescale(build.conv(x, 5, (1, 1)), DType.INT8, output_zp=3), -20, 77))
    return build.finish()


def limited_twice() -> Graph:
    build = LayerBuilder(1)
    build.output(build.clamp(build.clamp(build.input("x", (2, 5), DType.INT8), -50, 60), -10, 90))
    return build.finish()


def product() -> Graph:
    """MUL by a constant, which becomes a RESCALE."""
    build = LayerBuilder(1)
    wide = build.rescale(build.input("x", (2, 5), DType.INT16), DType.INT32)
    factor = build.constant(np.full((1, 1), 12345), DType.INT32)
    shifted = build.add("MUL", [wide, factor, build.constant(np.array([9]), DType.INT8)])
    build.output(build.rescale(shifted, DType.INT8))
    return build.finish()


def turned() -> Graph:
    """TRANSPOSE of bytes, which are joined to words."""
    build = LayerBuilder(1)
    build.output(build.add("TRANSPOSE", [build.input("x", (24, 40), DType.INT8)], perms=[1, 0]))
    return build.finish()


def wide_convolution() -> Graph:
    """int16, in two planes of bytes."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 4, 4, 3), DType.INT16)
    operands = [
        x,
        build.random_constant((5, 3, 3, 3), DType.INT8, -128, 127),
        build.random_constant((5,), DType.INT48, -5000, 5000),
        build.zero_point(DType.INT16),
        build.zero_point(DType.INT8),
    ]
    window = {"pad": [1, 1, 1, 1], "stride": [1, 1], "dilation": [1, 1]}
    build.output(build.add("CONV2D", operands, **window, acc_type=DType.INT48, local_bound=False))
    return build.finish()


def pooled() -> Graph:
    build = LayerBuilder(1)
    x = build.input("x", (1, 6, 6, 3), DType.INT8)
    window = {"kernel": [2, 3], "stride": [1, 1], "pad": [1, 0, 1, 1]}
    build.output(build.add("MAX_POOL2D", [x], **window, nan_mode="PROPAGATE"))
    return build.finish()


def left() -> Graph:
    build = LayerBuilder(1)
    x = build.input("x", (2, 3), DType.INT8)
    build.output(build.add("LOGICAL_LEFT_SHIFT", [x, build.constant(np.full((1, 1), 3), DType.INT8)]))
    return build.finish()


def any_of() -> Graph:
    build = LayerBuilder(1)
    build.output(build.add("REDUCE_ANY", [build.input("x", (2, 40), DType.BOOL)], axis=1))
    return build.finish()


def chosen() -> Graph:
    build = LayerBuilder(1)
    condition = build.input("c", (2, 3), DType.BOOL)
    values = [build.input(name, (2, 3), DType.INT8) for name in ("a", "b")]
    build.output(build.add("SELECT", [condition, *values]))
    return build.finish()


def summed() -> Graph:
    """int32, whose partial sums may wrap in another order than the specification's."""
    build = LayerBuilder(1)
    build.output(build.add("REDUCE_SUM", [build.input("x", (4, 300), DType.INT32)], axis=1))
    return build.finish()


def looked_up() -> Graph:
    """Two TABLEs of x - REDUCE_MAX(x), as in a softmax, which become one table of as many entries as there are
    values."""
    build, tables = LayerBuilder(1), np.random.default_rng(1).integers(-2000, 2000, (2, 513))
    x = build.add("CAST", [build.input("x", (3, 5), DType.INT8)], dtype=DType.INT32)
    most = build.add("REDUCE_MAX", [x], axis=1, nan_mode="PROPAGATE")
    wide = build.rescale(build.add("SUB", [x, most]), DType.INT16, shift=24)
    first, second = (build.add("TABLE", [wide, build.constant(each, DType.INT16)]) for each in tables)
    seven = build.constant(np.full((1, 1), 7), DType.INT32)
    second = build.add("ARITHMETIC_RIGHT_SHIFT", [second, seven], round=True)
    build.output(build.add("REDUCE_SUM", [build.add("ADD", [first, second])], axis=1))
    return build.finish()


def first_largest() -> Graph:
    """ARGMAX along a long axis, in several passes."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 300), DType.INT8)
    build.output(build.add("ARGMAX", [x], axis=1, nan_mode="PROPAGATE"))
    return build.finish()


def divided() -> Graph:
    build = LayerBuilder(1)
    build.output(build.add("INTDIV", [build.input(name, (2, 5), DType.INT32) for name in "nd"]))
    return build.finish()


NEEDED = {
    "intervals": scaled,
    "scales": turned,
    "clamps": limited_twice,
    "sets": pooled,
    "products": product,
    "bytes": turned,
    "planes": wide_convolution,
    "booleans": any_of,
    "wraps": left,
    "ring": summed,
    "choice": chosen,
    "keys": first_largest,
    "largest": looked_up,
    "lookups": looked_up,
    "division": divided,
}
UNREACHED = {"largest", "lookups"}
"""Without them an offset is one that is computed at run time."""


@pytest.mark.parametrize("axiom", sorted(AXIOMS))
def test_without_an_axiom_a_program_is_undecided(axiom: str) -> None:
    graph = NEEDED[axiom]()
    assert tosaic.certify(graph, config="base").verdict == "EQUAL"
    without = tosaic.certify(graph, config="base", without=frozenset([axiom]))
    assert (without.verdict, without.witness) == ("UNDECIDED", None)
    reason = "a lemma is missing, or the difference is rare"
    if axiom in UNREACHED:
        reason = "the method does not reach an offset that is computed at run time"
    assert without.reason.endswith(reason)


@pytest.mark.parametrize("config", ["nano", "base"])
def test_a_table_with_another_entry_is_not_equal(config: str) -> None:
    """One that was wrong for a single value of x - REDUCE_MAX(x)."""
    graph = looked_up()
    other, name = graph.copy(), next(op for op in graph.operators if op.op == "TABLE").inputs[1]
    data = other.tensors[name].data.copy()
    data[255] += 300
    other.tensors[name] = dataclasses.replace(other.tensors[name], data=data)
    program = compile_graph(other, get_config(config))
    assert tosaic.certify(other, program).verdict == "EQUAL"
    done = tosaic.certify(graph, program)
    assert done.verdict == "DIFFERENT" and done.witness is not None


@pytest.mark.parametrize("config", ["nano", "base"])
@pytest.mark.parametrize(
    ("shape", "axis", "dtype"),
    [
        ((1, 1000), 1, DType.INT8),
        ((3, 40), 0, DType.INT8),
        ((1, 7, 6, 5), 1, DType.INT16),
        ((2, 1), 1, DType.INT8),
    ],
)
def test_the_first_of_the_largest(shape, axis: int, dtype: DType, config: str) -> None:
    build = LayerBuilder(1)
    x = build.input("x", shape, dtype)
    build.output(build.add("ARGMAX", [x], axis=axis, nan_mode="PROPAGATE"))
    assert tosaic.certify(build.finish(), config=config).verdict == "EQUAL"


def test_shifts_by_numbers_of_few_bits_that_an_input_has() -> None:
    """int8 and int16 on lanes of 32 bits: what is shifted left is shifted left again, and back."""
    for dtype, most in ((DType.INT8, 7), (DType.INT16, 15)):
        build = LayerBuilder(1)
        x, count = (build.input(name, (2, 9), dtype) for name in "xn")
        build.output(build.add("LOGICAL_LEFT_SHIFT", [x, build.clamp(count, 0, most)]))
        assert tosaic.certify(build.finish(), config="base").verdict == "EQUAL"


def test_all_of_many_have_no_larger_degree_than_there_are() -> None:
    """The product of 40 bits."""
    build = LayerBuilder(1)
    build.output(build.add("REDUCE_ALL", [build.input("x", (2, 40), DType.BOOL)], axis=1))
    for config in ("nano", "base"):
        done = tosaic.certify(build.graph, config=config)
        assert done.verdict == "EQUAL" and done.degree <= 40


def test_bits_with_constants_in_some_lanes() -> None:
    """Lanes that no store writes do not change which operand counts as the first one."""
    build = LayerBuilder(1)
    other = build.constant(np.arange(-7, 8).reshape(3, 5), DType.INT8)
    build.output(build.add("BITWISE_XOR", [build.input("x", (3, 5), DType.INT8), other]))
    for config in ("nano", "base"):
        assert tosaic.certify(build.graph, config=config).verdict == "EQUAL"


@pytest.mark.parametrize("reverse", [0, 1])
def test_the_last_of_the_largest_is_another_one(reverse: int) -> None:
    """The index counted from the other end, and back: it differs where two are the largest."""
    graphs = []
    for turned_around in (False, True):
        build = LayerBuilder(1)
        x = build.input("x", (2, 20), DType.INT8)
        x = build.add("REVERSE", [x], axis=1) if turned_around else x
        index = build.add("ARGMAX", [x], axis=1, nan_mode="PROPAGATE")
        last = build.constant(np.full((1,), 19), DType.INT32)
        index = build.add(
            "SUB", [last, index] if turned_around else [index, build.constant(np.zeros(1), DType.INT32)]
        )
        build.output(index)
        build.graph.tensors["y"] = dataclasses.replace(build.graph.tensors[index], name="y")
        graph = build.finish()
        last_operator = graph.operators[-1]
        graph.operators[-1] = dataclasses.replace(last_operator, outputs=["y"])
        graph.outputs = ["y"]
        graphs.append(graph)
    program = compile_graph(graphs[1 - reverse], get_config("base"))
    done = tosaic.certify(graphs[reverse], program)
    assert done.verdict == "DIFFERENT" and done.witness is not None


def test_a_choice_of_a_difference_that_must_fit_keeps_both_intervals() -> None:
    """REQUIRE says that a - b fits int32, but nothing of a alone."""
    algebra, ends = Algebra(entropy=1), (-(1 << 31), (1 << 31) - 1)
    a, b, c = algebra.fresh((4,), *ends), algebra.fresh((4,), 0, ends[1]), algebra.fresh((4,), 0, 1)
    difference = algebra.require(algebra.subtract(a, b), ends)
    chosen = algebra.add(b, algebra.multiply(c, difference))
    assert (chosen.low <= ends[0]).all() and (chosen.high >= ends[1]).all()
    free = algebra.add(b, algebra.multiply(c, algebra.subtract(a, b)))
    assert (free.low == ends[0]).all() and (free.high == ends[1]).all()


def test_a_require_of_48_bits_says_nothing_of_32() -> None:
    algebra = Algebra(entropy=1)
    term = algebra.fresh((4,), -(1 << 50), 1 << 50)
    algebra.require(term, (-(1 << 47), (1 << 47) - 1))
    assert (algebra.wrap(term, 48).field == term.field).all()
    assert (algebra.wrap(term, 32).field != term.field).all()
