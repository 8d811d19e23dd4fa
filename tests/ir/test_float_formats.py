"""Rounding to the float types that NumPy lacks, against a search among all of their numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tosaic.compiler.ir import DType, is_representable, nearest
from tosaic.compiler.ir.elements import decode, encode

SHORT = (DType.BF16, DType.FP8E4M3, DType.FP8E5M2)


def numbers(dtype: DType) -> np.ndarray:
    """Every number that is not negative and finite, ascending: index is the bit pattern."""
    codes = np.arange(1 << (dtype.bits - 1), dtype=f"u{dtype.bits // 8}")
    values = decode(dtype, codes.shape, memoryview(codes.tobytes()), "codes")
    return values[np.isfinite(values)].astype(np.float64)


NUMBERS = {dtype: numbers(dtype) for dtype in SHORT}
LARGEST = {DType.BF16: 3.3895313892515355e38, DType.FP8E4M3: 448.0, DType.FP8E5M2: 57344.0}


@pytest.mark.parametrize("dtype", SHORT)
@given(value=st.floats(allow_nan=False))
def test_the_nearest_number_wins_and_ties_go_to_even(dtype: DType, value: float) -> None:
    known, magnitude = NUMBERS[dtype], abs(value)
    # Beyond the largest number comes what the format would have next.
    steps = np.append(known, 2 * known[-1] - known[-2])
    above = int(np.searchsorted(steps, magnitude))
    if above == len(steps):
        index = above
    elif above == 0:
        index = 0
    else:
        down, up = magnitude - steps[above - 1], steps[above] - magnitude
        index = above if up < down or (up == down and above % 2 == 0) else above - 1
    (result,) = nearest(np.array([value]), dtype)
    if index < len(known):
        assert abs(result) == known[index] and np.signbit(result) == np.signbit(value)
    elif dtype is DType.FP8E4M3:
        assert np.isnan(result)
    else:
        assert result == np.copysign(np.inf, value)


@pytest.mark.parametrize("dtype", SHORT)
def test_every_number_stays_and_survives_its_encoding(dtype: DType) -> None:
    values = np.concatenate([NUMBERS[dtype], -NUMBERS[dtype]])
    held = nearest(values, dtype)
    assert held.dtype == np.float32 and np.abs(held).max() == np.float32(LARGEST[dtype])
    np.testing.assert_array_equal(held, values)
    np.testing.assert_array_equal(np.signbit(held), np.signbit(values))
    assert is_representable(held, dtype)
    assert not is_representable(held + np.float32(0.001) * (held == 1), dtype)
    again = decode(dtype, held.shape, memoryview(encode(dtype, held)), "again")
    np.testing.assert_array_equal(again.view(np.uint32), held.view(np.uint32))


def test_rounding_is_single() -> None:
    """Rounded to float32 first, this would be a tie, and go down to even: 1."""
    value = 1 + 2.0**-8 + 2.0**-40
    assert nearest(np.array([value]), DType.BF16)[0] == 1 + 2.0**-7
    assert nearest(np.array([1 + 2.0**-8]), DType.BF16)[0] == 1


@pytest.mark.parametrize("dtype", [*SHORT, DType.FP16, DType.FP32])
def test_nan_and_rank_0(dtype: DType) -> None:
    assert np.isnan(nearest(np.array([np.nan]), dtype)).all()
    assert nearest(np.float64(0.5), dtype).shape == ()
    assert is_representable(np.array([np.nan], np.float32), dtype)
