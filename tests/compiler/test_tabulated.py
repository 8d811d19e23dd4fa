"""Chains of TABLEs on few values become one look-up, and products with constants that are added to one operation."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.curves import curves
from tosaic.compiler.legalize.passes import legalize
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate

ALL = np.arange(-128, 128, dtype=np.int8).reshape(2, 128)


def table(build, x, seed=0):
    entries = np.sort(np.random.default_rng(seed).integers(-2000, 2000, 513))
    return build.add("TABLE", [x, build.constant(entries, DType.INT16)])


def number(build, value):
    return build.constant(np.array([[value]]), DType.INT32)


def shift(build, x, amount, *, left=False):
    if left:
        return build.add("LOGICAL_LEFT_SHIFT", [x, number(build, amount)])
    return build.add("ARITHMETIC_RIGHT_SHIFT", [x, number(build, amount)], round=True)


def two_tables(build, x):
    """int32 of an int8 or int32 tensor, by two tables."""
    wide = build.rescale(x, DType.INT16, shift=24)
    return build.add(
        "ADD", [shift(build, table(build, wide, 1), 3, left=True), shift(build, table(build, wide, 2), 7)]
    )


def softmax(shape, *, subtract_itself=True):
    """The exponential as TFLite's softmax has it, with its sum."""
    build = LayerBuilder(3)
    x = build.add("CAST", [build.input("x", shape, DType.INT8)], dtype=DType.INT32)
    most = build.add("REDUCE_MAX", [x], axis=1, nan_mode="PROPAGATE")
    x = build.add("SUB", [x, most]) if subtract_itself else build.add("SUB", [most, x])
    y = two_tables(build, x)
    total = build.add("REDUCE_SUM", [shift(build, y, 4)], axis=1)
    build.output(build.add("ADD", [y, total]))
    return build.finish()


def operators(graph, **options):
    return [operator.op for operator in legalize(graph, get_config("base"), **options).operators]


@pytest.mark.parametrize("subtract_itself", [True, False])
@pytest.mark.parametrize("config", ["base", "small", "nano"])
def test_a_softmax_is_looked_up_once(config, subtract_itself):
    graph = softmax((5, 12), subtract_itself=subtract_itself)
    found = operators(graph)
    assert (found.count("GATHER"), found.count("TABLE")) == (1, 0)
    assert_equal_to_golden(graph, config, check_hazards=True)


def entries(graph):
    legal = legalize(graph, get_config("base"))
    (gather,) = (operator for operator in legal.operators if operator.op == "GATHER")
    return legal.tensors[gather.inputs[0]].shape


def test_nothing_is_more_than_the_largest():
    """x - max(x) has half the values that max(x) - x might have, for all that the compiler knows."""
    assert entries(softmax((5, 12))) == (1, 256, 1)
    assert entries(softmax((5, 12), subtract_itself=False)) == (1, 511, 1)


def test_operators_stay_where_every_tensor_is_to_be_seen():
    found = operators(softmax((5, 12)), optimize=False)
    assert (found.count("GATHER"), found.count("TABLE")) == (0, 2)
    assert_equal_to_golden(softmax((5, 12)), "base", optimize=False)


def test_an_int8_tensor_is_looked_up_as_it_is():
    build = LayerBuilder(3)
    build.output(two_tables(build, build.input("x", (2, 128), DType.INT8)))
    graph = build.finish()
    assert operators(graph).count("GATHER") == 1
    assert_equal_to_golden(graph, "base", {"x": ALL}, check_hazards=True)


def one_table(build):
    return table(build, build.rescale(build.input("x", (2, 128), DType.INT8), DType.INT16, shift=24))


def many_values(build):
    return two_tables(build, build.input("x", (2, 128), DType.INT16))


def many_elements(build):
    return two_tables(build, build.input("x", (20, 128), DType.INT8))


def another_place(build):
    """Sums of every element with every other one: no function of one of them."""
    x = two_tables(build, build.input("x", (1, 20), DType.INT8))
    return build.add("ADD", [x, build.add("RESHAPE", [x, build.shape((20, 1))])])


@pytest.mark.parametrize(
    "make, gathers", [(one_table, 0), (many_values, 0), (many_elements, 0), (another_place, 1)]
)
def test_what_is_not_looked_up(make, gathers):
    build = LayerBuilder(3)
    build.output(make(build))
    graph = build.finish()
    assert operators(graph).count("GATHER") == gathers
    assert_equal_to_golden(graph, "base")


CHAINS = {
    "double rounding": lambda b, x: b.rescale(x, DType.INT8, input_zp=-3, output_zp=5, shift=33),
    "single rounding": lambda b, x: b.rescale(x, DType.INT16, double=False, shift=26),
    "clamp": lambda b, x: b.clamp(x, -20, 31),
    "wider": lambda b, x: b.add("CAST", [x], dtype=DType.INT32),
    "narrower": lambda b, x: b.add("CAST", [b.rescale(x, DType.INT16, shift=24)], dtype=DType.INT8),
    "int8 table": lambda b, x: b.add("TABLE", [x, b.random_constant((256,), DType.INT8, -128, 127)]),
    "int16 table": lambda b, x: table(b, b.rescale(x, DType.INT16, shift=24)),
    "left": lambda b, x: shift(b, b.add("CAST", [x], dtype=DType.INT32), 27, left=True),
    "right": lambda b, x: shift(b, b.add("CAST", [x], dtype=DType.INT32), 3),
    "right by none": lambda b, x: shift(b, b.add("CAST", [x], dtype=DType.INT32), 0),
    "product": lambda b, x: b.add(
        "MUL", [b.add("CAST", [x], dtype=DType.INT32), number(b, -77777), b.zero_point(DType.INT8, 9)]
    ),
    "square": lambda b, x: b.add("MUL", [x, x, b.zero_point(DType.INT8)]),
    "difference": lambda b, x: b.add("SUB", [number(b, 3), b.add("CAST", [x], dtype=DType.INT32)]),
    "inverted": lambda b, x: b.add("BITWISE_NOT", [x]),
    "leading zeros": lambda b, x: b.add("CLZ", [b.add("CAST", [x], dtype=DType.INT32)]),
    "larger": lambda b, x: b.add("MAXIMUM", [b.add("CAST", [x], dtype=DType.INT32), number(b, 9)]),
    "negative": lambda b, x: b.add("NEGATE", [x, *(b.zero_point(DType.INT8, zero) for zero in (3, -7))]),
}


@pytest.mark.parametrize("name", CHAINS)
def test_curves_are_those_of_golden(name):
    build = LayerBuilder(7)
    build.output(CHAINS[name](build, build.input("x", ALL.shape, DType.INT8)))
    graph = build.finish()
    (output,) = graph.outputs
    found = curves(graph)[output]
    assert (found.origin, found.low) == ("x", -128)
    np.testing.assert_array_equal(found.values, evaluate(graph, {"x": ALL})[output].reshape(-1))


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("bits", [2, 3, 30, 31, 32, 33, 34, 46, 62])
def test_a_rescale_by_any_shift_is_followed(bits, double):
    """Halves and quarters among the results, which are rounded."""
    build = LayerBuilder(7)
    operands = [
        build.input("x", ALL.shape, DType.INT8),
        build.constant([1 << min(bits - 1, 30)], DType.INT32),
        build.constant([bits], DType.INT8),
        build.zero_point(DType.INT8, 3),
        build.zero_point(DType.INT8, -2),
    ]
    attributes = dict(scale32=True, per_channel=False, input_unsigned=False, output_unsigned=False)
    attributes["rounding_mode"] = "DOUBLE_ROUND" if double else "SINGLE_ROUND"
    build.output(build.add("RESCALE", operands, dtype=DType.INT8, **attributes))
    graph = build.finish()
    (output,) = graph.outputs
    wanted = evaluate(graph, {"x": ALL})[output].reshape(-1)
    np.testing.assert_array_equal(curves(graph)[output].values, wanted)


@pytest.mark.parametrize("bits", [0, 31])
def test_a_product_with_a_constant_and_a_sum_are_one_operation(bits):
    build = LayerBuilder(5)
    x, y = (build.input(name, (3, 40), DType.INT32) for name in "xy")
    product = build.add("MUL", [number(build, 1234), x, build.zero_point(DType.INT8, bits)])
    build.output(build.add("ADD", [product, y]))
    graph = build.finish()
    (layer,) = Fuser(legalize(graph, get_config("base")), get_config("base")).layers(set())
    # A MOV: one operand of an operation comes from memory.
    assert layer.program.uops == 2
    assert_equal_to_golden(graph, "base", check_hazards=True)


@pytest.mark.parametrize("op", ["ADD", "SUB", "MAXIMUM"])
def test_what_two_tensors_make_has_the_range_of_both(op):
    """-256..255 at most: a table of what one of them can be would not do."""
    build = LayerBuilder(9)
    x, y = (build.rescale(build.input(name, (3, 50), DType.INT8), DType.INT32, shift=31) for name in "xy")
    both = build.add(op, [x, y])
    square = build.add("MUL", [both, both, build.constant(np.array([0]), DType.INT8)], dtype=DType.INT32)
    build.output(build.rescale(build.add("ADD", [square, both]), DType.INT8, shift=41))
    assert_equal_to_golden(build.finish(), "nano")


def followed(make):
    """(origin, smallest value, what becomes of the values) of what `make` builds from an int32 tensor that is 0 to 510
    in steps of 2."""
    build = LayerBuilder(4)
    wide = build.add("CAST", [build.input("x", (2, 128), DType.INT8)], dtype=DType.INT32)
    doubled = build.add("MUL", [wide, number(build, 2), build.zero_point(DType.INT8)], dtype=DType.INT32)
    name = make(build, build.add("ADD", [doubled, number(build, 256)]))
    build.output(build.add("ABS", [name]))
    found = curves(build.finish()).get(name)
    return found and (found.origin == name, found.low, len(found.values))


@pytest.mark.parametrize(
    "op, attributes",
    [
        ("REDUCE_MAX", dict(axis=1, nan_mode="PROPAGATE")),
        ("REDUCE_MIN", dict(axis=0, nan_mode="PROPAGATE")),
        ("TRANSPOSE", dict(perms=[1, 0])),
        ("REVERSE", dict(axis=1)),
    ],
)
def test_elements_that_are_taken_out_have_the_same_range(op, attributes):
    """A tensor of 511 values at most, which is no function of another one at the same place."""
    assert followed(lambda build, x: build.add(op, [x], **attributes)) == (True, 0, 511)


def test_a_difference_has_a_range():
    """What is taken away from is 0 to 510, and so is the largest: -510 to 0 is left, or -510 to 510, which are too many
    values."""

    def less(build, x, axis):
        most = build.add("REDUCE_MAX", [x], axis=1, nan_mode="PROPAGATE")
        other = most if axis == 1 else build.add("REDUCE_MIN", [x], axis=1, nan_mode="PROPAGATE")
        return build.add("SUB", [x, other])

    assert followed(lambda build, x: less(build, x, 1)) == (True, -510, 511)
    assert followed(lambda build, x: less(build, x, 0)) is None
    assert followed(lambda build, x: build.add("MAXIMUM", [x, build.add("REVERSE", [x], axis=1)])) is None
