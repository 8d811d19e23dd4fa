"""The operations of a micro-op on arrays of lanes.

Values are int64 arrays with a bound on their magnitude: wrapping to the width of the vector unit is only done
where the bound says that a value may not fit.
"""

import dataclasses
import functools

import numpy as np

from tosaic.hw.isa import Instruction, Op

PRODUCT_LIMIT = 1 << 63


@dataclasses.dataclass(frozen=True)
class Value:
    """Lanes (int64, broadcastable to [batches, slots, W]) and a bound: -bound <= lane <= bound."""

    lanes: np.ndarray
    bound: int


@dataclasses.dataclass
class VectorParameters:
    """What VECTOR_PARAM and VECTOR_TABLE load: W biases, multipliers and shifts, and the table's entries."""

    bias: np.ndarray
    multiplier: np.ndarray
    shift: np.ndarray
    table: np.ndarray

    @classmethod
    def empty(cls, columns: int) -> "VectorParameters":
        zeros = np.zeros(columns, np.int64)
        return cls(zeros, zeros, zeros, np.zeros(512, np.int64))


def wrap(value: Value, bits: int) -> Value:
    """Two's complement of `bits` bits."""
    limit = 1 << (bits - 1)
    if value.bound < limit:
        return value
    return Value((value.lanes << (64 - bits)) >> (64 - bits), limit)


def constant(number: int) -> Value:
    """The same number in all lanes."""
    return Value(np.full(1, number, np.int64), abs(number))


def add(value: Value, other: int | np.ndarray) -> Value:
    """Adds an integer, or one for each lane."""
    magnitude = abs(other) if isinstance(other, int) else _magnitude(other)
    return Value(value.lanes + other, value.bound + magnitude)


def clamp(value: Value, low: int, high: int) -> Value:
    """Raises values to at least `low`, then lowers them to at most `high`."""
    return Value(np.minimum(np.maximum(value.lanes, low), high), max(abs(low), abs(high)))


def operate(uop: Instruction, x: Value, b: Value, parameters: VectorParameters) -> Value:
    """The operation of a micro-op alone."""
    match uop.op:
        case Op.MOV:
            return x
        case Op.ADD:
            return Value(x.lanes + b.lanes, x.bound + b.bound)
        case Op.SUB:
            return Value(x.lanes - b.lanes, x.bound + b.bound)
        case Op.MUL:
            return _multiply(uop, x, b)
        case Op.RESCALE:
            scaled = _rescale(uop, x, parameters)
            return Value(scaled.lanes + b.lanes, scaled.bound + b.bound)
        case Op.MAX:
            return Value(np.maximum(x.lanes, b.lanes), max(x.bound, b.bound))
        case Op.MIN:
            return Value(np.minimum(x.lanes, b.lanes), max(x.bound, b.bound))
        case Op.AND:
            return Value(x.lanes & b.lanes, _bits_bound(x, b))
        case Op.OR:
            return Value(x.lanes | b.lanes, _bits_bound(x, b))
        case Op.XOR:
            return Value(x.lanes ^ b.lanes, _bits_bound(x, b))
        case Op.ABS:
            return Value(np.abs(x.lanes), x.bound)
        case Op.CLZ:
            return Value(_leading_zeros(x.lanes & 0xFFFFFFFF), 32)
        case Op.LSL:
            count = b.lanes & 63
            return Value(np.where(count > 31, 0, x.lanes << (count & 31)), x.bound << 31)
        case Op.LSR:
            count = b.lanes & 63
            return Value(np.where(count > 31, 0, (x.lanes & 0xFFFFFFFF) >> (count & 31)), 1 << 32)
        case Op.ASR:
            return _shift_right(uop, x, b)
        case Op.EQ:
            return Value((x.lanes == b.lanes).astype(np.int64), 1)
        case Op.GT:
            return Value((x.lanes > b.lanes).astype(np.int64), 1)
        case Op.GE:
            return Value((x.lanes >= b.lanes).astype(np.int64), 1)
        case Op.TABLE8:
            entry = parameters.table[(x.lanes + 128) & 255]
            return Value(_low_half(entry), 1 << 15)
        case Op.TABLE16:
            entry = parameters.table[((x.lanes + 32768) >> 7) & 511]
            low, high = _low_half(entry), entry >> 16
            return Value((low << 7) + (high - low) * (x.lanes & 127), 1 << 24)
    raise AssertionError(f"unknown operation {uop.op}")


def _multiply(uop: Instruction, x: Value, b: Value) -> Value:
    b = wrap(b, 32)
    product, bound = x.lanes * b.lanes, x.bound * b.bound
    if uop.shift:
        half = 1 << (uop.shift - 1)
        if bound + half < PRODUCT_LIMIT:
            product = (product + half) >> uop.shift
        else:
            product = _rounded(product, np.asarray(uop.shift, np.int64))
    return Value(product, min(bound, PRODUCT_LIMIT))


@dataclasses.dataclass(frozen=True)
class _Scaling:
    """Multipliers and shifts of a RESCALE, [1 or W], and what follows from them."""

    multiplier: np.ndarray
    shift: np.ndarray
    half: np.ndarray
    """Half of what the shift takes out."""
    half_max: int
    extra: np.ndarray
    """What `round` adds away from zero."""
    extra_max: int
    multiplier_max: int
    shift_min: int


@functools.lru_cache(1 << 12)
def _scaling(multipliers: bytes, shifts: bytes) -> _Scaling:
    """Returns what RESCALE needs of int64 multipliers and shifts, computed once for each pair."""
    multiplier, shift = np.frombuffer(multipliers, np.int64), np.frombuffer(shifts, np.int64)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    extra = np.where(shift > 31, 1 << 30, 0)
    ends = int(half.max()), int(extra.max()), _magnitude(multiplier), int(shift.min())
    return _Scaling(multiplier, shift, half, ends[0], extra, *ends[1:])


def _rescale(uop: Instruction, x: Value, parameters: VectorParameters) -> Value:
    """TOSA apply_scale_32 (`round`: double_round) and apply_scale_16."""
    if uop.per_channel:
        scaling = _scaling(parameters.multiplier.tobytes(), parameters.shift.tobytes())
    else:
        scaling = _scaling(np.int64(uop.multiplier).tobytes(), np.int64(uop.shift).tobytes())
    product = x.lanes * scaling.multiplier
    largest = x.bound * scaling.multiplier_max + (1 << 30)
    fits = largest + scaling.half_max < PRODUCT_LIMIT
    if uop.round and scaling.extra_max:
        # Away from zero: first added to all, then taken from the negative ones twice.
        product -= (x.lanes >> 63) & (2 * scaling.extra)
        product += scaling.extra + scaling.half if fits else scaling.extra
    elif fits:
        product += scaling.half
    if fits:
        product >>= scaling.shift
    else:
        product = _rounded(product, scaling.shift)
    smallest = scaling.shift_min
    bound = (largest + (1 << max(smallest - 1, 0)) >> smallest) + 1
    return Value(product, min(bound, PRODUCT_LIMIT))


def _rounded(product: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """(product + 2^(shift-1)) >> shift, where that sum may need more than 64 bits; product itself for a shift of 0."""
    last_out = (product >> np.maximum(shift - 1, 0)) & 1
    return (product >> shift) + np.where(shift > 0, last_out, 0)


def _shift_right(uop: Instruction, x: Value, b: Value) -> Value:
    count = b.lanes & 63
    y = x.lanes >> count
    if uop.round:
        y = y + np.where(count > 0, (x.lanes >> np.maximum(count - 1, 0)) & 1, 0)
    return Value(y, x.bound + 1)


def _leading_zeros(low: np.ndarray) -> np.ndarray:
    # frexp's exponent is the bit length; 32-bit integers are exact in float64.
    return 32 - np.frexp(low.astype(np.float64))[1].astype(np.int64)


def _low_half(entry: np.ndarray) -> np.ndarray:
    return (entry << 48) >> 48


def _magnitude(lanes: np.ndarray) -> int:
    return int(np.abs(lanes.astype(np.int64)).max())


def _bits_bound(x: Value, b: Value) -> int:
    return 1 << max(x.bound, b.bound).bit_length()
