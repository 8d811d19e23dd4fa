"""Operand lists, type rows, shape rules and checks that several operators share."""

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.operators.spec import Attribute, Check, Mode, Operand, OpView, Shape, modes

NAN_MODE = Attribute("nan_mode", "enum", default="PROPAGATE", values=("PROPAGATE", "IGNORE"))
AXIS = Attribute("axis", "int")

DATA_MODES: tuple[Mode, ...] = modes(
    "in_out_t",
    "bool",
    "int8",
    "int16",
    "int32",
    "fp16: PRO-FP",
    "bf16: EXT-BF16",
    "fp32: PRO-FP",
    "fp8e4m3: EXT-FP8E4M3",
    "fp8e5m2: EXT-FP8E5M2",
)
FLOAT_MODES: tuple[Mode, ...] = modes("in_out_t", "fp16: PRO-FP", "bf16: EXT-BF16", "fp32: PRO-FP")
FP8_MODES: tuple[Mode, ...] = modes("in_out_t", "fp8e4m3: EXT-FP8E4M3", "fp8e5m2: EXT-FP8E5M2")
INT32_MODES: tuple[Mode, ...] = modes("in_out_t", "int32") + FLOAT_MODES
INTEGER_MODES: tuple[Mode, ...] = modes("in_out_t", "int8", "int16", "int32")
BOOL_MODES: tuple[Mode, ...] = modes("in_out_t", "bool")


def unary(name: str, type_variable: str = "in_out_t") -> tuple[Operand, ...]:
    """One input of any rank."""
    return (Operand(name, type_variable),)


OUTPUT = (Operand("output", "in_out_t"),)


def zero_point(name: str, type_variable: str) -> Operand:
    """A zero-point operand: one constant element of the type it belongs to."""
    return Operand(name, type_variable, (1, 1), "[1]", constant=True)


def shape_of(operand: str):
    """The shape rule "same shape as `operand`"."""

    def infer(node: OpView) -> list[Shape]:
        return [node.shape(operand)]

    return infer


def broadcast(node: OpView, *operands: str) -> Shape:
    """Shape that the operands broadcast to; they need equal ranks, and axes that are equal or 1 (3.2.4)."""
    shapes = [node.shape(operand) for operand in operands]
    if len({len(shape) for shape in shapes}) != 1:
        node.fail("the inputs must have the same rank", " and ".join(str(list(shape)) for shape in shapes))
    result = []
    for sizes in zip(*shapes, strict=True):
        largest = max(sizes)
        if any(size not in (1, largest) for size in sizes):
            node.fail(
                "axes of the inputs must be equal or 1 to broadcast",
                " and ".join(str(list(shape)) for shape in shapes),
            )
        result.append(largest)
    return tuple(result)


def exact_division(node: OpView, numerator: int, divisor: int, axis: str) -> int:
    """`numerator / divisor`, which must leave no remainder (idiv_check) nor be negative."""
    if divisor < 1 or numerator < 0 or numerator % divisor:
        node.fail(f"the output {axis} must be a whole number of strides", f"{numerator} / {divisor}")
    return numerator // divisor


def axis_in_range(operand: str) -> Check:
    """The check that attribute `axis` names an axis of `operand`."""

    def check(node: OpView) -> str | None:
        """axis must be in the range 0 to rank - 1 of the input."""
        axis = node.attribute("axis")
        rank = len(node.shape(operand))
        return None if 0 <= axis < rank else f"axis {axis} for rank {rank}"

    return check


def zero_point_needs_int8(zero_point_name: str, operand: str) -> Check:
    """The check that a zero point is 0 unless its tensor is int8."""

    def check(node: OpView) -> str | None:
        value = node.value(zero_point_name)
        if value is None or node.dtype(operand) is DType.INT8 or not value.any():
            return None
        return f"{zero_point_name} {value.reshape(-1)[0]} with {operand} {node.dtype(operand).spelling}"

    check.__doc__ = f"{zero_point_name} must be 0 unless {operand} is int8_t."
    return check


def at_least(attribute: str, lowest: int) -> Check:
    """The check that every element of an attribute is at least `lowest`."""

    def check(node: OpView) -> str | None:
        value = node.attribute(attribute)
        return None if min(value) >= lowest else f"{attribute} {list(value)}"

    check.__doc__ = f"every element of {attribute} must be at least {lowest}."
    return check
