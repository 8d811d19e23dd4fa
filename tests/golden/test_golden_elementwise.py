"""The golden model's elementwise, comparison and table operators against the pseudo-code."""

import numpy as np
import pytest
import tosa_pseudocode as pseudocode
from hypothesis import given
from hypothesis import strategies as st
from integer_arrays import SHAPES, arrays, broadcast_pairs, parameter
from strict_oracle import check, expected_or_none

from tosaic.compiler.ir import DType
from tosaic.sim.golden import evaluate_operator

INTEGERS = [DType.INT8, DType.INT16, DType.INT32]
SCALAR_INT32 = {
    "ADD": lambda a, b: pseudocode.apply_add(a, b, "int32"),
    "SUB": lambda a, b: pseudocode.apply_add(a, -b, "int32"),
    "INTDIV": pseudocode.intdiv,
    "MAXIMUM": max,
    "MINIMUM": min,
}
SCALAR_BITWISE = {
    "BITWISE_AND": lambda a, b: a & b,
    "BITWISE_OR": lambda a, b: a | b,
    "BITWISE_XOR": lambda a, b: a ^ b,
}
SCALAR_BOOL = {
    "LOGICAL_AND": lambda a, b: a and b,
    "LOGICAL_OR": lambda a, b: a or b,
    "LOGICAL_XOR": lambda a, b: a != b,
}
SCALAR_COMPARISON = {
    "EQUAL": lambda a, b: a == b,
    "GREATER": lambda a, b: a > b,
    "GREATER_EQUAL": lambda a, b: a >= b,
}


def expected_by(function, *operands):
    """The oracle's result; None where the specification leaves it open."""
    return expected_or_none(lambda: pseudocode.elementwise(function, *operands))


@pytest.mark.parametrize("op", SCALAR_INT32)
@given(pair=broadcast_pairs(DType.INT32))
def test_int32_arithmetic(op, pair):
    check(op, pair, {}, DType.INT32, expected_by(SCALAR_INT32[op], *pair))


@pytest.mark.parametrize("op", SCALAR_BITWISE)
@given(data=st.data(), dtype=st.sampled_from(INTEGERS))
def test_bitwise(op, data, dtype):
    pair = data.draw(broadcast_pairs(dtype))
    check(op, pair, {}, dtype, pseudocode.elementwise(SCALAR_BITWISE[op], *pair))


@pytest.mark.parametrize("op", SCALAR_BOOL)
@given(pair=broadcast_pairs(DType.BOOL))
def test_logical(op, pair):
    check(op, pair, {}, DType.BOOL, pseudocode.elementwise(SCALAR_BOOL[op], *pair))


@pytest.mark.parametrize("op", SCALAR_COMPARISON)
@given(pair=broadcast_pairs(DType.INT32))
def test_comparison(op, pair):
    check(op, pair, {}, DType.BOOL, pseudocode.elementwise(SCALAR_COMPARISON[op], *pair))


@given(st.data(), st.sampled_from(INTEGERS))
def test_mul_without_shift_gives_the_low_32_bits(data, dtype):
    pair = data.draw(broadcast_pairs(dtype))
    expected = pseudocode.elementwise(lambda a, b: pseudocode.mul(a, b, 0), *pair)
    check("MUL", [*pair, parameter(0, DType.INT8)], {}, DType.INT32, expected)


@given(broadcast_pairs(DType.INT32), st.integers(1, 63))
def test_mul_with_shift_rounds_half_up(pair, shift):
    expected = expected_by(lambda a, b: pseudocode.mul(a, b, shift), *pair)
    check("MUL", [*pair, parameter(shift, DType.INT8)], {}, DType.INT32, expected)


@given(st.data(), st.sampled_from(INTEGERS), st.booleans())
def test_arithmetic_right_shift(data, dtype, rounded):
    value, shift = data.draw(broadcast_pairs(dtype))
    shift = shift & data.draw(st.sampled_from([dtype.bits - 1, -1]))
    kind = dtype.name.lower()
    expected = expected_by(lambda a, b: pseudocode.arithmetic_right_shift(a, b, rounded, kind), value, shift)
    check("ARITHMETIC_RIGHT_SHIFT", [value, shift], {"round": rounded}, dtype, expected)


@given(st.data(), st.sampled_from(INTEGERS))
def test_logical_left_shift_up_to_31_for_every_type(data, dtype):
    value, shift = data.draw(broadcast_pairs(dtype))
    shift = shift & data.draw(st.sampled_from([31, -1]))
    kind = dtype.name.lower()
    expected = expected_by(lambda a, b: pseudocode.logical_left_shift(a, b, kind), value, shift)
    check("LOGICAL_LEFT_SHIFT", [value, shift], {}, dtype, expected)


@given(st.data(), st.sampled_from(INTEGERS))
def test_logical_right_shift_works_on_the_width_of_the_type(data, dtype):
    value, shift = data.draw(broadcast_pairs(dtype))
    shift = shift & data.draw(st.sampled_from([31, -1]))
    kind = dtype.name.lower()
    expected = expected_by(lambda a, b: pseudocode.logical_right_shift(a, b, kind), value, shift)
    check("LOGICAL_RIGHT_SHIFT", [value, shift], {}, dtype, expected)


@given(arrays(DType.INT8, SHAPES), arrays(DType.INT8, (256,)))
def test_table_of_256(value, table):
    expected = pseudocode.elementwise(lambda v: int(table[v + 128]), value)
    check("TABLE", [value, table], {}, DType.INT8, expected)


@given(arrays(DType.INT16, SHAPES), st.integers(0, 2**32 - 1))
def test_table_of_513_interpolates(value, seed):
    table = np.random.default_rng(seed).integers(-16400, 16400, 513).astype(np.int16)
    entries = [int(entry) for entry in table]
    expected = expected_by(lambda v: pseudocode.apply_lookup(entries, v), value)
    check("TABLE", [value, table], {}, DType.INT32, expected)


@given(arrays(DType.INT32, SHAPES))
def test_clz(value):
    expected = pseudocode.elementwise(pseudocode.count_leading_zeros, value)
    check("CLZ", [value], {}, DType.INT32, expected)


@pytest.mark.parametrize(("value", "zeros"), [(0, 32), (1, 31), (-1, 0), (2**31 - 1, 1), (-(2**31), 0)])
def test_clz_of_the_borders(value, zeros):
    (result,) = evaluate_operator("CLZ", [np.array([value], dtype=np.int32)], {}, [DType.INT32])
    assert result.tolist() == [zeros]


@given(arrays(DType.INT32, SHAPES))
def test_abs(value):
    expected = expected_by(lambda v: pseudocode.apply_add(0, abs(v), "int32"), value)
    check("ABS", [value], {}, DType.INT32, expected)


@given(st.data(), st.sampled_from(INTEGERS))
def test_bitwise_not(data, dtype):
    value = data.draw(arrays(dtype, SHAPES))
    check("BITWISE_NOT", [value], {}, dtype, pseudocode.elementwise(lambda a: ~a, value))


@given(arrays(DType.BOOL, SHAPES))
def test_logical_not(value):
    check("LOGICAL_NOT", [value], {}, DType.BOOL, pseudocode.elementwise(lambda a: not a, value))


@given(st.data(), st.sampled_from(INTEGERS))
def test_negate(data, dtype):
    value = data.draw(arrays(dtype, SHAPES))
    zero_points = st.integers(-128, 127) if dtype is DType.INT8 else st.just(0)
    input1_zp, output_zp = data.draw(zero_points), data.draw(zero_points)
    kind = dtype.name.lower()
    expected = expected_by(lambda v: pseudocode.negate(v, input1_zp, output_zp, kind), value)
    check("NEGATE", [value, parameter(input1_zp, dtype), parameter(output_zp, dtype)], {}, dtype, expected)


@given(st.data(), st.sampled_from([DType.INT8, DType.INT16]))
def test_clamp(data, dtype):
    value = data.draw(arrays(dtype, SHAPES))
    low, high = sorted(data.draw(st.lists(st.integers(dtype.min, dtype.max), min_size=2, max_size=2)))
    expected = pseudocode.elementwise(lambda v: pseudocode.apply_clip(v, low, high), value)
    check("CLAMP", [value], {"min_val": low, "max_val": high}, dtype, expected)


@given(st.data(), st.sampled_from([DType.BOOL, *INTEGERS]))
def test_select(data, dtype):
    condition, _, _ = triple = data.draw(broadcast_pairs(DType.BOOL, 3))
    left, right = (data.draw(arrays(dtype, x.shape)) for x in triple[1:])
    expected = pseudocode.elementwise(lambda c, a, b: a if c else b, condition, left, right)
    check("SELECT", [condition, left, right], {}, dtype, expected)


def test_unpredictable_results_do_not_raise():
    low = np.array([-(1 << 31)], dtype=np.int32)
    zero, minus_one = np.zeros(1, dtype=np.int32), np.array([-1], dtype=np.int32)
    assert evaluate_operator("INTDIV", [low, zero], {}, [DType.INT32])[0].tolist() == [-1]
    assert evaluate_operator("INTDIV", [low, minus_one], {}, [DType.INT32])[0].tolist() == [-(1 << 31)]
    assert evaluate_operator("ADD", [low, minus_one], {}, [DType.INT32])[0].tolist() == [(1 << 31) - 1]
    assert evaluate_operator("ABS", [low], {}, [DType.INT32])[0].tolist() == [-(1 << 31)]
    square = evaluate_operator("MUL", [low, low, parameter(63, DType.INT8)], {}, [DType.INT32])
    assert square[0].tolist() == [1]
