"""Elementwise functions: arithmetic, order, bits, logic and shifts. Division has a module of its own."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tosaic.compiler.numpy_in import words
from tosaic.compiler.numpy_in.conversion import two_words, wrapped
from tosaic.compiler.numpy_in.forms import BOOL, NARROW, Form
from tosaic.compiler.numpy_in.intervals import INT32, INT64, UINT32, Interval, of_type
from tosaic.compiler.numpy_in.recording import Recorder, refuse
from tosaic.compiler.numpy_in.rules import UFUNCS, function_rule, ufunc_rule
from tosaic.compiler.numpy_in.tracer import TracedArray, lift, recorder_of

Shape = tuple[int, ...]


def boolean(recorder: Recorder, shape: Shape, name: str) -> TracedArray:
    return TracedArray(recorder, shape, BOOL, forms={Form.BOOL: name})


def needs_words(dtype: np.dtype, interval: Interval) -> bool:
    """Whether a result of NumPy's int64 has more than 32 bits, and no more than 64."""
    return dtype == np.int64 and not INT32.holds(interval) and INT64.holds(interval)


# --- arithmetic


@ufunc_rule(np.add)
def add(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray) -> TracedArray:
    if dtype == BOOL:
        return boolean(recorder, shape, recorder.elementwise("LOGICAL_OR", a.boolean, b.boolean))
    interval = a.interval + b.interval
    if needs_words(dtype, interval) or _are_words(a, b):
        for one, other in ((a, b), (b, a)):
            if (
                one.content.product is not None
                and other.value is not None
                and other.size == 1
                and one.shape == shape
            ):
                first, second, addend = one.content.product
                return _product(recorder, shape, interval, (first, second, addend + int(other.value.item())))
        return two_words(recorder, words.add(recorder, a.words, b.words), interval, shape)
    return wrapped(recorder, recorder.elementwise("ADD", a.wide, b.wide), interval, dtype, shape)


@ufunc_rule(np.subtract)
def subtract(
    recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray
) -> TracedArray:
    interval = a.interval - b.interval
    if needs_words(dtype, interval) or _are_words(a, b):
        return two_words(recorder, words.subtract(recorder, a.words, b.words), interval, shape)
    return wrapped(recorder, recorder.elementwise("SUB", a.wide, b.wide), interval, dtype, shape)


@ufunc_rule(np.multiply)
def multiply(
    recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray
) -> TracedArray:
    if dtype == BOOL:
        return boolean(recorder, shape, recorder.elementwise("LOGICAL_AND", a.boolean, b.boolean))
    interval = a.interval * b.interval
    if a is b:
        least = 0 if 0 in a.interval else min(a.interval.low**2, a.interval.high**2)
        interval = Interval(least, a.interval.magnitude**2)
    if needs_words(dtype, interval) and INT32.holds(a.interval) and INT32.holds(b.interval):
        return _product(recorder, shape, interval, (a, b, 0))
    return wrapped(recorder, recorder.multiply(a.wide, b.wide), interval, dtype, shape)


def _are_words(*arrays: TracedArray) -> bool:
    return any(
        each.dtype == np.int64 and each.value is None and Form.WIDE not in each.forms for each in arrays
    )


def _product(
    recorder: Recorder, shape: Shape, interval: Interval, product: tuple[TracedArray, TracedArray, int]
) -> TracedArray:
    """A product whose words are made when they are asked for; its factors are as they are now."""
    first, second, addend = product
    made = TracedArray(recorder, shape, np.int64, interval)
    made.content.product = first.copy(), second.copy(), addend
    return made


@ufunc_rule(np.square)
def square(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray) -> TracedArray:
    return multiply(recorder, dtype, shape, a, a)


@ufunc_rule(np.negative)
def negative(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray) -> TracedArray:
    return subtract(recorder, dtype, shape, lift(recorder, dtype.type(0)), a)


@ufunc_rule(np.positive, np.conjugate, np.floor, np.ceil, np.trunc)
def positive(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray) -> TracedArray:
    return a.astype(dtype)


@ufunc_rule(np.absolute)
def absolute(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray) -> TracedArray:
    if a.interval.low >= 0:
        return a.copy()
    least = 0 if a.interval.high >= 0 else -a.interval.high
    interval = Interval(least, max(-a.interval.low, a.interval.high))
    if needs_words(dtype, interval) or _are_words(a):
        turned = negative(recorder, dtype, shape, a)
        below: Any = np.less(a, 0)
        pair = [
            recorder.elementwise("SELECT", below.boolean, *both)
            for both in zip(turned.words, a.words, strict=True)
        ]
        return two_words(recorder, (pair[0], pair[1]), interval, shape)
    return wrapped(recorder, recorder.add("ABS", [a.wide]), interval, dtype, shape)


@ufunc_rule(np.sign)
def sign(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray) -> TracedArray:
    above: Any = np.greater(a, 0)
    below: Any = np.less(a, 0)
    return above.astype(dtype) - below.astype(dtype) if dtype.kind == "i" else above.astype(dtype)


@ufunc_rule(np.power)
def power(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray) -> TracedArray:
    """Squares and multiplies; the exponent is known."""
    assert b.value is not None
    if b.size != 1:
        refuse("np.power with different exponents is not supported; use one exponent, or a table and np.take")
    exponent, base = int(b.value.item()), a.astype(dtype)
    result: Any = None
    if exponent == 0:
        return lift(recorder, np.ones(shape, dtype))
    while exponent:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return np.broadcast_to(result, shape) if result.shape != shape else result


# --- order


Test = Callable[[Interval, Interval], "bool | None"]
"""What intervals alone tell of a comparison."""


def ordered(recorder: Recorder, a: TracedArray, b: TracedArray) -> tuple[str, str] | None:
    """int32 tensors in the order of the values; None where these need two words."""
    if INT32.holds(a.interval) and INT32.holds(b.interval):
        return a.wide, b.wide
    if UINT32.holds(a.interval) and UINT32.holds(b.interval) and not _are_words(a, b):
        sign_bit = recorder.number(INT32.low)
        first, second = (each.tensor(Form.LOW) for each in (a, b))
        return recorder.elementwise("BITWISE_XOR", first, sign_bit), recorder.elementwise(
            "BITWISE_XOR", second, sign_bit
        )
    return None


def _comparison(ufunc: np.ufunc, swapped: bool, strict: bool, test: Test) -> None:
    """A comparison by GREATER of these operands or of the swapped ones."""

    def rule(
        recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray
    ) -> TracedArray:
        known = test(a.interval, b.interval)
        if known is not None:
            return lift(recorder, np.full(shape, known))
        first, second = (b, a) if swapped else (a, b)
        names = ordered(recorder, first, second)
        if names is not None:
            op = "GREATER" if strict else "GREATER_EQUAL"
            return boolean(recorder, shape, recorder.elementwise(op, *names))
        if strict:
            return boolean(recorder, shape, words.greater(recorder, first.words, second.words))
        less = words.greater(recorder, second.words, first.words)
        return boolean(recorder, shape, recorder.add("LOGICAL_NOT", [less]))

    UFUNCS[ufunc] = rule


def _is_less(a: Interval, b: Interval) -> bool | None:
    return True if a.high < b.low else False if a.low >= b.high else None


def _is_not(known: bool | None) -> bool | None:
    return None if known is None else not known


_comparison(np.greater, False, True, lambda a, b: _is_less(b, a))
_comparison(np.less, True, True, _is_less)
_comparison(np.greater_equal, False, False, lambda a, b: _is_not(_is_less(a, b)))
_comparison(np.less_equal, True, False, lambda a, b: _is_not(_is_less(b, a)))


@ufunc_rule(np.equal)
def equal(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray) -> TracedArray:
    if a.interval.high < b.interval.low or b.interval.high < a.interval.low:
        return lift(recorder, np.full(shape, False))
    if a.dtype == b.dtype == BOOL:
        differ = recorder.elementwise("LOGICAL_XOR", a.boolean, b.boolean)
        return boolean(recorder, shape, recorder.add("LOGICAL_NOT", [differ]))
    names = ordered(recorder, a, b)
    if names is None:
        return boolean(recorder, shape, words.equal(recorder, a.words, b.words))
    return boolean(recorder, shape, recorder.elementwise("EQUAL", *names))


@ufunc_rule(np.not_equal)
def not_equal(
    recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray
) -> TracedArray:
    if a.dtype == b.dtype == BOOL:
        return boolean(recorder, shape, recorder.elementwise("LOGICAL_XOR", a.boolean, b.boolean))
    same = equal(recorder, dtype, shape, a, b)
    if same.value is not None:
        return lift(recorder, ~same.value)
    return boolean(recorder, shape, recorder.add("LOGICAL_NOT", [same.boolean]))


def _extreme(op: str, logical: str, pick: Callable[[int, int], int], *ufuncs: np.ufunc) -> None:
    @ufunc_rule(*ufuncs)
    def rule(
        recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray
    ) -> TracedArray:
        if dtype == BOOL:
            return boolean(recorder, shape, recorder.elementwise(logical, a.boolean, b.boolean))
        interval = Interval(pick(a.interval.low, b.interval.low), pick(a.interval.high, b.interval.high))
        names = ordered(recorder, a, b)
        if names is None:
            above = words.greater(recorder, a.words, b.words)
            first, second = (a, b) if op == "MAXIMUM" else (b, a)
            low, high = (
                recorder.elementwise("SELECT", above, one, other)
                for one, other in zip(first.words, second.words, strict=True)
            )
            return two_words(recorder, (low, high), interval, shape, dtype)
        name = recorder.elementwise(op, *names)
        if not (INT32.holds(a.interval) and INT32.holds(b.interval)):
            name = recorder.elementwise("BITWISE_XOR", name, recorder.number(INT32.low))
        if dtype.itemsize == 8 and not INT32.holds(interval):
            return two_words(recorder, (name, recorder.number(0)), interval, shape, dtype)
        return TracedArray(recorder, shape, dtype, interval, forms={Form.WIDE: name})


_extreme("MAXIMUM", "LOGICAL_OR", max, np.maximum, np.fmax)
_extreme("MINIMUM", "LOGICAL_AND", min, np.minimum, np.fmin)


@function_rule(np.clip)
def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    min: Any = None,
    max: Any = None,
    dtype: Any = None,
) -> Any:
    """NumPy's clip takes Python integers beyond the type as its ends."""
    recorder = recorder_of(a, a_min, a_max, min, max)
    array = lift(recorder, a)

    def end(given: Any) -> Any:
        if type(given) is not int or array.dtype == BOOL:
            return given
        limits = of_type(array.dtype)
        return limits.low if given < limits.low else limits.high if given > limits.high else given

    low, high = end(a_min if a_min is not None else min), end(a_max if a_max is not None else max)
    if low is not None:
        array = np.maximum(array, low)
    if high is not None:
        array = np.minimum(array, high)
    return array if dtype is None else array.astype(dtype)


# --- bits and logic


def _bitwise(ufunc: np.ufunc, op: str, logical: str) -> None:
    @ufunc_rule(ufunc)
    def rule(
        recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray
    ) -> TracedArray:
        if dtype == BOOL:
            return boolean(recorder, shape, recorder.elementwise(logical, a.boolean, b.boolean))
        interval = _bits_of(op, a.interval, b.interval).within(of_type(dtype))
        if a.dtype == b.dtype == dtype and dtype in NARROW and a.natural is b.natural is Form.NARROW:
            name = recorder.elementwise(op, a.narrow, b.narrow)
            return TracedArray(recorder, shape, dtype, interval, forms={Form.NARROW: name})
        if dtype.itemsize == 8 and not (INT32.holds(a.interval) and INT32.holds(b.interval)):
            low, high = (recorder.elementwise(op, *both) for both in zip(a.words, b.words, strict=True))
            return two_words(recorder, (low, high), interval, shape, dtype)
        return wrapped(recorder, recorder.elementwise(op, a.wide, b.wide), interval, dtype, shape)


def _bits_of(op: str, a: Interval, b: Interval) -> Interval:
    if op == "BITWISE_AND" and max(a.low, b.low) >= 0:
        return Interval(0, min(each.high for each in (a, b) if each.low >= 0))
    bits = max(a.bits, b.bits)
    return Interval(0 if min(a.low, b.low) >= 0 else -(1 << bits), (1 << bits) - 1)


_bitwise(np.bitwise_and, "BITWISE_AND", "LOGICAL_AND")
_bitwise(np.bitwise_or, "BITWISE_OR", "LOGICAL_OR")
_bitwise(np.bitwise_xor, "BITWISE_XOR", "LOGICAL_XOR")


@ufunc_rule(np.invert)
def invert(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray) -> TracedArray:
    if dtype == BOOL:
        return boolean(recorder, shape, recorder.add("LOGICAL_NOT", [a.boolean]))
    interval = -a.interval - Interval(1, 1)
    if _are_words(a):
        low, high = (recorder.add("BITWISE_NOT", [word]) for word in a.words)
        return two_words(recorder, (low, high), interval, shape)
    return wrapped(recorder, recorder.add("BITWISE_NOT", [a.wide]), interval, dtype, shape)


def truth(a: TracedArray) -> TracedArray:
    """Whether elements are not 0."""
    return a if a.dtype == BOOL else a != 0


def _logical(ufunc: np.ufunc, op: str) -> None:
    @ufunc_rule(ufunc)
    def rule(recorder: Recorder, dtype: np.dtype, shape: Shape, *arrays: TracedArray) -> TracedArray:
        return boolean(recorder, shape, recorder.elementwise(op, *(truth(each).boolean for each in arrays)))


_logical(np.logical_and, "LOGICAL_AND")
_logical(np.logical_or, "LOGICAL_OR")
_logical(np.logical_xor, "LOGICAL_XOR")
_logical(np.logical_not, "LOGICAL_NOT")


@ufunc_rule(np.bitwise_count)
def bitwise_count(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray) -> TracedArray:
    """Adds neighbours: 1, 2, 4 bits, and a product for the bytes. NumPy counts the bits of the absolute value."""
    bits: Any = absolute(recorder, a.dtype, shape, a)
    if a.dtype.kind == "i":
        bits = bits.view(f"u{a.itemsize}")
    bits = bits.astype(np.uint32)
    bits = bits - ((bits >> 1) & 0x55555555)
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = ((bits + (bits >> 4)) & 0x0F0F0F0F) * np.uint32(0x01010101) >> 24
    return np.minimum(bits, 32).astype(dtype)


# --- shifts


@ufunc_rule(np.left_shift)
def left_shift(
    recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray
) -> TracedArray:
    """NumPy gives 0 for counts beyond the width, and for negative ones."""
    bits = min(dtype.itemsize * 8, 32)
    counts = b.interval
    if dtype.itemsize == 8 and not Interval(0, 62).holds(counts):
        refuse(
            f"a shift of an {dtype} by {counts} is not bounded: np.clip the count, or astype(np.int32) first"
        )
    interval = a.interval.corners(counts, lambda x, y: x << y) if Interval(0, 62).holds(counts) else INT64
    if needs_words(dtype, interval) and b.value is not None:
        factor = lift(recorder, np.int64(1) << b.value.astype(np.int64))
        if INT32.holds(a.interval) and INT32.holds(factor.interval):
            return _product(recorder, shape, interval, (a, factor, 0))
    if Interval(0, bits - 1).holds(counts):
        name = recorder.elementwise("LOGICAL_LEFT_SHIFT", a.wide, b.wide)
        return wrapped(recorder, name, interval, dtype, shape)
    inside: Any = (b >= 0) & (b < bits)
    count: Any = np.where(inside, b, b.dtype.type(0))
    name = recorder.elementwise("LOGICAL_LEFT_SHIFT", a.wide, count.wide)
    name = recorder.elementwise("SELECT", inside.boolean, name, recorder.number(0))
    return wrapped(recorder, name, interval, dtype, shape)


@ufunc_rule(np.right_shift)
def right_shift(
    recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray
) -> TracedArray:
    """NumPy gives the sign for counts beyond the width, and for negative ones."""
    counts = b.interval
    if _are_words(a):
        return _words_shifted(recorder, dtype, shape, a, b)
    if a.dtype == np.uint32 and a.interval.high > INT32.high:
        inside: Any = None if Interval(0, 31).holds(counts) else (b >= 0) & (b < 32)
        count: Any = b if inside is None else b & 31
        name = recorder.elementwise("LOGICAL_RIGHT_SHIFT", a.wide, count.wide)
        if inside is not None:
            name = recorder.elementwise("SELECT", inside.boolean, name, recorder.number(0))
        most = a.interval.high >> counts.low if inside is None else a.interval.high
        return wrapped(recorder, name, Interval(0, most), dtype, shape)
    if not Interval(0, 31).holds(counts):
        if b.value is not None:
            b = lift(recorder, np.clip(np.where(b.value < 0, 31, b.value), 0, 31).astype(dtype))
        else:
            known: Any = (b >= 0) & (b < 31)
            b = np.where(known, b, b.dtype.type(31))
    # NumPy's count -1 is as one beyond the width, so the ends are those of 0 and 31.
    interval = a.interval.corners(b.interval, lambda x, y: x >> min(max(y, 0), 31))
    name = recorder.elementwise("ARITHMETIC_RIGHT_SHIFT", a.wide, b.wide, round=False)
    return TracedArray(recorder, shape, dtype, interval, forms={Form.WIDE: name})


def _words_shifted(
    recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray, b: TracedArray
) -> TracedArray:
    """Of 64 bits, by a constant: one MUL where the product is rounded half up, else two words."""
    count = int(b.value.item()) if b.value is not None and b.size == 1 else -1
    if not 0 <= count <= 63:
        refuse(
            f"a shift of {a!r} needs one constant count of 0 to 63; astype(np.int32) first, or tosaic.rescale"
        )
    interval = Interval(a.interval.low >> count, a.interval.high >> count)
    product = a.content.product
    if product is not None and 0 < count < 63 and product[2] == 1 << (count - 1) and INT32.holds(interval):
        name = recorder.multiply(product[0].wide, product[1].wide, count)
        return TracedArray(recorder, shape, dtype, interval, forms={Form.WIDE: name})
    return two_words(recorder, words.shifted(recorder, a.words, count), interval, shape)


# --- what floats may be


def _always(found: bool, *ufuncs: np.ufunc) -> None:
    @ufunc_rule(*ufuncs)
    def rule(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray) -> TracedArray:
        return lift(recorder, np.full(shape, found))


_always(False, np.isnan, np.isinf)
_always(True, np.isfinite)


@ufunc_rule(np.signbit)
def signbit(recorder: Recorder, dtype: np.dtype, shape: Shape, a: TracedArray) -> Any:
    return a < 0
