"""Indexing: slices are views, known places are gathered, traced indices are look-ups that are proved to be inside."""

import math
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.numpy_in.conversion import convert
from tosaic.compiler.numpy_in.forms import BOOL, MAX_RANK, Form
from tosaic.compiler.numpy_in.intervals import Interval, of_type
from tosaic.compiler.numpy_in.masked import SHAPE, Masked
from tosaic.compiler.numpy_in.moves import (
    axis_of,
    broadcast,
    forms_of,
    joined,
    moved,
    padded,
    reshaped,
    where,
)
from tosaic.compiler.numpy_in.recording import Recorder, refuse
from tosaic.compiler.numpy_in.rules import function_rule
from tosaic.compiler.numpy_in.tracer import TracedArray, known, lift, plain, recorder_of

Key = tuple[Any, ...]


# --- reading


@function_rule(TracedArray.__getitem__)
def getitem(a: TracedArray, index: Any) -> Any:
    key = _key(index)
    if any(isinstance(each, Masked) for each in key):
        refuse(SHAPE)
    if masks := _masks(key):
        view, before, numbers = _under_mask(a, key, masks[0])
        if numbers and before:
            refuse("a traced mask after numbers as indices is not supported; write it with np.where")
        return Masked(view, key[masks[0]], before)
    if any(isinstance(each, TracedArray) for each in key):
        return _looked_up(a, key)
    if all(_is_basic(each) for each in key):
        shape = np.empty(a.shape, "b")[key].shape
        if shape == () and not any(each is Ellipsis for each in key):
            found = _sliced(a, key, shape)
            found.scalar = True
            return found
        return _sliced(a, key, shape).follow(
            a, key, lambda base: _sliced(base, key, shape), lambda base, new: setitem(base, key, new)
        )
    if a.value is not None:
        return lift(a.recorder, a.value[key])
    if len(key) == 1 and np.asarray(key[0]).dtype.kind in "iu":
        return take(a, np.asarray(key[0]), axis=0)
    places = np.arange(a.size).reshape(a.shape)[key]
    return take(reshaped(a, (a.size,)), places)


def _key(index: Any) -> Key:
    """The parts of an index, with what is known as NumPy's own."""
    parts = index if isinstance(index, tuple) else (index,)
    return tuple(plain(each) if not isinstance(each, slice) and known(each) else each for each in parts)


def _is_basic(part: Any) -> bool:
    """Whether NumPy makes a view of it."""
    if isinstance(part, bool | np.bool_):
        return False
    return isinstance(part, slice | int | np.integer | EllipsisType | None)


def _sliced(a: TracedArray, key: Key, shape: tuple[int, ...]) -> TracedArray:
    """A new array of what slices, numbers, None and an ellipsis choose."""
    recorder = a.recorder
    if 0 in shape:
        return lift(recorder, np.zeros(shape, a.dtype))
    if a.value is not None:
        return lift(recorder, a.value[key].copy())
    used = sum(each is not None and each is not Ellipsis for each in key)
    full: list[Any] = []
    for part in key if any(each is Ellipsis for each in key) else (*key, Ellipsis):
        if part is Ellipsis:
            full += [slice(None)] * (a.ndim - used)
        elif part is not None:
            full.append(part)
    chosen, starts, sizes, turned = [], [], [], []
    for axis, (part, size) in enumerate(zip(full, a.shape, strict=True)):
        places = (
            range(size)[part] if isinstance(part, slice) else range(int(part) % size, int(part) % size + 1)
        )
        if places.step < 0:
            turned.append(axis)
            places = places[::-1]
        whole = len(places) == 1 or places.step == 1
        starts.append(places[0] if whole else 0)
        sizes.append(len(places) if whole else size)
        if not whole:
            chosen.append((axis, places))
    result = _box(a, starts, sizes)
    for axis, places in chosen:
        result = _strided(result, axis, places)
    for axis in turned:
        result = moved(result, "REVERSE", result.shape, axis=axis)
    return reshaped(result, shape) if result.shape != shape else result.copy()


def _box(a: TracedArray, starts: Sequence[int], sizes: Sequence[int]) -> TracedArray:
    if list(sizes) == list(a.shape):
        return a
    return moved(a, "SLICE", sizes, a.recorder.sizes(starts), a.recorder.sizes(sizes))


def _strided(a: TracedArray, axis: int, places: range) -> TracedArray:
    """Every so many elements: a whole number of steps, of which the first of each is taken."""
    step, count = places.step, len(places)
    sizes = list(a.shape)
    sizes[axis] = min(count * step, a.shape[axis] - places.start)
    part = _box(a, [places.start if i == axis else 0 for i in range(a.ndim)], sizes)
    if sizes[axis] < count * step:
        part = padded(part, [(0, count * step - sizes[axis]) if i == axis else (0, 0) for i in range(a.ndim)])
    if a.ndim == MAX_RANK:
        refuse(f"a slice with a step of an array of rank {MAX_RANK} is not supported; reshape it first")
    parted = reshaped(part, (*a.shape[:axis], count, step, *a.shape[axis + 1 :]))
    first = _box(parted, [0] * parted.ndim, [*parted.shape[: axis + 1], 1, *a.shape[axis + 1 :]])
    return reshaped(first, (*a.shape[:axis], count, *a.shape[axis + 1 :]))


def _looked_up(a: TracedArray, key: Key) -> TracedArray:
    """An index with traced arrays in it. A row that a traced number chooses is a view, as in NumPy."""
    parts = _expanded(a, key)
    if any(isinstance(each, TracedArray) and each.dtype == BOOL for each in parts):
        refuse(SHAPE)
    found = _read_at(a, parts)
    numbers = all(isinstance(each, slice) or np.ndim(each) == 0 for each in parts)
    if not numbers or not found.shape:
        return found
    return found.follow(a, key, lambda base: _read_at(base, parts), lambda base, new: setitem(base, key, new))


def _expanded(a: TracedArray, key: Key) -> list[Any]:
    """A part for each axis."""
    if any(each is None for each in key):
        refuse("None beside a traced index is not supported; use np.expand_dims")
    rest = [slice(None)] * (a.ndim - sum(each is not Ellipsis for each in key))
    parts: list[Any] = []
    for each in key:
        parts += rest if each is Ellipsis else [each]
    parts = parts if any(each is Ellipsis for each in key) else parts + rest
    if len(parts) > a.ndim:
        raise IndexError(
            f"too many indices for array: array is {a.ndim}-dimensional, but {len(parts)} were indexed"
        )
    return parts


def _read_at(a: TracedArray, parts: Sequence[Any]) -> TracedArray:
    """One traced part beside slices and numbers, or parts for the first axes that are no slices."""
    traced = [i for i, each in enumerate(parts) if isinstance(each, TracedArray)]
    first, other = traced[0], [each for i, each in enumerate(parts) if i not in traced]
    numbers = [each for each in other if isinstance(each, int | np.integer)]
    simple = all(isinstance(each, slice) for each in other if each not in numbers)
    if len(traced) == 1 and simple and (not numbers or parts[first].ndim == 0):
        plain_parts = tuple(slice(None) if i == first else each for i, each in enumerate(parts))
        axis = first - sum(isinstance(each, int | np.integer) for each in parts[:first])
        cut = a if all(each == slice(None) for each in plain_parts) else getitem(a, plain_parts)
        return take(cut, parts[first], axis=axis)
    count = len(parts)
    while isinstance(parts[count - 1], slice) and parts[count - 1] == slice(None):
        count -= 1
    indices = [None if isinstance(each, slice) else lift(a.recorder, each) for each in parts[:count]]
    if any(each is None or each.dtype.kind not in "iu" for each in indices):
        refuse("this mix of traced indices and slices is not supported; use np.take(x, index, axis=...)")
    lines = math.prod(a.shape[:count])
    return take(reshaped(a, (lines, *a.shape[count:])), _places(a, indices), axis=0)


def _places(a: TracedArray, indices: Sequence[Any]) -> Any:
    """The numbers of the lines of the first axes that an index for each of these chooses."""
    place: Any = lift(a.recorder, np.int32(0))
    for part, size in zip(indices, a.shape, strict=False):
        place = place * np.int32(size) + inside(lift(a.recorder, part), size)
    if place.value is None:
        lines = math.prod(a.shape[: len(indices)])
        place.content.interval = place.interval.within(Interval(0, lines - 1))
    return place


def inside(index: TracedArray, size: int) -> Any:
    """int32 indices from 0; refused unless all are proved to be inside."""
    if not Interval(-size, size - 1).holds(index.interval):
        refuse(
            f"an index may be {index.interval} on an axis of {size}: NumPy raises IndexError, the accelerator cannot; "
            "np.clip it, & a mask, np.take(..., mode='clip' or 'wrap'), or declare ranges="
        )
    wide: Any = index.astype(np.int32)
    if index.interval.low >= 0:
        return wide
    return where(wide < 0, wide + np.int32(size), wide)


@function_rule(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> TracedArray:
    recorder = recorder_of(a, indices)
    array, index = lift(recorder, a), lift(recorder, indices)
    if axis is None:
        array, axis = reshaped(array, (array.size,)), 0
    place = axis_of(axis, array.ndim)
    size = array.shape[place]
    if index.dtype.kind not in "iu":
        if index.dtype == BOOL or (isinstance(indices, list | tuple) and not index.size):
            index = index.astype(np.int64)
        else:
            raise TypeError(
                f"Cannot cast array data from {index.dtype!r} to dtype('int64') according to the rule 'safe'"
            )
    if mode == "clip":
        index = np.clip(index, 0, size - 1)
    elif mode == "wrap":
        index = index % size
    if index.value is not None and index.size and not Interval(-size, size - 1).holds(index.interval):
        raise IndexError(f"index out of bounds for axis {place} with size {size}")
    shape = (*array.shape[:place], *index.shape, *array.shape[place + 1 :])
    if 0 in shape:
        return lift(recorder, np.zeros(shape, array.dtype))
    places = inside(index, size)
    if (
        array.value is not None
        and array.ndim == 1
        and index.itemsize == 1
        and array.itemsize <= 4
        and array.dtype != BOOL
    ):
        if array.dtype.kind in "iu":
            return _by_table(recorder, array, index)
    return _gathered(array, places, place, shape)


def _by_table(recorder: Recorder, array: TracedArray, index: TracedArray) -> TracedArray:
    """A known array read by 8 bits: a TABLE for each of its bytes, whose first entry is that of index -128."""
    size = array.size
    bits = np.arange(-128, 128).astype(np.int8).view(index.dtype).astype(np.int64)
    value = array.value
    assert value is not None
    entries = value[np.clip(bits, -size, size - 1)].astype(np.int64)

    def byte(number: int) -> str:
        table = (entries >> (8 * number)).astype(np.int8)
        return recorder.add("TABLE", [index.narrow, recorder.constant(table, DType.INT8)])

    count = array.itemsize
    if count == 1:
        return TracedArray(recorder, index.shape, array.dtype, array.interval, forms={Form.NARROW: byte(0)})
    whole = ""
    for number in range(count):
        kind = np.int8 if number == count - 1 and array.dtype.kind == "i" else np.uint8
        part = TracedArray(recorder, index.shape, kind, forms={Form.NARROW: byte(number)}).wide
        if number:
            part = recorder.elementwise("LOGICAL_LEFT_SHIFT", part, recorder.number(8 * number))
        whole = recorder.elementwise("BITWISE_OR", whole, part) if number else part
    return TracedArray(recorder, index.shape, array.dtype, array.interval, forms={Form.WIDE: whole})


def _gathered(a: TracedArray, places: TracedArray, axis: int, shape: Sequence[int]) -> TracedArray:
    """GATHER along an axis, for each of the elements before it."""
    recorder = a.recorder
    if a.natural is Form.BOOL:
        return _gathered(a.astype(np.int8), places, axis, shape) != 0
    before, after = math.prod(a.shape[:axis]), math.prod(a.shape[axis + 1 :])
    if places.value is not None:
        flat = places.value.reshape(-1).astype(np.int32)
        index = recorder.constant(np.tile(flat, (before, 1)), DType.INT32)
    else:
        index = recorder.reshape(places.wide, (1, places.size))
        if before > 1:
            index = recorder.add("TILE", [index, recorder.sizes([before, 1])])
    forms = {}
    for form in forms_of(a) if a.natural is Form.WIDE else [a.natural]:
        values = recorder.reshape(a.tensor(form), (before, a.shape[axis], after))
        forms[form] = recorder.reshape(recorder.add("GATHER", [values, index]), shape)
    return TracedArray(recorder, shape, a.dtype, a.interval, forms=forms)


@function_rule(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> TracedArray:
    recorder = recorder_of(arr, indices)
    array, index = lift(recorder, arr), lift(recorder, indices)
    place = axis_of(axis, array.ndim)
    grid: list[Any] = list(
        np.indices([size if i != place else 1 for i, size in enumerate(index.shape)], sparse=True)
    )
    grid[place] = index
    return getitem(array, tuple(grid))


# --- writing


@function_rule(TracedArray.__setitem__)
def setitem(a: TracedArray, index: Any, value: Any) -> None:
    key = _key(index)
    if masks := _masks(key):
        return _set_masked(a, key, masks[0], value)
    if isinstance(value, Masked) or any(isinstance(each, Masked) for each in key):
        refuse(SHAPE)
    recorder = recorder_of(a, value, *(each for each in key if isinstance(each, TracedArray)))
    new = lift(recorder, value)
    if new.is_view(a, key):
        return  # what `a[key] += b` ends with: the view has written already
    if a.scalar:
        raise TypeError(f"'numpy.{a.dtype}' object does not support item assignment")
    if isinstance(value, int) and not isinstance(value, bool) and a.dtype != BOOL:
        new = lift(recorder, np.asarray(value, a.dtype))
    new = _truncated(a, new)
    if any(isinstance(each, TracedArray) for each in key):
        return _set_traced(a, key, new)
    places = np.arange(a.size).reshape(a.shape)[key]
    if new.value is not None and a.value is not None:
        changed = a.value.copy()
        changed[key] = plain(new)
        return a.assign(lift(a.recorder, changed))
    if a.recorder is not recorder:
        refuse("a loop's branch writes to an array from outside: pass it as one of the loop's values")
    if not places.size:
        return
    a.assign(_written(a, places, convert(new, a.dtype)))


def _set_masked(a: TracedArray, key: Key, place: int, value: Any) -> None:
    """Where a traced mask over some axes holds: one number, one row, or what the mask chose elsewhere."""
    if a.scalar:
        raise TypeError(f"'numpy.{a.dtype}' object does not support item assignment")
    mask: TracedArray = key[place]
    view, before, numbers = _under_mask(a, key, place)
    after = view.shape[before + mask.ndim :]
    hit = reshaped(mask, [*(1,) * before, *mask.shape, *(1,) * len(after)])
    if isinstance(value, Masked):
        new = convert(value.at(mask, before), a.dtype)
        fits = np.broadcast_shapes(new.shape, view.shape) == view.shape and not (numbers and before)
    else:
        new = _typed(a, value)
        while new.ndim > len(after) and new.shape[0] == 1:
            new = reshaped(new, new.shape[1:])
        row = new.ndim <= len(after) and np.broadcast_shapes(new.shape, after) == after
        fits = new.size == 1 or (row and not (numbers and before))
        new = reshaped(new, ()) if new.size == 1 else new
    if not fits:
        refuse(
            "assignment through a traced mask is for one number, one row, or what the same mask chooses; write it with "
            "np.where"
        )
    view.assign(where(hit, new, view))


def _masks(key: Key) -> list[int]:
    """Where masks are that depend on inputs."""
    return [i for i, each in enumerate(key) if isinstance(each, TracedArray) and each.dtype == BOOL]


def _under_mask(a: TracedArray, key: Key, place: int) -> tuple[TracedArray, int, int]:
    """The view that the other parts of an index choose, how many of its axes lie before the mask's, and how many parts
    are numbers."""
    mask: TracedArray = key[place]
    parts = _expanded(a, (*key[:place], *(slice(None),) * mask.ndim, *key[place + 1 :]))
    begin = place
    if any(each is Ellipsis for each in key[:place]):
        begin = len(parts) - sum(each is not Ellipsis for each in key[place + 1 :]) - mask.ndim
    others = [each for i, each in enumerate(parts) if not begin <= i < begin + mask.ndim]
    if not mask.ndim or not all(isinstance(each, slice | int | np.integer) for each in others):
        refuse("a traced mask beside other arrays as indices is not supported; write it with np.where")
    numbers = sum(not isinstance(each, slice) for each in others)
    view = a if all(each == slice(None) for each in others) else getitem(a, tuple(parts))
    before = begin - sum(not isinstance(each, slice) for each in parts[:begin])
    _ = np.empty(view.shape, "b")[(*(slice(None),) * before, np.zeros(mask.shape, bool))]
    return view, before, numbers


def _typed(a: TracedArray, value: Any) -> TracedArray:
    """A value as it is written to the array: Python's integers are checked by NumPy."""
    if isinstance(value, int) and not isinstance(value, bool) and a.dtype != BOOL:
        return lift(a.recorder, np.asarray(value, a.dtype))
    return convert(_truncated(a, lift(recorder_of(a, value), value)), a.dtype)


def _truncated(a: TracedArray, new: TracedArray) -> TracedArray:
    """Known floats as NumPy writes them to integers: without their fractions."""
    if new.dtype.kind in "biu":
        return new
    fits = new.dtype.kind == "f" and new.value is not None and np.isfinite(new.value).all()
    if fits and a.dtype != BOOL and new.size:
        whole = np.trunc(new.value)
        if of_type(a.dtype).holds(Interval(int(whole.min()), int(whole.max()))):
            return lift(a.recorder, whole.astype(a.dtype))
    refuse(f"a constant of type {new.dtype} is written to a traced array; round it to integers first")


def _set_traced(a: TracedArray, key: Key, new: TracedArray) -> None:
    """Writes one element or row at traced numbers, by a mask of its place."""
    converted = convert(new, a.dtype)
    parts = _expanded(a, key)
    numbers = [i for i, each in enumerate(parts) if not isinstance(each, slice)]
    if all(np.ndim(parts[i]) == 0 for i in numbers) and all(
        each == slice(None) for i, each in enumerate(parts) if i not in numbers
    ):
        return a.assign(where(_hit(a, parts, numbers), _row(a, converted, numbers), a))
    count = len(numbers)
    if numbers == [*range(count)] and all(each == slice(None) for each in parts[count:]):
        return _scattered(a, parts[:count], converted)
    axis = numbers[0]
    if (
        count == 1
        and np.ndim(parts[axis]) == 1
        and all(each == slice(None) for each in parts if each is not parts[axis])
    ):
        long = broadcast(converted, (*a.shape[:axis], parts[axis].size, *a.shape[axis + 1 :]))
        return _scattered(np.moveaxis(a, axis, 0), [parts[axis]], np.moveaxis(long, axis, 0))
    refuse(
        "assignment through traced indices beside slices of a part is not supported; write it with np.where"
    )


def _scattered(a: TracedArray, indices: Sequence[Any], new: TracedArray) -> None:
    """Lines of the first axes, at traced places: of several at one place the last one, as in NumPy."""
    lines, rest = math.prod(a.shape[: len(indices)]), a.shape[len(indices) :]
    place = _places(a, indices)
    values = broadcast(new, (*place.shape, *rest)) if new.size > 1 else new
    hit: Any = reshaped(place, (place.size, 1)) == np.arange(lines, dtype=np.int32)
    own = reshaped(a, (lines, *rest))
    ones = (1,) * len(rest)
    if new.size == 1:
        changed = where(reshaped(np.any(hit, axis=0), (lines, *ones)), reshaped(new, ()), own)
    else:
        numbers = np.arange(1, place.size + 1, dtype=np.int32)[:, None]
        last: Any = np.max(where(hit, numbers, np.int32(0)), axis=0)
        chosen = take(reshaped(values, (place.size, *rest)), np.maximum(last - 1, 0), axis=0)
        changed = where(reshaped(last > 0, (lines, *ones)), chosen, own)
    a.assign(reshaped(changed, a.shape))


def _hit(a: TracedArray, parts: Sequence[Any], numbers: Sequence[int]) -> Any:
    """Where the axes `numbers` have the places that the parts tell."""
    hit: Any = None
    for axis in numbers:
        size = a.shape[axis]
        here: Any = np.arange(size, dtype=np.int32) == inside(lift(a.recorder, parts[axis]), size)
        line = reshaped(lift(a.recorder, here), [size if i == axis else 1 for i in range(a.ndim)])
        hit = line if hit is None else hit & line
    return hit


def _row(a: TracedArray, new: TracedArray, numbers: Sequence[int]) -> TracedArray:
    """What is written to a row, with the axes of the array."""
    shape = tuple(size for i, size in enumerate(a.shape) if i not in numbers)
    if np.broadcast_shapes(new.shape, shape) != shape:
        raise ValueError(f"could not broadcast input array from shape {new.shape} into shape {shape}")
    sizes = iter((1,) * (len(shape) - new.ndim) + new.shape)
    return reshaped(new, [1 if i in numbers else next(sizes) for i in range(a.ndim)])


def _written(a: TracedArray, places: np.ndarray, new: TracedArray) -> TracedArray:
    """The array with new elements at places (numbers of its elements)."""
    recorder = a.recorder
    while new.ndim > places.ndim and new.shape[0] == 1:
        new = reshaped(new, new.shape[1:])
    np.broadcast_to(np.empty(new.shape, "b"), places.shape)
    if places.shape == a.shape and (places.reshape(-1) == np.arange(a.size)).all():
        return new.copy() if new.shape == a.shape else broadcast(new, a.shape)
    flat = places.reshape(-1)
    mask = np.zeros(a.size, bool)
    mask[flat] = True
    mask = mask.reshape(a.shape)
    if new.size == 1:
        return where(lift(recorder, mask), reshaped(new, ()), a)
    new = broadcast(new, places.shape) if new.shape != places.shape else new
    lines = [mask.any(tuple(j for j in range(a.ndim) if j != i)).nonzero()[0] for i in range(a.ndim)]
    box = [(int(line[0]), int(line[-1]) + 1) for line in lines]
    sizes = [end - start for start, end in box]
    if math.prod(sizes) == flat.size and (np.diff(flat) > 0).all():
        return _boxed(a, box, reshaped(new, sizes))
    source = np.arange(a.size)
    source[flat] = a.size + np.arange(flat.size)
    together = joined([reshaped(a, (a.size,)), reshaped(new, (new.size,))], 0)
    return reshaped(take(together, source), a.shape)


def _boxed(a: TracedArray, box: Sequence[tuple[int, int]], new: TracedArray) -> TracedArray:
    """The array with a part replaced: cut along one axis and joined; of a box within more axes, by a mask."""
    cut = [axis for axis, (start, end) in enumerate(box) if (start, end) != (0, a.shape[axis])]
    if len(cut) == 1:
        axis = cut[0]
        start, end = box[axis]
        before = (slice(None),) * axis
        parts = [a[(*before, slice(0, start))], new, a[(*before, slice(end, None))]]
        return joined([each.copy() for each in parts if each.size], axis)
    mask = np.zeros(a.shape, bool)
    mask[tuple(slice(start, end) for start, end in box)] = True
    widths = [(start, size - end) for (start, end), size in zip(box, a.shape, strict=True)]
    return where(lift(a.recorder, mask), padded(new, widths), a)
