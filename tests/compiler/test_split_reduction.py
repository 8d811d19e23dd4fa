"""Reductions larger than the activation memory run in pieces."""

import dataclasses

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType
from tosaic.hw.config_text import get_config

TINY = dataclasses.replace(get_config("small"), name="tiny", am_bytes=1 << 10, wm_bytes=1 << 10)
TYPES = {
    "REDUCE_SUM": [DType.INT32],
    "REDUCE_MAX": [DType.INT8, DType.INT16, DType.INT32],
    "REDUCE_MIN": [DType.INT8, DType.INT16, DType.INT32],
    "REDUCE_ANY": [DType.BOOL],
    "REDUCE_ALL": [DType.BOOL],
    "ARGMAX": [DType.INT8, DType.INT16],
}


def reduction(op, shape, axis, dtype):
    build = LayerBuilder(1)
    attributes = {"nan_mode": "PROPAGATE"} if op in ("ARGMAX", "REDUCE_MAX", "REDUCE_MIN") else {}
    build.output(build.add(op, [build.input("x", shape, dtype)], axis=axis, **attributes))
    return build.finish()


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([(op, dtype) for op, dtypes in TYPES.items() for dtype in dtypes]),
    st.lists(st.sampled_from([1, 2, 7, 16]), min_size=1, max_size=3),
    st.data(),
)
def test_reductions_in_little_memory(kind, shape, data):
    graph = reduction(kind[0], tuple(shape), data.draw(st.integers(0, len(shape) - 1)), kind[1])
    assert_equal_to_golden(graph, TINY)


@pytest.mark.parametrize("shape, axis", [((1, 70_001, 1), 1), ((70_000, 1), 1), ((2, 66_000), 0)])
def test_axes_that_no_field_counts(shape, axis):
    assert_equal_to_golden(reduction("REDUCE_MIN", shape, axis, DType.INT8), "base")


def test_int32_sums_wrap():
    graph = reduction("REDUCE_SUM", (700, 1), 0, DType.INT32)
    values = feeds(graph, 3)
    values["x"][:] = 1 << 20
    values["x"][::2] = -(1 << 20)
    assert_equal_to_golden(graph, TINY, values)


def test_the_first_of_equal_maxima_in_different_pieces():
    values = {"x": np.full((4000,), -32768, np.int16)}
    values["x"][[1500, 3500]] = 32767
    assert_equal_to_golden(reduction("ARGMAX", (4000,), 0, DType.INT16), TINY, values)
