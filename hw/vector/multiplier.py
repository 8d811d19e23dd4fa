"""A wide signed product from parts that fit multiplier blocks and, in simulation, 64-bit words."""

from amaranth.hdl import C, Cat, Value

from .extend import sign_extend

CHUNK_BITS = 17
"""Bits of a part: an unsigned part and a sign bit fill an 18-bit multiplier input."""
PRODUCT_BITS = 64
FACTOR_BITS = 33


def partial_sums(x: Value, factor: Value) -> tuple[Value, Value, Value]:
    """x * factor, both signed (`factor` of FACTOR_BITS), modulo 2**64, as `low` + (`first` + `second`) * 2**17.

    Two products of parts lie side by side in one word where they do not overlap, so that three additions do for six
    products, two of them here. The sum of `first` and `second` is modulo 2**47. An x of two parts has four products.
    """
    if len(x) <= 2 * CHUNK_BITS:
        return _few_partial_sums(x, factor)
    x_parts = [x[:CHUNK_BITS], x[CHUNK_BITS : 2 * CHUNK_BITS], x[2 * CHUNK_BITS :].as_signed()]
    factors = [factor[:CHUNK_BITS], factor[CHUNK_BITS:].as_signed()]

    def product(i: int, k: int) -> Value:
        return _signed(x_parts[i]) * _signed(factors[k])

    pair = 2 * CHUNK_BITS
    crossed = product(0, 1)[:pair]
    # `crossed` is signed: where it is negative, its sign in the bits above it belongs to the sum as well.
    sign = crossed[-1].replicate(PRODUCT_BITS - CHUNK_BITS - pair)
    outer = Cat(product(0, 0)[:pair], product(1, 1)[: PRODUCT_BITS - pair])
    inner = Cat(crossed, product(2, 1)[: PRODUCT_BITS - CHUNK_BITS - pair])
    bits = PRODUCT_BITS - CHUNK_BITS
    first = (outer[CHUNK_BITS:] + inner)[:bits]
    other = Cat(product(1, 0)[:pair], sign)
    top, room = product(2, 0), PRODUCT_BITS - pair
    # Of a narrow x it does not reach the upper end.
    top = sign_extend(top, room).as_unsigned() if len(top) < room else top[:room]
    second = Cat(other[:CHUNK_BITS], (other[CHUNK_BITS:] + top)[: bits - CHUNK_BITS])
    return outer[:CHUNK_BITS], first, second


def _few_partial_sums(x: Value, factor: Value) -> tuple[Value, Value, Value]:
    low_x, high_x = _signed(x[:CHUNK_BITS]), x[CHUNK_BITS:].as_signed()
    low_factor, high_factor = _signed(factor[:CHUNK_BITS]), factor[CHUNK_BITS:].as_signed()
    pair, bits = 2 * CHUNK_BITS, PRODUCT_BITS - CHUNK_BITS
    outer = Cat((low_x * low_factor)[:pair], (high_x * high_factor)[: PRODUCT_BITS - pair])
    first = (outer[CHUNK_BITS:] + sign_extend((low_x * high_factor)[:pair], bits).as_unsigned())[:bits]
    second = sign_extend((high_x * low_factor)[:pair], bits).as_unsigned()
    return outer[:CHUNK_BITS], first, second


def _signed(value: Value) -> Value:
    return value if value.shape().signed else Cat(value, C(0, 1)).as_signed()
