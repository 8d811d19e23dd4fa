"""Activation functions of floats."""

import math

from tosaic.compiler.importers.lowering.lowering import Lowering


def relu(low: Lowering, x: str) -> str:
    """Returns max(x, 0); of int32 too."""
    if low.dtype(x).is_float:
        return low.clamp(x, 0.0, math.inf)
    return low.maximum(x, low.scalar(0, x))


def leaky_relu(low: Lowering, x: str, slope: str) -> str:
    """x where it is not negative, slope * x elsewhere."""
    return low.select(low.is_negative(x), low.mul(x, slope), x)


def elu(low: Lowering, x: str, alpha: float, gamma: float = 1.0, inner: float = 1.0) -> str:
    """Returns gamma * x where positive, gamma * alpha * (exp(x / inner) - 1) elsewhere."""
    # The exponential of the positive part is not used: without it there is no overflow.
    negative = low.minimum(x, low.scalar(0, x))
    curve = low.times(low.plus(low.op("EXP", low.times(negative, 1.0 / inner)), -1.0), alpha)
    return low.times(low.select(low.greater(x, low.scalar(0, x)), x, curve), gamma)


def hard_sigmoid(low: Lowering, x: str, alpha: float, beta: float) -> str:
    """Returns alpha * x + beta, limited to 0 .. 1."""
    return low.clamp(low.plus(low.times(x, alpha), beta), 0.0, 1.0)


def softplus(low: Lowering, x: str) -> str:
    """Returns log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))."""
    small = low.op("EXP", low.negate(low.op("ABS", x)))
    return low.add(low.clamp(x, 0.0, math.inf), low.op("LOG", low.plus(small, 1.0)))


def softsign(low: Lowering, x: str) -> str:
    """Returns x / (1 + |x|)."""
    return low.div(x, low.plus(low.op("ABS", x), 1.0))


def gelu(low: Lowering, x: str, tanh: bool = False) -> str:
    """x times the normal distribution function of x, or its approximation by tanh."""
    if tanh:
        cube = low.mul(low.mul(x, x), x)
        inner = low.times(low.add(x, low.times(cube, 0.044715)), math.sqrt(2 / math.pi))
        curve = low.op("TANH", inner)
    else:
        curve = low.op("ERF", low.times(x, math.sqrt(0.5)))
    return low.mul(low.times(x, 0.5), low.plus(curve, 1.0))


def mish(low: Lowering, x: str) -> str:
    """Returns x * tanh(softplus(x))."""
    return low.mul(x, low.op("TANH", softplus(low, x)))
