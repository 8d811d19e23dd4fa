"""TRANSPOSEs move behind elementwise operators, to where their tensor is smallest."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.passes import legalize
from tosaic.compiler.legalize.sunk_transposes import sink_transposes
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate

BACK, FORTH = [0, 3, 1, 2], [0, 2, 3, 1]


def turned(build, x, perms):
    return build.add("TRANSPOSE", [x], perms=perms)


def block(*, perms=FORTH, again=False, per_channel=False):
    """A residual around a convolution that has its channels last; `again`: the sum before it is narrow is an output."""
    build = LayerBuilder(6)
    x = build.input("x", (1, 24, 6, 6), DType.INT8)
    inner = turned(build, x, perms)
    y = build.rescale(build.conv(inner, 24, (1, 1)), DType.INT16, per_channel=True, shift=34)
    wide = [build.rescale(each, DType.INT32, shift=30) for each in (turned(build, y, BACK), x)]
    total = build.add("ADD", wide)
    if again:
        build.output(total)
    build.output(build.rescale(total, DType.INT8, shift=34, per_channel=per_channel))
    return build.finish()


def order(graph):
    return [operator.op for operator in sink_transposes(graph).operators]


@pytest.mark.parametrize("config", ["base", "small", "nano"])
def test_a_residual_joins_its_convolution(config):
    graph = block()
    found = [operator.op for operator in legalize(graph, get_config(config)).operators]
    assert (found.count("TRANSPOSE"), found.count("ADD"), found[-1]) == (2, 1, "TRANSPOSE")
    assert_equal_to_golden(graph, config, check_hazards=True)


@pytest.mark.parametrize(
    "arguments",
    [
        dict(perms=[0, 3, 2, 1]),  # a square image, but the operand is in no order that fits
        dict(again=True),  # int32 would have to be turned
        dict(per_channel=True),  # the scales are those of another axis
    ],
)
def test_transposes_that_stay(arguments):
    graph = block(**arguments) if "perms" not in arguments else block_of_other_order()
    assert order(graph) == [operator.op for operator in graph.operators]
    assert_equal_to_golden(graph, "base", check_hazards=True)


def block_of_other_order():
    build = LayerBuilder(6)
    x = build.input("x", (1, 6, 6, 6), DType.INT8)
    inner = turned(build, x, [0, 3, 2, 1])
    y = build.rescale(build.conv(inner, 6, (1, 1)), DType.INT16, shift=34)
    wide = [build.rescale(each, DType.INT32, shift=30) for each in (turned(build, y, BACK), x)]
    build.output(build.rescale(build.add("ADD", wide), DType.INT8, shift=34))
    return build.finish()


def test_bytes_are_turned_in_place_of_wider_elements():
    build = LayerBuilder(6)
    x = turned(build, build.input("x", (2, 30, 40), DType.INT32), [0, 2, 1])
    y = build.add("MUL", [x, build.constant([[[7]]], DType.INT32), build.zero_point(DType.INT8)])
    build.output(build.rescale(y, DType.INT8, shift=49))
    graph = build.finish()
    assert order(graph) == ["MUL", "RESCALE", "TRANSPOSE"]
    assert_equal_to_golden(graph, "base", check_hazards=True)


def test_a_transpose_that_moves_is_no_operand_of_others():
    """The first TRANSPOSE moves behind its RESCALE, so its result is not there for the second one's sum."""
    build = LayerBuilder(6)
    x = build.input("x", (1, 24, 6, 6), DType.INT32)
    narrow = build.rescale(turned(build, x, FORTH), DType.INT8, shift=49)
    y = build.rescale(build.conv(narrow, 24, (1, 1)), DType.INT32, shift=34)
    build.output(build.add("ADD", [turned(build, y, BACK), build.add("ABS", [x])]))
    graph = build.finish()
    assert order(graph)[:2] == ["RESCALE", "TRANSPOSE"]
    assert_equal_to_golden(graph, "base", check_hazards=True)


def test_a_transpose_that_is_its_own_inverse():
    build = LayerBuilder(6)
    x = build.input("x", (8, 8), DType.INT16)
    y = turned(build, x, [1, 0])
    wide = [build.add("CAST", [each], dtype=DType.INT32) for each in (y, x)]
    build.output(build.rescale(build.add("ADD", wide), DType.INT8, shift=40))
    graph = build.finish()
    assert order(graph) == [operator.op for operator in graph.operators]
    assert_equal_to_golden(graph, "base", check_hazards=True)


SQUARE, OBLONG = (2, 6, 6), (2, 5, 6)


def narrowed(build, x):
    return build.rescale(x, DType.INT8, shift=42)


def added(build, x, shape, low=-900, high=900):
    return build.add("ADD", [x, build.random_constant(shape, DType.INT32, low, high)])


def of_two(build, x):
    y = turned(build, build.input("y", (2, 6, 5), DType.INT32), [0, 2, 1])
    return narrowed(build, build.add("SUB", [x, y]))


def read_twice(build, x):
    build.output(build.add("ABS", [x]))
    return narrowed(build, x)


def shown(build, x):
    build.output(x)
    return narrowed(build, x)


BEHIND = {
    "narrowing": (OBLONG, narrowed, ["RESCALE", "TRANSPOSE"]),
    "as wide": (OBLONG, lambda b, x: b.add("ABS", [x]), ["TRANSPOSE", "ABS"]),
    "per channel": (
        OBLONG,
        lambda b, x: b.rescale(x, DType.INT8, per_channel=True, shift=42),
        ["TRANSPOSE", "RESCALE"],
    ),
    "wider again": (
        OBLONG,
        lambda b, x: b.rescale(narrowed(b, x), DType.INT32),
        ["RESCALE", "TRANSPOSE", "RESCALE"],
    ),
    "a number": (OBLONG, lambda b, x: narrowed(b, added(b, x, (1, 1, 1))), ["ADD", "RESCALE", "TRANSPOSE"]),
    "a constant": (SQUARE, lambda b, x: narrowed(b, added(b, x, SQUARE)), ["TRANSPOSE", "ADD", "RESCALE"]),
    "a constant of another shape": (
        OBLONG,
        lambda b, x: narrowed(b, added(b, x, OBLONG)),
        ["TRANSPOSE", "ADD", "RESCALE"],
    ),
    "a line": (OBLONG, lambda b, x: narrowed(b, added(b, x, (1, 1, 6))), ["TRANSPOSE", "ADD", "RESCALE"]),
    "a reduction": (
        OBLONG,
        lambda b, x: narrowed(b, b.add("REDUCE_SUM", [x], axis=1)),
        ["TRANSPOSE", "REDUCE_SUM", "RESCALE"],
    ),
    "two orders": (OBLONG, of_two, ["TRANSPOSE", "TRANSPOSE", "SUB", "RESCALE"]),
    "another reader": (OBLONG, read_twice, ["TRANSPOSE", "ABS", "RESCALE"]),
    "a result": (OBLONG, shown, ["TRANSPOSE", "RESCALE"]),
}


@pytest.mark.parametrize("name", BEHIND)
def test_what_a_transpose_comes_behind(name):
    """Elementwise operators on as many elements, up to the narrowest tensor; the numbers stay the same."""
    shape, make, wanted = BEHIND[name]
    build = LayerBuilder(3)
    x = build.input("x", (shape[0], shape[2], shape[1]), DType.INT32)
    build.output(make(build, turned(build, x, [0, 2, 1])))
    graph = build.finish()
    sunk = sink_transposes(graph)
    assert [operator.op for operator in sunk.operators] == wanted
    values = feeds(graph, 2)
    for each in graph.outputs:
        np.testing.assert_array_equal(evaluate(sunk, values)[each], evaluate(graph, values)[each])


@pytest.mark.parametrize("op", ["TRANSPOSE", "RESHAPE", "REVERSE"])
@pytest.mark.parametrize("joined", ["ADD", "MAXIMUM", "SUB"])
def test_constants_beside_a_tensor_that_was_moved_stay_in_their_order(op, joined):
    build = LayerBuilder(8)
    x = build.input("x", (1, 6, 6, 4), DType.INT32)
    y = {
        "TRANSPOSE": lambda: turned(build, x, [0, 2, 1, 3]),
        "RESHAPE": lambda: build.add("RESHAPE", [x, build.shape((6, 6, 4))]),
        "REVERSE": lambda: build.add("REVERSE", [x], axis=1),
    }[op]()
    shape = build.graph.tensors[y].shape
    constant = build.random_constant(shape, DType.INT32, -(1 << 19), 1 << 19)
    extra = dict(nan_mode="PROPAGATE") if joined == "MAXIMUM" else {}
    build.output(narrowed(build, build.add(joined, [y, constant], **extra)))
    assert_equal_to_golden(build.finish(), "small")
