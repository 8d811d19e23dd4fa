"""INTDIV as multiplications with a reciprocal (clause 2.4.7 of TOSA 0.30): exact for all dividends and divisors but 0.

Everything is int32. Magnitudes are held as negative numbers, which reach -2^31: N = -|n|, D = -|d|. D is scaled by
2^k into y = |D| 2^k / 2^31 in [1/2, 1]; R approximates 2^29 / y. Newton's iteration r(2 - yr) doubles the correct bits:
from 1/17 to 2^-8, 2^-16, then to what 30 bits hold. A first quotient from R is off by a few units in the last place;
the remainder, exact in int32, gives the correction, and its sign the last unit. A divisor of 0 gives some number.
"""

from typing import Any

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting


class _Words:
    """int32 arithmetic on tensors of one shape."""

    def __init__(self, new: Rewriting, shape: tuple[int, ...]):
        self.new, self.shape = new, shape

    def number(self, value: int) -> str:
        return self.new.constant(np.full((1,) * len(self.shape), value, np.int64), DType.INT32)

    def do(
        self, op: str, a: str, b: str | int | None = None, output: str | None = None, **attributes: Any
    ) -> str:
        operands = [a] if b is None else [a, self.number(b) if isinstance(b, int) else b]
        shape = self.new.shape(a) if b is None else self.shape
        return self.new.add(op, operands, shape, DType.INT32, output, **attributes)

    def broadcast(self, name: str) -> str:
        """The tensor with the words' shape."""
        if self.new.shape(name) == self.shape:
            return name
        return self.do("ADD", name, self.new.constant(np.zeros(self.shape, np.int64), DType.INT32))

    def product(self, a: str, b: str | int, shift: int = 0) -> str:
        """a * b / 2^shift, rounded."""
        amount = self.new.constant(np.array([shift]), DType.INT8)
        operands = [a, self.number(b) if isinstance(b, int) else b, amount]
        return self.new.add("MUL", operands, self.shape, DType.INT32)

    def shifted(self, a: str, amount: str | int, rounded: bool = False) -> str:
        return self.do("ARITHMETIC_RIGHT_SHIFT", a, amount, round=rounded)

    def negative_magnitude(self, a: str) -> str:
        zero = self.new.constant(np.array([0]), DType.INT32)
        opposite = self.new.add("NEGATE", [a, zero, zero], self.new.shape(a), DType.INT32)
        return self.new.add("MINIMUM", [a, opposite], self.new.shape(a), DType.INT32)


def divide(new: Rewriting) -> bool:
    """Rewrites an INTDIV."""
    operator = new.operator
    shape = new.shape(operator.outputs[0])
    words = _Words(new, shape)
    n, d = (words.broadcast(name) for name in operator.inputs)
    dividend, divisor = words.negative_magnitude(n), words.negative_magnitude(d)
    # The leading zeros of |d| - 1; 30 is enough, since 2^29 / y must not exceed 2^30.
    zeros = words.do("CLZ", words.do("BITWISE_NOT", divisor))
    scale = words.do("MINIMUM", words.do("SUB", zeros, 1), 30)
    scaled = words.do("LOGICAL_LEFT_SHIFT", divisor, scale)
    # 48/17 - 32/17 y is within 1/17 of 1/y.
    reciprocal = words.do("ADD", words.product(scaled, (8 << 31) // 17, 31), (48 << 29) // 17)
    for _ in range(3):
        error = words.do("ADD", words.product(scaled, reciprocal, 30), -(1 << 31))
        reciprocal = words.product(reciprocal, error, 30)
    places = words.do("SUB", words.number(30), scale)
    quotient, rest = None, dividend
    for _ in range(2):
        # Quotients are negative too.
        part = words.shifted(words.product(rest, reciprocal, 30), places, rounded=True)
        rest = words.do("ADD", rest, words.product(part, divisor))
        quotient = part if quotient is None else words.do("ADD", quotient, part)
    assert quotient is not None
    above = new.add("GREATER", [rest, words.number(0)], shape, DType.BOOL)
    quotient = words.do("ADD", quotient, words.do("CAST", above))
    same_sign = words.do("BITWISE_NOT", words.shifted(words.do("BITWISE_XOR", n, d), 31))
    flipped = words.do("BITWISE_XOR", quotient, same_sign)
    words.do("SUB", flipped, same_sign, operator.outputs[0])
    return True
