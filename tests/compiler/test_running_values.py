"""Reductions and pools as running values: where they start, how they combine, and how ARGMAX counts."""

import dataclasses

import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.fuse.expression import Immediate, Iteration, Load, Node, Reduced, Value
from tosaic.compiler.fuse.layer_building import LayerBuilding, Members
from tosaic.compiler.fuse.microprogram import TooComplex
from tosaic.compiler.fuse.reduced_axis import reduced_axis
from tosaic.compiler.fuse.reductions import (
    Reduction,
    index_bits,
    last_pass,
    reduced_value,
)
from tosaic.compiler.ir import DType
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Element, Op

BASE = get_config("base")
I8, I16, I32 = DType.INT8, DType.INT16, DType.INT32
TERM = Load("x", Element.INT8)


def value_of(
    op: str, dtype: DType, term: Value = TERM, extent: int = 6, zero_points: tuple[int, int] = (0, 0)
) -> Value:
    build = LayerBuilder(1)
    how: dict = (
        dict(axis=1) if op.startswith(("REDUCE", "ARG")) else dict(kernel=[2, 2], stride=[1, 1], pad=[0] * 4)
    )
    if op not in ("REDUCE_SUM", "REDUCE_ANY", "REDUCE_ALL", "AVG_POOL2D"):
        how["nan_mode"] = "PROPAGATE"
    operands = [build.input("x", (1, extent, 4, 3), dtype)]
    if op == "AVG_POOL2D":
        operands += [build.zero_point(dtype, value) for value in zero_points]
        how["acc_type"] = I32
    build.add(op, operands, **how)
    return reduced_value(build.graph, build.graph.operators[0], lambda name: term)


@pytest.mark.parametrize(
    "op, dtype, combine, start",
    [
        ("REDUCE_SUM", I32, Op.ADD, 0),
        ("REDUCE_MAX", I8, Op.MAX, -128),
        ("REDUCE_MAX", I16, Op.MAX, -32768),
        ("REDUCE_MIN", I8, Op.MIN, 127),
        ("REDUCE_MIN", I32, Op.MIN, (1 << 31) - 1),
        ("REDUCE_ANY", DType.BOOL, Op.OR, 0),
        ("REDUCE_ALL", DType.BOOL, Op.AND, 1),
        ("MAX_POOL2D", I8, Op.MAX, -128),
    ],
)
def test_what_a_running_value_starts_from(op: str, dtype: DType, combine: Op, start: int) -> None:
    found = value_of(op, dtype)
    assert isinstance(found, Reduced)
    assert (found.combine, found.start, found.term, found.a_zp) == (combine, start, TERM, 0)


@pytest.mark.parametrize("dtype, ends", [(I8, (-128, 127)), (I16, (-32768, 32767))])
def test_an_average_is_a_scaled_sum(dtype: DType, ends: tuple[int, int]) -> None:
    """Divided by 1 here: the number of positions is the window's."""
    zero_points = (3, -7) if dtype is I8 else (0, 0)
    found = value_of("AVG_POOL2D", dtype, zero_points=zero_points)
    assert isinstance(found, Node) and isinstance(found.a, Reduced)
    assert (found.op, found.multiplier, found.shift, found.average) == (Op.RESCALE, (1 << 30) + 1, 30, True)
    assert (found.out_zp, found.clamp) == (zero_points[1], ends)
    assert (found.a.combine, found.a.start, found.a.a_zp, found.a.term) == (Op.ADD, 0, zero_points[0], TERM)


PLAIN = Node(Op.RESCALE, TERM, multiplier=8, shift=3, a_zp=5)


def test_a_zero_point_is_subtracted_by_the_running_value() -> None:
    found = value_of("REDUCE_SUM", I32, PLAIN)
    assert isinstance(found, Reduced)
    assert (found.term, found.a_zp) == (TERM, 5)


@pytest.mark.parametrize(
    "changed",
    [
        dict(op=Op.MUL),
        dict(multiplier=9),
        dict(shift=2),
        dict(b=Immediate(1)),
        dict(clamp=(0, 1)),
        dict(per_channel=True),
        dict(bias=True),
        dict(wrap32=True),
        dict(out_zp=1),
    ],
)
def test_other_terms_are_computed_in_the_body(changed: dict) -> None:
    term = dataclasses.replace(PLAIN, **changed)
    found = value_of("REDUCE_SUM", I32, term)
    assert isinstance(found, Reduced)
    assert (found.term, found.a_zp) == (term, 0)


# --- ARGMAX


def test_bits_of_an_index() -> None:
    """The fewest that count all repetitions."""
    for extent in range(1, 40):
        for together in (1, 2, 4, 8):
            repetitions = -(-extent // together)
            bits = index_bits(extent, together)
            assert 1 << bits >= repetitions
            assert bits == 0 or 1 << bits - 1 < repetitions


@pytest.mark.parametrize("extent, bits", [(1, 0), (2, 1), (4, 2), (5, 3), (8, 3)])
@pytest.mark.parametrize("dtype, sign", [(I8, 7), (I16, 15)])
def test_the_smallest_key_is_that_of_the_first_maximum(
    extent: int, bits: int, dtype: DType, sign: int
) -> None:
    found = value_of("ARGMAX", dtype, extent=extent)
    assert isinstance(found, Node) and isinstance(found.a, Reduced) and isinstance(found.a.term, Node)
    key = found.a.term
    assert (found.op, found.b) == (Op.AND, Immediate((1 << bits) - 1))
    assert (key.op, key.a, key.b, key.multiplier, key.shift) == (
        Op.RESCALE,
        TERM,
        Iteration(),
        -(1 << bits),
        0,
    )
    # No key is larger: that of the least value with the last index.
    assert (found.a.combine, found.a.start) == (Op.MIN, (1 << sign + bits) + (1 << bits) - 1)


@pytest.mark.parametrize("dtype, most", [(I8, 23), (I16, 15)])
def test_keys_that_fit_a_partial_result(dtype: DType, most: int) -> None:
    reduction = Reduction(value_of("ARGMAX", dtype), dtype, argmax=True)
    assert [reduction.fits(bits) for bits in (most, most + 1)] == [True, False]
    assert reduction.partial is Element.INT32
    other = Reduction(value_of("REDUCE_MAX", dtype), dtype, argmax=False)
    assert other.fits(60)
    assert other.partial is {I8: Element.INT8, I16: Element.INT16}[dtype]


def test_the_last_pass_reads_the_index_of_all_bits() -> None:
    reduction = Reduction(Node(Op.ADD, value_of("ARGMAX", I8), Immediate(100)), I8, argmax=True)
    program = last_pass(reduction, BASE, 4, 9)
    immediates = [each.immediate for each in program.instructions if "immediate" in each.fields]
    assert (1 << 9) - 1 in immediates and 100 in immediates and 7 not in immediates


# --- axes


def axis_of(shape: tuple[int, ...], axes: tuple[int, ...], other: tuple[int, ...] | None = None):  # type: ignore[no-untyped-def]
    """Sums over axes of x, or of x + y."""
    build = LayerBuilder(1)
    y = build.input("x", shape, I32)
    if other is not None:
        y = build.add("ADD", [y, build.input("y", other, I32)])
    for axis in axes:
        y = build.add("REDUCE_SUM", [y], axis=axis)
    build.output(y)
    graph = build.finish()
    reductions = [each for each in graph.operators if each.op == "REDUCE_SUM"]
    members = Members(graph.operators, reductions[0], reductions[-1])
    return LayerBuilding(graph, BASE, members).build(share=False).reduction


@pytest.mark.parametrize(
    "axes, shape, axis, target",
    [
        ((1,), (2, 3, 4, 5), 1, (2, 1, 4, 5)),
        ((1, 2), (2, 12, 5), 1, (2, 1, 5)),
        ((2, 1), (2, 12, 5), 1, (2, 1, 5)),
        ((3, 2, 1), (2, 60), 1, (2, 1)),
        ((0,), (2, 3, 4, 5), 0, (1, 3, 4, 5)),
    ],
)
def test_neighbouring_axes_are_one(axes: tuple, shape: tuple, axis: int, target: tuple) -> None:
    found = axis_of((2, 3, 4, 5), axes)
    assert (found.shape, found.axis, found.target) == (shape, axis, target)
    assert (found.outer, found.inner, found.extent) == (shape[:axis], shape[axis + 1 :], shape[axis])


def test_axes_that_are_apart_are_two_layers() -> None:
    with pytest.raises(TooComplex, match="^a reduction over axes that are apart$"):
        axis_of((2, 3, 4, 5), (1, 3))


@pytest.mark.parametrize(
    "other, joined",
    [((2, 3, 4, 5), (2, 12, 5)), ((1, 1, 1, 5), (1, 1, 5)), ((2, 1, 1, 1), (2, 1, 1)), ((2, 3, 1, 5), None)],
)
def test_operands_along_joined_axes(other: tuple[int, ...], joined: tuple[int, ...] | None) -> None:
    """They are as long as the reduced axes are, or 1 along all of them."""
    if joined is None:
        with pytest.raises(TooComplex, match="^an operand that is broadcast along some of the reduced axes$"):
            axis_of((2, 3, 4, 5), (1, 2), other)
        return
    found = axis_of((2, 3, 4, 5), (1, 2), other)
    assert {load.tensor: shape for load, shape in found.body} == {"x": (2, 12, 5), "y": joined}


def test_a_layer_without_a_reduction_has_no_axis() -> None:
    build = LayerBuilder(1)
    build.output(build.add("ABS", [build.input("x", (2, 3), I32)]))
    graph = build.finish()
    assert reduced_axis(graph, BASE, graph.operators, TERM, None) is None  # type: ignore[arg-type]
