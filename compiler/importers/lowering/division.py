"""Quotients that are rounded down, of floats."""

from tosaic.compiler.importers.lowering.lowering import Lowering


def floor_divide(low: Lowering, a: str, b: str) -> tuple[str, str]:
    """floor(a / b) and the rest a - floor(a / b) * b, which has the sign of b.

    The product with the reciprocal may be off by one near a whole number; the rest tells, and both are put right.
    """
    quotient = low.op("FLOOR", low.div(a, b))
    rest = low.sub(a, low.mul(quotient, b))
    zero = low.scalar(0, rest)
    positive = low.greater(b, low.scalar(0, b))
    too_large = low.select(positive, low.greater(zero, rest), low.greater(rest, zero))
    too_small = low.select(positive, low.greater_equal(rest, b), low.greater_equal(b, rest))
    one = low.scalar(1, rest)
    step = low.select(too_large, low.negate(one), low.select(too_small, one, zero))
    return low.add(quotient, step), low.sub(rest, low.mul(step, b))
