"""A signed product from gates, where there are no multiplier blocks: a row to add for every two bits of a factor."""

from collections.abc import Sequence

from amaranth.hdl import C, Cat, Module, Signal, Value

from .one_hot import only_if


def has_multipliers(platform: object) -> bool:
    """Whether products are left to the synthesis: an FPGA has blocks for them, a chip has gates."""
    return getattr(platform, "has_multipliers", True)


def multiply(m: Module, x: Value, factor: Value, platform: object) -> Value:
    """Returns x * factor; x is signed, and has more bits than `factor` or as many."""
    if has_multipliers(platform):
        return x * factor
    bits = len(x) + len(factor)
    first, second = carry_save(m, booth_rows(m, x, factor, bits))
    return (first + second)[:bits].as_signed()


def booth_rows(m: Module, x: Value, factor: Value, bits: int) -> list[Value]:
    """Returns numbers of `bits` bits whose sum is x * factor modulo 2**`bits`; for x and `factor` see `multiply`.

    Radix 4: two bits of the factor and the one below them are a digit from -2 to 2. A digit's row has the multiple of
    x, or all its bits inverted where the digit is negative; 1 is added there in the row behind it. A row's sign bit s
    stands for -s * 2**n = (1 - s) * 2**n - 2**n: it is inverted, and all -2**n are one constant.
    """
    signed = factor.shape().signed
    digits = (len(factor) + 1 + (not signed)) // 2
    places = Cat(C(0, 1), factor, (factor[-1] if signed else C(0, 1)).replicate(2))
    rows: list[Value] = []
    correction = 0
    negative: Value = C(0, 1)
    for k in range(digits):
        below, low, high = places[2 * k], places[2 * k + 1], places[2 * k + 2]
        one, two = Signal(name=f"one_{k}"), Signal(name=f"two_{k}")
        row = Signal(len(x) + 1, name=f"row_{k}")
        m.d.comb += [
            one.eq(low ^ below),
            two.eq((high ^ low) & ~one),
            row.eq(
                (only_if(one, Cat(x, x[-1])) | only_if(two, Cat(C(0, 1), x))) ^ high.replicate(len(x) + 1)
            ),
        ]
        # The row in front begins two bits lower: below this one there is room for its 1.
        under = Cat(C(0, 2 * k - 2), negative, C(0, 1)) if k else C(0, 0)
        rows.append(Cat(under, row[:-1], ~row[-1], C(0, bits))[:bits])
        correction -= 1 << (len(x) + 2 * k)
        negative = high
    last = C(correction % (1 << bits), bits) | Cat(C(0, 2 * digits - 2), negative, C(0, bits))[:bits]
    return [*rows, last]


def carry_save(m: Module, rows: Sequence[Value]) -> tuple[Value, Value]:
    """Returns two numbers with the sum of all rows, modulo 2 to the power of their bits; no carry runs."""
    left, level = list(rows), 0
    while len(left) > 2:
        following: list[Value] = []
        for i in range(0, len(left) - 2, 3):
            a, b, c = left[i : i + 3]
            total = Signal(len(a), name=f"sum_{level}_{i // 3}")
            carry = Signal(len(a), name=f"carry_{level}_{i // 3}")
            m.d.comb += [total.eq(a ^ b ^ c), carry.eq((((a ^ b) & c) | (a & b)) << 1)]
            following += [total, carry]
        left, level = following + left[len(left) - len(left) % 3 :], level + 1
    first, second = left
    return first, second
