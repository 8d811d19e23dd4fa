"""Reductions in passes: which partial results are kept, and that every way to cut an axis gives golden's integers."""

import dataclasses

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.passes import legalize
from tosaic.compiler.place.arena import Arena
from tosaic.compiler.place.placer import Memories, Placer
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.tile.reduction import plan_reduction
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate

BASE = get_config("base")
TINY = dataclasses.replace(get_config("small"), name="tiny", am_bytes=1 << 10, wm_bytes=1 << 10)
KINDS = [
    ("REDUCE_SUM", DType.INT32),
    ("REDUCE_MAX", DType.INT8),
    ("REDUCE_MIN", DType.INT16),
    ("REDUCE_ANY", DType.BOOL),
    ("REDUCE_ALL", DType.BOOL),
    ("ARGMAX", DType.INT8),
    ("ARGMAX", DType.INT16),
]


def reduction(op, shape, axis, dtype):
    build = LayerBuilder(1)
    attributes = {"nan_mode": "PROPAGATE"} if op in ("ARGMAX", "REDUCE_MAX", "REDUCE_MIN") else {}
    build.output(build.add(op, [build.input("x", shape, dtype)], axis=axis, **attributes))
    return build.finish()


def planned(graph, config, external=()):
    (layer,) = Fuser(graph, config).layers(set())
    tensors = Tensors(graph, config)
    memories = Memories(Arena(config.am_bytes, config.columns), config.am_bytes)
    return layer, *plan_reduction(Placer(tensors, memories), layer, list(external))


@pytest.mark.parametrize(
    "op, shape, axis, dtype, partials",
    [
        # Rows of a vector or more: the lanes run along the axis.
        ("REDUCE_MAX", (128, 128), 1, DType.INT8, (16, 4)),
        # One row: as many vectors side by side as a batch has slots.
        ("REDUCE_MAX", (65536,), 0, DType.INT8, (256, 32, 4)),
        # The elements behind the axis fill the lanes and the slots already.
        ("REDUCE_MAX", (100, 256), 0, DType.INT8, ()),
        ("REDUCE_MAX", (3,), 0, DType.INT8, ()),
        # Half of the elements and those behind the axis are whole vectors: 416 cycles, and 526 without partial results.
        ("REDUCE_MIN", (32, 5), 0, DType.INT16, (16,)),
    ],
)
def test_partial_results(op, shape, axis, dtype, partials):
    _, plan, buffers = planned(reduction(op, shape, axis, dtype), BASE)
    assert plan.partials == partials
    assert (plan.outer_elements, plan.along) == (shape[0] if axis else 1, shape[axis])
    assert len(buffers) == bool(partials)


def test_a_row_that_does_not_fit_is_cut_along_the_axis():
    graph = reduction("REDUCE_SUM", (2, 100_000), 1, DType.INT32)
    layer, plan, _ = planned(graph, BASE, ["x"])
    boxes = list(plan.boxes(layer.reduction))
    assert plan.along % plan.partials[0] == 0 and plan.along * 4 <= BASE.am_bytes // 8
    assert [box.low for box in boxes] == [(0,)] * (len(boxes) // 2) + [(1,)] * (len(boxes) // 2)
    assert sum(box.stop - box.start for box in boxes) == 200_000


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.lists(st.integers(1, 40), min_size=1, max_size=3).filter(lambda shape: len(shape) < 3 or shape[0] < 6),
    st.data(),
)
def test_any_axis_of_any_length(kind, shape, data):
    graph = reduction(kind[0], tuple(shape), data.draw(st.integers(0, len(shape) - 1)), kind[1])
    config = data.draw(st.sampled_from([TINY, BASE, get_config("nano")]))
    assert_equal_to_golden(graph, config, feeds(graph, data.draw(st.integers(0, 9))), check_hazards=True)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape, axis", [((1999, 3), 0), ((3, 1999), 1), ((5003,), 0)])
def test_long_axes_in_boxes(kind, shape, axis):
    """The boxes of one axis continue each other's partial results; the last one is shorter."""
    assert_equal_to_golden(reduction(kind[0], shape, axis, kind[1]), TINY, check_hazards=True)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("places", [(0, 4999), (17, 33), (4998, 4999), (2500,)])
def test_argmax_finds_the_first_of_equal_maxima(dtype, places):
    graph = reduction("ARGMAX", (5000,), 0, dtype)
    values = feeds(graph, 1)
    values["x"][:] = dtype.min
    values["x"][list(places)] = dtype.max
    for config in (TINY, BASE):
        assert_equal_to_golden(graph, config, values)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("place", [None, 4990])
def test_argmax_of_the_least_values(dtype, place):
    """No value of a pass is smaller than where it begins."""
    graph = reduction("ARGMAX", (5000,), 0, dtype)
    values = {"x": np.full(5000, dtype.min, dtype.numpy)}
    if place is not None:
        values["x"][place] += 1
    assert_equal_to_golden(graph, "small", values)


def test_argmax_of_more_elements_than_a_field_counts():
    graph = reduction("ARGMAX", (140_000,), 0, DType.INT16)
    values = feeds(graph, 1)
    values["x"][:] = -32768
    values["x"][[131_072, 139_999]] = 32767
    assert_equal_to_golden(graph, "base", values)


def test_what_follows_argmax_takes_the_index():
    build = LayerBuilder(1)
    x = build.add("ARGMAX", [build.input("x", (3, 500), DType.INT16)], axis=1, nan_mode="PROPAGATE")
    x = build.add("MAXIMUM", [x, build.constant([100], DType.INT32)], nan_mode="PROPAGATE")
    build.output(build.add("ADD", [x, build.random_constant((3,), DType.INT32, -9, 9)]))
    assert_equal_to_golden(build.finish(), "base")


@pytest.mark.parametrize("axes", [(1, 2), (2, 1), (0, 2)])
def test_sums_over_two_axes(axes):
    """Neighbouring axes are one to the machine; others are layers of their own."""
    build = LayerBuilder(1)
    x = build.input("x", (3, 9, 11, 5), DType.INT32)
    x = build.add("SUB", [x, build.input("y", (3, 1, 1, 5), DType.INT32)])
    for axis in axes:
        x = build.add("REDUCE_SUM", [x], axis=axis)
    build.output(x)
    graph = build.finish()
    assert len(Fuser(graph, BASE).layers(set())) == (1 if abs(axes[0] - axes[1]) == 1 else 2)
    for config in (TINY, BASE):
        assert_equal_to_golden(graph, config, check_hazards=True)


@pytest.mark.parametrize("op, dtype", [("REDUCE_SUM", DType.INT32), ("ARGMAX", DType.INT8)])
def test_elements_that_are_all_one_constant_are_not_loaded(op, dtype):
    build = LayerBuilder(1)
    same = build.constant(np.full((3, 300), 5), dtype)
    more = {"nan_mode": "PROPAGATE"} if op == "ARGMAX" else {}
    x = build.add(op, [same], axis=1, **more)
    build.output(build.add("ADD", [x, build.input("y", build.graph.tensors[x].shape, DType.INT32)]))
    graph = build.finish()
    (layer,) = Fuser(graph, BASE).layers(set())
    assert layer.reduction.body == ()
    for config in (TINY, BASE):
        assert_equal_to_golden(graph, config)


def test_a_mean_over_an_image_is_one_layer_though_its_rows_are_long():
    build = LayerBuilder(1)
    x = build.add("CAST", [build.input("x", (1, 4, 6, 10), DType.INT8)], dtype=DType.INT32)
    for axis in (1, 2):
        x = build.add("REDUCE_SUM", [x], axis=axis)
    build.output(x)
    graph = build.finish()
    (layer,) = Fuser(legalize(graph, TINY), TINY).layers(set())
    assert layer.reduction.shape == (1, 24, 10) and layer.reduction.axis == 1
    assert_equal_to_golden(graph, TINY)


def test_what_is_reduced_is_computed_on_the_way_in_whatever_its_size():
    """A layer norm's variance over more elements than fit the memory: no operator is split off."""
    build = LayerBuilder(1)
    x, mean = build.input("x", (40, 300), DType.INT16), build.input("mean", (40, 1), DType.INT32)
    wide = build.add("CAST", [x], dtype=DType.INT32)
    apart = build.add("SUB", [wide, mean])
    square = build.rescale(build.add("MUL", [apart, apart, build.zero_point(DType.INT8)]), DType.INT32)
    build.output(build.add("REDUCE_SUM", [square], axis=1))
    graph = build.finish()
    (layer,) = Fuser(graph, TINY).layers(set())
    assert [operator.op for operator in layer.operators] == ["CAST", "SUB", "MUL", "RESCALE", "REDUCE_SUM"]
    values = feeds(graph, 1)
    values["mean"] %= 1 << 14
    assert_equal_to_golden(graph, TINY, values)


@pytest.mark.parametrize(
    "op, shape, axis, dtype, word_cycles",
    [
        ("REDUCE_SUM", (128, 128), 1, DType.INT32, 3),
        ("REDUCE_SUM", (200_003,), 0, DType.INT32, 2),
        ("REDUCE_MAX", (3, 197, 197), 2, DType.INT8, 4),
        ("REDUCE_ALL", (5000, 17), 0, DType.BOOL, 3),
    ],
)
def test_reductions_take_a_few_cycles_for_a_word(op, shape, axis, dtype, word_cycles):
    graph = reduction(op, shape, axis, dtype)
    session = Session(compile_graph(graph, BASE), "emulator")
    values = feeds(graph, 1)
    (output,) = session.run(values).values()
    assert (output == next(iter(evaluate(graph, values).values()))).all()
    size = 4 if dtype is DType.INT32 else 1
    assert session.stats["cycles"] <= word_cycles * values["x"].size * size / BASE.word_bytes


def test_terms_of_rows_fill_the_lanes_though_partial_results_are_wide():
    """A layer norm's variance: [196, 192] took 40,480 cycles with four partial results of four bytes a row."""
    build = LayerBuilder(1)
    x = build.input("x", (196, 192), DType.INT16)
    square = build.rescale(build.add("MUL", [x, x, build.zero_point(DType.INT8)]), DType.INT32)
    build.output(build.add("REDUCE_SUM", [square], axis=1))
    _, plan, _ = planned(build.finish(), BASE)
    assert plan.partials == (16, 4) and plan.cycles < 19_000
    session = Session(build.finish(), "emulator", "base")
    session.run(feeds(build.graph, 1), check=True)
    assert session.stats["cycles"] < 23_500  # a fifth of them bring the elements in
