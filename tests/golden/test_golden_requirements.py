"""Strict golden: every REQUIRE of an integer operator is an error that names operator, rule, element and value.

Each case is one REQUIRE, in the order of docs/golden.md.
"""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from control_flow_graphs import choice, graph, tensor

from tosaic.compiler.ir import DType, Operator
from tosaic.errors import UnpredictableError
from tosaic.sim.golden import evaluate, evaluate_operator, strictly
from tosaic.sim.golden.arithmetic import apply_scale_16, apply_scale_32

LOW, HIGH = -(1 << 31), (1 << 31) - 1
SINGLE = {"scale32": True, "rounding_mode": "SINGLE_ROUND", "per_channel": False}
FLAT = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}


def int8(*values):
    return np.array(values, np.int8)


def int16(*values):
    return np.array(values, np.int16)


def int32(*values):
    return np.array(values, np.int32)


def channels(count, value):
    """[1, 1, 1, count] of one value."""
    return np.full((1, 1, 1, count), value, np.int8)


def rescale(value, multiplier, shift, zero_points=(0, 0), **attributes):
    """Operands and attributes of RESCALE from and to the type of `value`."""
    kind = value.dtype.type
    zps = [np.array([zp], kind) for zp in zero_points]
    return [value, int32(multiplier), int8(shift), *zps], SINGLE | attributes


SLOPE = np.zeros(513, np.int16)
SLOPE[256:258] = -20000, 20000
# 33,026 products of 255 * 255 are the first that int32 does not hold, 33,025 * 65,025 is 2,147,450,625.
MANY, LAST = 33_026, 33_026 * 65_025
MINUS, ZP = -128, int8(127)
MAP3 = np.zeros((1, 3, 1), np.int8)
INT32, INT8 = DType.INT32, DType.INT8
CASES = {
    "CONV2D sum": (
        ("CONV2D", [channels(MANY, MINUS)] * 2 + [int32(0), ZP, ZP], FLAT, INT32),
        ("each partial sum lies in the range of int32", [0, 0, 0, 0], LAST),
    ),
    "CONV2D bias": (
        ("CONV2D", [channels(1, 1), channels(1, 1), int32(HIGH), int8(0), int8(0)], FLAT, INT32),
        ("the sum with the bias lies in the range of int32", [0, 0, 0, 0], HIGH + 1),
    ),
    "CONV3D sum": (
        (
            "CONV3D",
            [channels(MANY, MINUS)[None]] * 2 + [int32(0), ZP, ZP],
            {"pad": [0] * 6, "stride": [1] * 3, "dilation": [1] * 3},
            INT32,
        ),
        ("each partial sum lies in the range of int32", [0, 0, 0, 0, 0], LAST),
    ),
    "CONV3D bias": (
        (
            "CONV3D",
            [channels(1, 1)[None], channels(1, -1)[None], int32(LOW), int8(0), int8(0)],
            {"pad": [0] * 6, "stride": [1] * 3, "dilation": [1] * 3},
            INT32,
        ),
        ("the sum with the bias lies in the range of int32", [0, 0, 0, 0, 0], LOW - 1),
    ),
    "DEPTHWISE_CONV2D sum": (
        (
            "DEPTHWISE_CONV2D",
            [channels(MANY, MINUS).reshape(1, 1, -1, 1), channels(MANY, MINUS).reshape(1, -1, 1, 1)]
            + [int32(0), ZP, ZP],
            FLAT,
            INT32,
        ),
        ("each partial sum lies in the range of int32", [0, 0, 0, 0], LAST),
    ),
    "DEPTHWISE_CONV2D bias": (
        (
            "DEPTHWISE_CONV2D",
            [channels(2, 1), channels(2, 1).reshape(1, 1, 2, 1)] + [int32(0, HIGH), int8(0), int8(0)],
            FLAT,
            INT32,
        ),
        ("the sum with the bias lies in the range of int32", [0, 0, 0, 1], HIGH + 1),
    ),
    "FULLY_CONNECTED sum": (
        ("FULLY_CONNECTED", [channels(MANY, MINUS)[0, 0]] * 2 + [int32(0), ZP, ZP], {}, INT32),
        ("each partial sum lies in the range of int32", [0, 0], LAST),
    ),
    "FULLY_CONNECTED bias": (
        ("FULLY_CONNECTED", [int8([1]), int8([1], [-1]), int32(0, LOW), int8(0), int8(0)], {}, INT32),
        ("the sum with the bias lies in the range of int32", [0, 1], LOW - 1),
    ),
    "TRANSPOSE_CONV2D sum": (
        (
            "TRANSPOSE_CONV2D",
            # The bias comes first, so 2^31-1 + 1 - 1 overflows on the way.
            [int8(1, 1).reshape(1, 1, 1, 2), int8(1, -1).reshape(1, 1, 1, 2), int32(HIGH), int8(0), int8(0)],
            {"out_pad": [0] * 4, "stride": [1, 1]},
            INT32,
        ),
        ("each partial sum lies in the range of int32", [0, 0, 0, 0], HIGH + 1),
    ),
    "MATMUL sum": (
        ("MATMUL", [channels(MANY, MINUS)[0], channels(MANY, MINUS)[0].reshape(1, -1, 1), ZP, ZP], {}, INT32),
        ("each partial sum lies in the range of int32", [0, 0, 0], LAST),
    ),
    "AVG_POOL2D sum": (
        (
            "AVG_POOL2D",
            [np.full((1, 1, 65_537, 1), -32768, np.int16), int16(0), int16(0)],
            {"kernel": [1, 65_537], "stride": [1, 1], "pad": [0] * 4},
            DType.INT16,
        ),
        ("each partial sum lies in the range of int32", [0, 0, 0, 0], -65_537 * 32_768),
    ),
    "AVG_POOL2D window": (
        (
            "AVG_POOL2D",
            [channels(1, 1), int8(0), int8(0)],
            {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 1]},
            INT8,
        ),
        ("the divisor is above 0", [0, 0, 1, 0], 0),
    ),
    "ADD": (
        ("ADD", [int32([1, HIGH]), int32([1])], {}, INT32),
        ("the sum lies in the range of int32", [0, 1], HIGH + 1),
    ),
    "SUB": (
        ("SUB", [int32(0, LOW), int32(0, 1)], {}, INT32),
        ("the difference lies in the range of int32", [1], LOW - 1),
    ),
    "ABS": (
        ("ABS", [int32(LOW)], {}, INT32),
        ("the absolute value lies in the range of int32", [0], HIGH + 1),
    ),
    "NEGATE": (
        ("NEGATE", [int32(0, LOW), int32(0), int32(0)], {}, INT32),
        ("the negated value lies in the range of int32", [1], HIGH + 1),
    ),
    "ARITHMETIC_RIGHT_SHIFT": (
        ("ARITHMETIC_RIGHT_SHIFT", [int32([5], [6]), int32([31, 32])], {"round": True}, INT32),
        ("the shift lies in 0..31", [0, 1], 32),
    ),
    "ARITHMETIC_RIGHT_SHIFT int16": (
        ("ARITHMETIC_RIGHT_SHIFT", [int16(5), int16(16)], {"round": False}, DType.INT16),
        ("the shift lies in 0..15", [0], 16),
    ),
    "ARITHMETIC_RIGHT_SHIFT int8": (
        ("ARITHMETIC_RIGHT_SHIFT", [int8(5), int8(8)], {"round": False}, INT8),
        ("the shift lies in 0..7", [0], 8),
    ),
    "LOGICAL_LEFT_SHIFT": (
        ("LOGICAL_LEFT_SHIFT", [int8(5, 5), int8(31, 32)], {}, INT8),
        ("the shift lies in 0..31", [1], 32),
    ),
    "LOGICAL_RIGHT_SHIFT": (
        ("LOGICAL_RIGHT_SHIFT", [int16(5, 5), int16(31, -1)], {}, DType.INT16),
        ("the shift lies in 0..31", [1], -1),
    ),
    "INTDIV": (
        ("INTDIV", [int32([1], [2]), int32([3, 0])], {}, INT32),
        ("the divisor is not 0", [0, 1], 0),
    ),
    "INTDIV minimum": (
        ("INTDIV", [int32(LOW), int32(-1)], {}, INT32),
        ("the quotient lies in the range of int32", [0], HIGH + 1),
    ),
    "MUL": (
        ("MUL", [int32(1, 1 << 30), int32(4), int8(1)], {}, INT32),
        ("the shifted product lies in the range of int32", [1], 1 << 31),
    ),
    "MUL int64": (
        ("MUL", [int32(LOW), int32(1, LOW), int8(63)], {}, INT32),
        ("product and rounding together lie in int64", [1], 1 << 62),
    ),
    "TABLE": (
        ("TABLE", [int16(-128, 0), SLOPE], {}, INT32),
        ("the difference of two neighbouring entries lies in the range of int16", [1], 40_000),
    ),
    "REDUCE_SUM": (
        ("REDUCE_SUM", [int32([1, 2], [HIGH, 3], [-1, 4])], {"axis": 0}, INT32),
        ("each partial sum lies in the range of int32", [1, 0], HIGH + 1),
    ),
    "GATHER": (
        ("GATHER", [MAP3, int32([2, 3])], {}, INT8),
        ("the index lies in 0..2", [0, 1], 3),
    ),
    "SCATTER": (
        ("SCATTER", [MAP3, int32([2, -1]), MAP3[:, :2]], {}, INT8),
        ("the index lies in 0..2", [0, 1], -1),
    ),
    "SCATTER twice": (
        ("SCATTER", [MAP3, int32([2, 1, 2]), MAP3], {}, INT8),
        ("no index comes twice in a batch", [0, 2], 2),
    ),
    "RESIZE": (
        (
            "RESIZE",
            [channels(1, 1), *(np.array(v, np.int64) for v in ([1, 1, 1, 1], [-2, 0], [-2, 0]))],
            {"mode": "NEAREST"},
            INT8,
        ),
        ("the input index of an output row or column lies in -1..0", [0], -2),
    ),
    "RESCALE multiplier": (
        ("RESCALE", *rescale(int32(1), -1, 30), INT32),
        ("the multiplier is at least 0", [], -1),
    ),
    "RESCALE shift": (
        ("RESCALE", *rescale(int32(1), 1, 63), INT32),
        ("the shift lies in 2..62", [], 63),
    ),
    "RESCALE value": (
        ("RESCALE", *rescale(int32(511, 512), 1, 10), INT32),
        ("the value to scale lies in -2^(shift-1) .. 2^(shift-1)-1", [1], 512),
    ),
    "RESCALE 16": (
        ("RESCALE", *rescale(np.array([0, 1 << 40], np.int64), 1 << 14, 14, scale32=False), INT32),
        ("the scaled value lies in the range of int32", [1], 1 << 40),
    ),
    "RESCALE zero point": (
        ("RESCALE", *rescale(np.array([HIGH], np.int64), 1 << 14, 14, (0, 1), scale32=False), INT8),
        ("the scaled value with the zero point lies in the range of int32", [0], HIGH + 1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_broken_requirement_is_named(name):
    (op, operands, attributes, out_t), (rule, element, value) = CASES[name]
    message = (
        f"{op}_0: unpredictable by the specification: it requires that {rule}; "
        f"at element {element} it is {value}"
    )
    with strictly(), pytest.raises(UnpredictableError, match=f"^{re.escape(message)}$"):
        evaluate_operator(op, operands, attributes, [out_t], label=f"{op}_0")


@pytest.mark.parametrize("name", [name for name in CASES if name != "AVG_POOL2D window"])
def test_it_is_no_error_otherwise(name):
    (op, operands, attributes, out_t), _ = CASES[name]
    with np.errstate(all="raise"):
        (result,) = evaluate_operator(op, operands, attributes, [out_t])
    assert result.dtype == out_t.numpy


def test_the_table_of_the_documentation():
    """docs/golden.md has a row for every rule of every operator."""
    page = (Path(__file__).parents[2] / "docs" / "golden.md").read_text()
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| ")]
    documented = [(op.strip(), rule.strip()) for ops, rule in rows for op in ops.split(",")]
    for (op, *_), (rule, _, _) in CASES.values():
        # The last word is a number or a type of the case.
        beginning = rule.rsplit(" ", 1)[0]
        assert [text for name, text in documented if name == op and text.startswith(beginning)], (op, rule)


def test_the_order_of_sums_counts():
    """Bias and products fit together; only a sum on the way does not."""
    case = CASES["TRANSPOSE_CONV2D sum"][0]
    assert evaluate_operator(*case[:3], [case[3]])[0].item() == HIGH


def test_a_graph_in_strict_mode():
    tensors = [tensor("a"), tensor("one", (1,), data=[1]), tensor("b")]
    g = graph("g", ["a"], ["b"], tensors, [Operator("ADD", ["a", "one"], ["b"], {}, "ADD_0")])
    assert evaluate(g, {"a": int32(1, 2)}, strict=True)["b"].tolist() == [2, 3]
    assert evaluate(g, {"a": int32(1, HIGH)})["b"].tolist() == [2, LOW]
    with pytest.raises(
        UnpredictableError, match=r"^ADD_0.*the sum lies in the range of int32; at element \[1\]"
    ):
        evaluate(g, {"a": int32(1, HIGH)}, strict=True)
    assert evaluate(g, {"a": int32(1, HIGH)})["b"].tolist() == [2, LOW]


def test_a_branch_that_is_not_taken_breaks_nothing():
    """The branch adds 1 or subtracts 1."""
    low = {"flag": np.array(True), "a": int32(LOW, 0)}
    assert evaluate(choice(()), low, strict=True)["z"].dtype == np.int32
    with pytest.raises(UnpredictableError, match="range of int32"):
        evaluate(choice(()), low | {"flag": np.array(False)}, strict=True)


def test_what_lies_just_inside_is_allowed():
    with strictly():
        (total,) = evaluate_operator("ADD", [int32(LOW + 1, HIGH - 1), int32(-1, 1)], {}, [INT32])
        assert total.tolist() == [LOW, HIGH]
        for multiplier, shift, value in ((3, 2, 1), (HIGH, 62, HIGH)):
            operands, attributes = rescale(int32(value), multiplier, shift)
            (scaled,) = evaluate_operator("RESCALE", operands, attributes, [INT32])
            assert scaled.item() == 1


@pytest.mark.parametrize("shift", [2, 3, 31, 32, 40, 62])
def test_the_values_that_a_scale_of_32_bits_takes(shift):
    """Half of 2^shift either way, but not itself above."""
    half, one = 1 << (shift - 1), np.int64(1)

    def scaled(value):
        with strictly():
            return apply_scale_32(np.array([value]), one, np.int64(shift), double_round=False)

    for value in (-half, half - 1, 0, -1):
        assert scaled(value).tolist() == [(value + half) >> shift]
    for value in (-half - 1, half):
        with pytest.raises(UnpredictableError, match="the value to scale lies in"):
            scaled(value)


@pytest.mark.parametrize("scale", [partial(apply_scale_32, double_round=True), apply_scale_16])
@pytest.mark.parametrize(
    "multiplier, shift, rule",
    [
        (0, 2, None),
        (1, 62, None),
        (-1, 9, "the multiplier is at least 0"),
        (1, 1, "the shift lies in 2..62"),
        (1, 63, "the shift lies in 2..62"),
    ],
)
def test_multipliers_and_shifts_that_a_scale_takes(scale, multiplier, shift, rule):
    operands = np.array([1]), np.int64(multiplier), np.int64(shift)
    with strictly():
        if rule is None:
            assert scale(*operands).tolist() == [0]
        else:
            with pytest.raises(UnpredictableError, match=rule):
                scale(*operands)


@pytest.mark.parametrize(
    "value, multiplier, shift, result",
    [
        (5, 3, 63, 0),
        (-5, 3, 63, 0),
        (LOW, HIGH, 63, 0),
        (LOW, LOW, 63, 1),
        (7, 3, 0, 21),
        (7, 3, 1, 11),
        (7, 3, -1, 0),
    ],
)
def test_shifts_that_no_scale_takes(value, multiplier, shift, result):
    """Their low 6 bits count. Sums do not wrap: (2^62 + 2^62) >> 63 is 1."""
    operands = np.array([value]), np.int64(multiplier), np.int64(shift)
    assert apply_scale_32(*operands, double_round=False).tolist() == [result]


@pytest.mark.parametrize(
    "value, multiplier, shift, result",
    [
        (5, 3, 63, 0),
        (-5, 3, 63, 0),
        (-(1 << 47), -(1 << 15), 63, 1),
        (7, 3, 0, 21),
        (7, 3, 1, 11),
        (7, 3, -1, 0),
    ],
)
def test_shifts_that_no_scale_of_16_bits_takes(value, multiplier, shift, result):
    operands = np.array([value]), np.int64(multiplier), np.int64(shift)
    assert apply_scale_16(*operands).tolist() == [result]


@pytest.mark.parametrize("shift", [2, 5, 16])
def test_what_a_scale_of_16_bits_makes_fits_int32(shift):
    def scaled(value):
        with strictly():
            return apply_scale_16(np.array([value]), np.int64(1), np.int64(shift)).tolist()

    half = 1 << (shift - 1)
    assert scaled((HIGH << shift) + half - 1) == [HIGH]
    assert scaled((LOW << shift) - half) == [LOW]
    for value in ((HIGH << shift) + half, (LOW << shift) - half - 1):
        with pytest.raises(UnpredictableError, match="the scaled value"):
            scaled(value)
