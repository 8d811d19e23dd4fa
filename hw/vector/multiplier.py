"""A wide signed product from parts that fit multiplier blocks and, in simulation, 64-bit words."""

from collections.abc import Mapping

from amaranth.hdl import C, Cat, Value

from .extend import sign_extend

CHUNK_BITS = 17
"""Bits of a part: an unsigned part and a sign bit fill an 18-bit multiplier input."""
PRODUCT_BITS = 64
FACTOR_BITS = 33
_PAIR_BITS = 2 * CHUNK_BITS

Products = Mapping[tuple[int, int], Value]
"""The products of the parts of two numbers, by the parts' numbers, the lowest part being 0."""


def part_products(x: Value, factor: Value) -> dict[tuple[int, int], Value]:
    """What `partial_sums` makes x * factor of, both signed, `factor` of FACTOR_BITS. An x of two parts has four
    products, one of three has six; of each there are the bits that do not lie beyond the product's."""
    chunks = -(-len(x) // CHUNK_BITS)
    x_parts = [x[CHUNK_BITS * i : CHUNK_BITS * (i + 1)] for i in range(chunks - 1)]
    x_parts.append(x[CHUNK_BITS * (chunks - 1) :].as_signed())
    factors = [factor[:CHUNK_BITS], factor[CHUNK_BITS:].as_signed()]
    return {
        (i, k): (_signed(part) * _signed(other))[: min(_PAIR_BITS, PRODUCT_BITS - CHUNK_BITS * (i + k))]
        for i, part in enumerate(x_parts)
        for k, other in enumerate(factors)
    }


def partial_sums(products: Products) -> tuple[Value, Value, Value]:
    """x * factor, modulo 2**64, as `low` + (`first` + `second`) * 2**17.

    Two products of parts lie side by side in one word where they do not overlap, so that three additions do for six
    products, two of them here. The sum of `first` and `second` is modulo 2**47.
    """
    bits = PRODUCT_BITS - CHUNK_BITS
    outer, crossed, other = Cat(products[0, 0], products[1, 1]), products[0, 1], products[1, 0]
    if (2, 0) not in products:
        first = outer[CHUNK_BITS:] + sign_extend(crossed, bits).as_unsigned()
        return outer[:CHUNK_BITS], first[:bits], sign_extend(other, bits).as_unsigned()
    # `crossed` is signed: where it is negative, its sign in the bits above it belongs to the sum as well.
    sign = crossed[-1].replicate(bits - _PAIR_BITS)
    first = outer[CHUNK_BITS:] + Cat(crossed, products[2, 1])
    upper = (
        Cat(other[CHUNK_BITS:], sign) + sign_extend(products[2, 0], PRODUCT_BITS - _PAIR_BITS).as_unsigned()
    )
    return outer[:CHUNK_BITS], first[:bits], Cat(other[:CHUNK_BITS], upper[: bits - CHUNK_BITS])


def _signed(value: Value) -> Value:
    return value if value.shape().signed else Cat(value, C(0, 1)).as_signed()
