"""Arithmetic helpers of TOSA 0.30 (sections 1.9 and 3.3.1) on whole arrays.

Intermediate values are int64. Where the specification calls an overflow unpredictable, these functions wrap
at the width of the specification's type: the result a two's-complement machine of that width would give.
"""

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.requirements import Terms, require, require_range

# Doubles hold every integer up to here, so a matrix product below it is exact in any order of summation.
_EXACT_DOUBLE = 1 << 53


def as_int64(values: np.ndarray) -> np.ndarray:
    """`values` as int64, keeping rank 0 an array."""
    return np.asarray(values, dtype=np.int64)


def wrap(values: np.ndarray, dtype: DType) -> np.ndarray:
    """The low `dtype.bits` bits of int64 `values`, sign-extended, held in `dtype.numpy`."""
    if dtype is DType.INT48:
        return (as_int64(values) << 16) >> 16
    return np.asarray(values).astype(dtype.numpy)


def clip(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Applies apply_clip to the range of `dtype`; the result is held in `dtype.numpy`."""
    return np.clip(values, dtype.min, dtype.max).astype(dtype.numpy)


def scalar(operand: np.ndarray) -> int:
    """The only element of a parameter operand such as a zero point (shape [1])."""
    return int(operand.reshape(-1)[0])


def apply_scale_32(
    value: np.ndarray, multiplier: np.ndarray, shift: np.ndarray, *, double_round: bool
) -> np.ndarray:
    """Returns value * multiplier * 2^-shift, rounded, as int64 in the range of int32 (section 1.9.2).

    All arguments are broadcastable integers; `shift` outside 2..62, a negative multiplier and a value
    outside -2^(shift-1) .. 2^(shift-1)-1 are unpredictable, here the low 32 bits of the formula, in which no
    sum wraps and a shift of 0 does not round.
    """
    value, multiplier, shift = _scale_operands(value, multiplier, shift)
    require(
        "the value to scale lies in -2^(shift-1) .. 2^(shift-1)-1",
        value,
        lambda v: (v >= -(np.int64(1) << (shift - 1))) & (v < np.int64(1) << (shift - 1)),
    )
    product = value * multiplier
    if double_round:
        second = np.where(value >= 0, np.int64(1 << 30), np.int64(-(1 << 30)))
        product = product + np.where(shift > 31, second, np.int64(0))
    return as_int64(wrap(rounding_shift(product, shift), DType.INT32))


def apply_scale_16(value: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """value * multiplier * 2^-shift for int48 values and 16-bit multipliers, rounded, as int64.

    `shift` outside 2..62, a negative multiplier and a result outside int32 are unpredictable, here as of
    apply_scale_32.
    """
    value, multiplier, shift = _scale_operands(value, multiplier, shift)
    scaled = rounding_shift(value * multiplier, shift)
    require_range("the scaled value", scaled, DType.INT32)
    return as_int64(wrap(scaled, DType.INT32))


def rounding_shift(product: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """(product + 2^(shift-1)) >> shift, where that sum may need 65 bits; `product` itself for a shift of 0."""
    last = np.minimum(shift, 1)
    return ((product >> (shift - last)) + last) >> last


def _scale_operands(
    value: np.ndarray, multiplier: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """int64 of what apply_scale_32 and apply_scale_16 are given, `shift` in 0..63."""
    multiplier, shift = as_int64(multiplier), as_int64(shift)
    require("the multiplier is at least 0", multiplier, lambda m: m >= 0)
    require("the shift lies in 2..62", shift, lambda s: (s >= 2) & (s <= 62))
    return as_int64(value), multiplier, shift & 63


def reciprocal_scale(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(multiplier, shift) such that apply_scale_32 divides by `value`, integers from 1 to 2^32-1."""
    value = as_int64(value)
    require("the divisor is above 0", value, lambda v: v > 0)
    k = bit_length(value - 1)
    numerator = np.int64((1 << 30) + 1) << k
    return numerator // value, 30 + k


def bit_length(values: np.ndarray) -> np.ndarray:
    """Position of the highest set bit plus one (0 for 0) of integers from 0 to 2^53, as int64."""
    # frexp returns v = m * 2^e with 0.5 <= m < 1, so e is the bit length; (0, 0) for 0.
    return np.frexp(np.asarray(values, dtype=np.float64))[1].astype(np.int64)


def apply_lookup(table: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Returns the interpolated value, 16.7 fixed point in int32, of int16 `value` in the 513-entry `table` (1.9.5)."""
    value, table = as_int64(value), as_int64(table)
    index = (value + 32768) >> 7
    base = table[index]
    slope = table[index + 1] - base
    require_range("the difference of two neighbouring entries", slope, DType.INT16)
    return ((base << 7) + slope * (value & 0x7F)).astype(np.int32)


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Matrix product of integer arrays as int64, exact modulo 2^64; any batch axes `np.matmul` accepts."""
    held = product_dtype(a, b, a.shape[-1])
    return np.matmul(a.astype(held), b.astype(held)).astype(np.int64)


def product_terms(a: np.ndarray, b: np.ndarray) -> Terms:
    """Yields the terms that the matrix product [...,H,C] times [...,C,W] adds up, one C after the other."""
    for c in range(a.shape[-1]):
        yield (), as_int64(a[..., c, None]) * as_int64(b[..., c, None, :])


def product_dtype(a: np.ndarray, b: np.ndarray, terms: int) -> np.dtype:
    """The type in which sums of `terms` products of elements of `a` and `b` are exact modulo 2^64.

    float64, for which NumPy has fast matrix products, while no partial sum can reach 2^53; else int64.
    """
    return np.dtype(np.float64 if largest_sum(a, b, terms) < _EXACT_DOUBLE else np.int64)


def largest_sum(a: np.ndarray, b: np.ndarray, terms: int) -> int:
    """Returns a bound: no sum of up to `terms` products of elements of `a` and `b` is larger in magnitude."""
    return max(1, magnitude(a)) * max(1, magnitude(b)) * terms


def magnitude(values: np.ndarray) -> int:
    """The largest absolute value."""
    return max(abs(int(values.min())), abs(int(values.max())))


def zero_extend(values: np.ndarray) -> np.ndarray:
    """The bit patterns of signed integers read as unsigned ones of the same width, as int64."""
    return as_int64(np.asarray(values).view(f"u{values.dtype.itemsize}"))
