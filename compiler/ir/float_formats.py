"""Which numbers TOSA's floating-point types hold, and rounding to them."""

from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir.dtypes import DType


@dataclass(frozen=True)
class FloatFormat:
    """A binary format that NumPy lacks: bits of the significand, exponent of the smallest normal, largest value."""

    significand_bits: int
    lowest_exponent: int
    largest: float
    has_infinity: bool


FORMATS = {
    DType.BF16: FloatFormat(8, -126, (2 - 2**-7) * 2.0**127, True),
    DType.FP8E4M3: FloatFormat(4, -6, 448.0, False),
    DType.FP8E5M2: FloatFormat(3, -14, 57344.0, True),
}


def nearest(values: np.ndarray, dtype: DType) -> np.ndarray:
    """`values` rounded once to the nearest number of the float type `dtype`, ties to even, held in `dtype.numpy`.

    What lies beyond the largest number becomes infinite (FP8E4M3, which has no infinity: NaN). `values` are
    float64, or of any type whose elements float64 holds.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        form = FORMATS.get(dtype)
        if form is None:
            return np.asarray(values).astype(dtype.numpy, copy=False)
        exact = np.asarray(values, np.float64)
        exponent = np.maximum(np.frexp(exact)[1] - 1, form.lowest_exponent)
        unit = exponent - (form.significand_bits - 1)
        rounded = np.ldexp(np.rint(np.ldexp(exact, -unit)), unit)
        beyond = np.copysign(np.inf if form.has_infinity else np.nan, exact)
        # frexp gives a meaningless exponent for infinities; they are beyond the largest number, too.
        return np.where(np.abs(exact) == np.inf, beyond, _limited(rounded, beyond, form)).astype(dtype.numpy)


def is_representable(values: np.ndarray, dtype: DType) -> bool:
    """Whether every element is a number of the float type `dtype` (NaN is one)."""
    if dtype not in FORMATS:
        return True
    return bool(np.array_equal(nearest(values, dtype), values, equal_nan=True))


def _limited(rounded: np.ndarray, beyond: np.ndarray, form: FloatFormat) -> np.ndarray:
    return np.where(np.abs(rounded) > form.largest, beyond, rounded)
