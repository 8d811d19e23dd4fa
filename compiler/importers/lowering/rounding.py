"""Rounding and signs of floats."""

from tosaic.compiler.importers.lowering.lowering import Lowering


def round_half_up(low: Lowering, x: str) -> str:
    """floor(x + 0.5) of real numbers: the sum itself is never rounded."""
    below = low.op("FLOOR", x)
    near = low.greater_equal(low.sub(x, below), low.scalar(0.5, x))
    return low.select(near, low.plus(below, 1.0), below)


def sign(low: Lowering, x: str) -> str:
    """Returns -1, 0 or 1."""
    zero, one, minus = (low.scalar(value, x) for value in (0.0, 1.0, -1.0))
    return low.select(low.greater(x, zero), one, low.select(low.greater(zero, x), minus, zero))
