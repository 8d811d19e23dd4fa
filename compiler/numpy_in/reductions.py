"""Reductions, scans, extremes and their places, and sorting networks."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.numpy_in.conversion import convert, two_words, wrapped
from tosaic.compiler.numpy_in.forms import BOOL, INT64, NARROW, Form
from tosaic.compiler.numpy_in.intervals import INT32, Interval, of_type
from tosaic.compiler.numpy_in.intervals import INT64 as INT64_VALUES
from tosaic.compiler.numpy_in.moves import (
    axes_of,
    axis_of,
    broadcast,
    concatenate,
    count_of,
    joined,
    padded,
    reshaped,
    stack,
    transposed,
    where,
)
from tosaic.compiler.numpy_in.products import matmul
from tosaic.compiler.numpy_in.recording import refuse
from tosaic.compiler.numpy_in.rules import FUNCTIONS, METHODS, OUT_OF_ONE_TYPE, WAYS_OUT, function_rule
from tosaic.compiler.numpy_in.tracer import TracedArray, lift, plain, recorder_of
from tosaic.compiler.numpy_in.ufuncs import needs_words, truth

BLOCK = 32
"""Elements that are summed up by one product: of 800 int8 1,803 cycles on `base`, 2,559 with 64."""
MOST_SUMMED = 2**15
"""Elements whose 16 bits each have a sum of 32 bits."""
FEW = 16
"""Up to this length a network that exchanges single rows is shorter than one of whole halves."""

WAYS_OUT |= {
    "mean": ": it gives floats; x.sum(axis, dtype=np.int32) // n is an integer",
    "average": ": it gives floats; (x * weights).sum(axis, dtype=np.int32) // n is an integer",
    "median": ": it gives floats; np.sort(x, axis)[n // 2] is an integer",
    "percentile": ": it gives floats; np.sort(x, axis)[place] is an integer",
    "std": ": it gives floats; sum squares in integers",
    "var": ": it gives floats; sum squares in integers",
    **dict.fromkeys(("quantile", "nanmedian"), ": it gives floats; np.sort(x, axis)[place] is an integer"),
    **dict.fromkeys(
        ("partition", "argpartition"), ": NumPy leaves its order open; np.sort, np.argsort(kind='stable')"
    ),
    **dict.fromkeys(("gcd", "lcm"), ": its steps depend on values; tosaic.while_loop with np.where"),
    **dict.fromkeys(
        (
            "interp",
            "gradient",
            "trapezoid",
            "fft",
            "ifft",
            "rfft",
            "norm",
            "det",
            "inv",
            "solve",
            "cov",
            "corrcoef",
        ),
        ": it gives floats; write it in fixed point with // or >>",
    ),
    **dict.fromkeys(
        ("vectorize", "apply_along_axis", "apply_over_axes"), "; call the function on whole arrays"
    ),
    **dict.fromkeys(
        ("unique", "nonzero", "argwhere", "flatnonzero", "extract", "trim_zeros"),
        ": its shape depends on values; np.where keeps the shape",
    ),
}


def _dropped(a: TracedArray, axes: Sequence[int], keepdims: bool) -> TracedArray:
    """A reduced array, without the axes of size 1 that a reduction leaves."""
    if keepdims:
        return a
    made = reshaped(a, [size for i, size in enumerate(a.shape) if i not in axes], renamed=True)
    made.scalar = made.shape == ()
    return made


def _reduced(a: TracedArray, op: str, axes: Sequence[int], form: Form) -> str:
    record = a.recorder
    name = record.reshape(a.wide if form is Form.WIDE else a.tensor(form), a.shape)
    for axis in axes:
        if record.shape(name)[axis] > 1:
            name = record.add(op, [name], axis=axis)
    return name


def _reduced_shape(a: TracedArray, axes: Sequence[int]) -> list[int]:
    return [1 if i in axes else size for i, size in enumerate(a.shape)]


def _where(a: Any, where_: Any, other: Any) -> Any:
    """The array with `other`, which changes nothing, in the place of what a reduction leaves out."""
    return a if where_ is True else where(where_, a, a.dtype.type(other))


def _initial(a: TracedArray, initial: Any, kind: np.dtype) -> TracedArray:
    """What a reduction begins with, in its type."""
    if isinstance(initial, int):
        return lift(a.recorder, np.asarray(initial, kind))
    return convert(lift(a.recorder, initial), kind)


@function_rule(np.sum, np.nansum)
def sum_(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    recorder = recorder_of(a, initial, where)
    a = _where(lift(recorder, a), where, 0)
    kind = np.sum(np.ones(1, a.dtype), dtype=dtype).dtype
    if initial is not None:
        return np.add(sum_(a, axis, kind, keepdims=keepdims), _initial(a, initial, kind))
    axes = axes_of(axis, a.ndim)
    count = count_of(a.shape, axes)
    values = convert(a, kind) if kind.itemsize < 8 else a
    if needs_words(kind, values.interval.times(count)) and count <= MOST_SUMMED:
        return _dropped(_summed_in_words(values, axes, count), axes, keepdims)
    name = _reduced(values, "REDUCE_SUM", axes, Form.WIDE)
    whole = wrapped(a.recorder, name, values.interval.times(count), kind, _reduced_shape(a, axes))
    return _dropped(whole, axes, keepdims)


def _summed_in_words(a: TracedArray, axes: Sequence[int], count: int) -> TracedArray:
    """Sums of more than 32 bits: of the elements' 16 bits each, which are then put together."""
    record, shape = a.recorder, _reduced_shape(a, axes)

    def sums(name: str, of: Interval) -> Any:
        part = TracedArray(record, a.shape, INT64, of, forms={Form.WIDE: name})
        whole = _reduced(part, "REDUCE_SUM", axes, Form.WIDE)
        return TracedArray(record, shape, INT64, of.times(count), forms={Form.WIDE: whole})

    half = Interval(0, 65535)
    low = a.wide if INT32.holds(a.interval) else a.words[0]
    total = sums(record.elementwise("BITWISE_AND", low, record.number(65535)), half)
    if INT32.holds(a.interval):
        upper = record.elementwise("ARITHMETIC_RIGHT_SHIFT", low, record.number(16), round=False)
        total = sums(upper, Interval(a.interval.low >> 16, a.interval.high >> 16)) * 65536 + total
    else:
        middle = sums(record.elementwise("LOGICAL_RIGHT_SHIFT", low, record.number(16)), half)
        top = sums(a.words[1], Interval(0, 0)).wide
        total = total + middle * 65536 + two_words(record, (record.number(0), top), INT64_VALUES, shape)
    total.content.interval = a.interval.times(count)
    return total


@function_rule(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> TracedArray:
    return sum_(truth(a), axis, keepdims=keepdims)


def _extreme(op: str, of_bools: str, pick: np.ufunc, *functions: Callable[..., Any]) -> Callable[..., Any]:
    def rule(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        a = lift(recorder_of(a, initial, where), a)
        axes = axes_of(axis, a.ndim)
        if initial is not None or where is not True:
            return of_some(a, axes, keepdims, initial, where)
        if a.dtype == BOOL:
            forms = {Form.BOOL: _reduced(a, of_bools, axes, Form.BOOL)}
        elif a.dtype == np.uint32 and a.interval.high > INT32.high:
            sign = np.uint32(2**31)
            return rule((a ^ sign).view(np.int32), axis, keepdims=keepdims).view(np.uint32) ^ sign
        elif a.itemsize == 8 and not INT32.holds(a.interval):
            for each in reversed(axes):
                a = _folded(a, each, pick, True)
            return _dropped(a, axes, keepdims)
        else:
            form = Form.NARROW if a.natural is Form.NARROW and a.dtype.kind == "i" else Form.WIDE
            forms = {form: _reduced(a, op, axes, form)}
        whole = TracedArray(a.recorder, _reduced_shape(a, axes), a.dtype, a.interval, forms=forms)
        return _dropped(whole, axes, keepdims)

    def of_some(a: TracedArray, axes: Sequence[int], keepdims: bool, initial: Any, chosen: Any) -> Any:
        if initial is None:
            functions[0](np.ones(1, a.dtype), where=np.ones(1, bool))
        first = _initial(a, initial, a.dtype)
        kept = a if chosen is True else where(chosen, a, first)
        return pick(rule(kept, tuple(axes), keepdims=keepdims), first)

    return function_rule(*functions)(rule)


greatest = _extreme("REDUCE_MAX", "REDUCE_ANY", np.maximum, np.max, np.amax, np.nanmax)
least = _extreme("REDUCE_MIN", "REDUCE_ALL", np.minimum, np.min, np.amin, np.nanmin)


@function_rule(np.any)
def any_(a: Any, axis: Any = None, *, keepdims: bool = False, where: Any = True) -> Any:
    recorder = recorder_of(a, where)
    return greatest(_where(truth(lift(recorder, a)), where, False), axis, keepdims=keepdims)


@function_rule(np.all)
def all_(a: Any, axis: Any = None, *, keepdims: bool = False, where: Any = True) -> Any:
    recorder = recorder_of(a, where)
    return least(_where(truth(lift(recorder, a)), where, True), axis, keepdims=keepdims)


@function_rule(np.ptp)
def ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return greatest(a, axis, keepdims=keepdims) - least(a, axis, keepdims=keepdims)


def _folded(a: TracedArray, axis: int, ufunc: np.ufunc, keepdims: bool) -> TracedArray:
    """An associative ufunc along an axis, by halves."""
    before = (slice(None),) * axis
    while (size := a.shape[axis]) > 1:
        half = size // 2
        result: Any = ufunc(a[(*before, slice(0, half))], a[(*before, slice(half, 2 * half))])
        a = concatenate([result, a[(*before, slice(2 * half, size))]], axis) if size & 1 else result
    return _dropped(a, [axis], keepdims)


@function_rule(np.prod, np.nanprod)
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    a = _where(lift(recorder_of(a, initial, where), a), where, 1)
    kind = np.prod(np.ones(1, a.dtype), dtype=dtype).dtype
    result: Any = convert(a, kind)
    for each in reversed(axes_of(axis, a.ndim)):
        result = _folded(result, each, np.multiply, keepdims)
    return result if initial is None else np.multiply(result, _initial(a, initial, kind))


# --- scans


def _scanned(a: TracedArray, axis: int, ufunc: np.ufunc) -> TracedArray:
    """An associative ufunc of all elements up to each, by doubling."""
    size, step, before = a.shape[axis], 1, (slice(None),) * axis
    while step < size:
        late = ufunc(a[(*before, slice(step, None))], a[(*before, slice(0, size - step))])
        a = joined([a[(*before, slice(0, step))].copy(), late], axis)
        step *= 2
    return a


@function_rule(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    values, place = (reshaped(a, (a.size,)), 0) if axis is None else (a, axis_of(axis, a.ndim))
    values = convert(values, np.cumsum(np.ones(1, a.dtype), dtype=dtype).dtype)
    whole = values.interval.union(values.interval.times(values.shape[place]))
    result = _summed_up(values, place) if _by_products(values, place) else _scanned(values, place, np.add)
    if result is not values and of_type(result.dtype).holds(whole):
        result.content.interval = result.interval.within(whole)
    return result.copy()


def _by_products(a: TracedArray, axis: int) -> bool:
    """Whether sums up to each element may be products; sums of two words are not."""
    size = a.shape[axis]
    # Sums in a block and of whole blocks are added, and have 32 bits each.
    return size > 2 and (a.itemsize < 8 or INT32.holds(a.interval.times(2 * (size + BLOCK))))


def _summed_up(a: TracedArray, axis: int) -> TracedArray:
    """Sums of all elements up to each: in blocks by products with a triangle of ones; of whole blocks by doubling."""
    size, before, after = a.shape[axis], math.prod(a.shape[:axis]), math.prod(a.shape[axis + 1 :])
    if before > 1 and after > 1:
        order = [*(i for i in range(a.ndim) if i != axis), axis]
        turned = _summed_up(transposed(a, order), a.ndim - 1)
        return transposed(turned, [order.index(i) for i in range(a.ndim)])
    block = min(size, BLOCK)
    count = -(-size // block)
    rows = padded(reshaped(a, (before, size, after)), [(0, 0), (0, count * block - size), (0, 0)])
    ones = lift(a.recorder, np.tri(block, dtype=a.dtype))
    if after == 1:
        part = matmul(reshaped(rows, (before * count, block)), ones.T)
    else:
        part = matmul(ones, reshaped(rows, (count, block, after)))
    if count > 1:
        parts = reshaped(part, (before, count, block, after))
        ends = _scanned(parts[:, :-1, -1:], 1, np.add)
        part = parts + padded(ends, [(0, 0), (1, 0), (0, 0), (0, 0)])
    return reshaped(reshaped(part, (before, count * block, after))[:, :size], a.shape)


@function_rule(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    values, place = (reshaped(a, (a.size,)), 0) if axis is None else (a, axis_of(axis, a.ndim))
    return _scanned(
        convert(values, np.cumprod(np.ones(1, a.dtype), dtype=dtype).dtype), place, np.multiply
    ).copy()


def _cumulative(name: str, scan: Callable[..., Any]) -> None:
    function = getattr(np, name, None)

    def rule(x: TracedArray, *, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        if x.ndim != 1 and axis is None:
            getattr(np, name)(np.empty(x.shape, x.dtype))
        return scan(x, axis, dtype)

    if function is not None:
        FUNCTIONS[function] = rule


_cumulative("cumulative_sum", cumsum)
_cumulative("cumulative_prod", cumprod)


@function_rule(np.diff)
def diff(a: Any, n: int = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> Any:
    recorder = recorder_of(a, prepend, append)
    a = lift(recorder, a)
    if a.ndim == 0 or n < 0:
        np.diff(np.empty(a.shape, a.dtype), n)
    place = axis_of(axis, a.ndim)
    parts = [lift(recorder, each) for each in (prepend, a, append) if each is not None]
    line = [1 if i == place else size for i, size in enumerate(a.shape)]
    if n and len(parts) > 1:
        a = concatenate([each if each.ndim else broadcast(each, line) for each in parts], place)
    for _ in range(n):
        before = (slice(None),) * place
        late, early = a[(*before, slice(1, None))], a[(*before, slice(0, -1))]
        a = late ^ early if a.dtype == BOOL else late - early
    return a


# --- places


@function_rule(np.argmax)
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> TracedArray:
    return _place(a, axis, keepdims, greatest)


@function_rule(np.argmin)
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> TracedArray:
    return _place(a, axis, keepdims, least)


def _place(a: TracedArray, axis: Any, keepdims: bool, extreme: Callable[..., Any]) -> TracedArray:
    """The first place of an extreme: ARGMAX of 8 or 16 bits, else the least number of an equal element."""
    values, place = (reshaped(a, (a.size,)), 0) if axis is None else (a, axis_of(axis, a.ndim))
    size, record = values.shape[place], a.recorder
    shape = (*values.shape[:place], *values.shape[place + 1 :])
    if extreme is greatest and values.natural is Form.NARROW:
        name = values.narrow
        if values.dtype.kind == "u":
            kind = NARROW[values.dtype]
            sign = record.constant(np.array([of_type(np.dtype(kind.numpy)).low], kind.numpy), kind)
            name = record.elementwise("BITWISE_XOR", name, sign)
        name = record.reshape(record.add("ARGMAX", [record.reshape(name, values.shape)], axis=place), shape)
        found = TracedArray(record, shape, np.int64, Interval(0, size - 1), forms={Form.WIDE: name})
    else:
        best = extreme(values, place, keepdims=True)
        numbers = np.arange(size, dtype=np.int32).reshape((size,) + (1,) * (values.ndim - place - 1))
        found = convert(least(where(values == best, numbers, np.int32(size)), place), np.dtype(np.int64))
        found.content.interval = Interval(0, size - 1)
    if not keepdims:
        return found
    return reshaped(found, [1] * a.ndim if axis is None else (*shape[:place], 1, *shape[place:]))


@function_rule(np.isin)
def isin(element: Any, test_elements: Any, invert: bool = False) -> Any:
    recorder = recorder_of(element, test_elements)
    values, wanted = lift(recorder, element), lift(recorder, test_elements)
    each = reshaped(values, (*values.shape, 1))
    found = np.any(each == reshaped(wanted, (wanted.size,)), axis=-1)
    return ~found if invert else found


# --- sorting


@function_rule(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> TracedArray:
    np.sort(np.empty(a.shape, a.dtype), axis, kind, order)
    values, place = (reshaped(a, (a.size,)), 0) if axis is None else (a, axis_of(axis, a.ndim))
    if a.dtype == BOOL:
        return sort(values.astype(np.int8), place) != 0
    perm = [place, *(i for i in range(values.ndim) if i != place)]
    moved = transposed(values, perm) if perm != sorted(perm) else values.copy()
    rows = reshaped(moved, (moved.shape[0], moved.size // moved.shape[0]))
    rows = _sorted_few(rows) if rows.shape[0] <= FEW else _sorted_many(rows)
    result = reshaped(rows, moved.shape)
    return transposed(result, [perm.index(i) for i in range(values.ndim)]) if perm != sorted(perm) else result


def _sorted_few(rows: TracedArray) -> TracedArray:
    """Batcher's odd-even merge exchange of single rows, for any number of them (Knuth 5.2.2, algorithm M)."""
    count = rows.shape[0]
    lines: list[Any] = [rows[i : i + 1] for i in range(count)]
    first = step = 1 << max((count - 1).bit_length() - 1, 0)
    while step and count > 1:
        q, rest, distance = first, 0, step
        while True:
            for i in range(count - distance):
                if i & step == rest:
                    one, other = lines[i], lines[i + distance]
                    lines[i], lines[i + distance] = np.minimum(one, other), np.maximum(one, other)
            if q == step:
                break
            distance, q, rest = q - step, q >> 1, step
        step >>= 1
    return concatenate(lines, 0)


def _sorted_many(rows: TracedArray) -> TracedArray:
    """A bitonic network: each stage compares halves of blocks as wholes."""
    count, width = rows.shape
    size = 1 << (count - 1).bit_length()
    top = of_type(rows.dtype).high
    values: Any = padded(rows, [(0, size - count), (0, 0)], top) if size > count else rows
    block = 2
    while block <= size:
        distance = block // 2
        while distance:
            groups = size // (2 * distance)
            up = (np.arange(size) & block == 0).reshape(groups, 2, distance)[:, 0].repeat(width, axis=-1)
            halves = reshaped(values, (groups, 2, distance * width))
            one, other = halves[:, 0], halves[:, 1]
            low, high = np.minimum(one, other), np.maximum(one, other)
            pair = [low, high] if up.all() else [where(up, low, high), where(up, high, low)]
            values = reshaped(stack(pair, 1), (size, width))
            distance //= 2
        block *= 2
    return values[:count].copy()


@function_rule(np.argsort)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Sorts keys that have each value in the high bits and its place in the low ones."""
    if kind not in ("stable", "mergesort") and not stable:
        refuse("np.argsort: NumPy's default leaves the order of equal elements open; say kind='stable'")
    values, place = (reshaped(a, (a.size,)), 0) if axis is None else (a, axis_of(axis, a.ndim))
    count = values.shape[place]
    bits = (count - 1).bit_length()
    keys = Interval(values.interval.low << bits, ((values.interval.high + 1) << bits) - 1)
    if not INT32.holds(keys):
        refuse(
            f"np.argsort of values in {values.interval} with {count} places needs more than 32 bits: narrow the values "
            "(np.clip, astype, or ranges=)"
        )
    numbers = np.arange(count, dtype=np.int32).reshape((count,) + (1,) * (values.ndim - place - 1))
    key: Any = (values.astype(np.int32) << np.int32(bits)) + numbers
    found = (sort(key, place) & np.int32((1 << bits) - 1)).astype(np.int64)
    found.content.interval = Interval(0, count - 1)
    return found


# --- methods of ufuncs


_IN_ORDER = (np.subtract, np.floor_divide, np.remainder, np.left_shift, np.right_shift, np.logical_xor)
"""Reduced and accumulated one element after the other."""
_MOST_STEPS = 256
OUT_OF_ONE_TYPE |= {np.max, np.amax, np.min, np.amin, np.maximum, np.minimum, np.fmax, np.fmin, *_IN_ORDER}
_REDUCTIONS = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
_ASSOCIATIVE = (np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin)
_ASSOCIATIVE += (np.bitwise_and, np.bitwise_or, np.bitwise_xor)


def _reduce(
    ufunc: np.ufunc,
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    more: dict[str, Any] = {} if initial is None else {"initial": initial}
    if where is not True:
        more["where"] = where
    if ufunc in _REDUCTIONS:
        if dtype is not None and ufunc in (np.add, np.multiply):
            more["dtype"] = dtype
        elif dtype is not None and ufunc in (np.maximum, np.minimum):
            a = convert(a, np.dtype(dtype))
        return _REDUCTIONS[ufunc](a, axis=axis, keepdims=keepdims, **more)
    if more:
        refuse(f"initial= and where= of np.{ufunc.__name__}.reduce are not supported: use np.where")
    if ufunc in _IN_ORDER:
        place = axis_of(0 if a.ndim == 1 and axis is None else axis, a.ndim)
        last = _in_order(ufunc, a, place, dtype)[-1]
        return (
            reshaped(last, [1 if i == place else size for i, size in enumerate(a.shape)])
            if keepdims
            else last
        )
    if ufunc not in _ASSOCIATIVE:
        refuse(f"np.{ufunc.__name__}.reduce is not supported on a traced array; write a loop over the axis")
    result = a if dtype is None else convert(a, np.dtype(dtype))
    for each in reversed(axes_of(axis, a.ndim)):
        result = _folded(result, each, ufunc, keepdims)
    return result


def _in_order(ufunc: np.ufunc, a: TracedArray, place: int, dtype: Any) -> list[Any]:
    """The results so far after each element of an axis."""
    kind = ufunc.reduce(np.ones(2, a.dtype), dtype=dtype).dtype
    if a.shape[place] > _MOST_STEPS:
        refuse(f"np.{ufunc.__name__} of {a.shape[place]} elements one after the other: use tosaic.while_loop")
    before = (slice(None),) * place
    found: list[Any] = [convert(a[(*before, 0)], kind)]
    for i in range(1, a.shape[place]):
        found.append(ufunc(found[-1], convert(a[(*before, i)], kind)))
    return found


def _accumulate(ufunc: np.ufunc, a: Any, axis: Any = 0, dtype: Any = None) -> Any:
    if ufunc is np.add:
        return cumsum(a, axis, dtype)
    if ufunc is np.multiply:
        return cumprod(a, axis, dtype)
    place = axis_of(axis, a.ndim)
    if ufunc in _IN_ORDER:
        return stack(_in_order(ufunc, a, place, dtype), place)
    if ufunc not in _ASSOCIATIVE:
        refuse(
            f"np.{ufunc.__name__}.accumulate is not supported on a traced array; write a loop over the axis"
        )
    values = a if dtype is None else convert(a, np.dtype(dtype))
    return _scanned(values, place, ufunc).copy()


def _reduceat(ufunc: np.ufunc, a: Any, indices: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """Reduces each slice between two indices, or one element where the second is not greater."""
    starts, place = plain(indices), axis_of(axis, a.ndim)
    ufunc.reduceat(np.ones(a.shape[place]), starts)
    kind = ufunc.reduce(np.ones(1, a.dtype), dtype=dtype).dtype
    before, found = (slice(None),) * place, []
    for first, last in zip(starts, [*starts[1:], a.shape[place]], strict=True):
        part = a[(*before, slice(int(first), max(int(last), int(first) + 1)))]
        found.append(convert(_reduce(ufunc, part, place, dtype), kind))
    return stack(found, place)


def _outer(ufunc: np.ufunc, a: Any, b: Any, dtype: Any = None) -> Any:
    recorder = recorder_of(a, b)
    first, second = lift(recorder, a), lift(recorder, b)
    return ufunc(reshaped(first, first.shape + (1,) * second.ndim), second, dtype=dtype)


METHODS |= {"reduce": _reduce, "accumulate": _accumulate, "reduceat": _reduceat, "outer": _outer}
