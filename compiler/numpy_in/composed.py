"""Functions that are composed of others: bits of bytes, Kronecker's product, blocks."""

from typing import Any

import numpy as np

from tosaic.compiler.numpy_in.moves import axis_of, concatenate, padded, reshaped
from tosaic.compiler.numpy_in.recording import refuse
from tosaic.compiler.numpy_in.rules import FUNCTIONS, function_rule
from tosaic.compiler.numpy_in.tracer import TracedArray, lift, recorder_of
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
