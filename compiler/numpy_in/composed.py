"""Functions that are composed of others: bits of bytes, Kronecker's product, blocks, grids, polynomials."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tosaic.compiler.numpy_in.calls import probe
from tosaic.compiler.numpy_in.conversion import convert
from tosaic.compiler.numpy_in.intervals import Interval
from tosaic.compiler.numpy_in.moves import axis_of, broadcast, concatenate, padded, reshaped, where
from tosaic.compiler.numpy_in.recording import refuse
from tosaic.compiler.numpy_in.rules import FUNCTIONS, function_rule
from tosaic.compiler.numpy_in.tracer import TracedArray, known, lift, plain, recorder_of
from tosaic.compiler.numpy_in.ufuncs import truth


def _shifts(bitorder: str) -> np.ndarray:
    if bitorder not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")
    shifts = np.arange(8, dtype=np.uint8)
    return shifts if bitorder == "little" else shifts[::-1]


@function_rule(np.packbits)
def packbits(a: TracedArray, axis: Any = None, bitorder: str = "big") -> Any:
    bits: Any = truth(reshaped(a, (a.size,)) if axis is None else a).astype(np.uint8)
    place = 0 if axis is None else axis_of(axis, a.ndim)
    size, shape = bits.shape[place], bits.shape
    bits = padded(bits, [(0, -size % 8 if i == place else 0) for i in range(len(shape))])
    parted = reshaped(bits, (*shape[:place], -(-size // 8), 8, *shape[place + 1 :]))
    counts = _shifts(bitorder).reshape(8, *(1,) * (len(shape) - place - 1))
    return np.sum(parted << counts, axis=place + 1, dtype=np.uint8)


@function_rule(np.unpackbits)
def unpackbits(a: TracedArray, axis: Any = None, count: Any = None, bitorder: str = "big") -> Any:
    if a.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    given = reshaped(a, (a.size,)) if axis is None else a
    place = 0 if axis is None else axis_of(axis, a.ndim)
    shape = given.shape
    long = reshaped(given, (*shape[: place + 1], 1, *shape[place + 1 :]))
    bits: Any = (long >> _shifts(bitorder).reshape(8, *(1,) * (len(shape) - place - 1))) & np.uint8(1)
    size = 8 * shape[place]
    whole = reshaped(bits, (*shape[:place], size, *shape[place + 1 :]))
    if count is None:
        return whole
    if count < -size:
        raise ValueError(f"-count {-count} is larger than the number of elements {size}")
    if count > size:
        return padded(whole, [(0, count - size if i == place else 0) for i in range(len(shape))])
    return whole[(*(slice(None),) * place, slice(0, count))].copy()


@function_rule(np.kron)
def kron(a: Any, b: Any) -> Any:
    recorder = recorder_of(a, b)
    x, y = lift(recorder, a), lift(recorder, b)
    rank = max(x.ndim, y.ndim)
    one, other = ((1,) * (rank - each.ndim) + each.shape for each in (x, y))
    left = reshaped(x, [size for each in one for size in (each, 1)])
    right = reshaped(y, [size for each in other for size in (1, each)])
    return reshaped(left * right, [m * n for m, n in zip(one, other, strict=True)])


@function_rule(np.block)
def block(arrays: Any) -> Any:
    """Innermost lists along the last axis, those around them along the axis before, and so on."""
    recorder = recorder_of(arrays)

    def depth(item: Any) -> int:
        return 1 + max(map(depth, item)) if isinstance(item, list) else 0

    def ranks(item: Any) -> list[int]:
        return [rank for each in item for rank in ranks(each)] if isinstance(item, list) else [np.ndim(item)]

    levels = depth(arrays)
    rank = max(levels, *ranks(arrays))

    def joined(item: Any, level: int) -> Any:
        if isinstance(item, list) != (level > 0):
            refuse("np.block of lists that are nested differently is not supported; use np.concatenate")
        if not level:
            array = lift(recorder, item)
            return reshaped(array, (1,) * (rank - array.ndim) + array.shape)
        return concatenate([joined(each, level - 1) for each in item], rank - level)

    return joined(arrays, levels)


if hasattr(np, "unstack"):
    FUNCTIONS[np.unstack] = lambda x, axis=0: tuple(np.moveaxis(x, axis, 0))


# --- grids and places


@function_rule(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    recorder = recorder_of(*xi)
    lines = [lift(recorder, each) for each in xi]
    grids = np.meshgrid(
        *(np.arange(each.size) for each in lines), sparse=sparse, indexing=indexing
    )  # NumPy tells which axis is whose
    return tuple(np.take(reshaped(line, (line.size,)), grid) for line, grid in zip(lines, grids, strict=True))


@function_rule(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    arrays = [lift(recorder_of(*args), each) for each in args]
    shape = np.broadcast_shapes(*(each.shape for each in arrays))
    return tuple(np.broadcast_to(each, shape) for each in arrays)


@function_rule(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """NumPy tells by numbers of elements where each of the array and of the values goes."""
    recorder = recorder_of(arr, values)
    a = lift(recorder, arr)
    new = convert(lift(recorder, np.asarray(values, a.dtype) if type(values) is int else values), a.dtype)
    own = np.arange(a.size).reshape(a.shape)
    places = np.insert(own, plain(obj), a.size + np.arange(new.size).reshape(new.shape), axis)
    both = concatenate([reshaped(a, (a.size,)), reshaped(new, (new.size,))])
    return np.take(both, places)


@function_rule(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    if not known(condition):
        refuse("np.compress by a traced condition: its shape depends on values; np.where keeps the shape")
    array = lift(recorder_of(a), a)
    length = array.size if axis is None else array.shape[axis_of(axis, array.ndim)]
    return np.take(array, np.compress(plain(condition), np.arange(length)), axis=axis)


@function_rule(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    recorder = recorder_of(a, choices)
    index = lift(recorder, a)
    rows = [lift(recorder, each) for each in choices]
    last = len(rows) - 1
    if mode == "clip":
        index = np.clip(index, 0, last)
    elif mode == "wrap":
        index = index % (last + 1)
    if not Interval(0, last).holds(index.interval):
        refuse(
            f"np.choose by {index.interval} of {last + 1} choices: NumPy raises ValueError; np.clip the index"
        )
    shape = np.broadcast_shapes(index.shape, *(each.shape for each in rows))
    kind = np.choose(0, [probe(recorder, each) for each in choices]).dtype
    result: Any = broadcast(convert(rows[-1], kind), shape)
    for number, row in enumerate(rows[:-1]):
        result = where(index == number, convert(row, kind), result)
    return result


@function_rule(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    return np.diag(reshaped(v, (v.size,)), k)


@function_rule(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Any:
    recorder = recorder_of(multi_index)
    sizes, result = [int(size) for size in plain(dims)], lift(recorder, np.int64(0))
    if mode != "raise" or order != "C":
        refuse(
            "np.ravel_multi_index with mode= or order= is not supported; np.clip the indices, turn dims round"
        )
    for size, each in zip(sizes, multi_index, strict=True):
        index = lift(recorder, each)
        if not Interval(0, size - 1).holds(index.interval):
            refuse(
                f"an index may be {index.interval} on an axis of {size}: NumPy raises ValueError; np.clip it"
            )
        result = result * size + convert(index, np.dtype(np.int64))
    return result


@function_rule(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    sizes = (int(shape),) if np.ndim(shape) == 0 else tuple(int(size) for size in plain(shape))
    index = lift(recorder_of(indices), indices)
    if order != "C":
        refuse("np.unravel_index in Fortran order is not supported; turn the shape and the result round")
    if not Interval(0, math.prod(sizes) - 1).holds(index.interval):
        refuse(f"an index may be {index.interval} in a shape of {math.prod(sizes)} elements: np.clip it")
    rest: Any = convert(index, np.dtype(np.int64))
    found: list[Any] = []
    for size in sizes[:0:-1]:
        found.append(rest % size)
        rest = rest // size
    return tuple([rest, *found[::-1]])


# --- numbers


@function_rule(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    recorder = recorder_of(a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    x: Any = np.moveaxis(lift(recorder, a), axisa, -1)
    y: Any = np.moveaxis(lift(recorder, b), axisb, -1)
    if (x.shape[-1], y.shape[-1]) != (3, 3):
        refuse("np.cross is for vectors of 3 numbers")
    turns = ((1, 2), (2, 0), (0, 1))
    parts = [x[..., i] * y[..., j] - x[..., j] * y[..., i] for i, j in turns]
    return np.stack(parts, axisc)


FUNCTIONS[np.linalg.cross] = lambda x1, x2, /, *, axis=-1: cross(x1, x2, axis=axis)


@function_rule(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    if to_end is not None or to_begin is not None:
        refuse("np.ediff1d with ends is not supported; np.concatenate them")
    flat = reshaped(ary, (ary.size,))
    return flat[1:] - flat[:-1]


@function_rule(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    recorder = recorder_of(p, x)
    values, result = lift(recorder, x), None
    for each in lift(recorder, p):
        result = np.zeros_like(values) * values + each if result is None else result * values + each
    return result


@function_rule(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    recorder = recorder_of(a1, a2)
    a, b = lift(recorder, a1), lift(recorder, a2)
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return np.all(a == b)


def _rounding(*functions: Callable[..., Any]) -> None:
    @function_rule(*functions)
    def rule(a: Any, decimals: int = 0, out: Any = None) -> Any:
        if np.round(np.ones(1, a.dtype)).dtype != a.dtype:
            refuse("np.round of bool gives floats; astype first")
        if decimals < 0:
            refuse("np.round to tens is not supported; (x + 5) // 10 * 10 is near it")
        return a.copy()


_rounding(np.round, np.around)


def _of_whole_numbers() -> None:
    """What floats need and integers have."""
    like: dict[Callable[..., Any], Callable[[Any], Any]] = {
        np.fix: lambda x: x.copy(),
        np.real: lambda val: val[...],
        np.imag: lambda val: lift(val.recorder, np.zeros(val.shape, val.dtype)),
        np.nan_to_num: lambda x: x.copy(),
        np.iscomplexobj: lambda x: False,
        np.isrealobj: lambda x: True,
    }
    FUNCTIONS.update(like)


_of_whole_numbers()
