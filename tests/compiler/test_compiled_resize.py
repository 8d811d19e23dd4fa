"""RESIZE on the emulator equals golden: both modes, all borders, identities, repeats, and images larger than memory."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexed_graphs import assert_equal_to_golden, resize_graph

from tosaic.compiler.ir import DType
from tosaic.hw.config import get_config

SMALL_MEMORY = dataclasses.replace(get_config("nano"), am_bytes=1 << 11)
NEAREST_TYPES = (DType.INT8, DType.INT16)


@st.composite
def axes(draw, extent):
    """(numerator, denominator, offset, border) that ERROR_IF allows, of at most 16 output positions."""
    n = draw(st.one_of(st.integers(1, 5), st.integers(1, 2048)))
    offset = draw(st.integers(-n, 16 * n - 1))
    d = draw(st.integers(1, 16 * n - 1))
    steps = draw(st.integers(0, 15))
    border = steps * d - (extent - 1) * n + offset
    return None if not -16 * n <= border < n else (n, d, offset, border)


@st.composite
def resizes(draw, dtypes, mode):
    shape = tuple(draw(st.integers(1, most)) for most in (2, 9, 9, 20))
    height = draw(axes(shape[1]).filter(bool))
    width = draw(axes(shape[2]).filter(bool))
    return resize_graph(shape, height, width, mode, draw(st.sampled_from(dtypes)))


@settings(max_examples=50, deadline=None)
@given(resizes(NEAREST_TYPES, "NEAREST"), st.sampled_from(["nano", "base"]))
def test_nearest(case, config):
    assert_equal_to_golden(*case, get_config(config))


@settings(max_examples=50, deadline=None)
@given(resizes((DType.INT8,), "BILINEAR"), st.sampled_from(["nano", "base"]))
def test_bilinear(case, config):
    assert_equal_to_golden(*case, get_config(config))


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
