"""A RESHAPE between a convolution and what is done with its result does not end the layer."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.normalise import normalise
from tosaic.compiler.legalize.raised_reshapes import raise_reshapes
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate


def connected(b: LayerBuilder, x: str, channels: int) -> str:
    """A fully connected layer up to its sums."""
    return b.conv(x, channels, (1, 1))


def layer_operators(graph: Graph) -> list[str]:
    """The first operator of each layer that takes time."""
    session = Session(compile_graph(graph, get_config("base")), "emulator")
    session.run(feeds(graph, 1))
    return [layer["op"] for layer in session.stats["layers"]]


def per_channel(b: LayerBuilder) -> str:
    """What quantizers write for a linear layer: scaled by channel behind the RESHAPE."""
    x = b.input("x", (1, 1, 1, 24), DType.INT8)
    flat = b.add("RESHAPE", [connected(b, x, 40), b.shape((1, 40))])
    return b.rescale(flat, DType.INT8, per_channel=True)


def gated(b: LayerBuilder) -> str:
    """Two linear layers, each with a RESHAPE, multiplied: ExecuTorch's gated feed-forward network."""
    x, factors = b.input("x", (1, 1, 1, 24), DType.INT8), []
    for _ in range(2):
        scaled = b.rescale(connected(b, x, 40), DType.INT8, per_channel=True)
        factors.append(b.rescale(b.add("RESHAPE", [scaled, b.shape((1, 40))]), DType.INT32, shift=32))
    product = b.add("MUL", [*factors, b.zero_point(DType.INT8)], dtype=DType.INT32)
    return b.rescale(product, DType.INT8, shift=45)


def two_readers(b: LayerBuilder) -> str:
    """x + table(x) behind a RESHAPE: both readers move."""
    x = b.input("x", (1, 3, 2, 24), DType.INT8)
    index = b.rescale(connected(b, x, 16), DType.INT16, per_channel=True)
    flat = b.add("RESHAPE", [index, b.shape((6, 16))])
    table = b.add("TABLE", [flat, b.random_constant((513,), DType.INT16, -99, 99)], dtype=DType.INT32)
    return b.add("ADD", [b.rescale(table, DType.INT32, shift=38), b.rescale(flat, DType.INT32, shift=32)])


def other_operand(b: LayerBuilder) -> str:
    """The sum's other operand is an input under the later shape, the last one has one element, which no
    layer with windows broadcasts."""
    x, y = b.input("x", (1, 3, 2, 24), DType.INT8), b.input("y", (2, 3, 16), DType.INT32)
    z = b.input("z", (1, 1, 1), DType.INT32)
    folded = b.add("RESHAPE", [connected(b, x, 16), b.shape((2, 3, 16))])
    return b.add("MAXIMUM", [b.add("ADD", [folded, y]), z], nan_mode="PROPAGATE")


FUSED = {
    per_channel: ["CONV2D"],
    gated: ["CONV2D", "CONV2D"],
    two_readers: ["CONV2D"],
    other_operand: ["CONV2D", "MAXIMUM"],
}


def graph_of(form) -> Graph:
    b = LayerBuilder(3)
    b.output(form(b))
    return b.finish()


@pytest.mark.parametrize("form", FUSED, ids=lambda form: form.__name__)
@pytest.mark.parametrize("config", ["base", "nano"])
def test_a_layer_goes_on_behind_a_reshape(form, config):
    assert_equal_to_golden(graph_of(form), config)
    assert layer_operators(graph_of(form)) == FUSED[form]


def test_a_gate_costs_what_it_costs_without_reshapes():
    """`FC, RESHAPE, MUL` took four times the cycles of `FC, MUL`."""
    cycles = []
    for between in (False, True):
        b = LayerBuilder(1)
        x, factors = b.input("x", (1, 1, 1, 256), DType.INT8), []
        for _ in range(2):
            scaled = b.rescale(connected(b, x, 128), DType.INT8, per_channel=True)
            if between:
                scaled = b.add("RESHAPE", [scaled, b.shape((1, 128))])
            factors.append(b.rescale(scaled, DType.INT32, shift=32))
        product = b.add("MUL", [*factors, b.zero_point(DType.INT8)], dtype=DType.INT32)
        b.output(b.rescale(product, DType.INT8, shift=45))
        session = Session(compile_graph(b.finish(), get_config("base")), "emulator")
        session.run(feeds(b.graph, 1))
        cycles.append(session.stats["cycles"])
    assert cycles[1] == cycles[0]


def test_a_line_along_the_channels_moves():
    def form(b: LayerBuilder) -> str:
        x = b.input("x", (1, 3, 2, 24), DType.INT8)
        flat = b.add("RESHAPE", [connected(b, x, 16), b.shape((6, 16))])
        return b.add("ADD", [flat, b.random_constant((1, 16), DType.INT32, -99, 99)])

    assert kept_operators(form) == ["CONV2D", "ADD", "RESHAPE"]
    assert_equal_to_golden(graph_of(form), "base")


def kept_operators(form) -> list[str]:
    return [operator.op for operator in normalise(graph_of(form)).operators]


def test_other_channels_are_not_scaled_by_the_old_ones():
    """The last axis changes, so a line along it cannot move."""

    def form(b: LayerBuilder) -> str:
        x = b.input("x", (1, 3, 2, 24), DType.INT8)
        return b.rescale(
            b.add("RESHAPE", [connected(b, x, 16), b.shape((12, 8))]), DType.INT8, per_channel=True
        )

    assert kept_operators(form) == ["CONV2D", "RESHAPE", "RESCALE"]
    assert_equal_to_golden(graph_of(form), "base")


def test_a_reshape_stays_where_one_reader_needs_its_shape():
    def form(b: LayerBuilder) -> str:
        x = b.input("x", (1, 3, 2, 24), DType.INT8)
        flat = b.add("RESHAPE", [connected(b, x, 16), b.shape((6, 16))])
        b.output(b.add("REDUCE_MAX", [flat], axis=0, nan_mode="PROPAGATE"))
        return b.rescale(flat, DType.INT8)

    assert kept_operators(form) == ["CONV2D", "RESHAPE", "REDUCE_MAX", "RESCALE"]
    assert_equal_to_golden(graph_of(form), "base")


def test_a_chain_of_reshapes_ends_in_one():
    def form(b: LayerBuilder) -> str:
        x = b.input("x", (1, 3, 2, 24), DType.INT8)
        flat = b.add("RESHAPE", [connected(b, x, 16), b.shape((6, 16))])
        flat = b.add("RESHAPE", [b.add("ABS", [flat]), b.shape((3, 2, 16))])
        return b.rescale(flat, DType.INT8, per_channel=True)

    assert kept_operators(form) == ["CONV2D", "ABS", "RESCALE", "RESHAPE"]
    assert_equal_to_golden(graph_of(form), "base")


# --- RESHAPEs behind operators whose operands are in memory


def residual(b: LayerBuilder) -> str:
    """A linear layer's result and an input that has another shape: the input's RESCALE is part of the layer."""
    x, y = b.input("x", (6, 1, 1, 24), DType.INT8), b.input("y", (1, 6, 16), DType.INT8)
    wide = b.rescale(connected(b, x, 16), DType.INT32, per_channel=True)
    folded = b.add("RESHAPE", [wide, b.shape((1, 6, 16))])
    return b.rescale(b.add("ADD", [b.rescale(y, DType.INT32), folded]), DType.INT16)


def centred(b: LayerBuilder) -> str:
    """What is read several times is stored: mean and difference are each computed on the way in."""
    x = b.input("x", (6, 1, 1, 24), DType.INT8)
    x = b.add("RESHAPE", [b.rescale(connected(b, x, 16), DType.INT16, per_channel=True), b.shape((1, 6, 16))])
    mean = b.rescale(b.add("REDUCE_SUM", [b.add("CAST", [x], dtype=DType.INT32)], axis=2), DType.INT32)
    return b.rescale(b.add("SUB", [b.rescale(x, DType.INT32), mean]), DType.INT16)


def of_chains(b: LayerBuilder) -> str:
    """A chain of operators goes behind the RESHAPE one after the other; a constant of one element goes with it."""
    x, y = b.input("x", (2, 3, 16), DType.INT32), b.input("y", (6, 16), DType.INT32)
    x = b.add("ABS", [b.add("SUB", [x, b.constant([[[7]]], DType.INT32)])])
    flat = b.add("RESHAPE", [x, b.shape((6, 16))])
    return b.add("REDUCE_MAX", [b.add("ADD", [flat, y])], axis=1, nan_mode="PROPAGATE")


RAISED = {
    residual: ["CONV2D"],
    centred: ["CONV2D", "REDUCE_SUM", "RESCALE"],
    of_chains: ["REDUCE_MAX"],
}


@pytest.mark.parametrize("form", RAISED, ids=lambda form: form.__name__)
@pytest.mark.parametrize("config", ["base", "nano"])
def test_a_reshape_does_not_part_an_operator_from_its_reader(form, config):
    assert_equal_to_golden(graph_of(form), config)
    assert layer_operators(graph_of(form)) == RAISED[form]


def test_channels_of_another_axis_keep_the_reshape_behind_them():
    def form(b: LayerBuilder) -> str:
        x = b.rescale(b.input("x", (6, 16), DType.INT8), DType.INT32, per_channel=True)
        return b.add("ABS", [b.add("RESHAPE", [x, b.shape((12, 8))])])

    assert kept_operators(form) == ["RESCALE", "ABS", "RESHAPE"]
    assert_equal_to_golden(graph_of(form), "base")


def test_an_operand_of_fewer_elements_keeps_the_reshape_behind_it():
    def form(b: LayerBuilder) -> str:
        x, y = b.input("x", (2, 3, 16), DType.INT32), b.input("y", (1, 3, 16), DType.INT32)
        flat = b.add("RESHAPE", [b.add("ADD", [x, y]), b.shape((6, 16))])
        return b.add("REDUCE_SUM", [flat], axis=1)

    assert kept_operators(form) == ["ADD", "RESHAPE", "REDUCE_SUM"]
    assert_equal_to_golden(graph_of(form), "base")


@pytest.mark.parametrize("after, moved", [("input", False), ("conv", True), ("pool", False)])
def test_a_reshape_stays_before_what_does_not_belong_to_the_layer_in_front_of_it(after, moved):
    """It moves back only behind sums and elementwise operators."""
    build = LayerBuilder(4)
    x = build.input("x", (1, 4, 4, 8), DType.INT8)
    if after == "conv":
        x = build.rescale(connected(build, x, 8), DType.INT8)
    if after == "pool":
        x = build.add("TRANSPOSE", [x], perms=[0, 2, 1, 3])
    build.output(build.clamp(build.add("RESHAPE", [x, build.shape((16, 8))]), -9, 9))
    graph = build.finish()
    found = normalise(graph).operators
    assert [operator.op for operator in found][-2:] == (
        ["CLAMP", "RESHAPE"] if moved else ["RESHAPE", "CLAMP"]
    )


def summed(b: LayerBuilder, x: str, shape: tuple[int, ...]) -> str:
    return b.add("REDUCE_SUM", [b.add("RESHAPE", [x, b.shape(shape)])], axis=0)


def wide(b: LayerBuilder, name: str = "x", shape: tuple[int, ...] = (2, 3, 16)) -> str:
    return b.input(name, shape, DType.INT32)


RAISING = {
    "one operand": (lambda b: summed(b, b.add("ABS", [wide(b)]), (6, 16)), True),
    "two operands": (lambda b: summed(b, b.add("ADD", [wide(b), wide(b, "y")]), (6, 16)), True),
    "a number": (lambda b: summed(b, b.add("ADD", [wide(b), wide(b, "y", (1, 1, 1))]), (6, 16)), True),
    "a row": (lambda b: summed(b, b.add("ADD", [wide(b), wide(b, "y", (1, 1, 16))]), (6, 16)), False),
    "the same channels": (
        lambda b: summed(b, b.rescale(wide(b), DType.INT32, per_channel=True), (6, 16)),
        True,
    ),
    "other channels": (
        lambda b: summed(b, b.rescale(wide(b), DType.INT32, per_channel=True), (12, 8)),
        False,
    ),
    "one scale": (lambda b: summed(b, b.rescale(wide(b), DType.INT32), (12, 8)), True),
    "behind a sum": (
        lambda b: summed(b, b.add("ABS", [b.add("REDUCE_SUM", [wide(b)], axis=1)]), (2, 16)),
        False,
    ),
    "before a move": (
        lambda b: b.add("REVERSE", [b.add("RESHAPE", [b.add("ABS", [wide(b)]), b.shape((6, 16))])], axis=0),
        False,
    ),
    "a result": (lambda b: b.add("RESHAPE", [b.add("ABS", [wide(b)]), b.shape((6, 16))]), False),
}


@pytest.mark.parametrize("name", RAISING)
def test_where_a_reshape_comes_before_an_elementwise_operator(name):
    """Where the same elements meet, and what reads the result joins it."""
    make, raised = RAISING[name]
    build = LayerBuilder(7)
    build.output(make(build))
    graph = build.finish()
    before, values = graph.copy(), feeds(graph, 1)
    raise_reshapes(graph)
    found = [operator.op for operator in graph.operators]
    maker = next(op for op in found if op in ("ABS", "ADD", "RESCALE"))
    assert (found.index("RESHAPE") < found.index(maker)) == raised
    for output in graph.outputs:
        np.testing.assert_array_equal(evaluate(graph, values)[output], evaluate(before, values)[output])
