"""Multipliers and shifts that are computed at run time (see `run_time_parameters.py`)."""

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.run_time_arithmetic import (
    along,
    binary,
    cast,
    clamped_result,
    number,
    operand,
    product,
    shifted,
)

_SPLIT = 16
"""A product of up to 63 bits is kept as its low 48 bits, and as what is above this number of bits."""


def multiply(new: Rewriting) -> None:
    (a, b, shift), output = new.operator.inputs, new.operator.outputs[0]
    if new.dtype(a) is DType.INT32:
        cast(new, _scaled(new, a, b, along(new, shift, output)), DType.INT32, output)
    else:
        new.op("MUL", a, b, new.zeros(1, DType.INT8), dtype=DType.INT32, output=output)


def rescale(new: Rewriting) -> None:
    """Zero points first: what is left is rewritten again where its multiplier or shift is computed at run time."""
    known = (new.graph.const(operand(new, name)) is not None for name in ("input_zp", "output_zp"))
    if all(known):
        _scales_per_channel(new)
    else:
        _zero_points_apart(new)


def _zero_points_apart(new: Rewriting) -> None:
    operator, attributes = new.operator, new.operator.attributes
    value, multiplier, shift, _, _ = operator.inputs
    output = operator.outputs[0]
    source, target = new.dtype(value), new.dtype(output)
    origins = {}
    for name, is_unsigned in (
        ("input_zp", attributes["input_unsigned"]),
        ("output_zp", attributes["output_unsigned"]),
    ):
        zero_point = operand(new, name)
        dtype = new.dtype(zero_point)
        if dtype is DType.INT8 or is_unsigned:
            origins[name] = along(new, zero_point, value)
            if is_unsigned:
                origins[name] = _low_bits(new, origins[name], dtype)
    if "input_zp" in origins:
        value = cast(new, value, DType.INT32)
        if attributes["input_unsigned"]:
            value = _low_bits(new, value, source)
        value = binary(new, "SUB", value, origins["input_zp"])
    zeros = new.zeros(1, new.dtype(value)), new.zeros(1, DType.INT32)
    how = {**attributes, "input_unsigned": False, "output_unsigned": False}
    scaled = new.op("RESCALE", value, multiplier, shift, *zeros, dtype=DType.INT32, **how)
    if "output_zp" in origins:
        scaled = binary(new, "ADD", scaled, origins["output_zp"])
    if attributes["output_unsigned"]:
        clamped_result(new, scaled, 0, (1 << target.bits) - 1)
    else:
        clamped_result(new, scaled, target.min, target.max)


def _scales_per_channel(new: Rewriting) -> None:
    """A multiplier of int32 and a shift for each channel, in memory."""
    operator, output = new.operator, new.operator.outputs[0]
    data, multiplier, shift, *zero_points = operator.inputs
    shape = new.shape(data) or (1,)
    scales = [
        cast(
            new,
            binary(new, "BITWISE_OR", cast(new, name, DType.INT32), new.zeros(shape[-1], DType.INT32)),
            dtype,
        )
        for name, dtype in ((multiplier, DType.INT32), (shift, DType.INT8))
    ]
    how = {**operator.attributes, "per_channel": True}
    dtype, whole = new.dtype(output), bool(new.shape(data))
    scaled = new.op(
        "RESCALE",
        new.reshape(data, shape),
        *scales,
        *zero_points,
        dtype=dtype,
        output=output if whole else None,
        **how,
    )
    if not whole:
        new.reshape(scaled, (), output)


def _low_bits(new: Rewriting, value: str, dtype: DType) -> str:
    """The value that an element of an unsigned type has."""
    return binary(new, "BITWISE_AND", value, number(new, (1 << dtype.bits) - 1, value))


def _scaled(new: Rewriting, value: str, multiplier: str, shift: str) -> str:
    """value * multiplier / 2^shift, rounded, int32. The product may have 63 bits, and the vector unit keeps 48: a shift
    below `_SPLIT` acts on the low ones, for then those above are copies of the sign, and any other on the high ones."""
    split, wide = number(new, _SPLIT, value), DType.INT48
    low = binary(new, "BITWISE_AND", value, number(new, (1 << _SPLIT) - 1, value))
    low = cast(new, low, DType.INT32)
    high = shifted(new, value, split)
    carried = shifted(new, product(new, low, multiplier, wide), split)
    above = binary(new, "ADD", product(new, high, multiplier, wide), carried)
    below = product(new, value, multiplier, wide)
    # What a shift by `_SPLIT` rounds by is not in `above`.
    last = binary(
        new, "BITWISE_AND", shifted(new, below, number(new, _SPLIT - 1, value)), number(new, 1, value)
    )
    at_split = cast(new, new.op("EQUAL", shift, number(new, _SPLIT, shift), dtype=DType.BOOL), DType.INT32)
    far = shifted(
        new,
        above,
        binary(
            new,
            "SUB",
            binary(new, "MAXIMUM", shift, number(new, _SPLIT, shift)),
            number(new, _SPLIT, shift),
        ),
        rounded=True,
    )
    far = binary(new, "ADD", far, product(new, last, at_split, DType.INT32))
    near = shifted(new, below, binary(new, "MINIMUM", shift, number(new, _SPLIT - 1, shift)), rounded=True)
    is_far = new.op("GREATER", shift, number(new, _SPLIT - 1, shift), dtype=DType.BOOL)
    return new.op("SELECT", is_far, far, near, dtype=DType.INT32)
