"""What fuse makes of every pair of elementwise operators, behind a convolution and on an input: golden's integers."""

import itertools

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType

INT32 = DType.INT32
UNARY = ("ABS", "NEGATE", "BITWISE_NOT", "CLZ")
BINARY = (
    "ADD",
    "SUB",
    "MUL",
    "MAXIMUM",
    "MINIMUM",
    "BITWISE_AND",
    "BITWISE_OR",
    "BITWISE_XOR",
    "GREATER",
    "EQUAL",
)
SHIFTS = ("LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT", "ARITHMETIC_RIGHT_SHIFT")
STEPS = (*UNARY, *BINARY, *SHIFTS, "RESCALE", "CLAMP", "CAST")


def step(b: LayerBuilder, op: str, x: str, y: str) -> str:
    """An operator of int32 `x`, and of `y` where it takes two; its result as int32 of moderate size again."""
    match op:
        case "NEGATE":
            return b.add(op, [x, b.zero_point(INT32), b.zero_point(INT32)])
        case "ABS" | "BITWISE_NOT" | "CLZ":
            return b.add(op, [x])
        case "MUL":
            return b.add(
                op,
                [
                    b.add(
                        "ARITHMETIC_RIGHT_SHIFT",
                        [x, b.constant(np.full((1, 1, 1, 1), 20), INT32)],
                        round=True,
                    ),
                    y,
                    b.zero_point(DType.INT8),
                ],
            )
        case "GREATER" | "EQUAL":
            return b.add("SELECT", [b.add(op, [x, y]), x, y])
        case "MAXIMUM" | "MINIMUM":
            return b.add(op, [x, y], nan_mode="PROPAGATE")
        case "LOGICAL_LEFT_SHIFT" | "LOGICAL_RIGHT_SHIFT":
            return b.add(op, [x, b.constant(np.full((1, 1, 1, 1), 1), INT32)])
        case "ARITHMETIC_RIGHT_SHIFT":
            return b.add(op, [x, b.constant(np.full((1, 1, 1, 1), 3), INT32)], round=True)
        case "RESCALE":
            return b.rescale(x, INT32, shift=32)
        case "CLAMP":
            return b.rescale(
                b.clamp(b.rescale(x, DType.INT8, output_zp=3, shift=44), -50, 60), INT32, input_zp=3, shift=24
            )
        case "CAST":
            return b.add("CAST", [b.add("CAST", [x], dtype=DType.INT16)], dtype=INT32)
    return b.add(op, [x, y])


@pytest.mark.long
@pytest.mark.parametrize("base", ["convolution", "input"])
@pytest.mark.parametrize("first", STEPS)
@pytest.mark.nightly
def test_every_pair(base: str, first: str) -> None:
    for second in STEPS:
        b = LayerBuilder(5)
        if base == "convolution":
            x = b.conv(b.input("x", (1, 2, 3, 3), DType.INT8), 5, (1, 2), pad=(0, 0, 0, 1), input_zp=4)
        else:
            x = b.input("x", (1, 2, 3, 5), INT32)
        y = b.input("y", (1, 2, 3, 5), INT32)
        b.output(step(b, second, step(b, first, x, y), y))
        assert_equal_to_golden(b.finish(), "nano")


@pytest.mark.long
@pytest.mark.parametrize("base", ["convolution", "input"])
def test_both_operands_of_one_tensor(base: str) -> None:
    """x op x, and f(x) op x: an operand that is used twice."""
    for op, other in itertools.product(BINARY, (None, *UNARY)):
        b = LayerBuilder(6)
        if base == "convolution":
            x = b.conv(b.input("x", (1, 2, 3, 3), DType.INT8), 5, (1, 2), pad=(0, 0, 0, 1), input_zp=4)
        else:
            x = b.input("x", (1, 2, 3, 5), INT32)
        b.output(step(b, op, x if other is None else step(b, other, x, x), x))
        assert_equal_to_golden(b.finish(), "nano")
