"""Operators that need no layer, because who reads them reads another tensor's elements: each rule met, and missed."""

from collections.abc import Callable

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType
from tosaic.compiler.place.geometry import View
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.tile.views import FoldedCopies
from tosaic.hw.config_text import get_config

BASE = get_config("base")


def views_of(make: Callable[[LayerBuilder], object]) -> tuple[FoldedCopies, list[str]]:
    """Returns the views of the graph that `make` builds, and the names of the tensors that need no layer."""
    build = LayerBuilder(1)
    make(build)
    graph = build.finish()
    views = FoldedCopies(Tensors(graph, BASE), {})
    return views, [graph.operators[number].outputs[0] for number in sorted(views.folded)]


def cut(build: LayerBuilder, x: str, start: tuple[int, ...], size: tuple[int, ...]) -> str:
    return build.add("SLICE", [x, build.shape(start), build.shape(size)])


def product(build: LayerBuilder, a: str, b: str) -> str:
    return build.add("MATMUL", [a, b, build.zero_point(DType.INT8), build.zero_point(DType.INT8)])


def turned(build: LayerBuilder, shape: tuple[int, ...], perms: tuple[int, ...], name: str = "x") -> str:
    return build.add("TRANSPOSE", [build.input(name, shape, DType.INT8)], perms=list(perms))


def pooled(build: LayerBuilder, x: str) -> str:
    return build.add("MAX_POOL2D", [x], kernel=[1, 1], stride=[1, 1], pad=[0] * 4, nan_mode="PROPAGATE")


def first_operand(build: LayerBuilder) -> None:
    x = turned(build, (3, 2, 5), (1, 0, 2))
    build.output(product(build, x, build.input("y", (2, 5, 4), DType.INT8)))


def first_operand_across(build: LayerBuilder) -> None:
    """The elements of its rows are apart: the array reads none such."""
    x = turned(build, (2, 5, 3), (0, 2, 1))
    build.output(product(build, x, build.input("y", (2, 5, 4), DType.INT8)))


def second_operand(build: LayerBuilder) -> None:
    y = turned(build, (2, 4, 5), (0, 2, 1), "y")
    build.output(product(build, build.input("x", (2, 3, 5), DType.INT8), y))


def second_operand_behind_a_reshape(build: LayerBuilder) -> None:
    y = build.add("RESHAPE", [turned(build, (4, 5), (1, 0), "y"), build.shape((1, 5, 4))])
    build.output(product(build, build.input("x", (1, 3, 5), DType.INT8), y))


def both_operands(build: LayerBuilder) -> None:
    x = turned(build, (2, 5, 5), (0, 2, 1))
    build.output(product(build, x, x))


def one_that_others_read(build: LayerBuilder) -> None:
    y = turned(build, (2, 4, 5), (0, 2, 1), "y")
    build.output(product(build, build.input("x", (2, 3, 5), DType.INT8), y))
    build.output(pooled(build, build.add("RESHAPE", [y, build.shape((1, 5, 4, 2))])))


def one_that_is_a_result(build: LayerBuilder) -> None:
    y = turned(build, (2, 4, 5), (0, 2, 1), "y")
    build.output(product(build, build.input("x", (2, 3, 5), DType.INT8), y))
    build.output(y)


def a_sum(build: LayerBuilder) -> None:
    x = build.add("TRANSPOSE", [build.input("x", (2, 5, 3), DType.INT32)], perms=[0, 2, 1])
    y = build.add("TRANSPOSE", [build.input("y", (2, 5, 3), DType.INT32)], perms=[0, 2, 1])
    build.output(build.add("ADD", [x, y]))


def a_convolution(build: LayerBuilder) -> None:
    build.output(build.conv(turned(build, (1, 5, 3, 4), (0, 2, 1, 3)), 2, (1, 1)))


@pytest.mark.parametrize(
    "make, folded",
    [
        (first_operand, True),
        (first_operand_across, False),
        (second_operand, True),
        (second_operand_behind_a_reshape, True),
        (both_operands, False),
        (one_that_others_read, False),
        (one_that_is_a_result, False),
        (a_sum, False),
        (a_convolution, False),
    ],
)
def test_a_transpose(make: Callable[[LayerBuilder], object], folded: bool) -> None:
    """It is one only where a MATMUL alone reads it, and can read its source."""
    assert bool(views_of(make)[1]) == folded


def test_where_a_matmul_reads_the_elements_of_a_transpose() -> None:
    views, _ = views_of(first_operand)
    (operator,) = (each for each in views.tensors.graph.operators if each.op == "MATMUL")
    assert views.view(operator) == View("x", 0, 2 * 5, 5)
    assert views.matrix(operator) is None
    views, _ = views_of(second_operand)
    (operator,) = (each for each in views.tensors.graph.operators if each.op == "MATMUL")
    stored = views.matrix(operator)
    assert stored is not None
    assert (stored.name, stored.strides) == ("y", (20, 1, 5))
    assert views.view(operator) == View("x", 0, 5, 15)


IMAGE = (2, 9, 8, 6)


@pytest.mark.parametrize(
    "start, size, read, folded",
    [
        ((0, 1, 2, 0), (2, 5, 4, 6), "conv", True),
        ((1, 1, 2, 0), (1, 5, 4, 6), "conv", True),
        ((0, 0, 0, 0), (2, 9, 8, 5), "conv", False),
        ((0, 1, 2, 0), (2, 5, 4, 6), "pool", True),
        ((0, 1, 2, 0), (2, 5, 4, 6), "pool and conv", True),
        ((0, 1, 2, 0), (2, 5, 4, 6), "pool and sum", False),
        ((0, 1, 2, 0), (2, 5, 4, 6), "output", False),
        ((0, 1, 2, 0), (2, 5, 4, 6), "sum", False),
        ((1, 0, 0, 0), (1, 9, 8, 6), "sum", True),
        ((1, 2, 0, 0), (1, 3, 8, 6), "sum", True),
        ((1, 2, 3, 0), (1, 1, 4, 6), "sum", True),
        ((1, 2, 3, 4), (1, 1, 1, 2), "sum", True),
        ((1, 2, 3, 0), (1, 2, 4, 6), "sum", False),
        ((1, 2, 3, 1), (1, 1, 4, 5), "sum", False),
        ((1, 2, 0, 0), (1, 3, 8, 6), "output", False),
        ((1, 2, 0, 0), (1, 3, 8, 6), "reshape", True),
    ],
)
def test_a_slice(start: tuple[int, ...], size: tuple[int, ...], read: str, folded: bool) -> None:
    """An image cut in height and width for windows; elements that follow each other for elementwise operators."""

    def make(build: LayerBuilder) -> None:
        x = cut(build, build.input("x", IMAGE, DType.INT8), start, size)
        if "conv" in read:
            build.output(build.conv(x, 3, (1, 1)))
        if "pool" in read:
            build.output(pooled(build, x))
        if "sum" in read:
            build.output(build.rescale(x, DType.INT32))
        if read == "reshape":
            count = size[0] * size[1] * size[2] * size[3]
            build.output(build.rescale(build.add("RESHAPE", [x, build.shape((count,))]), DType.INT32))
        if read == "output":
            build.output(x)

    assert bool(views_of(make)[1]) == folded


def test_a_slice_of_a_slice_begins_where_both_begin() -> None:
    def make(build: LayerBuilder) -> None:
        x = build.input("x", (5, 6, 7), DType.INT8)
        build.output(
            build.rescale(cut(build, cut(build, x, (1, 0, 0), (3, 6, 7)), (2, 4, 0), (1, 2, 7)), DType.INT32)
        )

    views, (outer, inner) = views_of(make)
    tensors = views.tensors
    assert [tensors.offset_bytes(name) for name in (outer, inner)] == [42, 42 + 84 + 28]
    assert {tensors.storage[name] for name in (outer, inner)} == {"x"}


def test_an_image_that_is_cut_begins_within_its_source() -> None:
    def make(build: LayerBuilder) -> None:
        x = build.input("x", IMAGE, DType.INT8)
        build.output(build.conv(cut(build, x, (1, 1, 2, 0), (1, 5, 4, 6)), 3, (1, 1)))

    views, _ = views_of(make)
    (operator,) = (each for each in views.tensors.graph.operators if each.op == "CONV2D")
    assert views.view(operator) == View("x", 9 * 8 * 6 + 8 * 6 + 2 * 6, 8 * 6, 9 * 8 * 6)


@pytest.mark.parametrize("operand", [1, 2])
def test_a_slice_that_a_convolution_has_for_weights_or_bias_is_no_view(operand: int) -> None:
    def make(build: LayerBuilder) -> None:
        x = build.input("x", (1, 5, 5, 6), DType.INT8)
        weight = build.input("w", (3, 3, 3, 6), DType.INT8)
        bias = build.input("b", (4,), DType.INT32)
        if operand == 1:
            weight = cut(build, weight, (0, 1, 1, 0), (3, 2, 2, 6))
        bias = cut(build, bias, (1,), (3,)) if operand == 2 else build.constant([1, 2, 3], DType.INT32)
        zeros = [build.zero_point(DType.INT8) for _ in range(2)]
        attributes = dict(
            pad=[0] * 4, stride=[1, 1], dilation=[1, 1], acc_type=DType.INT32, local_bound=False
        )
        build.output(build.add("CONV2D", [x, weight, bias, *zeros], **attributes))

    assert views_of(make)[1] == []


@pytest.mark.parametrize("op", ["MUL", "ADD", "MAXIMUM"])
def test_one_element_without_axes(op):
    """Of a larger tensor, with another number."""
    build = LayerBuilder(7)
    x, y = build.input("x", (1, 3, 5, 4), DType.INT32), build.input("y", (), DType.INT32)
    element = build.add("SLICE", [x, build.shape((0, 1, 2, 3)), build.shape((1, 1, 1, 1))])
    number = build.add("RESHAPE", [element, build.shape(())])
    shift = [build.zero_point(DType.INT8)] if op == "MUL" else []
    attributes = {"nan_mode": "PROPAGATE"} if op == "MAXIMUM" else {}
    build.output(build.add(op, [number, y, *shift], dtype=DType.INT32, **attributes))
    values = {"x": np.arange(60, dtype=np.int32).reshape(1, 3, 5, 4), "y": np.array(-3, np.int32)}
    for config in ("nano", "base"):
        assert_equal_to_golden(build.finish(), config, values)
