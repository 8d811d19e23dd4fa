"""Computes CAST and RESCALE (TOSA 0.30 section 2.13)."""

from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.arithmetic import apply_scale_16, apply_scale_32, as_int64, clip, wrap, zero_extend
from tosaic.sim.golden.kernels import kernel
from tosaic.sim.golden.requirements import require_range

_UNSIGNED = {DType.INT8: DType.UINT8, DType.INT16: DType.UINT16}


@kernel("CAST")
def cast(input: np.ndarray, *, out_dtype: DType) -> np.ndarray:
    """Converts to bool: non-zero is true; from bool: 0 and 1; to a narrower integer: the low bits."""
    return input != 0 if out_dtype is DType.BOOL else wrap(input, out_dtype)


@dataclass(frozen=True)
class Rescaling:
    """Attributes of RESCALE."""

    scale32: bool
    rounding_mode: str
    per_channel: bool
    input_unsigned: bool = False
    output_unsigned: bool = False


@kernel("RESCALE")
def rescale(
    input: np.ndarray,
    multiplier: np.ndarray,
    shift: np.ndarray,
    input_zp: np.ndarray,
    output_zp: np.ndarray,
    *,
    how: Rescaling,
    out_dtype: DType,
) -> np.ndarray:
    """Returns (input - input_zp) * multiplier * 2^-shift + output_zp, clipped to the output type.

    multiplier and shift are [1], or with `per_channel` one per element of the last axis. INEXACT_ROUND
    allows a range of results; single rounding, which lies in it, is used. Unsigned tensors and their zero
    points are bit patterns in the signed type.
    """
    extend = zero_extend if how.input_unsigned else as_int64
    value = extend(input) - extend(input_zp).reshape(-1)[0]
    if not how.per_channel:
        multiplier, shift = multiplier.reshape(-1)[0], shift.reshape(-1)[0]
    if how.scale32:
        scaled = apply_scale_32(value, multiplier, shift, double_round=how.rounding_mode == "DOUBLE_ROUND")
    else:
        scaled = apply_scale_16(value, multiplier, shift)
    result = scaled + (zero_extend if how.output_unsigned else as_int64)(output_zp).reshape(-1)[0]
    require_range("the scaled value with the zero point", result, DType.INT32)
    if how.output_unsigned:
        return clip(result, _UNSIGNED[out_dtype]).view(out_dtype.numpy)
    return clip(result, out_dtype)
