"""TFLite's fixed-point multipliers, and TOSA's RESCALE that computes the same."""

import math
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.importers.lowering.rescaling import ONE, rescaled
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.values import RANGES, TfliteValue
from tosaic.compiler.ir import DType

Multiplier = tuple[int, int]
"""Significand of 31 bits and exponent: significand * 2^(exponent - 31)."""

_BITS = 31
_LARGEST = {DType.INT8: (1 << 8) - 1, DType.INT16: 1 << 15}
"""Sizes of what a tensor holds, less its zero point."""
_LEAST_EXPONENT = -31
_LEAST_SHIFT, _MOST_SHIFT = 2, 62
"""Ends of RESCALE's shift."""
_SHORT_BITS = 15
"""Significand of the multiplier for sums of 48 bits."""
_SHORT_LARGEST = 0x7FFF0000
"""Multipliers from here on would round up to more than 15 bits."""


def quantized_multiplier(real: float) -> Multiplier:
    """TFLite's QuantizeMultiplier: a positive real as a significand of 31 bits and an exponent."""
    if real == 0:
        return 0, 0
    fraction, exponent = math.frexp(real)
    significand = math.floor(fraction * (1 << _BITS) + 0.5)
    if significand == 1 << _BITS:
        significand, exponent = significand // 2, exponent + 1
    return (0, 0) if exponent < _LEAST_EXPONENT else (significand, exponent)


def rescale(
    node: TfliteNode,
    x: str,
    multipliers: Sequence[Multiplier],
    dtype: DType,
    input_zero: int = 0,
    output_zero: int = 0,
    rounding: str = "DOUBLE_ROUND",
) -> str:
    """MultiplyByQuantizedMultiplier: (x - input_zero) times a multiplier, or one for each index of the last axis.

    Two roundings, as most of TFLite's reference kernels round; the sum with `output_zero` saturates.
    """
    low = node.low
    if low.dtype(x) in _LARGEST and _wraps(multipliers, _LARGEST[low.dtype(x)]):
        x, input_zero = rescaled(low, x, [ONE], DType.INT32, zeros=(input_zero, 0)), 0
        x, multipliers = wrapped(node, x, multipliers, _LARGEST[DType.INT16])
    shifts = [_BITS - exponent for _, exponent in multipliers]
    if not all(_LEAST_SHIFT <= shift <= _MOST_SHIFT for shift in shifts):
        node.unsupported(
            f"a ratio of scales of 2^{_BITS - min(shifts)}", "quantize the model again: its scales do not fit"
        )
    if low.dtype(x) is DType.INT48:
        return _rescale_wide(node, x, multipliers, dtype, output_zero)
    scales = [(significand, shift) for (significand, _), shift in zip(multipliers, shifts, strict=True)]
    return rescaled(low, x, scales, dtype, zeros=(input_zero, output_zero), rounding=rounding)


def wrapped(
    node: TfliteNode, x: str, multipliers: Sequence[Multiplier], largest: int, rounding: str = "DOUBLE_ROUND"
) -> tuple[str, Sequence[Multiplier]]:
    """Sums whose size is at most `largest`, and multipliers, as `rescale` takes them where TFLite's 32 bits overflow.

    Its kernel of two roundings multiplies by the power of two first, and wraps there. UnsupportedError of the others.
    """
    low = node.low
    if low.dtype(x) is DType.INT48 or rounding != "DOUBLE_ROUND":
        if any(largest * 2.0**exponent >= 1 << _BITS for _, exponent in multipliers):
            node.unsupported(
                "results of more than 32 bits, which wrap in TFLite's kernel",
                "quantize the model again: its result has too small a scale",
            )
        return x, multipliers
    if not _wraps(multipliers, largest):
        return x, multipliers
    shape = (*[1] * (low.rank(x) - 1), len(multipliers))
    shifts = np.array([max(exponent, 0) for _, exponent in multipliers]).reshape(shape)
    shifted = low.op("LOGICAL_LEFT_SHIFT", x, low.constant(shifts, DType.INT32))
    return shifted, [(significand, min(exponent, 0)) for significand, exponent in multipliers]


def _wraps(multipliers: Sequence[Multiplier], largest: int) -> bool:
    most = max(exponent for _, exponent in multipliers)
    return 0 < most < _BITS and largest << most >= 1 << _BITS


def _rescale_wide(
    node: TfliteNode, x: str, multipliers: Sequence[Multiplier], dtype: DType, output_zero: int
) -> str:
    """Scales 48-bit sums: TFLite keeps 15 bits of the significand, and rounds once."""
    short = [short_multiplier(multiplier) for multiplier in multipliers]
    if not all(_LEAST_SHIFT <= shift <= _MOST_SHIFT for _, shift in short):
        node.unsupported("a ratio of scales above 2^13", "quantize the model again: its scales do not fit")
    return rescaled(node.low, x, short, dtype, zeros=(0, output_zero))


def short_multiplier(multiplier: Multiplier) -> tuple[int, int]:
    """A significand of 15 bits, and the right shift of the product: what TFLite multiplies 48 bits by."""
    significand, exponent = multiplier
    reduced = (significand + (1 << 15)) >> 16 if significand < _SHORT_LARGEST else (1 << _SHORT_BITS) - 1
    return reduced, _SHORT_BITS - exponent


def widened(node: TfliteNode, value: TfliteValue, left_shift: int = 0) -> str:
    """Returns (q - zero point) * 2^left_shift as int32, exactly."""
    return rescale(node, value.tensor, [(1 << 30, 1 + left_shift)], DType.INT32, value.zero_point)


def activation_range(node: TfliteNode, function: str) -> tuple[int, int]:
    """The range of the result that a fused activation leaves, as the result is held (CalculateActivationRange)."""
    result = node.result()
    low, high = RANGES[result.kind]
    bounds = {
        "NONE": (None, None),
        "RELU": (0.0, None),
        "RELU6": (0.0, 6.0),
        "RELU_N1_TO_1": (-1.0, 1.0),
        "RELU_0_TO_1": (0.0, 1.0),
    }
    if function not in bounds:
        node.unsupported(f"the fused activation {function}", "write it as an operator of its own")
    least, most = bounds[function]
    if least is not None:
        low = max(low, quantized_real(result, least))
    if most is not None:
        high = min(high, quantized_real(result, most))
    return low, high


def quantized_real(value: TfliteValue, real: float) -> int:
    """The integer that stands for a real, not saturated: ties go away from zero, the quotient is a float32."""
    return value.zero_point + int(round_half_away(np.float32(real) / value.scale))


def round_half_away(x: np.ndarray | np.floating) -> np.ndarray:
    """Rounds as C's round does."""
    return np.copysign(np.floor(np.abs(np.float64(x)) + 0.5), x)


def fused(node: TfliteNode, x: str) -> str:
    """The fused activation of a quantized result: a CLAMP, unless it leaves the type's whole range."""
    name = node.choice("FusedActivationFunction", "ActivationFunctionType")
    bounds = activation_range(node, name)
    if bounds == RANGES[node.result().kind]:
        return x
    return node.low.clamp(x, *bounds)
