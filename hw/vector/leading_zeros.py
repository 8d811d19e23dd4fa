"""Leading zeros of a word, as a tree."""

from amaranth.hdl import C, Cat, Mux, Value


def leading_zeros(value: Value) -> Value:
    """Number of zeros above the highest one; of a power of two bits, all of which may be zero."""
    zero, count = _tree(value)
    return Mux(zero, C(len(value), len(count) + 1), count)


def _tree(value: Value) -> tuple[Value, Value]:
    """(all bits are zero, leading zeros if not)."""
    if len(value) == 2:
        return ~value.any(), ~value[1]
    half = len(value) // 2
    low_zero, low = _tree(value[:half])
    high_zero, high = _tree(value[half:])
    return high_zero & low_zero, Cat(Mux(high_zero, low, high), high_zero)
