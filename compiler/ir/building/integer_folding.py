"""Integer arithmetic of the constant folder: what an operator makes of int64 values, where TOSA says what that is.

Each function takes the operands' values and gives the result's. What the specification leaves unpredictable (a sum that
int32 does not hold, a shift beyond the type) is None: it is left to run time.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.ir.dtypes import DType

_TRUTH = (DType.BOOL,)
_WORD = (DType.INT32,)
_NARROW = (DType.INT8, DType.INT16)
_ANY = (*_NARROW, *_WORD)


@dataclasses.dataclass(frozen=True)
class ConstantOperator:
    """An operator of constants."""

    values: Sequence[np.ndarray]
    """int64: what its operands are; bools are 0 and 1."""
    source: DType
    """Type of its first operand."""
    target: DType
    """Type of its result."""
    attributes: Mapping[str, Any]

    def number(self, place: int) -> int:
        """The only element of a parameter."""
        return int(self.values[place].reshape(-1)[0])


_Compute = Callable[[ConstantOperator], np.ndarray | None]
_OPERATORS: dict[str, tuple[tuple[DType, ...], _Compute]] = {}
"""Types of the first operand, and the function, by operator; functions register here."""


def _computes(name: str, *types: DType) -> Callable[[_Compute], _Compute]:
    """Registers the function of an operator whose first operand has one of these types."""

    def register(compute: _Compute) -> _Compute:
        _OPERATORS[name] = types, compute
        return compute

    return register


def integer_result(name: str, call: ConstantOperator) -> np.ndarray | None:
    """int64 values of a result; None for other operators, types that they do not take, and what is unpredictable."""
    types, compute = _OPERATORS.get(name, ((), None))
    if compute is None or call.source not in types:
        return None
    result = compute(call)
    if result is None:
        return None
    low, high = (0, 1) if call.target is DType.BOOL else (call.target.min, call.target.max)
    return result if result.size == 0 or low <= result.min() <= result.max() <= high else None


def _wrapped(values: np.ndarray, dtype: DType) -> np.ndarray:
    """The low bits that a type keeps, sign-extended."""
    spare = 64 - dtype.bits
    return (values << spare) >> spare


def _unsigned(values: np.ndarray, dtype: DType) -> np.ndarray:
    return values & ((1 << dtype.bits) - 1)


def _within(values: np.ndarray, low: int, high: int) -> bool:
    return values.size == 0 or bool(low <= values.min() and values.max() <= high)


def _rounding_shift(values: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Half-way cases go up; the sum with what rounds may need 65 bits."""
    last = np.minimum(shift, 1)
    return ((values >> (shift - last)) + last) >> last


@_computes("MUL", *_ANY)
def _mul(call: ConstantOperator) -> np.ndarray | None:
    product, shift = call.values[0] * call.values[1], call.values[2].reshape(-1)[:1]
    return _rounding_shift(product, shift) if call.source is DType.INT32 else product


@_computes("INTDIV", *_WORD)
def _intdiv(call: ConstantOperator) -> np.ndarray | None:
    a, b = call.values
    if not b.all():
        return None
    return np.abs(a) // np.abs(b) * np.where((a < 0) == (b < 0), 1, -1)


@_computes("NEGATE", *_ANY)
def _negate(call: ConstantOperator) -> np.ndarray | None:
    negated = call.number(1) - call.values[0]
    if not _within(negated, DType.INT32.min, DType.INT32.max):
        return None
    return np.clip(negated + call.number(2), call.target.min, call.target.max)


@_computes("CLZ", *_WORD)
def _clz(call: ConstantOperator) -> np.ndarray:
    # frexp's exponent is the number of bits.
    return 32 - np.frexp(_unsigned(call.values[0], call.source).astype(np.float64))[1].astype(np.int64)


def _shift(compute: Callable[[ConstantOperator, np.ndarray], np.ndarray], *, by_type: bool) -> _Compute:
    def shifted(call: ConstantOperator) -> np.ndarray | None:
        limit = call.source.bits if by_type else 32
        return compute(call, call.values[1]) if _within(call.values[1], 0, limit - 1) else None

    return shifted


def _arithmetic_right(call: ConstantOperator, amount: np.ndarray) -> np.ndarray:
    shifted = call.values[0] >> amount
    if call.attributes["round"]:
        return shifted + np.where(amount > 0, (call.values[0] >> np.maximum(amount - 1, 0)) & 1, 0)
    return shifted


def _left(call: ConstantOperator, amount: np.ndarray) -> np.ndarray:
    return _wrapped(call.values[0] << amount, call.target)


def _logical_right(call: ConstantOperator, amount: np.ndarray) -> np.ndarray:
    return _wrapped(_unsigned(call.values[0], call.source) >> amount, call.target)


@_computes("CAST", *_TRUTH, *_ANY)
def _cast(call: ConstantOperator) -> np.ndarray | None:
    if call.target is DType.BOOL:
        return (call.values[0] != 0).astype(np.int64)
    return _wrapped(call.values[0], call.target) if call.target.is_integer else None


@_computes("TABLE", *_NARROW)
def _table(call: ConstantOperator) -> np.ndarray | None:
    values, table = call.values[0], call.values[1].reshape(-1)
    if call.source is DType.INT8:
        return table[values + 128]
    place, part = (values + 32768) >> 7, values & 127
    slope = table[place + 1] - table[place]
    return (table[place] << 7) + slope * part if _within(slope, DType.INT16.min, DType.INT16.max) else None


@_computes("RESCALE", *_ANY, DType.INT48)
def _rescale(call: ConstantOperator) -> np.ndarray | None:
    """Returns (value - input_zp) * multiplier * 2^-shift + output_zp, by apply_scale_32 or apply_scale_16
    (clause 1.9).
    """
    attributes, (value, multiplier, shift, *_) = call.attributes, call.values
    signed_in, signed_out = (not attributes.get(f"{side}_unsigned") for side in ("input", "output"))
    input_zp, output_zp = call.values[3].reshape(-1)[0], call.values[4].reshape(-1)[0]
    if not signed_in:
        value, input_zp = _unsigned(value, call.source), _unsigned(input_zp, call.source)
    if not signed_out:
        output_zp = _unsigned(output_zp, call.target)
    value = value - input_zp
    if not (_within(shift, 2, 62) and _within(multiplier, 0, DType.INT32.max)):
        return None
    product = value * multiplier
    if attributes["rounding_mode"] == "DOUBLE_ROUND":
        product = product + np.where(shift > 31, np.where(value >= 0, 1 << 30, -(1 << 30)), 0)
    scaled = _rounding_shift(product, shift)
    result = scaled + output_zp
    if not (_within(scaled, *_INT32) and _within(result, *_INT32)):
        return None
    if signed_out:
        return np.clip(result, call.target.min, call.target.max)
    return _wrapped(np.clip(result, 0, (1 << call.target.bits) - 1), call.target)


_INT32 = (DType.INT32.min, DType.INT32.max)


def gathered(rows: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
    """GATHER of rows [N, K, C] by indices [N, W]; None if one lies outside."""
    if not _within(indices, 0, rows.shape[1] - 1):
        return None
    return rows[np.arange(rows.shape[0])[:, None], indices]


@_computes("REDUCE_PRODUCT", *_WORD)
def _product(call: ConstantOperator) -> np.ndarray | None:
    bound = np.prod(np.abs(call.values[0]).astype(np.float64), axis=call.attributes["axis"])
    fits = _within(bound, 0, DType.INT32.max)
    return np.prod(call.values[0], axis=call.attributes["axis"], keepdims=True) if fits else None


def _each(compute: Callable[..., np.ndarray]) -> _Compute:
    return lambda call: np.asarray(compute(*call.values)).astype(np.int64)


def _along(compute: Callable[..., np.ndarray], **options: Any) -> _Compute:
    return lambda call: np.asarray(compute(call.values[0], axis=call.attributes["axis"], **options)).astype(
        np.int64
    )


@_computes("CLAMP", *_ANY)
def _clamp(call: ConstantOperator) -> np.ndarray:
    return np.clip(call.values[0], call.attributes["min_val"], call.attributes["max_val"])


@_computes("SELECT", *_TRUTH)
def _select(call: ConstantOperator) -> np.ndarray:
    return np.where(call.values[0] != 0, call.values[1], call.values[2])


@_computes("GATHER", *_TRUTH, *_ANY)
def _gather(call: ConstantOperator) -> np.ndarray | None:
    return gathered(*call.values)


_computes("ADD", *_WORD)(_each(np.add))
_computes("SUB", *_WORD)(_each(np.subtract))
_computes("MAXIMUM", *_WORD)(_each(np.maximum))
_computes("MINIMUM", *_WORD)(_each(np.minimum))
_computes("ABS", *_WORD)(_each(np.abs))
_computes("BITWISE_AND", *_ANY)(_each(np.bitwise_and))
_computes("BITWISE_OR", *_ANY)(_each(np.bitwise_or))
_computes("BITWISE_XOR", *_ANY)(_each(np.bitwise_xor))
_computes("BITWISE_NOT", *_ANY)(_each(np.bitwise_not))
_computes("LOGICAL_AND", *_TRUTH)(_each(np.bitwise_and))
_computes("LOGICAL_OR", *_TRUTH)(_each(np.bitwise_or))
_computes("LOGICAL_XOR", *_TRUTH)(_each(np.bitwise_xor))
_computes("LOGICAL_NOT", *_TRUTH)(_each(np.logical_not))
_computes("LOGICAL_LEFT_SHIFT", *_ANY)(_shift(_left, by_type=False))
_computes("LOGICAL_RIGHT_SHIFT", *_ANY)(_shift(_logical_right, by_type=False))
_computes("ARITHMETIC_RIGHT_SHIFT", *_ANY)(_shift(_arithmetic_right, by_type=True))
_computes("EQUAL", *_WORD)(_each(np.equal))
_computes("GREATER", *_WORD)(_each(np.greater))
_computes("GREATER_EQUAL", *_WORD)(_each(np.greater_equal))
_computes("REDUCE_SUM", *_WORD)(_along(np.sum, keepdims=True))
_computes("REDUCE_MAX", *_ANY)(_along(np.max, keepdims=True))
_computes("REDUCE_MIN", *_ANY)(_along(np.min, keepdims=True))
_computes("REDUCE_ANY", *_TRUTH)(_along(np.max, keepdims=True))
_computes("REDUCE_ALL", *_TRUTH)(_along(np.min, keepdims=True))
_computes("ARGMAX", *_NARROW)(_along(np.argmax))
