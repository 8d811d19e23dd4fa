"""Choices that follow from values: the ends of ranges decide them, and no result shows which one was made."""

import dataclasses

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.emit.vector_go import Entries
from tosaic.compiler.fuse.expression import Load, Node, _range
from tosaic.compiler.fuse.layer_building import _narrowest
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.planes import _channel_slices
from tosaic.compiler.place.address import Region, Span
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Element, Op


@pytest.mark.parametrize("bits, element", [(8, Element.INT8), (16, Element.INT16), (32, Element.INT32)])
def test_the_narrowest_type_holds_its_ends(bits: int, element: Element) -> None:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    assert _narrowest(np.array([low, high])) is element
    assert _narrowest(np.array([low - 1])) is not element
    assert _narrowest(np.array([high + 1])) is not element


def test_ranges_of_sums() -> None:
    """They tell whether a sum of int32 may have to wrap."""
    narrow, wide = Load("a", Element.INT8), Load("b", Element.INT16)
    assert _range(Node(Op.ADD, narrow, wide)) == (-128 - 32768, 127 + 32767)
    assert _range(Node(Op.ADD, Load("c", Element.UINT8), narrow, a_zp=5, out_zp=9)) == (-124, 386)
    assert _range(Node(Op.MOV, narrow, None, out_zp=1)) == (-127, 128)


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


def test_channels_whose_sums_of_low_bytes_fit_int32() -> None:
    """255 times the magnitudes, and as much for what is added."""
    most = (1 << 31) // 255 - 1
    assert _channel_slices(np.full((1, 1, 1, 1), most)) == [(0, 1)]
    assert _channel_slices(np.full((1, 1, 1, 1), most + 1)) is None
    halves = np.full((2, 1, 1, 5), most // 2)
    assert _channel_slices(halves) == [(0, 2), (2, 2), (4, 1)]


@pytest.mark.parametrize("op", ["MAXIMUM", "ABS"])
def test_results_that_do_not_stay(op: str) -> None:
    build = LayerBuilder(3)
    names = ["a", "b"] if op == "MAXIMUM" else ["a"]
    inputs = [build.input(name, (1, 40, 10, 8), DType.INT32) for name in names]
    build.output(build.add(op, inputs, **({"nan_mode": "PROPAGATE"} if op == "MAXIMUM" else {})))
    little = dataclasses.replace(get_config("small"), name="little", am_bytes=4 << 10)
    assert_equal_to_golden(build.finish(), little, check_hazards=True)
