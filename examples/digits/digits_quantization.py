"""Post-training quantization arithmetic: scales, zero points and TOSA's multiplier and shift.

Activations are int8 with one scale and zero point per tensor (real = scale * (q - zero_point)); weights are
int8 with one scale per output channel and zero point 0; biases are int32 at input_scale * weight_scale.
"""

import math
from dataclasses import dataclass

import numpy as np
from digits_float import Array, Parameters, forward
from digits_network import Add, Conv, Layer
from numpy.typing import NDArray

INT8_MIN, INT8_MAX = -128, 127
SCALE_BITS = 16


@dataclass(frozen=True)
class Quantization:
    """How an int8 tensor maps to reals: real = scale * (q - zero_point)."""

    scale: float
    zero_point: int


IMAGE = Quantization(1 / 255, -128)
"""The network's input: `digits_data.to_int8` computes it from pixels in integers."""


def fixed_point(scale: float) -> tuple[int, int]:
    """(multiplier, shift) with multiplier * 2**-shift ~ scale, as apply_scale_32 wants them.

    The multiplier is in [2**30, 2**31), so scales from 2**-32 to below 2**29 have a shift of 2..62;
    others are a ValueError.
    """
    mantissa, exponent = math.frexp(scale)
    multiplier = round(mantissa * 2**31)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    shift = 31 - exponent
    if scale <= 0 or not 2 <= shift <= 62:
        raise ValueError(
            f"scale {scale} has no RESCALE form: its shift is not in 2..62; rescale the layer before"
        )
    return multiplier, shift


def activation_quantization(low: float, high: float) -> Quantization:
    """The int8 quantization of the range low..high, widened to hold 0.

    The scale is rounded up to 16 significant bits: sums in another order (another BLAS) then still give the
    same scale, and the same file.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    exact = (high - low) / (INT8_MAX - INT8_MIN) or 1.0
    mantissa, exponent = math.frexp(exact * (1 - 1e-9))
    scale = math.ldexp(math.ceil(mantissa * 2**SCALE_BITS), exponent - SCALE_BITS)
    return Quantization(scale, max(INT8_MIN, min(INT8_MAX, round(INT8_MIN - low / scale))))


def calibrate(network: tuple[Layer, ...], parameters: Parameters, images: Array) -> dict[str, Quantization]:
    """Min-max quantization of every layer's output over the images [N, 8, 8, 1], computed in float64.

    AveragePool and Flatten keep their input's quantization: an average or a copy needs no new range.
    """
    wide = {name: value.astype(np.float64) for name, value in parameters.items()}
    outputs = forward(network, wide, images.astype(np.float64))
    result, previous = {"input": IMAGE}, "input"
    for layer in network:
        if isinstance(layer, Conv | Add):
            values = outputs[layer.name]
            result[layer.name] = activation_quantization(float(values.min()), float(values.max()))
        else:
            result[layer.name] = result[previous]
        previous = layer.name
    return result


@dataclass(frozen=True)
class ConvConstants:
    """The integers of one convolution: weight in TOSA's layout; bias, multiplier and shift [OC]."""

    weight: NDArray[np.int8]
    bias: NDArray[np.int32]
    multiplier: NDArray[np.int32]
    shift: NDArray[np.int8]


def quantize_conv(
    layer: Conv, weight: Array, bias: Array, source: Quantization, target: Quantization
) -> ConvConstants:
    """Returns per-channel symmetric weights, the bias at the accumulator's scale, and the rescale to `target`."""
    channel_axis = 2 if layer.depthwise else 0
    others = tuple(axis for axis in range(4) if axis != channel_axis)
    wide = weight.astype(np.float64)
    largest = np.abs(wide).max(axis=others)
    scales = np.where(largest == 0, 1.0, largest) / INT8_MAX
    shape = [1, 1, 1, 1]
    shape[channel_axis] = -1
    pairs = [fixed_point(source.scale * float(scale) / target.scale) for scale in scales]
    return ConvConstants(
        weight=np.rint(wide / scales.reshape(shape)).astype(np.int8),
        bias=np.rint(bias.astype(np.float64) / (source.scale * scales)).astype(np.int32),
        multiplier=np.array([multiplier for multiplier, _ in pairs], np.int32),
        shift=np.array([shift for _, shift in pairs], np.int8),
    )


ADD_HEADROOM_BITS = 20


@dataclass(frozen=True)
class AddConstants:
    """(multiplier, shift) of a residual add: of each operand into int32, and of the int32 sum into int8."""

    left: tuple[int, int]
    right: tuple[int, int]
    output: tuple[int, int]


def quantize_add(left: Quantization, right: Quantization, target: Quantization) -> AddConstants:
    """Both operands go to one common scale: twice the larger of theirs, divided by 2**20.

    So an operand (at most 255 from its zero point) grows by at most 2**19, the sum stays below 2**28, and
    apply_scale_32's demand on its value (|value| < 2**(shift - 1), with shift >= 11) holds for 0.30 and 1.0.
    """
    common = 2 * max(left.scale, right.scale) / 2**ADD_HEADROOM_BITS
    return AddConstants(
        fixed_point(left.scale / common),
        fixed_point(right.scale / common),
        fixed_point(common / target.scale),
    )
