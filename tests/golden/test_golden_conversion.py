"""The golden model's CAST and RESCALE against the pseudo-code."""

import numpy as np
import pytest
import tosa_pseudocode as pseudocode
from hypothesis import assume, given
from hypothesis import strategies as st
from integer_arrays import SHAPES, arrays, parameter
from strict_oracle import check

from tosaic.compiler.ir import DType
from tosaic.sim.golden import evaluate_operator

INTEGERS = [DType.INT8, DType.INT16, DType.INT32]
# (input, output, input_unsigned, output_unsigned): the pairs of 0.30 and the two that 1.0 adds.
SIGNED_PAIRS = [(i, o, False, False) for i in (*INTEGERS, DType.INT48) for o in INTEGERS]
UNSIGNED_PAIRS = [
    (i, o, *unsigned)
    for i in (DType.INT8, DType.INT16)
    for o in (DType.INT8, DType.INT16)
    for unsigned in ((True, False), (False, True))
]


@given(st.data(), st.sampled_from([DType.BOOL, *INTEGERS]), st.sampled_from([DType.BOOL, *INTEGERS]))
def test_cast(data, in_t, out_t):
    value = data.draw(arrays(in_t, SHAPES))
    if out_t is DType.BOOL:
        expected = pseudocode.elementwise(lambda v: v != 0, value)
    else:
        expected = pseudocode.elementwise(lambda v: pseudocode.truncate(v, out_t.name.lower()), value)
    (result,) = evaluate_operator("CAST", [value], {}, [out_t])
    assert result.dtype == out_t.numpy
    np.testing.assert_array_equal(result, expected)


def zero_points(dtype, unsigned):
    """(value, bit pattern in the signed type) of the zero points that TOSA allows."""
    if dtype is DType.INT8:
        allowed = st.integers(0, 255) if unsigned else st.integers(-128, 127)
    else:
        allowed = st.sampled_from([0, 32768] if unsigned and dtype is DType.INT16 else [0])
    kind = dtype.name.lower()
    return allowed.map(lambda zp: (zp, pseudocode.truncate(zp, kind) if dtype.bits < 48 else zp))


@st.composite
def scales(draw, scale32, count):
    """Multipliers and shifts, normalised ones and any."""
    top = (1 << 31) - 1 if scale32 else (1 << 15) - 1
    multipliers = st.one_of(st.integers((top + 1) // 2, top), st.integers(0, top))
    return (
        draw(st.lists(multipliers, min_size=count, max_size=count)),
        draw(st.lists(st.integers(2, 62), min_size=count, max_size=count)),
    )


def as_read(values, unsigned, dtype):
    return values.astype(np.int64) & ((1 << dtype.bits) - 1) if unsigned else values.astype(np.int64)


@given(
    st.data(),
    st.sampled_from([*SIGNED_PAIRS, *UNSIGNED_PAIRS]),
    st.sampled_from(
        [(True, "SINGLE_ROUND"), (True, "DOUBLE_ROUND"), (True, "INEXACT_ROUND"), (False, "SINGLE_ROUND")]
    ),
    st.booleans(),
)
def test_rescale(data, types, mode, per_channel):
    in_t, out_t, input_unsigned, output_unsigned = types
    scale32, rounding_mode = mode
    assume(not (scale32 and in_t is DType.INT48))
    shape = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple))
    channels = shape[-1] if per_channel else 1
    multiplier, shift = data.draw(scales(scale32, channels))
    value = data.draw(arrays(in_t, shape))
    # Shrink the values of wide types so that not every example is outside the range of the shift.
    value = value >> data.draw(st.integers(0, in_t.bits - 2))
    input_zp, input_zp_bits = data.draw(zero_points(in_t, input_unsigned))
    output_zp, output_zp_bits = data.draw(zero_points(out_t, output_unsigned))
    out_kind = ("u" if output_unsigned else "") + out_t.name.lower()
    expected = np.empty(shape, dtype=np.int64)
    read = as_read(value, input_unsigned, in_t)
    try:
        for index in np.ndindex(shape):
            c = index[-1] if per_channel else 0
            expected[index] = pseudocode.rescale(
                int(read[index]),
                multiplier[c],
                shift[c],
                input_zp,
                output_zp,
                scale32=scale32,
                double_round=rounding_mode == "DOUBLE_ROUND",
                out=out_kind,
            )
    except pseudocode.Unpredictable:
        expected = None
    operands = [
        value,
        np.array(multiplier, dtype=np.int32 if scale32 else np.int16),
        np.array(shift, dtype=np.int8),
        parameter(input_zp_bits, in_t),
        parameter(output_zp_bits, out_t),
    ]
    attributes = {
        "scale32": scale32,
        "rounding_mode": rounding_mode,
        "per_channel": per_channel,
        "input_unsigned": input_unsigned,
        "output_unsigned": output_unsigned,
    }
    if expected is not None:
        expected = expected.astype(f"u{out_t.numpy.itemsize}").view(out_t.numpy)
    check("RESCALE", operands, attributes, out_t, expected)


def rescale_one(value, multiplier, shift, rounding_mode):
    operands = [
        np.array([value], dtype=np.int32),
        np.array([multiplier], dtype=np.int32),
        np.array([shift], dtype=np.int8),
        parameter(0, DType.INT32),
        parameter(0, DType.INT32),
    ]
    attributes = {
        "scale32": True,
        "rounding_mode": rounding_mode,
        "per_channel": False,
        "input_unsigned": False,
        "output_unsigned": False,
    }
    return evaluate_operator("RESCALE", operands, attributes, [DType.INT32])[0].item()


@pytest.mark.parametrize(("value", "rounded"), [(1, 1), (-1, 0), (3, 2), (-3, -1)])
def test_single_rounding_sends_ties_up(value, rounded):
    assert rescale_one(value, 1 << 30, 31, "SINGLE_ROUND") == rounded


def test_double_rounding_acts_above_shift_31():
    # -2 * 2^-2 is a tie: single rounding sends it up, double rounding away from zero.
    multiplier = 1 << 30
    assert rescale_one(-2, multiplier, 32, "SINGLE_ROUND") == 0
    assert rescale_one(-2, multiplier, 32, "DOUBLE_ROUND") == -1
    assert rescale_one(-3, multiplier, 31, "SINGLE_ROUND") == -1
    assert rescale_one(-3, multiplier, 31, "DOUBLE_ROUND") == -1
