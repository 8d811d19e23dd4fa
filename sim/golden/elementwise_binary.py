"""Elementwise operators with two inputs (TOSA 0.30 section 2.5).

Inputs have the same rank and broadcast along axes of size 1. Results are held to the width of their type;
where the specification calls an overflow unpredictable they wrap.
"""

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.arithmetic import apply_lookup, as_int64, rounding_shift, scalar, wrap, zero_extend
from tosaic.sim.golden.kernels import kernel
from tosaic.sim.golden.requirements import require, require_range

# Shift amounts outside 0..31 are unpredictable; five bits keep NumPy's own shift defined.
_SHIFT_MASK = 31


@kernel("ADD")
def add(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 + input2, int32."""
    result = as_int64(input1) + as_int64(input2)
    require_range("the sum", result, DType.INT32)
    return wrap(result, DType.INT32)


@kernel("SUB")
def sub(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 - input2, int32."""
    result = as_int64(input1) - as_int64(input2)
    require_range("the difference", result, DType.INT32)
    return wrap(result, DType.INT32)


@kernel("MUL")
def mul(input1: np.ndarray, input2: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """int8, int16, int32 to int32: the low 32 bits, or for int32 and shift > 0 the product shifted right.

    The shift rounds halves up. A shifted product outside int32 is unpredictable, here its low 32 bits. So is the sum of
    product and rounding outside int64 (2^62 + 2^62 at shift 63), here 1: the sum does not wrap.
    """
    product = as_int64(input1) * as_int64(input2)
    amount = scalar(shift)
    if input1.dtype == np.int32 and amount > 0:
        half = np.int64(1) << (amount - 1)
        limit = np.iinfo(np.int64).max - half
        require("product and rounding together lie in int64", product, lambda p: p <= limit)
        product = rounding_shift(product, np.asarray(amount, np.int64))
        require_range("the shifted product", product, DType.INT32)
    return wrap(product, DType.INT32)


@kernel("INTDIV")
def intdiv(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 / input2 truncated towards zero, int32.

    Unpredictable, and here: division by zero gives -1 and minimum / -1 wraps to the minimum.
    """
    value, divisor = np.broadcast_arrays(as_int64(input1), as_int64(input2))
    require("the divisor is not 0", divisor, lambda d: d != 0)
    safe = np.where(divisor == 0, np.int64(1), divisor)
    magnitude = np.abs(value) // np.abs(safe)
    quotient = np.where((value < 0) != (safe < 0), -magnitude, magnitude)
    require_range("the quotient", quotient, DType.INT32)
    return np.where(divisor == 0, np.int64(-1), quotient).astype(input1.dtype)


@kernel("ARITHMETIC_RIGHT_SHIFT")
def arithmetic_right_shift(input1: np.ndarray, input2: np.ndarray, *, round: bool) -> np.ndarray:
    """input1 >> input2 with the sign kept; with `round` plus the last bit that was shifted out."""
    value, amount = np.broadcast_arrays(as_int64(input1), as_int64(input2))
    amount = _amount(amount, 8 * input1.itemsize)
    result = value >> amount
    if round:
        last_bit_out = (value >> np.maximum(amount - 1, 0)) & 1
        result = result + np.where(amount > 0, last_bit_out, 0)
    return result.astype(input1.dtype)


@kernel("LOGICAL_LEFT_SHIFT")
def logical_left_shift(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """The low bits of input1 << input2; amounts from 0 to 31, which reach 0 for the narrow types."""
    return (as_int64(input1) << _amount(np.broadcast_arrays(input1, input2)[1], 32)).astype(input1.dtype)


@kernel("LOGICAL_RIGHT_SHIFT")
def logical_right_shift(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 >> input2 on the unsigned value of the type's own width; amounts from 0 to 31."""
    return (zero_extend(input1) >> _amount(np.broadcast_arrays(input1, input2)[1], 32)).astype(input1.dtype)


def _amount(shift: np.ndarray, limit: int) -> np.ndarray:
    """Shift amounts as int64, which must lie below `limit`."""
    require(f"the shift lies in 0..{limit - 1}", as_int64(shift), lambda s: (s >= 0) & (s < limit))
    return as_int64(shift) & _SHIFT_MASK


@kernel("BITWISE_AND")
def bitwise_and(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 & input2."""
    return np.bitwise_and(input1, input2)


@kernel("BITWISE_OR")
def bitwise_or(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 | input2."""
    return np.bitwise_or(input1, input2)


@kernel("BITWISE_XOR")
def bitwise_xor(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 ^ input2."""
    return np.bitwise_xor(input1, input2)


@kernel("LOGICAL_AND")
def logical_and(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 && input2, bool."""
    return np.logical_and(input1, input2)


@kernel("LOGICAL_OR")
def logical_or(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 || input2, bool."""
    return np.logical_or(input1, input2)


@kernel("LOGICAL_XOR")
def logical_xor(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 != input2, bool."""
    return np.logical_xor(input1, input2)


@kernel("MAXIMUM")
def maximum(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """The larger element, int32."""
    return np.maximum(input1, input2)


@kernel("MINIMUM")
def minimum(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """The smaller element, int32."""
    return np.minimum(input1, input2)


@kernel("TABLE")
def table(input: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Looks up int8 in 256 entries of int8; int16 in 513 entries, interpolated, to 16.7 in int32."""
    if input.dtype == np.int8:
        return table[input.astype(np.int64) + 128]
    return apply_lookup(table, input)
