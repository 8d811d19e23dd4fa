"""Functions that move elements: shapes, axes, joining, padding, selection by a mask."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.numpy_in.conversion import convert
from tosaic.compiler.numpy_in.forms import BOOL, INTEGERS, NARROW, Form
from tosaic.compiler.numpy_in.intervals import INT32
from tosaic.compiler.numpy_in.recording import refuse
from tosaic.compiler.numpy_in.rules import FUNCTIONS, function_rule
from tosaic.compiler.numpy_in.tracer import TracedArray, flat, lift, plain, recorder_of
from tosaic.compiler.numpy_in.ufuncs import truth

_MOST_PARTS = 64
"""Operands of one CONCAT."""


def axis_of(axis: Any, rank: int) -> int:
    return np.lib.array_utils.normalize_axis_index(int(axis), rank)


def axes_of(axis: Any, rank: int) -> list[int]:
    """The axes that an argument `axis` means, in order; None means all."""
    given = range(rank) if axis is None else axis
    return sorted(np.lib.array_utils.normalize_axis_tuple(given, rank))


def forms_of(*arrays: TracedArray) -> list[Form]:
    """The forms in which an operator takes arrays of one type together: few bytes, and no more than it needs."""
    if any(each.itemsize == 8 and not INT32.holds(each.interval) for each in arrays):
        return [Form.LOW, Form.HIGH]
    if arrays[0].dtype == BOOL:
        return [Form.BOOL]
    narrow = arrays[0].dtype in NARROW and any(each.natural is Form.NARROW for each in arrays)
    return [Form.NARROW if narrow else Form.WIDE]


def moved(a: TracedArray, op: str, shape: Sequence[int], *operands: str, **attributes: Any) -> TracedArray:
    """An operator that moves elements, on each form that the array has."""
    record = a.recorder
    forms = {
        form: record.add(op, [record.reshape(a.tensor(form), a.shape), *operands], **attributes)
        for form in a.moved_forms()
    }
    return TracedArray(record, shape, a.dtype, a.interval, forms=forms)


def reshaped(a: TracedArray, shape: Sequence[int], *, renamed: bool = False) -> TracedArray:
    """A new array of the same elements in their order; `renamed`: in the form that it has."""
    if a.value is not None:
        made = TracedArray(a.recorder, shape, a.dtype, value=a.value.reshape(tuple(shape)))
    else:
        forms = {form: a.recorder.reshape(a.tensor(form), shape) for form in a.moved_forms(renamed=renamed)}
        made = TracedArray(a.recorder, shape, a.dtype, a.interval, forms=forms)
    made.scalar = False
    return made


def _renamed(a: TracedArray, shape: Sequence[int]) -> TracedArray:
    """Axes of size 1 more or less: always a view in NumPy."""
    own, wanted = a.shape, tuple(shape)
    return reshaped(a, wanted).follow(
        a,
        ("shape", wanted),
        lambda base: reshaped(base, wanted),
        lambda base, new: base.assign(reshaped(new, own)),
    )


@function_rule(np.reshape)
def reshape(
    a: TracedArray, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None
) -> Any:
    if order == "F" and a.ndim:
        back = (
            np.empty(a.shape, "b").reshape(newshape if shape is None else plain(shape), order="F").shape[::-1]
        )
        return transpose(reshape(transpose(a), back)).perhaps_view(a)
    if order not in "CF":
        refuse(
            f"order={order!r} of np.reshape asks for places in memory, which traced arrays have not: say C or F"
        )
    wanted = np.empty(a.shape, "b").reshape(newshape if shape is None else plain(shape)).shape
    if wanted == a.shape:
        return a
    return reshaped(a, wanted).perhaps_view(a)


@function_rule(np.ravel)
def ravel(a: TracedArray, order: str = "C") -> Any:
    return reshape(a, -1, order)


def transposed(a: TracedArray, axes: Sequence[int]) -> TracedArray:
    if a.value is not None:
        return lift(a.recorder, a.value.transpose(axes))
    return moved(a, "TRANSPOSE", [a.shape[i] for i in axes], perms=list(axes))


@function_rule(np.transpose, getattr(np, "permute_dims", np.transpose))
def transpose(a: TracedArray, axes: Any = None) -> TracedArray:
    order = [axis_of(i, a.ndim) for i in (axes if axes is not None else range(a.ndim)[::-1])]
    if sorted(order) != list(range(a.ndim)):
        raise ValueError("axes don't match array")
    if order == list(range(a.ndim)):
        return a
    back = [order.index(i) for i in range(a.ndim)]
    return transposed(a, order).follow(
        a,
        ("axes", tuple(order)),
        lambda base: transposed(base, order),
        lambda base, new: base.assign(transposed(new, back)),
    )


def _axes_moved(function: Callable[..., Any]) -> None:
    """NumPy tells the order of the axes by an array whose axes have different sizes."""

    @function_rule(function)
    def rule(a: TracedArray, *arguments: Any, **keywords: Any) -> TracedArray:
        probe = function(np.empty(tuple(range(2, 2 + a.ndim)), "b"), *arguments, **keywords)
        return transpose(a, [size - 2 for size in probe.shape])


def _axes_renamed(function: Callable[..., Any]) -> None:
    """NumPy tells the shape by an array of bytes."""

    @function_rule(function)
    def rule(a: TracedArray, *arguments: Any, **keywords: Any) -> TracedArray:
        shape = function(np.empty(a.shape, "b"), *arguments, **keywords).shape
        return a if shape == a.shape else _renamed(a, shape)


for _function in (np.moveaxis, np.swapaxes, np.rollaxis, np.matrix_transpose):
    _axes_moved(_function)
for _function in (np.squeeze, np.expand_dims, np.atleast_1d, np.atleast_2d, np.atleast_3d):
    _axes_renamed(_function)


def broadcast(a: TracedArray, shape: Sequence[int]) -> TracedArray:
    """A new array of that shape, with elements repeated."""
    wanted = tuple(int(size) for size in shape)
    if a.value is not None:
        return lift(a.recorder, np.broadcast_to(a.value, wanted).copy())
    np.broadcast_to(np.empty(a.shape, "b"), wanted)
    long = reshaped(a, (1,) * (len(wanted) - a.ndim) + a.shape)
    if long.shape == wanted:
        return long
    times = [size if own == 1 else 1 for size, own in zip(wanted, long.shape, strict=True)]
    return moved(long, "TILE", wanted, a.recorder.sizes(times))


def read_only(_: TracedArray, __: TracedArray) -> None:
    raise ValueError("assignment destination is read-only")


@function_rule(np.broadcast_to)
def broadcast_to(array: Any, shape: Any) -> TracedArray:
    wanted = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    return broadcast(array, wanted).follow(
        array, ("to", wanted), lambda base: broadcast(base, wanted), read_only
    )


@function_rule(np.tile)
def tile(A: TracedArray, reps: Any) -> TracedArray:
    times = (int(reps),) if np.ndim(reps) == 0 else tuple(int(each) for each in reps)
    rank = max(len(times), A.ndim)
    times = (1,) * (rank - len(times)) + times
    long = reshaped(A, (1,) * (rank - A.ndim) + A.shape)
    if 0 in times:
        return lift(A.recorder, np.tile(np.zeros(A.shape, A.dtype), times))
    return moved(
        long, "TILE", [s * t for s, t in zip(long.shape, times, strict=True)], A.recorder.sizes(times)
    )


@function_rule(np.repeat)
def repeat(a: TracedArray, repeats: Any, axis: Any = None) -> Any:
    along = reshaped(a, (a.size,)) if axis is None else a
    place = 0 if axis is None else axis_of(axis, a.ndim)
    return np.take(along, np.repeat(np.arange(along.shape[place]), plain(repeats)), axis=place)


# --- joining and parting


@function_rule(np.concatenate, getattr(np, "concat", np.concatenate))
def concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    recorder = recorder_of(*arrays)
    parts = [lift(recorder, each) for each in arrays]
    if axis is None:
        parts, axis = [reshaped(each, (each.size,)) for each in parts], 0
    like = [np.empty(each.shape, each.dtype) for each in parts]
    sample = np.concatenate(like, axis, dtype=dtype, casting=casting)
    if sample.dtype not in INTEGERS:
        refuse(f"np.concatenate of these types gives {sample.dtype} in NumPy: convert them (astype) first")
    return joined([convert(each, sample.dtype) for each in parts if each.size], axis_of(axis, sample.ndim))


def joined(parts: Sequence[TracedArray], axis: int) -> TracedArray:
    """Arrays of one type, one after the other along an axis."""
    if len(parts) == 1:
        return parts[0].copy()
    if len(parts) > _MOST_PARTS:
        some = [joined(parts[i : i + _MOST_PARTS], axis) for i in range(0, len(parts), _MOST_PARTS)]
        return joined(some, axis)
    dtype, recorder = parts[0].dtype, parts[0].recorder
    shape = list(parts[0].shape)
    shape[axis] = sum(each.shape[axis] for each in parts)
    interval = parts[0].interval
    for each in parts[1:]:
        interval = interval.union(each.interval)
    forms = {
        form: recorder.add(
            "CONCAT", [recorder.reshape(each.tensor(form), each.shape) for each in parts], axis=axis
        )
        for form in forms_of(*parts)
    }
    return TracedArray(recorder, shape, dtype, interval, forms=forms)


@function_rule(np.stack)
def stack(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    recorder = recorder_of(*arrays)
    parts = [lift(recorder, each) for each in arrays]
    if len({each.shape for each in parts}) > 1:
        raise ValueError("all input arrays must have the same shape")
    place = axis_of(axis, parts[0].ndim + 1)
    long = [reshaped(each, (*each.shape[:place], 1, *each.shape[place:])) for each in parts]
    return concatenate(long, place, dtype=dtype, casting=casting)


def _stacked(function: Callable[..., Any], rank: int, axis: Callable[[int], int]) -> None:
    @function_rule(function)
    def rule(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
        recorder = recorder_of(*tup)
        parts = [lift(recorder, each) for each in tup]
        grown = {1: np.atleast_1d, 2: np.atleast_2d, 3: np.atleast_3d}[rank]
        parts = [reshaped(each, grown(np.empty(each.shape, "b")).shape) for each in parts]
        return concatenate(parts, axis(parts[0].ndim), dtype=dtype, casting=casting)


_stacked(np.hstack, 1, lambda rank: 0 if rank == 1 else 1)
_stacked(np.vstack, 2, lambda rank: 0)
_stacked(np.dstack, 3, lambda rank: 2)


@function_rule(np.column_stack)
def column_stack(tup: Any) -> Any:
    recorder = recorder_of(*tup)
    parts = [lift(recorder, each) for each in tup]
    return concatenate([reshaped(each, (each.size, 1)) if each.ndim < 2 else each for each in parts], 1)


def _split(function: Callable[..., Any]) -> None:
    """NumPy tells the places; the parts are slices, and views."""

    @function_rule(function)
    def rule(
        ary: TracedArray, indices_or_sections: Any, *arguments: Any, **keywords: Any
    ) -> list[TracedArray]:
        places = np.arange(ary.size).reshape(ary.shape)
        found = []
        for part in function(places, plain(indices_or_sections), *arguments, **keywords):
            if not part.size:
                found.append(lift(ary.recorder, np.zeros(part.shape, ary.dtype)))
                continue
            first = np.unravel_index(part.reshape(-1)[0], ary.shape)
            found.append(
                ary[tuple(slice(int(i), int(i) + n) for i, n in zip(first, part.shape, strict=True))]
            )
        return found


for _function in (np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit):
    _split(_function)


@function_rule(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    recorder = recorder_of(arr, values)
    return concatenate([lift(recorder, arr), lift(recorder, values)], axis)


# --- order of elements


@function_rule(np.flip)
def flip(m: TracedArray, axis: Any = None) -> TracedArray:
    turned = axes_of(axis, m.ndim)
    return m[tuple(slice(None, None, -1 if i in turned else 1) for i in range(m.ndim))]


FUNCTIONS[np.flipud] = lambda m: flip(m, 0)
FUNCTIONS[np.fliplr] = lambda m: flip(m, 1)


@function_rule(np.rot90)
def rot90(m: TracedArray, k: int = 1, axes: Any = (0, 1)) -> Any:
    first, second = (axis_of(axis, m.ndim) for axis in axes)
    turns = k % 4
    if turns in (0, 2):
        return m[...] if turns == 0 else flip(m, (first, second))
    if turns == 1:
        return np.swapaxes(flip(m, second), first, second)
    return flip(np.swapaxes(m, first, second), second)


@function_rule(np.roll)
def roll(a: TracedArray, shift: Any, axis: Any = None) -> TracedArray:
    if axis is None:
        return reshaped(roll(reshaped(a, (a.size,)), shift, 0), a.shape)
    result = a.copy()
    for step, where in np.broadcast(plain(shift), axis):
        place = axis_of(where, a.ndim)
        step %= a.shape[place]
        if step:
            before = (slice(None),) * place
            cut = a.shape[place] - int(step)
            result = joined([result[(*before, slice(cut, None))], result[(*before, slice(0, cut))]], place)
    return result


@function_rule(np.pad)
def pad(array: TracedArray, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    if mode == "constant":
        return _padded_with(array, pad_width, plain(constant_values))
    widths = np.broadcast_to(plain(pad_width), (array.ndim, 2)).tolist()
    np.pad(np.empty(array.shape, "b"), pad_width, mode)
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        refuse(
            f"np.pad in mode {mode!r} computes values: there is constant, edge, reflect, symmetric and wrap"
        )
    result = array.copy()
    for axis, (before, after) in enumerate(widths):
        if before or after:
            places = np.pad(np.arange(array.shape[axis]), (before, after), mode)
            result = np.take(result, places, axis=axis)
    return result


def _padded_with(array: TracedArray, pad_width: Any, constants: Any) -> TracedArray:
    """With one constant, or with one for each end of each axis: later axes have the corners."""
    np.pad(np.zeros(array.shape, array.dtype), pad_width, constant_values=constants)
    widths = np.broadcast_to(plain(pad_width), (array.ndim, 2)).tolist()
    if np.ndim(constants) == 0:
        return padded(array, widths, constants)
    result = array
    for axis, (sizes, ends) in enumerate(
        zip(widths, np.broadcast_to(constants, (array.ndim, 2)), strict=True)
    ):
        for end in (0, 1):
            own = [[0, 0] for _ in range(array.ndim)]
            own[axis][end] = sizes[end]
            result = padded(result, own, ends[end])
    return result


def padded(a: TracedArray, widths: Sequence[Sequence[int]], constant: Any = 0) -> TracedArray:
    value = np.array(constant).astype(a.dtype).reshape(1)
    if a.value is not None:
        return lift(a.recorder, np.pad(a.value, widths, constant_values=value[0]))
    fill = TracedArray(a.recorder, (1,), a.dtype, value=value)
    interval = a.interval.union(fill.interval)
    if not any(flat(widths)):
        return a.copy()
    shape = [size + before + after for size, (before, after) in zip(a.shape, widths, strict=True)]
    record = a.recorder
    forms = {}
    for form in forms_of(a, fill) if a.natural is Form.WIDE else [a.natural]:
        name = record.reshape(a.tensor(form), a.shape)
        forms[form] = record.add("PAD", [name, record.sizes(flat(widths)), fill.tensor(form)])
    return TracedArray(record, shape, a.dtype, interval, forms=forms)


def _places_moved(function: Callable[..., Any]) -> None:
    """NumPy tells by the numbers of the elements which of them go where."""

    @function_rule(function)
    def rule(a: TracedArray, *arguments: Any, **keywords: Any) -> Any:
        places = function(np.arange(a.size).reshape(a.shape), *map(plain, arguments), **keywords)
        return np.take(reshaped(a, (a.size,)), places)


for _function in (np.diagonal, np.delete, np.resize):
    _places_moved(_function)


@function_rule(np.diag)
def diag(v: TracedArray, k: int = 0) -> Any:
    if v.ndim != 1:
        return np.diagonal(v, k)
    places = np.diag(np.arange(1, v.size + 1), k)
    return np.where(places > 0, np.take(v, np.maximum(places - 1, 0)), v.dtype.type(0))


@function_rule(np.trace)
def trace(a: TracedArray, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


# --- selection


@function_rule(np.where)
def where(condition: Any, *choices: Any) -> TracedArray:
    if len(choices) != 2:
        refuse("np.where of one argument: its shape depends on values; give both choices")
    recorder = recorder_of(condition, *choices)
    mask = truth(lift(recorder, condition))
    dtype = np.result_type(
        *(each.dtype if isinstance(each, TracedArray) else each for each in map(_typed, choices))
    )
    if dtype not in INTEGERS:
        refuse(f"np.where of these types gives {dtype} in NumPy: convert one side (astype)")
    a, b = (_chosen(recorder, each, dtype) for each in choices)
    shape = np.broadcast_shapes(mask.shape, a.shape, b.shape)
    if 0 in shape:
        return lift(recorder, np.zeros(shape, dtype))
    if mask.value is not None and (mask.value.all() or not mask.value.any()):
        chosen = a if mask.value.all() else b
        return broadcast(chosen, shape) if chosen.shape != shape else chosen.copy()
    forms = forms_of(a, b)
    if forms == [Form.NARROW] and not a.natural is b.natural is Form.NARROW:
        forms = [Form.WIDE]
    names = {
        form: recorder.elementwise("SELECT", mask.boolean, a.tensor(form), b.tensor(form)) for form in forms
    }
    made = TracedArray(recorder, shape, dtype, a.interval.union(b.interval), forms=names)
    made.scalar = False
    return made


def _typed(choice: Any) -> Any:
    """Python's numbers have no type of their own in NumPy."""
    return (
        choice
        if isinstance(choice, int | float | TracedArray | np.ndarray | np.generic)
        else np.asarray(choice)
    )


def _chosen(recorder: Any, choice: Any, dtype: np.dtype) -> TracedArray:
    if isinstance(choice, int) and not isinstance(choice, bool):
        return lift(recorder, np.asarray(choice).astype(dtype))  # wraps, as np.where does
    return convert(lift(recorder, choice), dtype)


@function_rule(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    dtype = np.result_type(
        *(
            each.dtype if isinstance(each, TracedArray) else each
            for each in map(_typed, [*choicelist, default])
        )
    )
    result = default
    for condition, choice in zip(condlist[::-1], choicelist[::-1], strict=True):
        result = where(condition, choice, result)
    return result.astype(dtype)


def _triangle(function: Callable[..., Any]) -> None:
    @function_rule(function)
    def rule(m: TracedArray, k: int = 0) -> Any:
        kept = function(np.ones(m.shape[-2:], bool), k)
        return where(lift(m.recorder, kept), m, m.dtype.type(0))


_triangle(np.tril)
_triangle(np.triu)


# --- arrays like others, and facts of shapes


def _made_like(function: Callable[..., Any]) -> None:
    @function_rule(function)
    def rule(
        a: TracedArray, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
    ) -> TracedArray:
        return lift(a.recorder, function(np.empty(a.shape, a.dtype), dtype, shape=shape))


for _function in (np.zeros_like, np.ones_like):
    _made_like(_function)
FUNCTIONS[np.empty_like] = lambda prototype, dtype=None, order="K", subok=True, shape=None: FUNCTIONS[
    np.zeros_like
](prototype, dtype, shape=shape)


@function_rule(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None) -> TracedArray:
    recorder = recorder_of(a, fill_value)
    kind = np.dtype(dtype or a.dtype)
    value = (
        fill_value if isinstance(fill_value, TracedArray) else lift(recorder, np.asarray(fill_value, kind))
    )
    return broadcast(convert(value, kind), np.shape(a) if not isinstance(a, TracedArray) else a.shape)


@function_rule(np.copy)
def copy(a: TracedArray, order: str = "K", subok: bool = False) -> TracedArray:
    return a.copy()


FUNCTIONS[np.shape] = lambda a: a.shape
FUNCTIONS[np.ndim] = lambda a: a.ndim
FUNCTIONS[np.size] = lambda a, axis=None: a.size if axis is None else a.shape[axis]


@function_rule(np.result_type)
def result_type(*arrays: Any) -> np.dtype:
    return np.result_type(*(each.dtype if isinstance(each, TracedArray) else each for each in arrays))


@function_rule(np.can_cast)
def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    return np.can_cast(from_.dtype, to, casting)


@function_rule(np.array_equal)
def array_equal(a1: Any, a2: Any) -> Any:
    recorder = recorder_of(a1, a2)
    a, b = lift(recorder, a1), lift(recorder, a2)
    return np.all(a == b) if a.shape == b.shape else False


def count_of(shape: Sequence[int], axes: Sequence[int]) -> int:
    """Elements along axes."""
    return math.prod(shape[i] for i in axes)
