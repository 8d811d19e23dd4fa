"""Functions of one tensor: of reals by the shared lowering, of integers by tables of what TFLite's kernels compute."""

import functools
import math
from collections.abc import Callable

import numpy as np

from tosaic.compiler.importers.lowering import Lowering, activations
from tosaic.compiler.importers.lowering.rescaling import ONE, rescaled
from tosaic.compiler.importers.lowering.rounding import sign
from tosaic.compiler.importers.tflite import fixed_point, float32, wide_curves
from tosaic.compiler.importers.tflite.multipliers import (
    activation_range,
    quantized_multiplier,
    rescale,
    widened,
)
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import HANDLERS, Handler, handles
from tosaic.compiler.importers.tflite.tables import centred, looked_up, real_table, single, table
from tosaic.compiler.importers.tflite.values import OFFSET, RANGES
from tosaic.compiler.ir import DType


def curve(real: Callable[[TfliteNode, str], str], integer: Callable[[TfliteNode], str]) -> Handler:
    """A handler that chooses by the type of the input."""

    def handler(node: TfliteNode) -> str:
        return integer(node) if node.is_quantized else real(node, node.x())

    return handler


# --- logistic and tanh ------------------------------------------------------------------------------------------


@handles("LOGISTIC")
def logistic(node: TfliteNode) -> str:
    """1 / (1 + exp(-x)); of integers on the grid that the kernel writes."""
    if not node.is_quantized:
        return node.low.op("SIGMOID", node.x())
    if node.value().kind == "INT16":
        _check_grid(node, 2.0**-15)
        return wide_curves.looked_up(node, wide_curves.logistic(node))
    _check_grid(node, 1 / 256)
    return real_table(node, float32.logistic)


@handles("TANH")
def tanh(node: TfliteNode) -> str:
    """The hyperbolic tangent; of 16 bits on the grid that the kernel writes."""
    if not node.is_quantized:
        return node.low.op("TANH", node.x())
    if node.value().kind == "INT16":
        _check_grid(node, 2.0**-15)
        return wide_curves.looked_up(node, wide_curves.tanh(node))
    return real_table(node, float32.tanh)


def _check_grid(node: TfliteNode, scale: float) -> None:
    """Raises UnsupportedError if the result's scale is not the only one that TFLite's kernel takes."""
    found = node.result().scale
    if found != np.float32(scale):
        node.unsupported(
            f"its result has scale {found}, and TFLite's kernel has {scale} only", "quantize the model again"
        )


# --- rectifiers -------------------------------------------------------------------------------------------------

_BOUNDS = {
    "RELU": (0.0, math.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}


@handles(*_BOUNDS)
def relu(node: TfliteNode) -> str:
    """Limited to a range; of integers, after a change of the grid if input and result have different ones."""
    low, x = node.low, node.x()
    if not node.is_quantized:
        least, most = _BOUNDS[node.kind]
        if low.dtype(x).is_float:
            return low.clamp(x, least, most)
        return (
            activations.relu(low, x) if node.kind == "RELU" else node.unsupported("integers", "use float32")
        )
    value, result = node.value(), node.result()
    ratio = float(value.scale / result.scale)
    if (value.scale, value.zero_point) != (result.scale, result.zero_point):
        x = rescale(node, x, [quantized_multiplier(ratio)], low.dtype(x), value.zero_point, result.zero_point)
    bounds = activation_range(node, node.kind)
    return x if bounds == RANGES[result.kind] else low.clamp(x, *bounds)


@handles("LEAKY_RELU")
def leaky_relu(node: TfliteNode) -> str:
    """x where it is not negative, alpha * x elsewhere."""
    alpha = node.option("Alpha", 0.0)
    if not node.is_quantized:
        return activations.leaky_relu(node.low, node.x(), node.low.scalar(alpha, node.x()))
    value, result = node.value(), node.result()
    identity = float(value.scale / result.scale)
    slope = float(value.scale * np.float32(alpha) / result.scale)
    return _two_slopes(node, identity, slope)


def _two_slopes(node: TfliteNode, positive: float, negative: float) -> str:
    """x * positive where x is not negative, x * negative elsewhere."""
    value, result = node.value(), node.result()
    up, down = _signed_multiplier(positive), _signed_multiplier(negative)
    if value.kind != "INT16":
        x = centred(value)
        return table(node, np.where(x >= 0, fixed_point.multiplied(x, up), fixed_point.multiplied(x, down)))
    low, wide = node.low, widened(node, value)
    if down[0] < 0:
        falling = low.negate(rescale(node, wide, [(-down[0], down[1])], DType.INT32))
        down_part = rescaled(low, falling, [ONE], DType.INT16, zeros=(0, result.zero_point))
    else:
        down_part = rescale(node, wide, [down], DType.INT16, 0, result.zero_point)
    return low.select(
        low.is_negative(wide), down_part, rescale(node, wide, [up], DType.INT16, 0, result.zero_point)
    )


def _signed_multiplier(real: float) -> tuple[int, int]:
    significand, exponent = quantized_multiplier(abs(real))
    return (significand if real >= 0 else -significand), exponent


@handles("PRELU")
def prelu(node: TfliteNode) -> str:
    """x where it is not negative, a slope of each channel times x elsewhere."""
    low = node.low
    if not node.is_quantized:
        return activations.leaky_relu(low, *low.aligned(node.x(), node.real(1)))
    value, alpha, result = node.value(), node.value(1), node.result()
    if value.kind == "INT16" and alpha.kind != "INT8":
        node.unsupported(
            f"TFLite's kernel of 16 bits reads its slopes as int8, and they are {alpha.kind.lower()}",
            "give int8 slopes, or leave it in float32",
        )
    up = quantized_multiplier(float(value.scale / result.scale))
    down = quantized_multiplier(float(value.scale * alpha.scale / result.scale))
    slopes = low.data(alpha.tensor)
    if slopes is not None and slopes.size == 1 and value.kind != "INT16":
        x = centred(value)
        negative = fixed_point.multiplied(x * (int(slopes.item()) - alpha.zero_point), down)
        return table(node, np.where(x >= 0, fixed_point.multiplied(x, up), negative))
    wide, dtype = widened(node, value), low.dtype(node.x())
    positive = rescale(node, wide, [up], dtype, 0, result.zero_point)
    product = low.mul(wide, widened(node, alpha))
    negative_part = rescale(node, product, [down], dtype, 0, result.zero_point)
    return low.select(low.is_negative(wide), negative_part, positive)


# --- functions of reals -----------------------------------------------------------------------------------------


def _hard_swish_reals(node: TfliteNode, x: str) -> str:
    return node.low.mul(x, activations.hard_sigmoid(node.low, x, 1 / 6, 0.5))


def _hard_swish_integers(node: TfliteNode) -> str:
    """TFLite's kernel computes in 16 bits."""
    value, result = node.value(), node.result()
    if value.kind == "INT16":
        node.unsupported(
            "TFLite has no kernel of it for int16", "quantize it to int8, or leave it in float32"
        )
    fine_scale = np.float32(1 / 128) * value.scale
    out = quantized_multiplier(float(fine_scale / result.scale))
    reluish = quantized_multiplier(float(fine_scale / np.float32(3 / 32768)))
    if out[1] > 0:
        node.unsupported("its result's scale is below 1/128 of its input's", "quantize the model again")
    x = centred(value) << 7
    shifted = fixed_point.doubling_high_product(x, _short(out[0]), 15)
    gate = x
    if reluish[1] > 0:
        gate = _short_range(gate << (reluish[1] - 1))
    gate = fixed_point.doubling_high_product(gate, _short(reluish[0]), 15)
    gate = _short_range(gate << 1) if reluish[1] > 0 else fixed_point.divided_by_power(gate, -reluish[1], 15)
    gate = (gate + (1 << 15)) >> 1
    product = gate * shifted
    high = np.where(product >= 0, product >> 15, -(-product >> 15))
    return table(node, fixed_point.divided_by_power(high, -out[1], 15))


def _short(significand: int) -> int:
    """A multiplier's significand in 16 bits."""
    return min((significand + (1 << 15)) >> 16, (1 << 15) - 1)


def _short_range(x: np.ndarray) -> np.ndarray:
    return np.clip(x, *RANGES["INT16"])


HANDLERS["HARD_SWISH"] = curve(_hard_swish_reals, _hard_swish_integers)


def _real_curve(
    real: Callable[[TfliteNode, str], str], function: Callable[[np.ndarray], np.ndarray]
) -> Handler:
    return curve(real, lambda node: real_table(node, function))


@handles("GELU")
def gelu(node: TfliteNode) -> str:
    """x times the normal distribution function, or its approximation by tanh."""
    approximate = bool(node.option("Approximate", False))
    if not node.is_quantized:
        return activations.gelu(node.low, node.x(), approximate)
    return real_table(node, float32.gelu_by_tanh if approximate else float32.gelu)


HANDLERS["ELU"] = _real_curve(
    lambda node, x: activations.elu(node.low, x, 1.0),
    lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
)
HANDLERS["EXP"] = _real_curve(lambda node, x: node.low.op("EXP", x), float32.exp)


@handles("LOG")
def log(node: TfliteNode) -> str:
    """The natural logarithm; of an integer that is not positive the lowest result."""
    if not node.is_quantized:
        return node.low.op("LOG", node.x())
    result = node.result()
    lowest = np.float32(RANGES[result.kind][0] - result.zero_point) * result.scale
    return real_table(node, lambda x: np.where(x > 0, np.log(np.where(x > 0, x, 1)), lowest))


@handles("ABS")
def absolute(node: TfliteNode) -> str:
    """The size of each element."""
    low, x = node.low, node.x()
    if not node.is_quantized:
        # The size of the lowest integer wraps.
        short = low.dtype(x) is DType.INT16
        return low.cast(low.op("ABS", low.cast(x, DType.INT32) if short else x), low.dtype(x))
    value, result = node.value(), node.result()
    multiplier = quantized_multiplier(float(value.scale / result.scale))
    if value.kind == "INT16":
        return rescale(
            node, low.op("ABS", widened(node, value)), [multiplier], DType.INT16, 0, result.zero_point
        )
    return table(node, fixed_point.multiplied(np.abs(centred(value)), multiplier))


@handles("SQRT")
def square_root(node: TfliteNode) -> str:
    """The root; of integers cut off to a step below, and zero of what is negative, which the kernel refuses."""
    if not node.is_quantized:
        return node.low.sqrt(node.x())
    value, result = node.value(), node.result()
    if value.kind == "UINT8":
        node.unsupported(
            "TFLite has no kernel of it for uint8", "quantize it to int8, or leave it in float32"
        )
    reals = value.scale * single(np.maximum(centred(value), 0))
    return looked_up(node, (np.sqrt(reals) / result.scale).astype(np.int64))


@handles("NEG")
def negate(node: TfliteNode) -> str:
    """The stored integers with the other sign, whatever they stand for; the lowest one wraps."""
    low, x = node.low, node.x()
    dtype = low.dtype(x)
    if node.value().kind in OFFSET:
        node.unsupported(
            f"TFLite has no kernel of it for {node.value().kind.lower()}", "use int8, or leave it in float32"
        )
    if dtype not in (DType.INT8, DType.INT16):
        return low.negate(x)
    return low.cast(low.negate(low.cast(x, DType.INT32)), dtype)


@handles("RSQRT")
def reciprocal_root(node: TfliteNode) -> str:
    """1 / sqrt(x); of integers with seven more bits than the result, and saturated at zero."""
    low = node.low
    if not node.is_quantized:
        return low.op("RSQRT", node.x())
    value, result = node.value(), node.result()
    if value.kind == "INT16":
        largest = np.float32(RANGES["INT16"][1]) * result.scale
        return real_table(node, lambda x: np.where(x > 0, float32.inverse_root(x), largest))
    scale = 1.0 / float(np.sqrt(value.scale) * result.scale)
    multiplier = quantized_multiplier(scale)
    results = [_inverse_root(int(x), multiplier) for x in centred(value)]
    return table(node, np.array(results))


def _inverse_root(x: int, multiplier: tuple[int, int]) -> int:
    """One element of TFLite's kernel; what is not positive gives the largest integer."""
    if x <= 0:
        return 1 << 15
    inverse, shift = _inverse_root_multiplier(x)
    product = fixed_point.multiplied(np.array([1 << 20]), (inverse, shift))
    wide = fixed_point.multiplied(product, (multiplier[0], multiplier[1] - 20))
    return int(wide[0])


@functools.cache
def _inverse_root_multiplier(x: int) -> tuple[int, int]:
    """GetInvSqrtQuantizedMultiplierExp with reverse_shift -1: Newton's steps on a number of three integer bits."""
    if x <= 1:
        return (1 << 31) - 1, 0
    right_shift = 11
    while x >= 1 << 29:
        x, right_shift = x // 4, right_shift + 1
    left_pairs = (32 - x.bit_length() - 1) // 2 - 1
    right_shift -= left_pairs
    x <<= 2 * left_pairs
    three = 3

    def product(a: int, b: int) -> int:
        return int(fixed_point.doubling_high_product(np.array(a), b))

    fixed_input = int(fixed_point.times_power(np.array(x >> 1), 0))
    half_input = int(fixed_point.divided_by_power(np.array(fixed_input), 1))
    half_three = (1 << 28) + (1 << 27)
    y = 1 << 28
    for _ in range(5):
        y3 = int(fixed_point.times_power(np.array(product(product(y, y), y)), 6))
        first = product(half_three, y)
        second = product(half_input, y3)
        y = int(fixed_point.times_power(np.array(first - second), three))
    half_root_2 = 1518500250
    y = product(y, half_root_2)
    if right_shift < 0:
        y, right_shift = y << -right_shift, 0
    return y, -right_shift


_PLAIN: dict[str, Callable[[Lowering, str], str]] = {
    "SQUARE": lambda low, x: low.mul(x, x),
    "SIN": lambda low, x: low.op("SIN", x),
    "COS": lambda low, x: low.op("COS", x),
    "CEIL": lambda low, x: low.op("CEIL", x),
    "FLOOR": lambda low, x: low.op("FLOOR", x),
    "ROUND": lambda low, x: low.round_half_even(x),
    "SIGN": sign,
}


def _plain(node: TfliteNode) -> str:
    if node.is_quantized:
        node.unsupported("TFLite's kernels of it are for reals only", "leave it in float32")
    return _PLAIN[node.kind](node.low, node.x())


HANDLERS.update(dict.fromkeys(_PLAIN, _plain))
