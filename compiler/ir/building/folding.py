"""The constant folder: the result of an operator whose operands are all constants, by NumPy.

Layout operators keep elements as they are, of any type. Arithmetic of fp32 is computed in float64 and rounded once, of
integers in int64 (`integer_folding.py`); what TOSA leaves unpredictable is left to run time.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.ir.building.float_functions import FLOAT_FUNCTIONS
from tosaic.compiler.ir.building.integer_folding import ConstantOperator, gathered, integer_result
from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.operators import OPERATORS, ByOperator, Trait
from tosaic.compiler.ir.tensors import Tensor

MAX_ELEMENTS = 1 << 20
"""Results of arithmetic with more elements are left to run time: a small file must not become large constants."""
GROWTH = 16
"""PAD and TILE may make a larger constant than `MAX_ELEMENTS` if it is at most this many times its source."""

Folded = tuple[np.ndarray, DType]
Room = Callable[[Sequence[int], np.dtype], None]
"""Raises an error when there is no room for an array of this shape and type; called before one is made."""

_Move = Callable[[list[np.ndarray], Mapping[str, Any], Room], np.ndarray | None]
_MOVES = ByOperator[_Move]()
"""Layout operators: what each makes of its operands' values and its attributes."""


def fold(
    name: str,
    operands: Sequence[Tensor],
    attributes: Mapping[str, Any],
    dtype: DType | None = None,
    make_room: Room | None = None,
) -> Folded | None:
    """Value and type of an operator's result; None unless all operands are constants and it can be computed here.

    `dtype` is the result's type where the operands leave a choice (CAST, RESCALE). The value may be a view of an
    operand, and of a wider NumPy type than the result's: in the result's range, or of a float that is still to be
    rounded.
    """
    values = [tensor.data for tensor in operands if tensor.data is not None]
    if not values or len(values) < len(operands):
        return None
    if name in _MOVES:
        data = _MOVES[name](values, attributes, make_room or _no_limit)
        return None if data is None else (data, operands[0].dtype)
    if name == "CAST" and dtype is not None and (dtype.is_float or not operands[0].dtype.is_float):
        return (values[0] if dtype.is_float else values[0].astype(dtype.numpy)), dtype
    return _arithmetic(name, operands, values, attributes, dtype)


# --- layout: the same elements in another order or number ---------------------------------------------------


def _no_limit(shape: Sequence[int], dtype: np.dtype) -> None:
    """There is room for any array."""


@_MOVES.of("IDENTITY")
def _identity(values: list[np.ndarray], _attributes: Mapping[str, Any], _make_room: Room) -> np.ndarray:
    return values[0]


@_MOVES.of("TRANSPOSE")
def _transpose(values: list[np.ndarray], attributes: Mapping[str, Any], _make_room: Room) -> np.ndarray:
    return values[0].transpose(attributes["perms"])


@_MOVES.of("REVERSE")
def _reverse(values: list[np.ndarray], attributes: Mapping[str, Any], _make_room: Room) -> np.ndarray:
    return np.flip(values[0], attributes["axis"])


@_MOVES.of("RESHAPE")
def _reshape(values: list[np.ndarray], _attributes: Mapping[str, Any], make_room: Room) -> np.ndarray:
    data, shape = values
    if not data.flags.c_contiguous and any(data.strides):
        make_room(data.shape, data.dtype)
    return data.reshape([int(size) for size in shape])


@_MOVES.of("SLICE")
def _slice(values: list[np.ndarray], _attributes: Mapping[str, Any], _make_room: Room) -> np.ndarray:
    data, start, size = values
    return data[tuple(slice(int(a), int(a) + int(n)) for a, n in zip(start, size, strict=True))]


@_MOVES.of("CONCAT")
def _concat(values: list[np.ndarray], attributes: Mapping[str, Any], make_room: Room) -> np.ndarray:
    make_room([sum(value.size for value in values)], values[0].dtype)
    return np.concatenate(values, attributes["axis"])


def _grows_little(data: np.ndarray, shape: Sequence[int], make_room: Room) -> bool:
    """Whether a constant that becomes `shape` is stored so; False leaves it to run time."""
    if math.prod(shape) > max(MAX_ELEMENTS, GROWTH * data.size):
        return False
    make_room(shape, data.dtype)
    return True


@_MOVES.of("PAD")
def _pad(values: list[np.ndarray], _attributes: Mapping[str, Any], make_room: Room) -> np.ndarray | None:
    data, pairs = values[0], [(int(a), int(b)) for a, b in values[1].reshape(-1, 2)]
    shape = [n + a + b for n, (a, b) in zip(data.shape, pairs, strict=True)]
    fits = _grows_little(data, shape, make_room)
    return np.pad(data, pairs, constant_values=values[2].item()) if fits else None


@_MOVES.of("TILE")
def _tile(values: list[np.ndarray], _attributes: Mapping[str, Any], make_room: Room) -> np.ndarray | None:
    data, multiples = values[0], [int(count) for count in values[1]]
    fits = _grows_little(data, [n * m for n, m in zip(data.shape, multiples, strict=True)], make_room)
    return np.tile(data, multiples) if fits else None


# --- arithmetic ---------------------------------------------------------------------------------------------


def _arithmetic(
    name: str,
    operands: Sequence[Tensor],
    values: list[np.ndarray],
    attributes: Mapping[str, Any],
    dtype: DType | None,
) -> Folded | None:
    data = OPERATORS[name].data_inputs(values)
    shapes = [value.shape for value in (data if Trait.ELEMENTWISE in OPERATORS[name].traits else values[:1])]
    if math.prod(np.broadcast_shapes(*shapes)) > MAX_ELEMENTS:
        return None
    if name in ("CAST", "RESCALE") and dtype is None:
        return None
    kind = _result_type(name, operands, dtype)
    if not any(each.is_float for each in (kind, *(operand.dtype for operand in operands))):
        wide = [value.astype(np.int64) for value in values]
        integers = integer_result(name, ConstantOperator(wide, operands[0].dtype, kind, attributes))
        return None if integers is None else (integers, kind)
    if operands[0].dtype not in (DType.FP32, DType.INT32, DType.BOOL):
        return None
    # A condition stays one, and so do the indices of a GATHER.
    wide = [value.astype(np.float64) if value.dtype.kind == "f" else value for value in values]
    with np.errstate(all="ignore"):
        result = _of_floats(name, wide, attributes, kind)
    if result is None or (kind is DType.INT32 and not kind.min <= result.min() <= result.max() <= kind.max):
        return None
    return result, kind


def _of_floats(
    name: str, values: list[np.ndarray], attributes: Mapping[str, Any], kind: DType
) -> np.ndarray | None:
    first = values[0]
    if name == "NEGATE" and (values[1].any() or values[2].any()):
        return None
    compute = FLOAT_FUNCTIONS.get(name)
    if compute is not None:
        bounds = [attributes["min_val"], attributes["max_val"]] if name == "CLAMP" else []
        along = {"axis": attributes["axis"], "keepdims": True} if "axis" in attributes else {}
        return np.asarray(compute(*OPERATORS[name].data_inputs(values), *bounds, **along))
    if name == "CAST" and kind is DType.INT32:
        return np.rint(first) if np.isfinite(first).all() else None
    if name == "GATHER":
        return gathered(first, values[1])
    return None


def _result_type(name: str, operands: Sequence[Tensor], dtype: DType | None) -> DType:
    if Trait.COMPARES in OPERATORS[name].traits:
        return DType.BOOL
    if name == "SELECT":
        return operands[1].dtype
    if name in ("MUL", "TABLE", "ARGMAX") and operands[0].dtype.is_integer:
        wide = name != "TABLE" or operands[0].dtype is DType.INT16
        return DType.INT32 if wide else operands[1].dtype
    return dtype or operands[0].dtype
