"""What rewrites of run-time parameters are made of: arithmetic of int32 and int48 tensors, whatever TOSA allows."""

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting


def operand(new: Rewriting, name: str) -> str:
    """The tensor that is an operand of the operator that is rewritten."""
    found = new.graph.operand(new.operator, name)
    assert found is not None
    return found


def cast(new: Rewriting, name: str, dtype: DType, output: str | None = None) -> str:
    """A tensor as another type; itself where it has this type and needs no name."""
    if new.dtype(name) is not dtype:
        return new.op("CAST", name, dtype=dtype, output=output)
    return name if output is None else new.op("IDENTITY", name, dtype=dtype, output=output)


def number(new: Rewriting, value: int, like: str, dtype: DType = DType.INT32) -> str:
    """A constant that broadcasts over a tensor."""
    return new.constant(np.full((1,) * new.rank(like), value), dtype)


def along(new: Rewriting, parameter: str, like: str) -> str:
    """A parameter, of one element or one per channel, as int32 that broadcasts over a tensor."""
    lead = new.rank(like) - len(new.shape(parameter))
    shape = (1,) * lead + new.shape(parameter) if new.rank(like) else ()
    return new.reshape(cast(new, parameter, DType.INT32), shape)


def binary(new: Rewriting, op: str, a: str, b: str, output: str | None = None, **attributes: bool) -> str:
    """An elementwise operator; its result is int48 if an operand is."""
    dtype = max((new.dtype(a), new.dtype(b)), key=lambda each: each.bits)
    return new.op(op, a, b, dtype=dtype, output=output, **attributes)


def product(new: Rewriting, a: str, b: str, dtype: DType) -> str:
    """Makes a MUL without a shift."""
    return new.op("MUL", a, b, new.zeros(1, DType.INT8), dtype=dtype)


def shifted(new: Rewriting, value: str, count: str, *, rounded: bool = False) -> str:
    """The low 32 bits of an arithmetic shift to the right."""
    return new.op("ARITHMETIC_RIGHT_SHIFT", value, count, dtype=DType.INT32, round=rounded)


def clamped_result(new: Rewriting, value: str, low: int, high: int) -> None:
    """The operator's result: an int32 value in the range of the result's type."""
    clamped = new.op("CLAMP", value, dtype=DType.INT32, min_val=low, max_val=high)
    cast(new, clamped, new.dtype(new.operator.outputs[0]), new.operator.outputs[0])
