"""Elements put at positions that may be computed at run time."""

import math
from typing import Literal

import numpy as np

from tosaic.compiler.importers.lowering.allowance import TooLargeError
from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.importers.lowering.matrix import batched
from tosaic.compiler.ir import DType

MAX_MASK = 1 << 24
"""Elements of the mask that tells which update goes where."""
ScatterMode = Literal["update", "add", "sub", "mul", "div", "max", "min"]
"""What becomes of the element that is there."""


def scatter(low: Lowering, container: str, indices: str, updates: str, mode: ScatterMode = "update") -> str:
    """container [N, K, C] with updates [N, W, C] at indices [N, W], int32 from 0 to K - 1.

    TOSA's SCATTER takes no index twice, so indices that are not known to differ go by a mask of who goes where; of
    several updates of a place the last one counts. Products of integers need indices that are known to differ: TOSA
    reduces integers by no product. TooLargeError if the mask would be large.
    """
    if known_to_differ(low, indices):
        if mode == "update":
            return low.op("SCATTER", container, indices, updates)
        old = low.op("GATHER", container, indices)
        return low.op("SCATTER", container, indices, _combined(low, mode, old, updates))
    batch, size, inner = low.shape(container)
    count = low.shape(indices)[1]
    by_product = mode in ("add", "sub") and low.dtype(updates).is_float
    if batch * size * count * (1 if by_product or mode == "update" else inner) > MAX_MASK:
        raise TooLargeError(f"{count} updates of {size} places are too many; make the indices constant")
    line = low.constant(np.arange(size).reshape(1, 1, size), DType.INT32)
    hit = low.equal(low.reshape(indices, (batch, count, 1)), line)
    if mode == "update":
        order = low.constant(np.arange(1, count + 1).reshape(1, count, 1), DType.INT32)
        last = low.reduce("MAX", low.select(hit, order, low.constant([[[0]]], DType.INT32)), [1])
        last = low.reshape(last, (batch, size))
        first = low.constant([[1]], DType.INT32)
        chosen = low.op("GATHER", updates, low.sub(low.maximum(last, first), first))
        found = low.greater(low.reshape(last, (batch, size, 1)), low.constant([[[0]]], DType.INT32))
        return low.select(found, chosen, container)
    if by_product:
        spread = low.transpose(low.cast(hit, low.dtype(updates)), (0, 2, 1))
        return _combined(low, mode, container, batched(low, spread, updates))
    reduction, neutral = _reduction(mode, low.dtype(updates))
    values = low.reshape(updates, (batch, count, 1, inner))
    masked = low.select(low.reshape(hit, (batch, count, size, 1)), values, low.scalar(neutral, values))
    total = low.reshape(low.reduce(reduction, masked, [1]), (batch, size, inner))
    return _combined(low, mode, container, total)


def known_to_differ(low: Lowering, indices: str) -> bool:
    """Whether each row of indices [N, W] is constant and names no place twice."""
    known = low.data(indices)
    return known is not None and all(len(set(row)) == len(row) for row in known.tolist())


def _reduction(mode: ScatterMode, dtype: DType) -> tuple[str, float]:
    """TOSA's reduction of the updates of one place, and what changes nothing in it."""
    if mode in ("add", "sub"):
        return "SUM", 0
    if mode in ("mul", "div"):
        return "PRODUCT", 1
    if mode == "max":
        return "MAX", -math.inf if dtype.is_float else dtype.min
    return "MIN", math.inf if dtype.is_float else dtype.max


def _combined(low: Lowering, mode: ScatterMode, old: str, new: str) -> str:
    if mode == "max":
        return low.maximum(old, new)
    if mode == "min":
        return low.minimum(old, new)
    result: str = getattr(low, mode)(old, new)
    return result
