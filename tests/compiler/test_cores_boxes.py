"""Which boxes of operands a box of a result needs."""

import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.cores.boxes import CannotCut, cut_operator, leading_axis, whole
from tosaic.compiler.cores.grids import Grid, box_of, grids
from tosaic.compiler.cores.share_plan import place_of
from tosaic.compiler.ir import DType
from tosaic.compiler.place.placement import RowsApart


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
