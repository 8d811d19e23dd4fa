"""Operators of constants, computed at import: what decides shapes is often the end of a chain of arithmetic."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType, Tensor

MAX_ELEMENTS = 1 << 20
"""Results with more elements are left to run time: a small file must not become large constants."""

_FOLDED = (DType.FP32, DType.INT32, DType.BOOL)
_WIDE = {"f": np.float64, "i": np.int64}
_BINARY: dict[str, Callable[..., np.ndarray]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "EQUAL": np.equal,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
    "LOGICAL_XOR": np.logical_xor,
    "SELECT": np.where,
}
_FLOAT_UNARY: dict[str, Callable[..., np.ndarray]] = {
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "EXP": np.exp,
    "LOG": np.log,
    "SIN": np.sin,
    "COS": np.cos,
    "TANH": np.tanh,
    "RECIPROCAL": np.reciprocal,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "SIGMOID": lambda x: 1 / (1 + np.exp(-x)),
    "POW": np.power,
}
_REDUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "REDUCE_SUM": np.sum,
    "REDUCE_PRODUCT": np.prod,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
    "REDUCE_ANY": np.any,
    "REDUCE_ALL": np.all,
}


def worth_storing(data: np.ndarray, shape: Sequence[int]) -> bool:
    """Whether a constant that grows to `shape` is stored as it then is: small, or not much larger than it was."""
    return math.prod(shape) <= max(MAX_ELEMENTS, 16 * data.size)


def fold(
    name: str, operands: Sequence[Tensor], attributes: Mapping[str, Any], dtype: DType | None
) -> tuple[np.ndarray, DType] | None:
    """Value and type of an operator's result; None unless all operands are small constants of a folded type.

    Floats are computed in float64 and rounded once.
    """
    values = [tensor.data for tensor in operands if tensor.data is not None]
    if not values or len(values) < len(operands) or operands[0].dtype not in _FOLDED:
        return None
    elements = (
        math.prod(np.broadcast_shapes(*(v.shape for v in values))) if name in _BINARY else values[0].size
    )
    if elements > MAX_ELEMENTS:
        return None
    wide = [value.astype(_WIDE.get(value.dtype.kind, value.dtype)) for value in values]
    with np.errstate(all="ignore"):
        result = _compute(name, wide, attributes, dtype)
    if result is None:
        return None
    kind = _result_type(name, operands, dtype)
    if kind.is_integer and result.size and not kind.min <= result.min() <= result.max() <= kind.max:
        return None
    return result, kind


def _compute(
    name: str, values: list[np.ndarray], attributes: Mapping[str, Any], dtype: DType | None
) -> np.ndarray | None:
    first = values[0]
    if name in _BINARY:
        return np.asarray(_BINARY[name](*values))
    if name in _FLOAT_UNARY:
        return np.asarray(_FLOAT_UNARY[name](*values)) if first.dtype.kind == "f" else None
    if name in _REDUCTIONS:
        return np.asarray(_REDUCTIONS[name](first, axis=attributes["axis"], keepdims=True))
    if name == "MUL":
        return first * values[1]
    if name == "ABS":
        return np.abs(first)
    if name == "NEGATE":
        return -first if not values[1].any() and not values[2].any() else None
    if name == "LOGICAL_NOT":
        return ~first
    if name == "CLAMP":
        return np.clip(first, attributes["min_val"], attributes["max_val"])
    if name == "CAST" and dtype in _FOLDED and first.dtype.kind == "f":
        return np.rint(first) if np.isfinite(first).all() else None
    if name == "GATHER":
        indices = values[1]
        if indices.min() < 0 or indices.max() >= first.shape[1]:
            return None
        return np.stack([batch[row] for batch, row in zip(first, indices, strict=True)])
    return None


def _result_type(name: str, operands: Sequence[Tensor], dtype: DType | None) -> DType:
    if name in ("GREATER", "GREATER_EQUAL", "EQUAL"):
        return DType.BOOL
    if name == "SELECT":
        return operands[1].dtype
    return dtype or operands[0].dtype
