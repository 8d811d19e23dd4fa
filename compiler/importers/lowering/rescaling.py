"""RESCALE as importers write it: its operands are numbers."""

from collections.abc import Sequence

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.ir import DType

Scale = tuple[int, int]
"""A multiplier and a shift: the first by 2 to the power of the second."""
ONE: Scale = (1 << 30, 30)


def rescaled(
    low: Lowering,
    x: str,
    scales: Sequence[Scale],
    dtype: DType,
    *,
    zeros: tuple[int, int] = (0, 0),
    rounding: str = "SINGLE_ROUND",
    unsigned: tuple[bool, bool] = (False, False),
) -> str:
    """x, minus its zero point, times one scale or one for each index of the last axis, plus the result's zero point;
    saturated. `zeros` and `unsigned` are of x and of the result. Multipliers of 48-bit integers have 16 bits.
    """
    wide = low.dtype(x) is DType.INT48
    return low.op(
        "RESCALE",
        x,
        low.constant([multiplier for multiplier, _ in scales], DType.INT16 if wide else DType.INT32),
        low.constant([shift for _, shift in scales], DType.INT8),
        low.zero_point(x, zeros[0]),
        low.constant([zeros[1]], dtype),
        dtype=dtype,
        scale32=not wide,
        rounding_mode=rounding,
        per_channel=len(scales) > 1,
        input_unsigned=unsigned[0],
        output_unsigned=unsigned[1],
    )


def unsigned_bits(low: Lowering, tensor: str, offset: int, *, entering: bool) -> str:
    """Bit patterns of unsigned integers to what the graph holds, which is `offset` more, or back: a RESCALE by 1."""
    dtype = low.dtype(tensor)
    # int16 allows a zero point on the unsigned side only, int8 on both.
    at_input = entering is (dtype is not DType.INT8)
    zeros = (-offset, 0) if at_input else (0, -offset)
    return rescaled(low, tensor, [ONE], dtype, zeros=zeros, unsigned=(entering, not entering))
