"""Which boxes of operands a box of a result needs."""

import random

import numpy as np
import pytest
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.cores.boxes import CannotCut, cut_constant, cut_operator, hull, leading_axis, meet, whole
from tosaic.compiler.cores.grids import Grid, box_of, grids
from tosaic.compiler.cores.share_plan import place_of
from tosaic.compiler.ir import DType
from tosaic.compiler.place.placement import RowsApart
from tosaic.sim.golden import evaluate, evaluate_operator


def cut(build, name, box):
    graph = build.graph
    return cut_operator(graph, graph.producer(name), box)


def test_rows_of_a_convolution():
    build = LayerBuilder(1)
    x = build.input("x", (1, 9, 9, 4), DType.INT8)
    y = build.conv(x, 8, (3, 3), stride=(2, 2), pad=(1, 1, 1, 1))
    found = cut(build, y, ((0, 1), (0, 2), (0, 5), (0, 8)))
    assert found.operands[0] == ((0, 1), (0, 4), (0, 9), (0, 4))
    assert found.attributes["pad"] == [1, 0, 1, 1]
    found = cut(build, y, ((0, 1), (3, 5), (0, 5), (0, 8)))
    assert found.operands[0] == ((0, 1), (5, 9), (0, 9), (0, 4))
    assert found.attributes["pad"] == [0, 1, 1, 1]


def test_channels_of_a_convolution():
    build = LayerBuilder(1)
    x = build.input("x", (1, 5, 5, 4), DType.INT8)
    y = build.conv(x, 8, (3, 3))
    found = cut(build, y, ((0, 1), (0, 3), (0, 3), (2, 6)))
    assert found.operands[0] == whole((1, 5, 5, 4))
    assert found.operands[1] == ((2, 6), (0, 3), (0, 3), (0, 4))
    assert found.operands[2] == ((2, 6),)


def test_channels_of_a_depthwise_convolution():
    build = LayerBuilder(1)
    x = build.input("x", (1, 5, 5, 4), DType.INT8)
    y = build.conv(x, 2, (3, 3), depthwise=True)
    found = cut(build, y, ((0, 1), (0, 3), (0, 3), (2, 6)))
    assert found.operands[0][3] == (1, 3)
    assert found.operands[1] == ((0, 3), (0, 3), (1, 3), (0, 2))
    with pytest.raises(CannotCut, match="^a cut between the outputs of an input channel$"):
        cut(build, y, ((0, 1), (0, 3), (0, 3), (1, 4)))


@pytest.mark.parametrize(
    ("shape", "box", "needed"),
    [
        ((1, 1, 1, 24), ((0, 1), (0, 1), (0, 1), (4, 8)), ((0, 1), (1, 2), (0, 4))),
        ((6, 4), ((1, 3), (0, 4)), ((0, 1), (1, 3), (0, 4))),
        ((6, 1, 4), ((1, 3), (0, 1), (1, 2)), ((0, 1), (1, 3), (1, 2))),
    ],
)
def test_boxes_of_a_reshape(shape, box, needed):
    build = LayerBuilder(1)
    x = build.input("x", (1, 6, 4), DType.INT8)
    y = build.add("RESHAPE", [x, build.shape(list(shape))])
    assert cut(build, y, box).operands[0] == needed


def test_a_reshape_cut_within_a_row():
    build = LayerBuilder(1)
    x = build.input("x", (1, 6, 4), DType.INT8)
    y = build.add("RESHAPE", [x, build.shape([24])])
    with pytest.raises(CannotCut, match="^a cut within a row$"):
        cut(build, y, ((2, 8),))


def test_broadcast_operands_are_needed_whole():
    build = LayerBuilder(1)
    a = build.input("a", (1, 6, 4), DType.INT32)
    b = build.input("b", (1, 1, 4), DType.INT32)
    found = cut(build, build.add("ADD", [a, b]), ((0, 1), (2, 4), (1, 2)))
    assert found.operands == {0: ((0, 1), (2, 4), (1, 2)), 1: ((0, 1), (0, 1), (1, 2))}


def test_grids():
    assert list(grids(4)) == [Grid(4, 1), Grid(2, 2), Grid(1, 4), Grid(1, 1)]
    assert leading_axis((1, 7, 7, 64)) == 1
    parts = [box_of((1, 7, 7, 40), Grid(2, 2), core, 16) for core in range(4)]
    assert [(part[1], part[3]) for part in parts] == [
        ((0, 4), (0, 32)),
        ((0, 4), (32, 40)),
        ((4, 7), (0, 32)),
        ((4, 7), (32, 40)),
    ]
    assert [box_of((1, 2, 4), Grid(4, 1), core, 16) is None for core in range(4)] == [
        False,
        False,
        True,
        True,
    ]


def test_places():
    assert place_of((1, 4, 6, 8), ((0, 1), (1, 3), (0, 6), (0, 8)), 2).offset == 96
    place = place_of((1, 4, 6, 8), ((0, 1), (1, 3), (0, 6), (4, 6)), 1)
    assert (place.offset, place.apart, place.span_bytes) == (52, RowsApart(2, 8), 11 * 8 + 2)
    with pytest.raises(CannotCut, match="^a box that is cut along an axis in the middle$"):
        place_of((2, 4, 6, 8), ((0, 1), (1, 3), (0, 6), (0, 8)), 1)


def test_padding_behind():
    build = LayerBuilder(1)
    x = build.input("x", (2, 5), DType.INT8)
    padding = build.shape([1, 2, 0, 3])
    y = build.add("PAD", [x, padding, build.zero_point(DType.INT8)])
    for box, operand, around in (
        (((0, 2), (0, 8)), ((0, 1), (0, 5)), [1, 0, 0, 3]),
        (((2, 5), (2, 7)), ((1, 2), (2, 5)), [0, 2, 0, 2]),
        (((1, 3), (1, 4)), ((0, 2), (1, 4)), [0, 0, 0, 0]),
    ):
        found = cut(build, y, box)
        assert (found.operands[0], found.constants[1]) == (operand, around)
    with pytest.raises(CannotCut, match="^a box of padding only$"):
        cut(build, y, ((0, 1), (0, 8)))


def wide(build, name, shape):
    return build.input(name, shape, DType.INT32)


def image(build):
    return build.input("x", (2, 7, 9, 4), DType.INT8)


def pooled(build, op, **attributes):
    zeros = [build.zero_point(DType.INT8) for _ in range(2)] if op == "AVG_POOL2D" else []
    extra = dict(acc_type=DType.INT32) if zeros else dict(nan_mode="PROPAGATE")
    return build.add(op, [image(build), *zeros], **attributes, **extra)


def convolved_with_one_bias(build):
    x, weight = image(build), build.random_constant((5, 2, 3, 4), DType.INT8, -9, 9)
    zeros = [build.zero_point(DType.INT8) for _ in range(2)]
    attributes = dict(
        pad=[0, 1, 2, 2], stride=[1, 2], dilation=[2, 1], acc_type=DType.INT32, local_bound=False
    )
    return build.add("CONV2D", [x, weight, build.constant([77], DType.INT32), *zeros], **attributes)


def multiplied(build):
    a, b = build.input("a", (2, 5, 7), DType.INT8), build.input("b", (2, 7, 6), DType.INT8)
    return build.add("MATMUL", [a, b, *(build.zero_point(DType.INT8, zp) for zp in (2, 3))])


def padded(build):
    padding = build.shape([0, 1, 2, 0, 1, 3])
    return build.add("PAD", [wide(build, "x", (3, 4, 5)), padding, build.zero_point(DType.INT32, 9)])


MADE = {
    "sum": lambda b: b.add("ADD", [wide(b, "x", (3, 1, 5)), wide(b, "y", (1, 4, 5))]),
    "rescale": lambda b: b.rescale(wide(b, "x", (3, 4, 5)), DType.INT8, per_channel=True),
    "one scale": lambda b: b.rescale(wide(b, "x", (3, 4, 5)), DType.INT8),
    "convolution": lambda b: b.conv(image(b), 6, (3, 2), pad=(1, 1, 0, 1), stride=(2, 1), input_zp=3),
    "strided": lambda b: b.conv(image(b), 6, (1, 3), stride=(3, 2)),
    "one bias": convolved_with_one_bias,
    "depthwise": lambda b: b.conv(image(b), 2, (3, 3), pad=(2, 0, 1, 1), depthwise=True),
    "average": lambda b: pooled(b, "AVG_POOL2D", kernel=[3, 2], stride=[2, 1], pad=[1, 1, 1, 0]),
    "maximum": lambda b: pooled(b, "MAX_POOL2D", kernel=[2, 3], stride=[1, 3], pad=[1, 0, 0, 0]),
    "product": multiplied,
    "reduction": lambda b: b.add("REDUCE_SUM", [wide(b, "x", (3, 4, 5))], axis=1),
    "argmax": lambda b: b.add("ARGMAX", [b.input("x", (3, 4, 5), DType.INT8)], axis=1, nan_mode="PROPAGATE"),
    "concat": lambda b: b.add("CONCAT", [wide(b, "x", (3, 4, 5)), wide(b, "y", (3, 2, 5))], axis=1),
    "padding": padded,
    "slice": lambda b: b.add("SLICE", [wide(b, "x", (5, 6, 7)), b.shape([1, 0, 2]), b.shape([3, 4, 5])]),
    "transpose": lambda b: b.add("TRANSPOSE", [wide(b, "x", (3, 4, 5))], perms=[2, 0, 1]),
    "reshape": lambda b: b.add("RESHAPE", [wide(b, "x", (1, 6, 4)), b.shape([6, 1, 4])]),
    "rows": lambda b: b.add("RESHAPE", [wide(b, "x", (1, 6, 4)), b.shape([1, 3, 2, 4])]),
    "identity": lambda b: b.add("IDENTITY", [wide(b, "x", (3, 4))]),
}
ALWAYS_CUT = {
    "sum",
    "rescale",
    "one scale",
    "product",
    "reduction",
    "argmax",
    "slice",
    "transpose",
    "identity",
}


def axis_cut(dice, extent):
    if dice.random() < 0.4:
        return (0, extent)
    first = dice.randrange(extent)
    return (first, dice.randint(first + 1, extent))


@pytest.mark.parametrize("name", MADE)
def test_a_box_of_the_result_is_computed_from_the_boxes_of_the_operands(name):
    build = LayerBuilder(6)
    result = MADE[name](build)
    build.output(result)
    graph = build.finish()
    operator, tensor = graph.producer(result), graph.tensors[result]
    values, dice, boxes = feeds(graph, 2), random.Random(name), 0
    wanted = evaluate(graph, values)[result]
    operands = [values.get(each, graph.tensors[each].data) for each in operator.inputs]
    for _ in range(40):
        box = tuple(axis_cut(dice, extent) for extent in tensor.shape)
        try:
            found = cut_operator(graph, operator, box)
        except CannotCut:
            continue
        boxes += 1
        given = [
            np.asarray(found.constants[number])
            if number in found.constants
            else cut_constant(data, found.operands.get(number, whole(data.shape)))
            for number, data in enumerate(operands)
        ]
        (made,) = evaluate_operator(
            operator.op, given, {**operator.attributes, **found.attributes}, [tensor.dtype]
        )
        np.testing.assert_array_equal(made, cut_constant(wanted, box), err_msg=str(box))
    assert boxes == 40 if name in ALWAYS_CUT else boxes >= 5


def test_boxes_that_meet_and_what_holds_both():
    a = ((0, 2), (3, 6))
    assert [meet(a, (rows, (5, 7))) for rows in ((1, 4), (2, 4), (0, 1))] == [True, False, True]
    assert [meet(a, ((1, 2), columns)) for columns in ((6, 9), (0, 3), (0, 4))] == [False, False, True]
    assert hull(None, a) == a
    assert hull(a, ((1, 5), (1, 4))) == ((0, 5), (1, 6))
