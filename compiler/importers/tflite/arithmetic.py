"""Elementwise arithmetic of several tensors."""

import functools
import math
from collections.abc import Callable

import numpy as np

from tosaic.compiler.importers.lowering import Lowering, activations
from tosaic.compiler.importers.lowering.division import floor_divide
from tosaic.compiler.importers.lowering.power import power
from tosaic.compiler.importers.lowering.rescaling import ONE, rescaled
from tosaic.compiler.importers.tflite import fixed_point
from tosaic.compiler.importers.tflite.fixed_point_graph import divided_by_power
from tosaic.compiler.importers.tflite.multipliers import (
    Multiplier,
    fused,
    quantized_multiplier,
    rescale,
    widened,
    wrapped,
)
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles
from tosaic.compiler.importers.tflite.tables import centred, of_pairs
from tosaic.compiler.importers.tflite.values import OFFSET, TfliteValue
from tosaic.compiler.ir import DType

_SUM_SHIFT = {"INT8": 20, "UINT8": 20, "INT16": 15}
"""Bits of fraction that a sum of quantized tensors is computed with."""
_SQUARE_SHIFT = 7
_UNIT = 1 << 30
"""A significand that makes the multiplier a power of two."""


def activated(node: TfliteNode, x: str) -> str:
    """The fused activation of reals or plain integers."""
    low, name = node.low, node.choice("FusedActivationFunction", "ActivationFunctionType")
    if low.dtype(x).is_float or name == "NONE":
        return fused_reals(node, x)
    if name != "RELU":
        node.unsupported(f"{name} of integers", "use float32")
    return activations.relu(low, x)


def fused_reals(node: TfliteNode, x: str) -> str:
    """The fused activation of reals."""
    low, name = node.low, node.choice("FusedActivationFunction", "ActivationFunctionType")
    if name == "NONE":
        return x
    if name == "TANH":
        return low.op("TANH", x)
    bounds = {"RELU": (0.0, float("inf")), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
    if name not in bounds:
        node.unsupported(f"the fused activation {name}", "write it as an operator of its own")
    return low.clamp(x, *bounds[name])


def scaled(node: TfliteNode, value: TfliteValue, left_shift: int, multiplier: Multiplier) -> str:
    """(q - zero point) * 2^left_shift, times a multiplier, rounded as TFLite does: int32."""
    significand, exponent = multiplier
    if significand == _UNIT and 0 <= left_shift + exponent - 1:
        # A power of two: nothing is rounded.
        return widened(node, value, left_shift + exponent - 1)
    return rescale(node, widened(node, value, left_shift), [multiplier], DType.INT32)


def _wide_pair(node: TfliteNode, left_shift: int) -> tuple[list[str], float]:
    """Both inputs on a grid of half of the larger scale, with more bits; and twice the larger scale."""
    low = node.low
    values = [node.value(0), node.value(1)]
    twice = 2 * float(max(value.scale for value in values))
    if not twice:
        node.unsupported("scales of zero", "quantize the model again")
    wide = [scaled(node, v, left_shift, quantized_multiplier(float(v.scale) / twice)) for v in values]
    return low.aligned(*wide), twice


@handles("ADD", "SUB")
def add(node: TfliteNode) -> str:
    """The sum or the difference."""
    low, name = node.low, node.kind
    if not node.is_quantized:
        return activated(node, low.binary(name, node.x(0), node.x(1)))
    result = node.result()
    if result.kind == "INT16" and node.option("PotScaleInt16", True):
        scales = [float(node.value(0).scale), float(node.value(1).scale), float(result.scale)]
        if all(np.frexp(scale)[0] == 0.5 for scale in scales):
            return fused(node, _sum_of_powers(node, scales))
    shift = _SUM_SHIFT[result.kind]
    wide, twice = _wide_pair(node, shift)
    ratio = twice / float(np.float32(1 << shift) * result.scale)
    total = low.op(name, *wide)
    y = rescale(node, total, [quantized_multiplier(ratio)], node.result_type(), 0, result.zero_point)
    return fused(node, y)


def _sum_of_powers(node: TfliteNode, scales: list[float]) -> str:
    """TFLite's older kernel of 16-bit tensors whose scales are powers of two: one input is on the result's grid."""
    shifts = [round(math.log2(scale / scales[2])) for scale in scales[:2]]
    if max(shifts) != 0:
        node.unsupported(
            f"scales of {scales[0]} and {scales[1]} for a result of {scales[2]}: in TFLite's older kernel one is the "
            "result's, and the other not larger",
            "convert the model again with pot_scale_int16 false",
        )
    low = node.low
    wide = [low.cast(node.x(index), DType.INT32) for index in (0, 1)]
    parts = [divided_by_power(node, x, low.scalar(-shift, x)) for x, shift in zip(wide, shifts, strict=True)]
    return rescaled(low, low.binary(node.kind, *parts), [ONE], DType.INT16)


@handles("MUL")
def multiply(node: TfliteNode) -> str:
    """The product."""
    low = node.low
    if not node.is_quantized:
        return activated(node, low.mul(node.x(0), node.x(1)))
    a, b, result = node.value(0), node.value(1), node.result()
    multiplier = quantized_multiplier(float(a.scale * b.scale / result.scale))
    largest = math.prod(int(np.abs(centred(v)).max()) for v in (a, b))
    product, multipliers = wrapped(node, _product(node), [multiplier], largest)
    return fused(node, rescale(node, product, multipliers, node.result_type(), 0, result.zero_point))


def _product(node: TfliteNode) -> str:
    """The product of integers less their zero points, in 32 bits."""
    low, a, b = node.low, node.value(0), node.value(1)
    if a.zero_point == b.zero_point == 0:
        return low.op(
            "MUL", *low.aligned(a.tensor, b.tensor), low.constant([0], DType.INT8), dtype=DType.INT32
        )
    return low.mul(widened(node, a), widened(node, b))


@handles("SQUARED_DIFFERENCE")
def squared_difference(node: TfliteNode) -> str:
    """The square of the difference."""
    low = node.low
    if not node.is_quantized:
        difference = low.sub(node.x(0), node.x(1))
        return low.mul(difference, difference)
    result = node.result()
    wide, twice = _wide_pair(node, _SQUARE_SHIFT)
    difference = low.op("SUB", *wide)
    ratio = twice * twice / float(np.float32(1 << (2 * _SQUARE_SHIFT)) * result.scale)
    product = low.mul(difference, difference)
    return rescale(node, product, [quantized_multiplier(ratio)], node.result_type(), 0, result.zero_point)


def _without_integers(node: TfliteNode) -> None:
    if node.is_quantized:
        node.unsupported(f"TFLite has no kernel of it for {node.value().kind.lower()}", "leave it in float32")


@handles("DIV")
def divide(node: TfliteNode) -> str:
    """The quotient; of plain integers truncated, of quantized ones in TFLite's fixed point."""
    if node.is_quantized:
        return fused(node, _quotient(node))
    return activated(node, node.low.div(*node.low.aligned(node.x(0), node.x(1))))


def _quotient(node: TfliteNode) -> str:
    a, b, result = node.value(0), node.value(1), node.result()
    multiplier = quantized_multiplier(float(a.scale / (b.scale * result.scale)))
    if result.kind == "INT16":
        node.unsupported(
            "TFLite's kernel of 16 bits divides numbers of 32 bits, and TOSA has no such division",
            "quantize it to int8, or leave it in float32",
        )
    return of_pairs(node, lambda x, y: fixed_point.quotient(x, y, multiplier))


@handles("FLOOR_DIV", "FLOOR_MOD")
def floor_division(node: TfliteNode) -> str:
    """The quotient rounded down, or the rest, which has the divisor's sign; of the stored integers."""
    low, which = node.low, 0 if node.kind == "FLOOR_DIV" else 1
    a, b = low.aligned(node.x(0), node.x(1))
    dtype = low.dtype(a)
    if node.is_float:
        return floor_divide(low, a, b)[which]
    if node.is_quantized and node.value().kind in OFFSET:
        node.unsupported(
            f"TFLite has no kernel of it for {node.value().kind.lower()}", "use int16 or float32"
        )
    a, b = low.cast(a, DType.INT32), low.cast(b, DType.INT32)
    return low.cast(_floor_divided(low, a, b, which), dtype)


def _floor_divided(low: Lowering, a: str, b: str, which: int) -> str:
    """The quotient (`which` is 0) or the rest (1) of int32."""
    over, under = low.data(a), low.data(b)
    if over is not None and under is not None and (under != 0).all():
        return low.constant(over // under if which == 0 else over % under, low.dtype(a))
    quotient = low.binary("INTDIV", a, b)
    rest = low.sub(a, low.mul(quotient, b))
    zero = low.scalar(0, rest)
    signs_differ = low.op("LOGICAL_XOR", low.greater(zero, rest), low.greater(zero, b))
    corrects = low.op("LOGICAL_AND", low.op("LOGICAL_NOT", low.equal(rest, zero)), signs_differ)
    if which == 0:
        return low.select(corrects, low.plus(quotient, -1), quotient)
    return low.select(corrects, low.add(rest, b), rest)


@handles("POW")
def power_of(node: TfliteNode) -> str:
    """Returns x to a power."""
    _without_integers(node)
    low, exponent = node.low, node.low.data(node.x(1))
    if exponent is not None and (exponent == exponent.flat[0]).all() and exponent.size == 1:
        return power(low, node.x(0), float(exponent.flat[0]))
    return low.binary("POW", node.x(0), node.x(1))


@handles("ADD_N")
def add_all(node: TfliteNode) -> str:
    """The sum of all inputs."""
    _without_integers(node)
    return functools.reduce(node.low.add, [node.x(index) for index in range(len(node.inputs))])


@handles("MAXIMUM", "MINIMUM")
def extreme(node: TfliteNode) -> str:
    """The larger or smaller element; quantized tensors have one encoding here."""
    low = node.low
    combine: Callable[[str, str], str] = low.maximum if node.kind == "MAXIMUM" else low.minimum
    dtype = low.dtype(node.x(0))
    if dtype not in (DType.INT8, DType.INT16):
        return combine(node.x(0), node.x(1))
    for first, second in ((0, 1), (1, 0)):
        known = low.data(node.x(second))
        if known is not None and known.size == 1 and len(known.shape) <= len(node.shape(first)):
            least, most = dtype.min, dtype.max
            bounds = (known.item(), most) if node.kind == "MAXIMUM" else (least, known.item())
            return low.clamp(node.x(first), *bounds)
    return low.cast(combine(*(low.cast(node.x(i), DType.INT32) for i in (0, 1))), dtype)


@handles("ZEROS_LIKE")
def zeros_like(node: TfliteNode) -> str:
    """Zeros in the shape of the input."""
    return filled(node.low, node.shape(), 0, node.result_type())


def filled(low: Lowering, shape: tuple[int, ...], value: float, dtype: DType) -> str:
    """One value in a shape; a TILE at run time where it would be large."""
    if 0 in shape:
        raise ValueError(f"its result is {list(shape)}, and TOSA has no empty tensors")
    return low.tile(low.constant(np.full((1,) * len(shape), value), dtype), shape)
