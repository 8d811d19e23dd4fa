"""Transposes that interleave lines: every order of axes gives golden's integers, by the predicted passes."""

import dataclasses
import math

import pytest
from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder, feeds
from rtl_configs import on_rtl

from tosaic.compiler.ir import DType
from tosaic.compiler.tile.loops import Axis
from tosaic.compiler.tile.turn import turn_of
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config

BASE = get_config("base")
TINY = dataclasses.replace(get_config("small"), name="tiny", am_bytes=1 << 11, wm_bytes=1 << 10)


def transpose(shape, perms, dtype=DType.INT8):
    build = LayerBuilder(1)
    build.output(build.add("TRANSPOSE", [build.input("x", shape, dtype)], perms=list(perms)))
    return build.finish()


def plane(lines, line, element_bytes=1):
    """The loops of a transpose of a matrix: along what is a line of the source, and from line to line."""
    return [
        Axis(line, (element_bytes, lines * element_bytes)),
        Axis(lines, (line * element_bytes, element_bytes)),
    ]


@pytest.mark.parametrize(
    "lines, line, element_bytes, radices",
    [
        (64, 256, 1, (4, 4)),
        (16, 256, 1, (4, 4)),
        (8, 256, 1, (4, 2)),
        (
            9,
            256,
            1,
            (3,),
        ),  # three times, where eight lines at a time would take the last one with seven others
        (4, 256, 1, (4,)),
        # Three lines become one with an unused byte behind every third: an image whose channels were planes.
        (3, 256, 1, (3,)),
        (2, 256, 1, (2,)),
        (64, 256, 2, (2, 2)),
    ],
)
def test_passes(lines, line, element_bytes, radices):
    turn = turn_of(plane(lines, line, element_bytes), element_bytes, BASE)
    assert turn is not None and turn.radices == radices


@pytest.mark.parametrize(
    "axes, element_bytes",
    [
        (plane(64, 256, 4), 4),  # as wide as what elements are put together to
        (plane(3, 256, 2), 2),  # half of the elements would be joined twice
        (plane(3, 3), 1),  # too little
        ([Axis(64, (64, 64)), Axis(64, (1, 1))], 1),  # nothing is turned
        ([Axis(64, (0, 64)), Axis(64, (0, 1))], 1),  # one element everywhere
        ([], 1),
    ],
)
def test_what_is_copied_element_by_element(axes, element_bytes):
    assert turn_of(axes, element_bytes, BASE) is None


def test_chunks_that_follow_each_other_need_no_copy():
    """Weights of 16 output channels: the last pass writes them to their place."""
    axes = [Axis(12, (1, 16)), Axis(16, (100, 1))]
    turn = turn_of(axes, 1, BASE)
    assert turn is not None and turn.in_place
    assert not turn_of(plane(17, 12), 1, BASE).in_place


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_order_of_axes(data):
    rank = data.draw(st.integers(2, 6))
    sizes = st.sampled_from((1, 2, 3, 5, 16, 19, 33, 50)) if rank < 4 else st.sampled_from((1, 2, 3, 4, 9))
    shape = data.draw(st.lists(sizes, min_size=rank, max_size=rank).filter(lambda s: math.prod(s) <= 20_000))
    perms = data.draw(st.permutations(range(rank)))
    dtype = data.draw(st.sampled_from((DType.INT8, DType.BOOL, DType.INT16, DType.INT32)))
    config = data.draw(st.sampled_from((BASE, get_config("small"), get_config("nano"), TINY)))
    values = data.draw(st.integers(0, 9))
    graph = transpose(tuple(shape), perms, dtype)
    assert_equal_to_golden(graph, config, feeds(graph, values), check_hazards=True)


def test_lines_that_go_backwards():
    """REVERSE before TRANSPOSE is a layer of its own; lines of which each is fetched by itself are turned as well."""
    build = LayerBuilder(1)
    x = build.add("REVERSE", [build.input("x", (40, 50), DType.INT8)], axis=0)
    build.output(build.add("TRANSPOSE", [x], perms=[1, 0]))
    for config in (BASE, TINY):
        assert_equal_to_golden(build.finish(), config, check_hazards=True)


def cycles_of(graph, target="emulator", config="base"):
    session = Session(graph, target, config)
    session.run(feeds(graph, 1), check=True)
    return session.stats["cycles"]


@pytest.mark.parametrize(
    "shape, perms, dtype, most",
    [
        ((64, 256), [1, 0], DType.INT8, 7_100),  # 18,631 element by element
        ((1, 96, 28, 28), [0, 2, 3, 1], DType.INT8, 33_200),  # 84,871
        ((1, 3, 96, 96), [0, 2, 3, 1], DType.INT8, 16_900),  # 31,303
        ((1, 255, 1, 257), [3, 2, 1, 0], DType.INT8, 30_100),  # 73,926
        ((1, 28, 28, 96), [0, 3, 1, 2], DType.INT16, 69_000),  # 94,461
    ],
)
def test_cycles(shape, perms, dtype, most):
    assert cycles_of(transpose(shape, perms, dtype)) <= most


@pytest.mark.parametrize("config", [on_rtl(name) for name in ("small", "base")])
@pytest.mark.parametrize(
    "shape, perms, dtype",
    [
        ((37, 5, 19), [2, 1, 0], DType.INT8),
        ((1, 3, 20, 20), [0, 2, 3, 1], DType.INT8),
        ((33, 50), [1, 0], DType.INT16),
        ((2, 3, 1, 4, 2, 30), [5, 0, 3, 2, 4, 1], DType.INT8),
    ],
)
def test_rtl(config, shape, perms, dtype):
    graph = transpose(shape, perms, dtype)
    assert cycles_of(graph, "emulator", config) == pytest.approx(cycles_of(graph, "sim", config), rel=0.03)
