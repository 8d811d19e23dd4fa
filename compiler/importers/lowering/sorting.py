"""The order of elements: TOSA sorts nothing, so each element's rank is counted."""

import math

import numpy as np

from tosaic.compiler.importers.lowering.allowance import TooLargeError
from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.ir import DType

MAX_COMPARISONS = 1 << 24


def ranked(low: Lowering, x: str, axis: int, count: int, descending: bool) -> tuple[str, str]:
    """The first `count` values of the sorted axis, and their indices (int32); among equals the first goes first.

    TooLargeError for more than 2^24 comparisons: each element is compared with each of its row.
    """
    shape = low.shape(x)
    size, rows = shape[axis], math.prod(shape) // shape[axis]
    if rows * size * size > MAX_COMPARISONS:
        raise TooLargeError(
            f"{rows} rows of {size} elements need {rows * size * size} comparisons, more than {MAX_COMPARISONS}; "
            "sort outside of the model"
        )
    order = [a for a in range(len(shape)) if a != axis] + [axis]
    x = low.reshape(low.transpose(x, order), (rows, size))
    compared = x if low.dtype(x).is_float else low.cast(x, DType.INT32)
    # Element j goes before element i when it is larger, or equal and j < i.
    mine, other = low.reshape(compared, (rows, size, 1)), low.reshape(compared, (rows, 1, size))
    first = low.constant((np.arange(size)[None, :] < np.arange(size)[:, None])[None], DType.BOOL)
    ahead = low.greater(other, mine) if descending else low.greater(mine, other)
    tied = low.binary("LOGICAL_AND", low.equal(mine, other), first)
    before = low.cast(low.binary("LOGICAL_OR", ahead, tied), DType.INT32)
    rank = low.reshape(low.reduce("SUM", before, [2]), (rows, 1, size))
    # The place of element i is its rank: indices are the sum of i over the one that has it.
    hit = low.equal(rank, low.constant(np.arange(count).reshape(1, count, 1), DType.INT32))
    line = low.constant(np.arange(size).reshape(1, 1, size), DType.INT32)
    indices = low.reshape(low.reduce("SUM", low.select(hit, line, low.scalar(0, line)), [2]), (rows, count))
    values = low.op("GATHER", low.reshape(x, (rows, size, 1)), indices)
    wanted = [count if a == axis else shape[a] for a in order]
    inverse = [int(a) for a in np.argsort(order)]
    return (
        low.transpose(low.reshape(values, wanted), inverse),
        low.transpose(low.reshape(indices, wanted), inverse),
    )
