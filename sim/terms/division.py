"""INTDIV as products with a reciprocal: the law by which a machine without a divider divides.

All steps are on int32, that is on the low 32 bits. Magnitudes are negative numbers, which reach -2^31. The divisor,
shifted left to y = 1/2..1 in units of 2^31, has the reciprocal R in units of 2^29: Newton's iteration R * (2 - y * R)
from within 1/17 of 1/y. Two quotients with R, and the sign of what is left, make the exact one.
"""

from collections.abc import Callable

import numpy as np

from .algebra import Algebra
from .functions import multiplied, named, shifted
from .values import SMALLEST, Terms

STEPS = 3
SLOPE, START = (8 << 31) // 17, (48 << 29) // 17
"""48/17 - 32/17 * y, near 1 / y: in units of 2^29, of y in units of 2^31."""


def divided(algebra: Algebra, n: Terms, d: Terms) -> Terms:
    """n / d, rounded to 0, of d that is not 0 and a quotient of 32 bits."""

    def low(terms: Terms) -> Terms:
        return algebra.wrap(terms, 32)

    def product(a: Terms, b: Terms, shift: int = 0) -> Terms:
        return low(multiplied(algebra, a, b, shift))

    n, d = n.plain(), d.plain()
    minus_one = algebra.constant(np.int64(-1))
    left, divisor = (algebra.extreme(own, product(own, minus_one), SMALLEST) for own in (n, d))
    zeros = named(algebra, "CLZ", algebra.exclusive_or(divisor, -1), divisor)
    scale = algebra.clamp(algebra.plus(zeros, -1), -(1 << 31), 30)
    reciprocal = reciprocal_of(algebra, low(shifted(algebra, "LSL", divisor, scale)), product)
    count = algebra.subtract(algebra.constant(np.int64(30)), scale)
    # By one number for all the machine shifts as in a shift of the graph's.
    places = int(count.low.flat[0]) if count.constant and np.ptp(count.low) == 0 else count
    quotient = None
    for _ in range(2):
        part = shifted(algebra, "ASRR", product(left, reciprocal, 30), places)
        left = low(algebra.add(left, product(part, divisor)))
        quotient = part if quotient is None else low(algebra.add(quotient, part))
    assert quotient is not None
    above = named(algebra, "GT", left, algebra.constant(np.int64(0)))
    quotient = low(algebra.add(quotient, above))
    sign = algebra.exclusive_or(algebra.shifted_right(algebra.bitwise("XOR", n, d), 31), -1)
    return low(algebra.subtract(algebra.bitwise("XOR", quotient, sign), sign))


def reciprocal_of(algebra: Algebra, scaled: Terms, product: Callable[[Terms, Terms, int], Terms]) -> Terms:
    """R of -2^31 * y."""
    first = product(scaled, algebra.constant(np.int64(SLOPE)), 31)
    reciprocal = algebra.wrap(algebra.plus(first, START), 32)
    for _ in range(STEPS):
        error = algebra.wrap(algebra.plus(product(scaled, reciprocal, 30), -(1 << 31)), 32)
        reciprocal = product(reciprocal, error, 30)
    return reciprocal
