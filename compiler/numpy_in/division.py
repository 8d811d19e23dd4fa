"""Floor division and remainder, by constants as one multiplication with a shift where that is exact."""

from typing import Any

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.numpy_in.conversion import wrapped
from tosaic.compiler.numpy_in.forms import Form
from tosaic.compiler.numpy_in.intervals import INT32, UINT32, Interval
from tosaic.compiler.numpy_in.recording import Recorder, refuse
from tosaic.compiler.numpy_in.rules import ufunc_rule
from tosaic.compiler.numpy_in.tracer import TracedArray
from tosaic.compiler.numpy_in.ufuncs import Shape


def reciprocal(interval: Interval, divisor: int) -> tuple[int, int, int, int] | None:
    """(k, e, m, s): floor(x / divisor) == ((k * x + e) * m + (1 << (s - 1))) >> s for every x of the interval.

    None if there are none with 32 bit operands. With k * x + e halfway between multiples, rounding half up is floor;
    it stays so while the error of m / 2**s is less than half a step of 1 / (2 * divisor).
    """
    k, e = (1, -(divisor - 1) // 2) if divisor & 1 else (2, 1 - divisor)
    whole = k * divisor
    most = max(abs(k * interval.low + e), abs(k * interval.high + e))
    if most > INT32.high:
        return None
    for s in range(62, 1, -1):
        m = ((1 << s) + whole // 2) // whole
        fits = m <= INT32.high and most * m + (1 << s) < 2**62
        if fits and 2 * divisor * most * abs(m * whole - (1 << s)) < whole * (1 << s):
            return k, e, m, s
    return None


def _constant(b: TracedArray) -> int:
    """The positive divisor, if it is one known number; else 0."""
    return max(0, int(b.value.item())) if b.value is not None and b.size == 1 else 0


@ufunc_rule(np.floor_divide)
def floor_divide(
    recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray
) -> TracedArray:
    divisor = _constant(b)
    if divisor and divisor & (divisor - 1) == 0:
        return a.astype(dtype) >> dtype.type(divisor.bit_length() - 1)
    if not (INT32.holds(a.interval) and INT32.holds(b.interval)):
        most = a.interval.high // max(b.interval.low, 1)
        return bounded(_unsigned(a, b)[0], Interval(0, most)).astype(dtype)
    if divisor and (found := reciprocal(a.interval, divisor)) is not None:
        k, e, m, s = found
        doubled = a.wide if k == 1 else recorder.multiply(a.wide, recorder.number(k))
        moved = recorder.elementwise("ADD", doubled, recorder.number(e))
        interval = Interval(a.interval.low // divisor, a.interval.high // divisor)
        name = recorder.multiply(moved, recorder.number(m), s)
        return TracedArray(recorder, shape, dtype, interval, forms={Form.WIDE: name})
    return _by_intdiv(recorder, dtype, shape, a, b)


def _by_intdiv(
    recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray
) -> TracedArray:
    """INTDIV truncates: one less where a remainder has the other sign. NumPy gives 0 for a divisor of 0."""
    by_zero = recorder.elementwise("EQUAL", b.wide, recorder.number(0)) if 0 in b.interval else None
    divisor = b.wide
    if by_zero is not None:
        divisor = recorder.elementwise("SELECT", by_zero, recorder.number(1), divisor)
    quotient = recorder.elementwise("INTDIV", a.wide, divisor)
    signed = a.interval.low < 0 or b.interval.low < 0
    if signed:
        rest = recorder.elementwise("SUB", a.wide, recorder.multiply(quotient, divisor))
        exact = recorder.elementwise("EQUAL", rest, recorder.number(0))
        signs = recorder.elementwise("BITWISE_XOR", rest, divisor)
        opposite = recorder.elementwise("GREATER", recorder.number(0), signs)
        less = recorder.elementwise("LOGICAL_AND", recorder.add("LOGICAL_NOT", [exact]), opposite)
        quotient = recorder.elementwise("SUB", quotient, recorder.add("CAST", [less], dtype=DType.INT32))
    if by_zero is not None:
        quotient = recorder.elementwise("SELECT", by_zero, recorder.number(0), quotient)
    most = a.interval.magnitude
    return wrapped(recorder, quotient, Interval(-most if signed else 0, most), dtype, shape)


def _unsigned(a: TracedArray, b: TracedArray) -> tuple[TracedArray, TracedArray]:
    """Quotient and remainder of uint32, by a division of half the dividend, which has a bit less."""
    if not (UINT32.holds(a.interval) and UINT32.holds(b.interval)):
        refuse(f"// and % of {a.interval} by {b.interval} need more than 32 bits: narrow them (astype) first")
    x: Any = a.astype(np.uint32)
    y: Any = b.astype(np.uint32)
    large = y > np.uint32(INT32.high)
    small: Any = np.where(large | (y == 0), np.uint32(1), y)
    small = small if INT32.holds(small.interval) else bounded(small.view(np.int32), Interval(1, INT32.high))
    half: Any = bounded((x >> np.uint32(1)).view(np.int32), Interval(0, x.interval.high >> 1))
    quotient = (half // small.astype(np.int32)).astype(np.uint32) << np.uint32(1)
    rest = x - quotient * y
    quotient = np.where(large, (x >= y).astype(np.uint32), quotient + (rest >= y))
    quotient = np.where(y == 0, np.uint32(0), quotient)
    return quotient, np.where(y == 0, np.uint32(0), x - quotient * y)


def bounded(a: TracedArray, interval: Interval) -> TracedArray:
    """The array, whose values are known to lie in an interval."""
    if a.value is not None:
        return a
    return TracedArray(a.recorder, a.shape, a.dtype, interval, forms=dict(a.forms))


@ufunc_rule(np.remainder)
def remainder(
    recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray
) -> TracedArray:
    divisor = _constant(b)
    if divisor > UINT32.high and divisor & (divisor - 1) == 0:
        return np.bitwise_and(a.astype(dtype), dtype.type(divisor - 1))
    if divisor and divisor & (divisor - 1) == 0:
        name = recorder.elementwise("BITWISE_AND", a.tensor(Form.LOW), recorder.number(divisor - 1))
        return TracedArray(recorder, shape, dtype, Interval(0, divisor - 1), forms={Form.WIDE: name})
    if not (INT32.holds(a.interval) and INT32.holds(b.interval)):
        most = max(b.interval.high - 1, 0)
        return bounded(_unsigned(a, b)[1], Interval(0, most)).astype(dtype)
    quotient = floor_divide(recorder, np.dtype(np.int32), shape, a, b)
    rest = recorder.elementwise("SUB", a.wide, recorder.multiply(quotient.wide, b.wide))
    if 0 in b.interval:
        by_zero = recorder.elementwise("EQUAL", b.wide, recorder.number(0))
        rest = recorder.elementwise("SELECT", by_zero, recorder.number(0), rest)
    interval = Interval(min(b.interval.low + 1, 0), max(b.interval.high - 1, 0))
    return TracedArray(recorder, shape, dtype, interval, forms={Form.WIDE: rest})


@ufunc_rule(np.fmod)
def fmod(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray) -> TracedArray:
    """The remainder that has the dividend's sign: of the absolute values, turned round."""
    rest: Any = np.remainder(_size_of(a, dtype), _size_of(b, dtype))
    return np.where(a < 0, 0 - rest, rest).astype(dtype) if a.interval.low < 0 else rest.astype(dtype)


def _size_of(a: TracedArray, dtype: np.dtype) -> Any:
    """The absolute value, which the least integer has without a sign only."""
    return np.absolute(a.astype(dtype)).view(f"u{dtype.itemsize}") if dtype.kind == "i" else a.astype(dtype)
