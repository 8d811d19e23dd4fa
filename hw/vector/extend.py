"""Sign extension that simulates fast."""

from amaranth.hdl import C, Value, ValueLike, signed


def sign_extend(value: ValueLike, bits: int) -> Value:
    """The signed `value` in `bits` bits, more than its own.

    An assignment to a wider signal is emitted as one copy of the sign per bit, which Verilator evaluates bit by
    bit; the operands of a sum are extended as a whole, and synthesis drops the zero.
    """
    return (Value.cast(value).as_signed() + C(0, signed(bits)))[:bits].as_signed()
