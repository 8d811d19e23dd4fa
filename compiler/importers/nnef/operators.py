"""Operators of expressions: their types (Table 1), their fragments for tensors, their compile-time values."""

import math

from tosaic.compiler.importers.nnef.errors import NnefError, Position
from tosaic.compiler.importers.nnef.lexer import INTEGER_LIMIT, number_value
from tosaic.compiler.importers.nnef.type_system import (
    INTEGER,
    LOGICAL,
    SCALAR,
    STRING,
    ArrayType,
    PrimitiveType,
    Type,
    common_type,
)

UNARY_FRAGMENTS = {"+": "copy", "-": "neg", "!": "not"}
BINARY_FRAGMENTS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "^": "pow",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "==": "eq",
    "!=": "ne",
    "&&": "and",
    "||": "or",
}
ARITHMETIC, ORDER = frozenset("+-*/^"), frozenset(("<", "<=", ">", ">="))
PrimitiveValue = int | float | bool | str


def unary_type(operator: str, operand: Type, position: Position) -> Type:
    """The type of an operator on one attribute. Raises NnefError."""
    if operand in ((LOGICAL,) if operator == "!" else (INTEGER, SCALAR)):
        return operand
    raise NnefError("operands", position, f"the operator {operator} is applied to {operand}")


def binary_type(operator: str, left: Type, right: Type, position: Position) -> Type:
    """The type of an operator on two attributes or arrays. Raises NnefError."""
    if operator == "in":
        if isinstance(right, ArrayType) and (right.item is None or common_type(left, right.item) is not None):
            return LOGICAL
    elif operator == "+" and isinstance(left, ArrayType) and isinstance(right, ArrayType):
        common = common_type(left, right)
        if common is not None:
            return common
    elif operator == "*" and isinstance(left, ArrayType) and right == INTEGER:
        return left
    elif (operator, left, right) in (("+", STRING, STRING), ("*", STRING, INTEGER)):
        return STRING
    elif operator in ("&&", "||"):
        if left == right == LOGICAL:
            return LOGICAL
    elif {left, right} == {INTEGER, SCALAR}:
        raise NnefError(
            "V045",
            position,
            f"the operator {operator} mixes {left} and {right}",
            "write scalar(...), or a decimal point",
        )
    elif operator in ARITHMETIC or operator in ORDER:
        if left == right and left in (INTEGER, SCALAR):
            return left if operator in ARITHMETIC else LOGICAL
    elif left == right and isinstance(left, PrimitiveType):
        return LOGICAL
    raise NnefError("operands", position, f"the operator {operator} is applied to {left} and {right}")


def unary_value(operator: str, operand: PrimitiveValue, position: Position) -> PrimitiveValue:
    """The value of an operator on one attribute of a fitting type."""
    if operator == "!":
        return not operand
    assert not isinstance(operand, str)
    return _checked(-operand, position) if operator == "-" else operand


def binary_value(operator: str, a: PrimitiveValue, b: PrimitiveValue, position: Position) -> PrimitiveValue:
    """The value of an operator on two attributes of fitting types. Raises NnefError when there is none."""
    if operator in ("==", "!="):
        return (a == b) == (operator == "==")
    if operator in ("&&", "||"):
        return (a and b) if operator == "&&" else (a or b)
    assert not isinstance(a, str) and not isinstance(b, str)
    if operator in ORDER:
        return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]
    if operator in "+-*":
        return _checked(a + b if operator == "+" else a - b if operator == "-" else a * b, position)
    if operator == "/":
        if b == 0:
            raise NnefError("arithmetic", position, f"{a} is divided by zero")
        # Rounds integers down, as integer() does.
        return _checked(a // b if isinstance(a, int) else a / b, position)
    return _power(a, b, position)


def _power(a: int | float, b: int | float, position: Position) -> int | float:
    if isinstance(a, int) and isinstance(b, int):
        if b < 0 or (abs(a) > 1 and b > 63):
            raise NnefError("arithmetic", position, f"{a} ^ {b} is no integer of 64 bits")
        return _checked(a**b if abs(a) > 1 else a ** (b % 2 + 2 * (b > 1)), position)
    try:
        return _checked(math.pow(a, b), position)
    except (ValueError, OverflowError):
        raise NnefError("arithmetic", position, f"{a} ^ {b} is no finite real number") from None


def _checked(value: int | float, position: Position) -> int | float:
    if isinstance(value, int) and abs(value) >= INTEGER_LIMIT:
        raise NnefError("arithmetic", position, "an integer does not fit in 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise NnefError("arithmetic", position, "a scalar is not finite")
    return value


def convert(name: str, value: PrimitiveValue, position: Position) -> PrimitiveValue:
    """Evaluates `integer(x)`, `scalar(x)`, `logical(x)`, `string(x)`."""
    if name == "logical":
        return bool(value)
    if name == "string":
        return (
            value
            if isinstance(value, str)
            else str(value).lower()
            if isinstance(value, bool)
            else repr(value)
        )
    if isinstance(value, str):
        negative = value.startswith("-")
        digits = value[negative:]
        if digits.isascii() and digits[:1].isdigit() and all(c in "0123456789.eE+-" for c in digits):
            try:
                number = number_value(digits)
            except ValueError:
                number = None
            wanted = int if name == "integer" else float
            if isinstance(number, wanted) or (name == "scalar" and number is not None):
                return wanted(-number if negative else number)  # type: ignore[operator]  # not None here
        raise NnefError("conversion", position, f"the string {value[:40]!r} is no {name}")
    if name == "scalar":
        return float(value)
    return math.floor(_checked(value, position))
