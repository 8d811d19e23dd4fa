"""Activation functions, elementwise operators and comparisons (2.4 - 2.8)."""

from typing import Any

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.operators.common import (
    BOOL_MODES,
    FLOAT_MODES,
    INT32_MODES,
    INTEGER_MODES,
    NAN_MODE,
    OUTPUT,
    broadcast,
    shape_of,
    unary,
    zero_point,
    zero_point_needs_int8,
)
from tosaic.compiler.ir.operators.spec import Attribute, Mode, Operand, OperatorSpec, OpView, Shape, modes
from tosaic.compiler.ir.operators.traits import BY_ELEMENT, NO_TRAIT, Trait


def clamp_bounds_ordered(node: OpView) -> str | None:
    """max_val must not be less than min_val."""
    low, high = node.attribute("min_val"), node.attribute("max_val")
    return f"min_val {low} and max_val {high}" if high < low else None


def clamp_bounds_are_numbers(node: OpView) -> str | None:
    """min_val and max_val must not be NaN."""
    low, high = node.attribute("min_val"), node.attribute("max_val")
    return f"min_val {low} and max_val {high}" if low != low or high != high else None


def clamp_bounds_in_range(node: OpView) -> str | None:
    """min_val and max_val must be values of the input's type."""
    dtype = node.dtype("input")
    if not dtype.is_integer:
        return None
    bounds = (node.attribute("min_val"), node.attribute("max_val"))
    if all(dtype.min <= bound <= dtype.max for bound in bounds):
        return None
    return f"min_val {bounds[0]} and max_val {bounds[1]} for {dtype.spelling}"


def mul_shift_needs_int32(node: OpView) -> str | None:
    """shift must be 0 unless the inputs are int32_t."""
    shift = node.value("shift")
    if shift is None or node.dtype("input1") is DType.INT32 or not shift.any():
        return None
    return f"shift {int(shift.reshape(-1)[0])} for {node.dtype('input1').spelling}"


def mul_shift_in_range(node: OpView) -> str | None:
    """shift must be in the range 0 to 63."""
    shift = node.value("shift")
    if shift is None or 0 <= int(shift.reshape(-1)[0]) <= 63:
        return None
    return f"shift {int(shift.reshape(-1)[0])}"


def table_length(node: OpView) -> str | None:
    """table must have 256 elements for int8_t and 513 for int16_t."""
    (length,) = node.shape("table")
    wanted = {DType.INT8: 256, DType.INT16: 513}.get(node.dtype("input1"))
    return None if length == wanted else f"{length} elements for {node.dtype('input1').spelling}"


def _binary_shape(node: OpView) -> list[Shape]:
    return [broadcast(node, "input1", "input2")]


def _select_shape(node: OpView) -> list[Shape]:
    return [broadcast(node, "input1", "input2", "input3")]


def _unary(
    name: str,
    clause: str,
    category: str,
    rows: tuple[Mode, ...],
    operand: str = "input1",
    traits: Trait = NO_TRAIT,
    **more: Any,
) -> OperatorSpec:
    traits |= BY_ELEMENT
    return OperatorSpec(
        name, clause, category, unary(operand), OUTPUT, rows, shape_of(operand), traits=traits, **more
    )


def _binary(
    name: str, clause: str, rows: tuple[Mode, ...], traits: Trait = NO_TRAIT, **more: Any
) -> OperatorSpec:
    traits |= BY_ELEMENT
    operands = (Operand("input1", "in_out_t", shape="shape1"), Operand("input2", "in_out_t", shape="shape2"))
    return OperatorSpec(
        name, clause, "elementwise binary", operands, OUTPUT, rows, _binary_shape, traits=traits, **more
    )


def _comparison(name: str, clause: str) -> OperatorSpec:
    operands = (Operand("input1", "in_t", shape="shape1"), Operand("input2", "in_t", shape="shape2"))
    rows = modes("in_t out_t", "int32 bool", "fp16 bool: PRO-FP", "bf16 bool: EXT-BF16", "fp32 bool: PRO-FP")
    return OperatorSpec(
        name,
        clause,
        "comparison",
        operands,
        (Operand("output", "out_t"),),
        rows,
        _binary_shape,
        traits=BY_ELEMENT | Trait.COMPARES,
        degree=0,
    )


_ACTIVATION, _UNARY = "activation", "elementwise unary"

SPECS = (
    _unary(
        "CLAMP",
        "2.4.1",
        _ACTIVATION,
        modes("in_out_t", "int8", "int16: EXT-INT16") + FLOAT_MODES,
        "input",
        attributes=(Attribute("min_val", "number"), Attribute("max_val", "number"), NAN_MODE),
        checks=(clamp_bounds_ordered, clamp_bounds_are_numbers, clamp_bounds_in_range),
        traits=Trait.BOUNDS,
    ),
    _unary("SIGMOID", "2.4.2", _ACTIVATION, FLOAT_MODES, "input"),
    _unary("TANH", "2.4.3", _ACTIVATION, FLOAT_MODES, "input"),
    _unary("ERF", "", _ACTIVATION, FLOAT_MODES, "input", versions=("1.0",)),
    _binary("ADD", "2.5.1", INT32_MODES, Trait.LINEAR, degree=1),
    _binary("ARITHMETIC_RIGHT_SHIFT", "2.5.2", INTEGER_MODES, attributes=(Attribute("round", "bool"),)),
    _binary("BITWISE_AND", "2.5.3", INTEGER_MODES),
    _binary("BITWISE_OR", "2.5.4", INTEGER_MODES),
    _binary("BITWISE_XOR", "2.5.5", INTEGER_MODES),
    _binary("INTDIV", "2.5.6", modes("in_out_t", "int32")),
    _binary("LOGICAL_AND", "2.5.7", BOOL_MODES),
    _binary("LOGICAL_LEFT_SHIFT", "2.5.8", INTEGER_MODES),
    _binary("LOGICAL_RIGHT_SHIFT", "2.5.9", INTEGER_MODES),
    _binary("LOGICAL_OR", "2.5.10", BOOL_MODES),
    _binary("LOGICAL_XOR", "2.5.11", BOOL_MODES),
    _binary("MAXIMUM", "2.5.12", INT32_MODES, Trait.BOUNDS, degree=1, attributes=(NAN_MODE,)),
    _binary("MINIMUM", "2.5.13", INT32_MODES, Trait.BOUNDS, degree=1, attributes=(NAN_MODE,)),
    OperatorSpec(
        "MUL",
        "2.5.14",
        "elementwise binary",
        (
            Operand("input1", "in_t", shape="shape1"),
            Operand("input2", "in_t", shape="shape2"),
            Operand("shift", DType.INT8, (1, 1), "[1]", constant=True),
        ),
        (Operand("output", "out_t"),),
        modes(
            "in_t out_t",
            "int8 int32",
            "int16 int32",
            "int32 int32",
            "fp16 fp16: PRO-FP",
            "bf16 bf16: EXT-BF16",
            "fp32 fp32: PRO-FP",
        ),
        _binary_shape,
        (),
        (mul_shift_needs_int32, mul_shift_in_range),
        traits=BY_ELEMENT | Trait.LINEAR,
        degree=2,
    ),
    _binary("POW", "2.5.15", FLOAT_MODES),
    _binary("SUB", "2.5.16", INT32_MODES, Trait.LINEAR, degree=1),
    OperatorSpec(
        "TABLE",
        "2.5.17",
        "elementwise binary",
        (Operand("input1", "in_t"), Operand("table", "table_t", (1, 1), "[TABLE_SIZE]", constant=True)),
        (Operand("output", "out_t"),),
        modes("in_t table_t out_t", "int8 int8 int8", "int16 int16 int32: EXT-INT16"),
        shape_of("input1"),
        (),
        (table_length,),
        traits=BY_ELEMENT,
    ),
    _unary("ABS", "2.6.1", _UNARY, INT32_MODES, degree=1),
    _unary("BITWISE_NOT", "2.6.2", _UNARY, INTEGER_MODES),
    _unary("CEIL", "2.6.3", _UNARY, FLOAT_MODES),
    _unary("CLZ", "2.6.4", _UNARY, modes("in_out_t", "int32")),
    _unary("COS", "", _UNARY, FLOAT_MODES, versions=("1.0",)),
    _unary("EXP", "2.6.5", _UNARY, FLOAT_MODES),
    _unary("FLOOR", "2.6.6", _UNARY, FLOAT_MODES),
    _unary("LOG", "2.6.7", _UNARY, FLOAT_MODES),
    _unary("LOGICAL_NOT", "2.6.8", _UNARY, BOOL_MODES),
    OperatorSpec(
        "NEGATE",
        "2.6.9",
        _UNARY,
        (
            Operand("input1", "in_out_t"),
            zero_point("input1_zp", "in_out_t"),
            zero_point("output_zp", "in_out_t"),
        ),
        OUTPUT,
        INTEGER_MODES + FLOAT_MODES,
        shape_of("input1"),
        (),
        (zero_point_needs_int8("input1_zp", "input1"), zero_point_needs_int8("output_zp", "input1")),
        traits=BY_ELEMENT | Trait.LINEAR,
        degree=1,
    ),
    _unary("RECIPROCAL", "2.6.10", _UNARY, FLOAT_MODES, degree=-1),
    _unary("RSQRT", "2.6.11", _UNARY, FLOAT_MODES, degree=-0.5),
    _unary("SIN", "", _UNARY, FLOAT_MODES, versions=("1.0",)),
    OperatorSpec(
        "SELECT",
        "2.7.1",
        "elementwise ternary",
        (
            Operand("input1", DType.BOOL, shape="shape1"),
            Operand("input2", "in_out_t", shape="shape2"),
            Operand("input3", "in_out_t", shape="shape3"),
        ),
        OUTPUT,
        BOOL_MODES + INTEGER_MODES + FLOAT_MODES,
        _select_shape,
        traits=BY_ELEMENT,
        degree=1,
    ),
    _comparison("EQUAL", "2.8.1"),
    _comparison("GREATER", "2.8.2"),
    _comparison("GREATER_EQUAL", "2.8.3"),
)
