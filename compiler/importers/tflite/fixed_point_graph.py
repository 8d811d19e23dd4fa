"""TFLite's fixed-point arithmetic on what is known at run time only, as TOSA operators on int32.

`fixed_point` has the same of numbers that are known at import.
"""

from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.ir import DType

_BITS = 31
_LARGEST = (1 << _BITS) - 1
_THREE = 28
"""Bits of fraction of a number with three integer bits."""
_HALF_ROOT_2 = 1518500250
"""sqrt(1/2) with no integer bits."""
_STEPS = 5
_48_OVER_17, _MINUS_32_OVER_17 = 1515870810, -1010580540
_ONE = 1 << 29
"""The number 1 with two integer bits."""
_FOURTH_ROOT_HALF, _LOG_2 = 1805811301, 1488522236
_ALPHA_N, _ALPHA_D, _ALPHA_I, _ALPHA_F = 117049297, 127690142, 1057819769, 638450708
"""Coefficients of the logarithm's polynomials, with no integer bits."""


def high_product(node: TfliteNode, a: str, b: str, shift: int = _BITS) -> str:
    """a * b / 2^shift, ties upward."""
    low = node.low
    return low.op("MUL", *low.aligned(a, b), low.constant([shift], DType.INT8))


def shifted(node: TfliteNode, x: str, bits: int) -> str:
    """x / 2^bits, ties upward."""
    return node.low.binary("ARITHMETIC_RIGHT_SHIFT", x, node.low.scalar(bits, x), round=True)


def divided_by_power(node: TfliteNode, x: str, exponent: str) -> str:
    """RoundingDivideByPOT: x / 2^exponent, ties away from zero."""
    low = node.low
    size = low.binary("ARITHMETIC_RIGHT_SHIFT", low.op("ABS", x), exponent, round=True)
    return low.select(low.is_negative(x), low.negate(size), size)


def _times_power(node: TfliteNode, x: str, exponent: int) -> str:
    """x * 2^exponent, at most the largest number of 32 bits."""
    return _shifted_up(node, x, node.low.scalar(exponent, x))


def _shifted_up(node: TfliteNode, x: str, exponent: str) -> str:
    """x * 2^exponent, at most the largest number of 32 bits."""
    low = node.low
    largest = low.scalar(_LARGEST, x)
    fits = low.greater_equal(low.binary("ARITHMETIC_RIGHT_SHIFT", largest, exponent, round=False), x)
    return low.select(fits, low.binary("LOGICAL_LEFT_SHIFT", x, exponent), largest)


def inverse_root(node: TfliteNode, x: str) -> tuple[str, str]:
    """GetInvSqrtQuantizedMultiplierExp: 1 / sqrt(x) as significand and right shift, by five steps of Newton's."""
    low = node.low
    pairs = low.plus(shifted_down(node, low.plus(low.op("CLZ", x), -1), 1), -1)
    normal = low.binary("LOGICAL_LEFT_SHIFT", x, low.times(pairs, 2))
    half_input = shifted(node, shifted_down(node, normal, 1), 1)
    y = low.scalar(1 << _THREE, x)
    for _ in range(_STEPS):
        cube = _times_power(node, high_product(node, high_product(node, y, y), y), 6)
        three = high_product(node, low.scalar(3 << (_THREE - 1), y), y)
        y = _times_power(node, low.sub(three, high_product(node, half_input, cube)), 3)
    significand = high_product(node, y, low.scalar(_HALF_ROOT_2, y))
    right = low.sub(low.scalar(11, pairs), pairs)
    zero = low.scalar(0, right)
    significand = low.binary("LOGICAL_LEFT_SHIFT", significand, low.maximum(low.negate(right), zero))
    tiny = low.greater(low.scalar(2, x), x)
    return low.select(tiny, low.scalar(_LARGEST, x), significand), low.select(
        tiny, zero, low.maximum(right, zero)
    )


def reciprocal(node: TfliteNode, half_denominator: str) -> str:
    """2^29 / half_denominator with two integer bits, by three steps of Newton's."""
    low = node.low
    x = low.add(
        high_product(node, half_denominator, low.scalar(_MINUS_32_OVER_17, half_denominator)),
        low.scalar(_48_OVER_17, half_denominator),
    )
    for _ in range(3):
        rest = low.sub(low.scalar(_ONE, x), high_product(node, x, half_denominator))
        x = low.add(x, low.mul(high_product(node, x, rest), low.scalar(4, x)))
    return x


def logarithm(node: TfliteNode, x: str, integer_bits: int, result_bits: int) -> str:
    """log_x_for_x_greater_than_or_equal_to_1: of numbers with `integer_bits`, with `result_bits`.

    x is 2^k r, for a k in quarters, and r around 2^(-1/4), where a quotient of polynomials approximates.
    """
    low = node.low
    exponent_bits = _BITS - result_bits - 1
    root_half, middle = low.scalar(_HALF_ROOT_2, x), low.scalar(_FOURTH_ROOT_HALF, x)
    headroom = low.plus(low.op("CLZ", x), -1)
    first = high_product(node, low.binary("LOGICAL_LEFT_SHIFT", x, headroom), root_half)
    below = low.plus(low.op("CLZ", high_product(node, x, root_half)), -1)
    r = low.minimum(_times_power(node, first, 1), _shifted_up(node, x, below))
    powers = [
        low.plus(low.times(low.sub(low.scalar(integer_bits - 1 + number, h), h), 1 << exponent_bits), quarter)
        for number, h, quarter in (
            (0, headroom, 1 << (exponent_bits - 2)),
            (1, below, -(1 << (exponent_bits - 2))),
        )
    ]
    power = low.maximum(*powers)
    p = low.plus(shifted_down(node, r, 1), (_FOURTH_ROOT_HALF >> 1) + 1)
    q = low.times(low.sub(r, middle), 2)
    square = high_product(node, q, q)

    def scaled(factor: int, y: str) -> str:
        return high_product(node, y, low.scalar(factor, y))

    numerator = low.add(high_product(node, q, r), scaled(_ALPHA_N, high_product(node, q, square)))
    sum_ = low.add(low.plus(q, _ALPHA_I), scaled(_ALPHA_D, square))
    denominator = low.add(high_product(node, p, sum_), scaled(_ALPHA_F, q))
    half_denominator = low.plus(shifted_down(node, denominator, 1), 1 << (_BITS - 1))
    inverse = _times_power(node, reciprocal(node, half_denominator), 1)
    small = divided_by_power(node, numerator, low.scalar(result_bits + 1, numerator))
    return _times_power(node, low.add(scaled(_LOG_2, power), high_product(node, small, inverse)), 1)


def shifted_down(node: TfliteNode, x: str, bits: int) -> str:
    """x / 2^bits, rounded down."""
    return node.low.binary("ARITHMETIC_RIGHT_SHIFT", x, node.low.scalar(bits, x), round=False)
