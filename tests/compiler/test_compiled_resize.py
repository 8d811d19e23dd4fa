"""RESIZE on the emulator equals golden: both modes, all borders, identities, repeats, and images larger than memory."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexed_graphs import assert_equal_to_golden, resize_graph

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config

SMALL_MEMORY = dataclasses.replace(get_config("nano"), am_bytes=1 << 11)
NEAREST_TYPES = (DType.INT8, DType.INT16)


@st.composite
def axes(draw, extent):
    """(numerator, denominator, offset, border) of at most 16 output positions; `extent` is at most 16."""
    n = draw(st.one_of(st.integers(1, 5), st.integers(1, 2048)))
    offset = draw(st.integers(-n, extent * n - 1))
    d = draw(st.one_of(st.integers(1, 2 * n), st.integers(1, 16 * n - 1)))
    steps = draw(st.integers(0, min(15, (extent * n - 1 - offset) // d)))
    return n, d, offset, steps * d - (extent - 1) * n + offset


@st.composite
def resizes(draw, dtypes, mode):
    shape = tuple(draw(st.integers(1, most)) for most in (2, 9, 9, 20))
    height = draw(axes(shape[1]))
    width = draw(axes(shape[2]))
    return resize_graph(shape, height, width, mode, draw(st.sampled_from(dtypes)))


@settings(max_examples=50, deadline=None)
@given(resizes(NEAREST_TYPES, "NEAREST"), st.sampled_from(["nano", "base"]))
def test_nearest(case, config):
    assert_equal_to_golden(*case, get_config(config))


@settings(max_examples=50, deadline=None)
@given(resizes((DType.INT8,), "BILINEAR"), st.sampled_from(["nano", "base"]))
def test_bilinear(case, config):
    assert_equal_to_golden(*case, get_config(config))


@settings(max_examples=30, deadline=None)
@given(resizes((DType.INT16,), "BILINEAR"), st.sampled_from(["small", "base"]))
def test_bilinear_int48(case, config):
    assert_equal_to_golden(*case, get_config(config))


def test_a_machine_of_narrow_words_has_no_int48():
    graph, _ = resize_graph((1, 4, 4, 3), (2, 1, 0, 1), (2, 1, 0, 1), "BILINEAR", DType.INT16)
    with pytest.raises(UnsupportedError, match="int48.*has elements of 8 bytes on a 4-byte machine"):
        compile_graph(graph, get_config("nano"))


@pytest.mark.parametrize(("channels", "operators"), [(16, ["TILE"]), (3, ["GATHER", "GATHER"])])
def test_doubling_of_wide_pixels_is_a_tile(channels, operators):
    graph, values = resize_graph((1, 8, 8, channels), (4, 2, -1, 1), (4, 2, -1, 1), "NEAREST")
    program = assert_equal_to_golden(graph, values, get_config("base"))
    assert [layer.op for layer in program.layers] == operators


def test_each_axis_is_one_pass_of_arithmetic():
    graph, values = resize_graph((1, 9, 9, 16), (3, 2, 0, 0), (3, 2, 0, 0), "BILINEAR")
    program = assert_equal_to_golden(graph, values, get_config("base"))
    moved = [layer for layer in program.layers if layer.op == "GATHER"]
    assert (len(moved), len(program.layers)) == (4, 6)


SCALES = {
    "unchanged": ((1, 1, 0, 0), (1, 1, 0, 0)),
    "doubled": ((2, 1, 0, 1), (2, 1, 0, 1)),
    "doubled between pixels": ((4, 2, -1, 1), (4, 2, -1, 1)),
    "height trebled": ((6, 2, -2, 2), (1, 1, 0, 0)),
    "width halved": ((1, 1, 0, 0), (1, 2, 0, -1)),
    "width up, height down": ((2, 3, 0, -1), (9, 4, 0, 3)),
}


@pytest.mark.parametrize("config", [get_config("base"), SMALL_MEMORY], ids=["base", "little memory"])
@pytest.mark.parametrize("mode", ["NEAREST", "BILINEAR"])
@pytest.mark.parametrize("name", SCALES)
def test_scales(name, mode, config):
    assert_equal_to_golden(*resize_graph((2, 12, 10, 19), *SCALES[name], mode), config)
