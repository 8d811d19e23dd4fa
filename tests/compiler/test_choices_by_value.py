"""Choices that follow from values: the ends of ranges decide them, and no result shows which one was made."""

import dataclasses

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.emit.commands import Work
from tosaic.compiler.emit.vector_go import Entries
from tosaic.compiler.fuse.expression import Load, Node, range_of
from tosaic.compiler.fuse.layer_building import _narrowest
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.constant_channels import _rescale
from tosaic.compiler.legalize.normalise import normalise
from tosaic.compiler.legalize.planes import _channel_slices
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.place.address import Region, Span
from tosaic.compiler.schedule.interleave import _others_before
from tosaic.compiler.schedule.items import Item
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Element, Op, Unit
from tosaic.sim.golden import evaluate


@pytest.mark.parametrize("bits, element", [(8, Element.INT8), (16, Element.INT16), (32, Element.INT32)])
def test_the_narrowest_type_holds_its_ends(bits: int, element: Element) -> None:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    assert _narrowest(np.array([low, high])) is element
    assert _narrowest(np.array([low - 1])) is not element
    assert _narrowest(np.array([high + 1])) is not element


def test_ranges_of_sums() -> None:
    """They tell whether a sum of int32 may have to wrap."""
    narrow, wide = Load("a", Element.INT8), Load("b", Element.INT16)
    assert range_of(Node(Op.ADD, narrow, wide)) == (-128 - 32768, 127 + 32767)
    assert range_of(Node(Op.ADD, Load("c", Element.UINT8), narrow, a_zp=5, out_zp=9)) == (-124, 386)
    assert range_of(Node(Op.MOV, narrow, None, out_zp=1)) == (-127, 128)


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


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("shift", [31, 32, 33, 40])
def test_constant_channels_are_rescaled_as_golden_does(double: bool, shift: int) -> None:
    build = LayerBuilder(6)
    x = build.input("x", (1, 64), DType.INT32)
    build.output(build.rescale(x, DType.INT16, double=double, per_channel=True, shift=shift, output_zp=0))
    graph = build.finish()
    most = 1 << shift - 17
    values = np.random.default_rng(shift).integers(-most, most, 64)
    found = _rescale(graph, graph.operators[0], np.ma.array(values))
    assert found is not None
    (wanted,) = evaluate(graph, {"x": values.astype(np.int32)[None]}).values()
    assert found.tolist() == wanted[0].tolist()


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


def test_loads_know_how_much_other_work_comes_before_them() -> None:
    units = [Unit.LOAD, Unit.ARRAY, Unit.LOAD, Unit.VECTOR, Unit.STORE, Unit.LOAD]
    items = [Item(Work(unit, []), number) for number, unit in enumerate(units)]
    assert _others_before(items) == [0, 1, 3]
