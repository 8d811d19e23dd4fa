"""Inverse trigonometric functions of floats, which TOSA has not: polynomials on a reduced range, good to fp32."""

import math
from collections.abc import Sequence

from tosaic.compiler.importers.lowering.lowering import Lowering

# The single-precision approximations of the Cephes library, highest power first.
_ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
_ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)


def tan(low: Lowering, x: str) -> str:
    """Returns sin / cos."""
    return low.div(low.op("SIN", x), low.op("COS", x))


def asin(low: Lowering, x: str) -> str:
    """Returns the arc sine; NaN outside -1 .. 1."""
    size = low.op("ABS", x)
    small, large = _asin_parts(low, size)
    far = low.sub(low.scalar(math.pi / 2, x), large)
    return _signed(low, x, low.select(low.greater(size, low.scalar(0.5, x)), far, small))


def acos(low: Lowering, x: str) -> str:
    """Returns the arc cosine; NaN outside -1 .. 1."""
    size = low.op("ABS", x)
    small, large = _asin_parts(low, size)
    near = low.sub(low.scalar(math.pi / 2, x), _signed(low, x, small))
    far = low.select(low.is_negative(x), low.sub(low.scalar(math.pi, x), large), large)
    return low.select(low.greater(size, low.scalar(0.5, x)), far, near)


def atan(low: Lowering, x: str) -> str:
    """Returns the arc tangent."""
    size = low.op("ABS", x)
    inverted = low.greater(size, low.scalar(1, x))
    t = low.select(inverted, low.op("RECIPROCAL", size), size)
    turned = low.greater(t, low.scalar(math.tan(math.pi / 8), x))
    t = low.select(turned, low.div(low.plus(t, -1.0), low.plus(t, 1.0)), t)
    square = low.mul(t, t)
    angle = low.add(low.mul(low.mul(_polynomial(low, square, _ATAN), square), t), t)
    angle = low.select(turned, low.plus(angle, math.pi / 4), angle)
    angle = low.select(inverted, low.sub(low.scalar(math.pi / 2, x), angle), angle)
    return _signed(low, x, angle)


def _asin_parts(low: Lowering, size: str) -> tuple[str, str]:
    """Returns asin(size), good up to 0.5, and 2 asin(sqrt((1 - size) / 2)), good from there on."""
    square = low.mul(size, size)
    small = low.add(size, low.mul(size, low.mul(square, _polynomial(low, square, _ASIN))))
    half = low.times(low.sub(low.scalar(1, size), size), 0.5)
    root = low.sqrt(half)
    return small, low.times(low.add(root, low.mul(root, low.mul(half, _polynomial(low, half, _ASIN)))), 2.0)


def _polynomial(low: Lowering, x: str, coefficients: Sequence[float]) -> str:
    """Evaluates a polynomial by Horner's scheme."""
    total = low.scalar(coefficients[0], x)
    for coefficient in coefficients[1:]:
        total = low.plus(low.mul(total, x), coefficient)
    return total


def _signed(low: Lowering, x: str, size: str) -> str:
    return low.select(low.is_negative(x), low.negate(size), size)
