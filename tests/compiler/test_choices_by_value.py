"""Choices that follow from values: the ends of ranges decide them, and no result shows which one was made."""

import dataclasses

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.emit.vector_go import Entries
from tosaic.compiler.fuse.expression import Immediate, Load, Node, Value, clamped
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.normalise import normalise
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.place.address import Region, Span
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Element, Op

NARROW, BYTE = Load("a", Element.INT8), Load("b", Element.UINT8)


@pytest.mark.parametrize(
    "value, low, high",
    [
        (NARROW, -128, 127),
        (Load("c", Element.INT16), -32768, 32767),
        (Node(Op.ADD, NARROW, Load("c", Element.INT16)), -128 - 32768, 127 + 32767),
        (Node(Op.ADD, BYTE, NARROW, a_zp=5, out_zp=9), -124, 386),
        (Node(Op.MOV, NARROW, None, out_zp=1), -127, 128),
        (Node(Op.MOV, NARROW, None, clamp=(-3, 200)), -3, 127),
    ],
)
def test_a_sum_that_may_wrap_is_clamped_behind_it(value: Value, low: int, high: int) -> None:
    """The clamp is a node of its own, or part of the node that makes the sum."""
    for added, wraps in (
        ((1 << 31) - 1 - high, False),
        ((1 << 31) - high, True),
        (-(1 << 31) - low, False),
        (-(1 << 31) - low - 1, True),
    ):
        total = Node(Op.ADD, value, Immediate(added), wrap32=True)
        assert (clamped(total, -5, 5, uses=1) is total) == (not wraps)


def test_a_list_of_entries_spans_four_bytes_each() -> None:
    assert Entries(64, 100).span == Span(Region.ACTIVATION, 64, 464)


@pytest.mark.parametrize("zero_point", [-56, 0, -1, 77])
@pytest.mark.parametrize("behind", [False, True])
def test_unsigned_operands_and_their_zero_points(zero_point: int, behind: bool) -> None:
    """A zero point of 200 is stored as -56, in an int8 tensor."""
    build = LayerBuilder(4)
    x = build.input("x", (1, 3, 4, 5), DType.INT8)
    source = build.add("IDENTITY", [build.clamp(x, -100, 90)]) if behind else x
    operands = [
        source,
        build.constant(np.array([1 << 30]), DType.INT32),
        build.constant(np.array([31]), DType.INT8),
    ]
    operands += [build.zero_point(DType.INT8, zero_point), build.zero_point(DType.INT8, 3)]
    flags = dict(scale32=True, per_channel=False, input_unsigned=True, output_unsigned=False)
    build.output(build.add("RESCALE", operands, dtype=DType.INT8, rounding_mode="SINGLE_ROUND", **flags))
    assert_equal_to_golden(build.finish(), "nano")


@pytest.mark.parametrize("op", ["MAXIMUM", "ABS"])
def test_results_that_do_not_stay(op: str) -> None:
    build = LayerBuilder(3)
    names = ["a", "b"] if op == "MAXIMUM" else ["a"]
    inputs = [build.input(name, (1, 40, 10, 8), DType.INT32) for name in names]
    build.output(build.add(op, inputs, **({"nan_mode": "PROPAGATE"} if op == "MAXIMUM" else {})))
    little = dataclasses.replace(get_config("small"), name="little", am_bytes=4 << 10)
    assert_equal_to_golden(build.finish(), little, check_hazards=True)


def test_a_constant_that_is_reshaped_is_a_constant() -> None:
    build = LayerBuilder(6)
    x = build.input("x", (2, 6), DType.INT32)
    line = build.add("RESHAPE", [build.random_constant((3, 4), DType.INT32, -9, 9), build.shape([2, 6])])
    build.output(build.add("ADD", [x, line]))
    folded = normalise(build.finish())
    assert [operator.op for operator in folded.operators] == ["ADD"]
    assert folded.tensors[folded.operators[0].inputs[1]].data is not None


def test_rewritings_share_the_planes_that_they_are_given() -> None:
    build = LayerBuilder(6)
    build.output(build.add("ABS", [build.input("x", (2,), DType.INT32)]))
    graph, planes = build.finish(), dict[str, tuple[str, str]]()
    assert Rewriting(graph, graph.operators[0], planes).planes is planes
    assert Rewriting(graph, graph.operators[0]).planes == {}
