"""Powers with an exponent that is known."""

from tosaic.compiler.importers.lowering.lowering import Lowering


def power(low: Lowering, x: str, exponent: float) -> str:
    """x to a known exponent. Whole ones are products, so that x may be negative; TOSA's POW forbids that."""
    whole = int(exponent) if exponent == int(exponent) else 0
    if 1 <= whole <= 16:
        return _product(low, x, whole)
    if not low.dtype(x).is_float:
        return low.binary("POW", x, low.scalar(exponent, x))
    if exponent == 0.5:
        return low.sqrt(x)
    if exponent == -0.5:
        return low.op("RSQRT", x)
    if -16 <= whole <= -1:
        return low.op("RECIPROCAL", _product(low, x, -whole))
    return low.binary("POW", x, low.scalar(exponent, x))


def _product(low: Lowering, x: str, count: int) -> str:
    """Returns x^count by squaring."""
    result = None
    while count:
        if count & 1:
            result = x if result is None else low.mul(result, x)
        count >>= 1
        if count:
            x = low.mul(x, x)
    assert result is not None
    return result
