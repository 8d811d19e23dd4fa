"""The arithmetic shift to the right, with what rounding needs to know of the bits shifted out."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value

SHIFTS = (32, 16, 8, 4, 2, 1)
"""Distances of the stages, the largest first: bits that the later stages cannot reach are dropped early."""


def shift_right(
    m: Module, value: Value, amount: Value, bits: int, filler: Value
) -> tuple[Value, Value, Value]:
    """(shifted, guard, filled): `bits` bits of value >> amount; the last bit shifted out (0 if amount is 0); for an
    amount of 32 or more, whether bit 30 and all above it that were shifted out before the last one equal `filler`.

    `value` has 64 bits, `amount` 6.
    """
    guard: Value | None = None
    filled = value[30] == filler
    for i, shift in enumerate(SHIFTS):
        by = amount[len(SHIFTS) - 1 - i]
        reach = min(bits + sum(SHIFTS[i + 1 :]), len(value))
        sign = value[-1].replicate(max(reach + shift - len(value), 0))
        stage = Signal(reach, name=f"shifted_{shift}")
        last = Signal(name=f"guard_{shift}")
        m.d.comb += [
            stage.eq(Mux(by, Cat(value, sign)[shift:][:reach], value[:reach])),
            last.eq(by & value[shift - 1] if guard is None else Mux(by, value[shift - 1], guard)),
        ]
        if guard is not None:
            dropped = Cat(guard, value[: shift - 1])
            alike = Signal(name=f"filled_{shift}")
            m.d.comb += alike.eq(filled & (~by | (dropped == filler.replicate(len(dropped)))))
            filled = alike
        value, guard = stage, last
    assert guard is not None
    return value, guard, filled
