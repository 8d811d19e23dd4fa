"""A wide signed product from parts that fit multiplier blocks and, in simulation, 64-bit words."""

from amaranth.hdl import C, Cat, Signal, Value

CHUNK_BITS = 17
"""Bits of x per part: an unsigned part and a sign bit fill an 18-bit multiplier input."""
PRODUCT_BITS = 64


def multiply_chunks(x: Value, factor: Value) -> list[Value]:
    """x * factor, both signed, as parts: part i counts 2**(17*i); only bits below 2**64 are kept."""
    parts = []
    for low in range(0, len(x), CHUNK_BITS):
        high = min(low + CHUNK_BITS, len(x))
        chunk = x[low:high].as_signed() if high == len(x) else Cat(x[low:high], C(0, 1)).as_signed()
        product = chunk * factor
        parts.append(
            product[: PRODUCT_BITS - low].as_signed() if len(product) > PRODUCT_BITS - low else product
        )
    return parts


def sum_chunks(parts: list[Signal], nudge: Value) -> Value:
    """The parts' sum modulo 2**64, plus nudge * 2**17. Adders narrower than 64 bits keep simulation in one word."""
    total = parts[-1]
    for i in reversed(range(len(parts) - 1)):
        bits = PRODUCT_BITS - CHUNK_BITS * (i + 1)
        # A constant shift is a slice; the sum extends it.
        high = parts[i][CHUNK_BITS:].as_signed() + total
        if i == 0:
            high = high + nudge
        total = Cat(parts[i][:CHUNK_BITS], high[:bits]).as_signed()
    return total


__all__ = ["CHUNK_BITS", "PRODUCT_BITS", "multiply_chunks", "sum_chunks"]
