"""Scales, zero points, ranges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tosaic.compiler.ir import DType
from tosaic.compiler.quantizer.calibration import BINS, METHODS, choose_range
from tosaic.compiler.quantizer.encoding import asymmetric, multiplier_and_shift, symmetric
from tosaic.errors import UnsupportedError


@given(st.floats(2.0**-30, 2.0**28))
def test_multiplier_has_31_bits(scale):
    multiplier, shift = multiplier_and_shift(scale)
    assert 1 << 30 <= multiplier < 1 << 31 and 2 <= shift <= 62
    assert abs(multiplier * 2.0**-shift / scale - 1) <= 2.0**-31


@given(st.floats(2.0**-40, 2.0**12))
def test_multiplier_of_int48_has_15_bits(scale):
    multiplier, shift = multiplier_and_shift(scale, 15)
    assert 1 << 14 <= multiplier < 1 << 15 and 2 <= shift <= 62
    assert abs(multiplier * 2.0**-shift / scale - 1) <= 2.0**-15


@given(st.floats(0, 2.0**-31))
def test_small_scales_lose_bits_of_the_multiplier(scale):
    multiplier, shift = multiplier_and_shift(scale)
    assert 0 <= multiplier < 1 << 31 and 2 <= shift <= 62
    assert abs(multiplier * 2.0**-shift - scale) <= 2.0**-62


def test_a_network_can_reach_too_far_for_integers():
    with pytest.raises(
        UnsupportedError, match="a scale of 536870912.0 is too large for RESCALE: the network's val"
    ):
        multiplier_and_shift(2.0**29)


@pytest.mark.parametrize("scale", [float("inf"), float("nan"), -1.0])
def test_scales_that_are_refused(scale):
    with pytest.raises(ValueError, match="scale"):
        multiplier_and_shift(scale)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_zero_is_exact(low, width):
    encoding = asymmetric(DType.INT8, low, low + width)
    assert encoding.dequantize(encoding.quantize(0.0)) == 0
    assert -128 <= encoding.zero_point <= 127
    for value in (min(low, 0), max(low + width, 0)):
        assert abs(encoding.dequantize(encoding.quantize(value)) - value) <= encoding.scale * 1.001


def test_int16_is_symmetric():
    encoding = asymmetric(DType.INT16, -1.0, 4.0)
    assert (encoding.zero_point, encoding.scale) == (0, 4.0 / 32767)
    assert symmetric(DType.INT8, 0.0).scale == 1.0


@pytest.mark.parametrize("method", [m for m in METHODS if m != "minmax"])
def test_ranges_leave_out_stray_values(method):
    random = np.random.default_rng(1)
    values = np.concatenate([random.standard_normal(10**6), [40.0]])
    histogram, _ = np.histogram(values, BINS, (values.min(), values.max()))
    low, high = choose_range(histogram, values.min(), values.max(), method)
    assert -6 < low < -2.5
    assert 2.5 < high < 25


@pytest.mark.parametrize("method", METHODS)
def test_even_values_keep_their_range(method):
    histogram = np.full(BINS, 1000)
    low, high = choose_range(histogram, -1.0, 3.0, method) if method != "minmax" else (-1.0, 3.0)
    assert low == pytest.approx(-1.0, abs=0.1)
    assert high == pytest.approx(3.0, abs=0.1)
