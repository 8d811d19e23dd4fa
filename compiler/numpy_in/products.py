"""Products of matrices, and convolutions, on the array of int8 multipliers.

A wider operand is a sum of byte planes: each has a zero point and a shift, and a product of two planes counts modulo
the result's width only.
"""

import dataclasses
import itertools
import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.numpy_in.conversion import convert, two_words, wrapped
from tosaic.compiler.numpy_in.forms import BOOL, INT64, INTEGERS, Form
from tosaic.compiler.numpy_in.intervals import INT8, INT32, Interval
from tosaic.compiler.numpy_in.intervals import INT64 as INT64_VALUES
from tosaic.compiler.numpy_in.moves import (
    axis_of,
    broadcast,
    padded,
    read_only,
    reshaped,
    stack,
    transposed,
)
from tosaic.compiler.numpy_in.recording import Recorder, refuse
from tosaic.compiler.numpy_in.rules import FUNCTIONS, UFUNCS, function_rule, ufunc_rule
from tosaic.compiler.numpy_in.tracer import TracedArray, lift, recorder_of
from tosaic.compiler.numpy_in.ufuncs import needs_words


@dataclasses.dataclass(frozen=True)
class Plane:
    """(tensor - zero_point) << shift is a part of an operand."""

    tensor: str
    zero_point: int
    shift: int


def planes_of(a: TracedArray) -> list[Plane]:
    """int8 planes whose sum is the array, modulo 2 to the 32: one wherever its interval or its origin shows that."""
    if a.value is not None:
        return _constant_planes(a)
    record, interval = a.recorder, a.interval
    if Form.SIGNED_BYTE in a.forms:
        return [Plane(a.forms[Form.SIGNED_BYTE], 0, 0)]
    if Form.UNSIGNED_BYTE in a.forms:
        top = record.byte(-128)
        return [Plane(record.elementwise("BITWISE_XOR", a.forms[Form.UNSIGNED_BYTE], top), -128, 0)]
    if INT8.holds(interval):
        if a.itemsize == 1 and a.dtype.kind == "i" and Form.NARROW in a.forms:
            return [Plane(a.narrow, 0, 0)]
        return [Plane(record.add("CAST", [a.wide], dtype=DType.INT8), 0, 0)]
    zero_point = -128 - interval.low
    if interval.high - interval.low <= 255 and zero_point in INT8:
        moved = record.elementwise("ADD", a.wide, record.number(zero_point))
        return [Plane(record.add("CAST", [moved], dtype=DType.INT8), zero_point, 0)]
    planes = []
    count = _bytes_of(interval)
    for number in range(count):
        byte = a.wide
        if number:
            shift = record.number(8 * number)
            byte = record.elementwise("ARITHMETIC_RIGHT_SHIFT", byte, shift, round=False)
        if number < count - 1:
            byte = record.elementwise("BITWISE_AND", byte, record.number(255))
            byte = record.elementwise("SUB", byte, record.number(128))
        zero = -128 if number < count - 1 else 0
        planes.append(Plane(record.add("CAST", [byte], dtype=DType.INT8), zero, 8 * number))
    return planes


def _bytes_of(interval: Interval) -> int:
    return min(max((interval.bits + 8) // 8, 2), 4)


def _constant_planes(a: TracedArray) -> list[Plane]:
    if a.dtype not in INTEGERS:
        refuse(f"a constant of type {a.dtype} meets a traced array; round it to integers first")
    assert a.value is not None
    record, value = a.recorder, a.value.astype(np.int64)
    if INT8.holds(a.interval):
        return [Plane(record.constant(value.astype(np.int8), DType.INT8), 0, 0)]
    planes, count = [], _bytes_of(a.interval)
    for number in range(count):
        byte, zero = value >> (8 * number), 0
        if number < count - 1:
            byte, zero = (byte & 255) - 128, -128
        planes.append(Plane(record.constant(byte.astype(np.int8), DType.INT8), zero, 8 * number))
    return planes


def _sum_of_planes(record: Recorder, a: TracedArray, b: TracedArray, dtype: np.dtype, multiply: Any) -> str:
    """The sum of the products of all pairs of planes that count in the result's width."""
    width = min(dtype.itemsize * 8, 32)
    total = ""
    for one, other in itertools.product(planes_of(a), planes_of(b)):
        shift = one.shift + other.shift
        if shift >= width:
            continue
        part = multiply(one, other)
        if shift:
            part = record.elementwise("LOGICAL_LEFT_SHIFT", part, record.number(shift))
        total = record.elementwise("ADD", total, part) if total else part
    return total


def _sums(a: TracedArray, b: TracedArray, count: int) -> Interval:
    return (a.interval * b.interval).times(count)


def batched_product(a: TracedArray, b: TracedArray, dtype: np.dtype) -> TracedArray:
    """[N, H, K] x [N, K, W], as NumPy computes it in `dtype`."""
    record = a.recorder
    if dtype.itemsize < 8:
        a, b = convert(a, dtype), convert(b, dtype)

    def multiply(one: Plane, other: Plane) -> str:
        operands = [record.reshape(one.tensor, a.shape), record.reshape(other.tensor, b.shape)]
        return record.add("MATMUL", [*operands, record.byte(one.zero_point), record.byte(other.zero_point)])

    sums, shape = _sums(a, b, a.shape[2]), (a.shape[0], a.shape[1], b.shape[2])
    most = a.shape[2] * 255 * 255
    if needs_words(dtype, sums) and most <= INT32.high:
        return _in_words(a, b, multiply, Interval(-most, most), shape, sums)
    name = _sum_of_planes(record, a, b, dtype, multiply)
    return wrapped(record, name, sums, dtype, shape)


def _in_words(
    a: TracedArray, b: TracedArray, multiply: Any, of_planes: Interval, shape: Sequence[int], sums: Interval
) -> TracedArray:
    """A product of more than 32 bits: of all pairs of planes, each of which has fewer."""
    record, total = a.recorder, None
    for one, other in itertools.product(planes_of(a), planes_of(b)):
        shift = one.shift + other.shift
        name = multiply(one, other)
        if shift < 32:
            part: Any = TracedArray(record, shape, INT64, of_planes, forms={Form.WIDE: name}) << shift
        else:
            high = record.elementwise("LOGICAL_LEFT_SHIFT", name, record.number(shift - 32))
            part = two_words(record, (record.number(0), high), INT64_VALUES, shape)
        total = part if total is None else total + part
    assert total is not None
    total.content.interval = sums
    return total


@ufunc_rule(np.matmul)
def matmul(a: TracedArray, b: TracedArray) -> Any:
    if not a.ndim or not b.ndim:
        raise ValueError("matmul: Input operand does not have enough dimensions")
    dtype = np.result_type(a.dtype, b.dtype)
    if dtype == BOOL:
        return matmul(a.astype(np.int32), b.astype(np.int32)) != 0
    if dtype not in INTEGERS:
        refuse(f"np.matmul of {a.dtype} and {b.dtype} gives {dtype} in NumPy: convert one side (astype)")
    x = reshaped(a, (1, *a.shape)) if a.ndim == 1 else a
    y = reshaped(b, (*b.shape, 1)) if b.ndim == 1 else b
    if x.shape[-1] != y.shape[-2]:
        raise ValueError(
            f"matmul: Input operand 1 has a mismatch in its core dimension 0 (size {y.shape[-2]} is different from "
            f"{x.shape[-1]})"
        )
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    shape = (*batch, *(() if a.ndim == 1 else (x.shape[-2],)), *(() if b.ndim == 1 else (y.shape[-1],)))
    if math.prod(y.shape[:-2]) == 1:
        x3, y3 = reshaped(x, (1, x.size // x.shape[-1], x.shape[-1])), reshaped(y, (1, *y.shape[-2:]))
    else:
        x, y = (
            each if each.shape[:-2] == batch else broadcast(each, (*batch, *each.shape[-2:]))
            for each in (x, y)
        )
        count = math.prod(batch)
        x3, y3 = (reshaped(each, (count, *each.shape[-2:])) for each in (x, y))
    made = reshaped(batched_product(x3, y3, dtype), shape)
    made.scalar = shape == ()
    return made


@function_rule(np.linalg.matrix_power)
def matrix_power(a: Any, n: int) -> Any:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    if n < 1:
        refuse(
            "np.linalg.matrix_power of a traced array needs an exponent of 1 or more; np.eye is the power 0"
        )
    result: Any = None
    square = a
    while n:
        if n & 1:
            result = square if result is None else matmul(result, square)
        n >>= 1
        square = matmul(square, square) if n else square
    return result.copy()


@function_rule(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    recorder = recorder_of(a, b)
    x, y = lift(recorder, a), lift(recorder, b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return matmul(x, y) if y.ndim <= 2 else tensordot(x, y, ([-1], [y.ndim - 2]))


@function_rule(np.vdot)
def vdot(a: Any, b: Any) -> Any:
    recorder = recorder_of(a, b)
    x, y = lift(recorder, a), lift(recorder, b)
    return matmul(reshaped(x, (x.size,)), reshaped(y, (y.size,)))


@function_rule(np.outer, np.linalg.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    recorder = recorder_of(a, b)
    x, y = lift(recorder, a), lift(recorder, b)
    return reshaped(x, (x.size, 1)) * reshaped(y, (1, y.size))


@function_rule(np.inner)
def inner(a: Any, b: Any) -> Any:
    recorder = recorder_of(a, b)
    x, y = lift(recorder, a), lift(recorder, b)
    return x * y if x.ndim == 0 or y.ndim == 0 else tensordot(x, y, ([-1], [-1]))


@function_rule(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    recorder = recorder_of(a, b)
    x, y = lift(recorder, a), lift(recorder, b)
    if isinstance(axes, int | np.integer):
        of_x, of_y = list(range(x.ndim - int(axes), x.ndim)), list(range(int(axes)))
    else:
        of_x, of_y = ([each] if isinstance(each, int | np.integer) else list(each) for each in axes)
    of_x, of_y = [axis_of(i, x.ndim) for i in of_x], [axis_of(i, y.ndim) for i in of_y]
    if [x.shape[i] for i in of_x] != [y.shape[i] for i in of_y]:
        raise ValueError("shape-mismatch for sum")
    free_x, free_y = ([i for i in range(each.ndim) if i not in of] for each, of in ((x, of_x), (y, of_y)))
    shape = [x.shape[i] for i in free_x] + [y.shape[i] for i in free_y]
    window = {x.ndim - 2, x.ndim - 1}
    if (
        x.windows_of is not None
        and free_x == [0, 1]
        and window <= set(of_x)
        and np.result_type(x.dtype, y.dtype) != BOOL
    ):
        weights = [of_y[of_x.index(i)] for i in (*sorted(window), *range(2, x.ndim - 2))]
        return reshaped(_convolution(x, y, [*free_y, *weights]), shape)
    count = math.prod(x.shape[i] for i in of_x)
    rows = reshaped(_ordered(x, free_x + of_x), (x.size // count, count))
    columns = reshaped(_ordered(y, of_y + free_y), (count, y.size // count))
    made = reshaped(matmul(rows, columns), shape)
    made.scalar = not shape
    return made


def _ordered(a: TracedArray, axes: Sequence[int]) -> TracedArray:
    return a if list(axes) == list(range(a.ndim)) else transposed(a, axes)


def _convolution(x: TracedArray, w: TracedArray, order: Sequence[int]) -> TracedArray:
    """Sliding windows [h, w, (c), kh, kw] times weights: CONV2D on the image. `order`: the weights' axes as outputs,
    rows, columns, (channels)."""
    record, image = x.recorder, x.windows_of
    assert image is not None
    dtype = np.result_type(x.dtype, w.dtype)
    if image.dtype != dtype and dtype.itemsize < 8:
        image = convert(image, dtype)
    channels = x.shape[2] if x.ndim == 5 else 1
    rows, columns = x.shape[-2:]
    outputs = w.size // (rows * columns * channels)
    kernel = reshaped(_ordered(w, order), (outputs, rows, columns, channels))
    bias = record.constant(np.zeros(outputs, np.int32), DType.INT32)

    def multiply(one: Plane, other: Plane) -> str:
        pixels = record.reshape(one.tensor, (1, *image.shape[:2], channels))
        zeros = [record.byte(one.zero_point), record.byte(other.zero_point)]
        operands = [pixels, record.reshape(other.tensor, kernel.shape), bias, *zeros]
        same = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}
        return record.add("CONV2D", operands, acc_type=DType.INT32, **same)

    if dtype.itemsize < 8:
        kernel = convert(kernel, dtype)
    name = _sum_of_planes(record, image, kernel, dtype, multiply)
    count = math.prod(kernel.shape[1:])
    return wrapped(record, name, _sums(image, kernel, count), dtype, (1, *x.shape[:2], outputs))


@function_rule(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(x: TracedArray, window_shape: Any, axis: Any = None) -> Any:
    """Windows side by side; of an image's first two axes they remember the image, so that a product becomes CONV2D."""
    sizes = (window_shape,) if isinstance(window_shape, int | np.integer) else tuple(window_shape)
    _ = np.lib.stride_tricks.sliding_window_view(np.empty(x.shape, "b"), window_shape, axis)
    given = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int | np.integer) else axis
    axes = [axis_of(each, x.ndim) for each in given]
    made = windows(x, axes, sizes)
    is_image = axes == [0, 1] and x.ndim in (2, 3)
    made.follow(x, ("windows", tuple(axes), sizes), lambda base: windows(base, axes, sizes), read_only)
    made.windows_of = x.copy() if is_image else None
    return made


def windows(x: TracedArray, axes: Sequence[int], sizes: Sequence[int]) -> TracedArray:
    for place, size in zip(axes, sizes, strict=True):
        count = x.shape[place] - size + 1
        before = (slice(None),) * place
        x = stack([x[(*before, slice(k, k + count))] for k in range(size)], -1)
    return x


@function_rule(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    recorder = recorder_of(a, v)
    x, y = lift(recorder, a), lift(recorder, v)
    if x.ndim != 1 or y.ndim != 1:
        refuse("np.convolve is for arrays of one axis; np.tensordot of sliding windows is for more")
    if y.size > x.size:
        x, y = y, x
    count, taps = x.size, y.size
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    if mode != "valid":
        x = padded(x, [(taps - 1, taps - 1)])
    result = matmul(windows(x, [0], [taps]), y[::-1])
    start = (taps - 1) // 2
    return result if mode != "same" else result[start : start + count].copy()


@function_rule(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    recorder = recorder_of(a, v)
    x, y = lift(recorder, a), lift(recorder, v)
    if y.size > x.size:  # NumPy exchanges them, and turns the result round
        return convolve(y, x[::-1], mode)[::-1].copy()
    return convolve(x, y[::-1], mode)


def _of_vectors(name: str, subscripts: str) -> None:
    """Products that NumPy has since 2.0 or 2.2."""
    ufunc = getattr(np, name, None)
    if ufunc is not None:
        UFUNCS[ufunc] = lambda a, b: einsum(subscripts, a, b)


_of_vectors("vecdot", "...i,...i->...")
_of_vectors("matvec", "...ij,...j->...i")
_of_vectors("vecmat", "...i,...ij->...j")


@function_rule(np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    recorder = recorder_of(x1, x2)
    return einsum("...i,...i->...", *(np.moveaxis(lift(recorder, each), axis, -1) for each in (x1, x2)))


@function_rule(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    recorder = recorder_of(arrays)
    result, *rest = (lift(recorder, each) for each in arrays)
    for each in rest:
        result = dot(result, each)
    return result


FUNCTIONS[np.linalg.matmul] = lambda x1, x2, /: np.matmul(x1, x2)
FUNCTIONS[np.linalg.diagonal] = lambda x, /, *, offset=0: np.diagonal(x, offset, -2, -1)
FUNCTIONS[np.linalg.trace] = lambda x, /, *, offset=0, dtype=None: np.trace(x, offset, -2, -1, dtype)


@function_rule(np.einsum)
def einsum(
    subscripts: Any,
    *operands: Any,
    out: Any = None,
    optimize: Any = False,
    dtype: Any = None,
    casting: str = "safe",
) -> Any:
    """Pair by pair from the left; letters that nothing else needs are summed first."""
    if not isinstance(subscripts, str):
        refuse("np.einsum without a text of subscripts is not supported; write one")
    recorder = recorder_of(*operands)
    arrays = [lift(recorder, each) for each in operands]
    like = [np.empty(each.shape, each.dtype) for each in arrays]
    kind = np.einsum(subscripts, *like, dtype=dtype, casting=casting).dtype
    if kind == BOOL or kind not in INTEGERS:
        refuse(f"np.einsum in {kind} is not supported: convert the operands (astype) to integers")
    terms, result = _letters(subscripts, arrays)
    sizes: dict[str, int] = {}
    for term, each in zip(terms, arrays, strict=True):
        sizes |= {c: max(size, sizes.get(c, 1)) for c, size in zip(term, each.shape, strict=True)}
    pairs = [_axis_for_each(term, each, sizes) for term, each in zip(terms, arrays, strict=True)]
    terms, arrays = [term for term, _ in pairs], [convert(each, kind) for _, each in pairs]
    while len(arrays) > 1:
        term, array = _contracted(terms[:2], arrays[:2], set(result).union(*terms[2:]), kind)
        terms, arrays = [term, *terms[2:]], [array, *arrays[2:]]
    term, array = _summed(terms[0], arrays[0], set(result), kind)
    wanted = [sizes[c] for c in result]
    for c in result:
        if c not in term:  # an axis that has one element everywhere
            term, array = term + c, reshaped(array, (*array.shape, 1))
    array = _ordered(array, [term.index(c) for c in result]) if term != result else array.copy()
    return array if list(array.shape) == wanted else broadcast(array, wanted)


def _letters(subscripts: str, arrays: Sequence[TracedArray]) -> tuple[list[str], str]:
    """The operands' terms and the result's, with letters for the axes that an ellipsis stands for."""
    given, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    free = [c for c in string.ascii_letters if c not in subscripts]
    counts = [each.ndim - len(term.replace("...", "")) for term, each in zip(terms, arrays, strict=True)]
    most = max((n for n, term in zip(counts, terms, strict=True) if "..." in term), default=0)
    if not arrow:
        letters = given.replace(".", "").replace(",", "")
        result = "..." * ("..." in given) + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    spelled = "".join(free[:most])
    terms = [term.replace("...", spelled[most - n :]) for n, term in zip(counts, terms, strict=True)]
    return terms, result.replace("...", spelled)


def _axis_for_each(term: str, a: TracedArray, sizes: dict[str, int]) -> tuple[str, TracedArray]:
    """A term with each letter once: a diagonal of those that are there twice; without axes that are repeated."""
    once = "".join(dict.fromkeys(term))
    if once != term:
        places = np.einsum(f"{term}->{once}", np.arange(a.size).reshape(a.shape))
        a = np.take(reshaped(a, (a.size,)), places)
    kept = [i for i, c in enumerate(once) if a.shape[i] > 1 or sizes[c] == 1]
    if len(kept) < len(once):
        once, a = "".join(once[i] for i in kept), reshaped(a, [a.shape[i] for i in kept])
    return once, a


def _summed(term: str, a: TracedArray, keep: set[str], dtype: np.dtype) -> tuple[str, TracedArray]:
    """Without the axes of letters that are not kept."""
    gone = tuple(i for i, c in enumerate(term) if c not in keep)
    if gone:
        a = np.sum(a, axis=gone, dtype=dtype)
    return "".join(c for c in term if c in keep), a


def _contracted(
    terms: Sequence[str], arrays: Sequence[TracedArray], keep: set[str], dtype: np.dtype
) -> tuple[str, TracedArray]:
    """The product of two operands, summed over what neither the result nor other operands need."""
    s, a = _summed(terms[0], arrays[0], keep | set(terms[1]), dtype)
    t, b = _summed(terms[1], arrays[1], keep | set(s), dtype)
    sizes = dict(zip(s + t, a.shape + b.shape, strict=True))
    batch = [c for c in s if c in t and c in keep]
    inside = [c for c in s if c in t and c not in keep]
    left, right = [c for c in s if c not in t], [c for c in t if c not in s]

    def count(letters: Sequence[str]) -> int:
        return math.prod(sizes[c] for c in letters)

    x = _ordered(a, [s.index(c) for c in batch + left + inside])
    y = _ordered(b, [t.index(c) for c in batch + inside + right])
    product = batched_product(
        reshaped(x, (count(batch), count(left), count(inside))),
        reshaped(y, (count(batch), count(inside), count(right))),
        dtype,
    )
    letters = batch + left + right
    return "".join(letters), reshaped(product, [sizes[c] for c in letters])
