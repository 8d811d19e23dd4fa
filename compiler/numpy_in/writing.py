"""Functions that write to an array: copyto, putmask, put, fill_diagonal, put_along_axis, and `ufunc.at`."""

from typing import Any

import numpy as np

from tosaic.compiler.numpy_in.conversion import convert
from tosaic.compiler.numpy_in.counting import added_up
from tosaic.compiler.numpy_in.forms import BOOL
from tosaic.compiler.numpy_in.indexing import inside
from tosaic.compiler.numpy_in.intervals import of_type
from tosaic.compiler.numpy_in.moves import axis_of, broadcast, reshaped, where
from tosaic.compiler.numpy_in.recording import Recorder, refuse
from tosaic.compiler.numpy_in.rules import METHODS, function_rule
from tosaic.compiler.numpy_in.tracer import TracedArray, known, lift, plain, recorder_of

_IDENTITIES = {
    np.maximum: lambda limits: limits.low,
    np.minimum: lambda limits: limits.high,
    np.bitwise_or: lambda limits: 0,
    np.bitwise_xor: lambda limits: 0,
    np.bitwise_and: lambda limits: -1 if limits.low else limits.high,
}
"""The number, by the type's limits, that changes nothing, of functions that have `at`."""


def _like(given: Any, lifted: TracedArray) -> Any:
    """Zeros of an array's type and shape, or Python's number: what NumPy tells by whether it may be written."""
    return given if isinstance(given, int) else np.zeros(lifted.shape, lifted.dtype)


def _target(a: Any, name: str) -> TracedArray:
    if not isinstance(a, TracedArray):
        refuse(f"np.{name} writes to what is no array that this function made")
    return a


@function_rule(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    target = _target(dst, "copyto")
    recorder = recorder_of(dst, src, where)
    new = lift(recorder, src)
    np.copyto(np.empty(new.shape, target.dtype), _like(src, new), casting)
    if np.broadcast_shapes(new.shape, target.shape) != target.shape:
        raise ValueError(f"could not broadcast input array from shape {new.shape} into shape {target.shape}")
    new = convert(new, target.dtype)
    if where is not True:
        new = np.where(where, new, target)
    target.assign(broadcast(new, target.shape) if new.shape != target.shape else new)


@function_rule(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    target = _target(a, "putmask")
    new = lift(recorder_of(a, mask, values), values)
    np.putmask(np.zeros(1, target.dtype), [True], _like(values, new))
    _put_where(target, mask, new)


def _put_where(target: TracedArray, mask: Any, values: TracedArray) -> None:
    """Returns the element of the same number of the values, which begin anew where there are fewer."""
    hit = lift(recorder_of(target, mask, values), mask)
    if hit.size != target.size:
        raise ValueError("putmask: mask and data must be the same size")
    new = convert(values, target.dtype)
    new = reshaped(new, ()) if new.size == 1 else np.resize(new, target.shape)
    target.assign(where(reshaped(hit, target.shape) != 0, new, target))


@function_rule(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    target = _target(arr, "place")
    if np.size(vals) != 1:
        refuse("np.place of more than one value puts them where values decide: use np.where")
    _put_where(target, mask, lift(recorder_of(arr, mask, vals), vals))


@function_rule(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    target = _target(a, "put")
    places = lift(target.recorder, ind)
    if places.value is None or mode != "raise":
        refuse("np.put at traced places is not supported; write it with np.where")
    index = np.asarray(places.value).reshape(-1)
    new = lift(recorder_of(a, v), v)
    np.put(np.zeros(1, target.dtype), 0, _like(v, new))
    if index.size:
        target.flat[index] = np.resize(convert(reshaped(new, (new.size,)), target.dtype), index.shape)


@function_rule(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    target = _target(a, "fill_diagonal")
    numbers = np.zeros(target.shape, np.int64)
    np.fill_diagonal(numbers, np.arange(1, 1 + max(target.shape)), wrap)
    put(target, np.argwhere(numbers.reshape(-1))[:, 0], val)


@function_rule(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any = -1) -> None:
    """One place of each line: of more, the last one that is written there."""
    target = _target(arr, "put_along_axis")
    recorder = recorder_of(arr, indices, values)
    index, axis = lift(recorder, indices), axis_of(axis, target.ndim)
    new = lift(recorder, np.asarray(values, target.dtype) if type(values) is int else values)
    new = broadcast(convert(new, target.dtype), index.shape)
    places: Any = inside(index, target.shape[axis])
    before, result = (slice(None),) * axis, target
    line = np.arange(target.shape[axis], dtype=np.int32).reshape(-1, *(1,) * (target.ndim - axis - 1))
    for i in range(index.shape[axis]):
        cut = (*before, slice(i, i + 1))
        result = where(places[cut] == line, new[cut], result)
    target.assign(result)


def _at(ufunc: np.ufunc, a: Any, indices: Any, b: Any = None) -> None:
    """`ufunc.at`: at each place as often as it is told, over the first axis."""
    target = _target(a, f"{ufunc.__name__}.at")
    recorder = recorder_of(*(each for each in (a, indices, b) if each is not None))
    if known(target, indices, b):
        result = np.array(target.value)
        ufunc.at(result, plain(indices), *(() if b is None else (plain(b),)))
        return target.assign(lift(recorder, result))
    axes = len(indices) if isinstance(indices, tuple) else 1
    if ufunc not in (np.add, np.subtract, *_IDENTITIES) or axes != target.ndim:
        refuse(
            f"np.{ufunc.__name__}.at is for add, subtract, maximum, minimum and bits, with an index for each axis: "
            "use np.where"
        )
    new = lift(recorder, np.asarray(b, target.dtype) if type(b) is int else b)
    ufunc.at(np.ones(1, target.dtype), 0, np.ones((), new.dtype))
    index = _numbers(recorder, indices, target.shape)
    new = broadcast(convert(new, target.dtype), index.shape)
    line = reshaped(target, (target.size,))
    if ufunc in (np.add, np.subtract):
        one = new.value is not None and bool((np.asarray(new.value) == 1).all())
        found: Any = added_up(index, target.size, None if one else new).astype(target.dtype)
    else:
        least = target.dtype.type(_IDENTITIES[ufunc](of_type(target.dtype)))
        hit = reshaped(index, (index.size, 1)) == np.arange(target.size, dtype=np.int32)
        found = ufunc.reduce(where(hit, reshaped(new, (index.size, 1)), least), axis=0)
    target.assign(reshaped(ufunc(line, found), target.shape))


def _numbers(recorder: Recorder, indices: Any, shape: tuple[int, ...]) -> TracedArray:
    """The numbers of elements that an index for each axis chooses."""
    parts = [lift(recorder, each) for each in (indices if isinstance(indices, tuple) else (indices,))]
    if any(each.dtype == BOOL for each in parts):
        refuse("ufunc.at by a mask: a[mask] += b does it")
    result: Any = None
    for part, size in zip(parts, shape, strict=True):
        place = inside(part, size)
        result = place if result is None else result * np.int32(size) + place
    return lift(recorder, result)


METHODS["at"] = _at
