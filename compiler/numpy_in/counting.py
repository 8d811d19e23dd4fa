"""How often values occur, and into which interval each falls: bincount, histogram, digitize, searchsorted."""

from typing import Any

import numpy as np

from tosaic.compiler.numpy_in.conversion import convert
from tosaic.compiler.numpy_in.forms import INT64
from tosaic.compiler.numpy_in.indexing import take
from tosaic.compiler.numpy_in.intervals import Interval
from tosaic.compiler.numpy_in.moves import reshaped, where
from tosaic.compiler.numpy_in.products import matmul
from tosaic.compiler.numpy_in.recording import refuse
from tosaic.compiler.numpy_in.reductions import sum_
from tosaic.compiler.numpy_in.rules import function_rule
from tosaic.compiler.numpy_in.tracer import TracedArray, known, lift, plain, recorder_of

FEW = 16
"""Up to this number of places a comparison with each is shorter than a product of two digits' comparisons."""
MOST_TABLED = 2**16
"""Values whose places a table has."""


def added_up(places: TracedArray, count: int, weights: TracedArray | None = None) -> Any:
    """The int32 sums, modulo 2 to the 32, of the weights (1 without) that have each place, of 0 to `count` - 1.

    A place is two digits: the products of two comparisons, one of each digit, are summed up by one MATMUL.
    """
    flat: Any = reshaped(convert(places, np.dtype(np.int32)), (places.size, 1))
    width = 1 if count <= FEW else 1 << ((count - 1).bit_length() + 1) // 2
    bits = width.bit_length() - 1
    rows = -(-count // width)
    above: Any = (flat >> np.int32(bits)) == np.arange(rows, dtype=np.int32)
    if weights is None and width == 1:
        return sum_(above, 0, np.int32)
    if weights is not None:
        column = reshaped(convert(weights, np.dtype(np.int32)), (places.size, 1))
        left: Any = where(above, column, np.int32(0))
        if width == 1:
            return sum_(left, 0, np.int32)
    else:
        left = above.astype(np.int8)
    below: Any = (flat & np.int32(width - 1)) == np.arange(width, dtype=np.int32)
    product = matmul(left.T.astype(np.int32), below.astype(np.int8).astype(np.int32))
    if weights is None:
        product.content.interval = Interval(0, places.size)
    return reshaped(product, (rows * width,))[:count].copy()


def _counted(places: TracedArray, count: int) -> TracedArray:
    """How often each place occurs, in NumPy's int64."""
    return convert(added_up(places, count), INT64)


@function_rule(np.bincount)
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> TracedArray:
    values = lift(recorder_of(x, weights), x)
    np.bincount(np.zeros((1,) * values.ndim, values.dtype), minlength=minlength)
    if weights is not None:
        refuse("np.bincount with weights gives floats; np.add.at adds integers")
    if values.interval.low < 0 or values.interval.high >= max(minlength, 1):
        refuse(
            f"np.bincount of values in {values.interval} with minlength={minlength}: the result's length depends on "
            "values, or NumPy raises; np.clip them (or & a mask), and give a minlength beyond them"
        )
    return _counted(values, minlength)


@function_rule(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    values = lift(recorder_of(a, bins, range), a)
    if not known(bins) or (np.ndim(plain(bins)) == 0 and range is None) or isinstance(bins, str):
        refuse("np.histogram needs edges that do not depend on values: give bins=, or range=")
    if density or weights is not None:
        refuse("np.histogram with density or weights gives floats: leave them out")
    edges = np.histogram(np.zeros(1, values.dtype), plain(bins), range)[1]
    span = values.interval
    numbers = np.arange(span.low, min(span.high, span.low + MOST_TABLED - 1) + 1)
    count = len(edges) - 1
    if numbers[-1] == span.high:
        places = np.searchsorted(edges, numbers, side="right") - 1
        places = np.where(numbers == edges[-1], count - 1, places)
        places = np.where((places < 0) | (places >= count), count, places)
        if values.itemsize == 1:
            bits = (
                np.arange(256).astype(np.uint8).view(values.dtype) if values.dtype != bool else np.arange(2)
            )
            table = places[np.clip(bits.astype(np.int64), span.low, span.high) - span.low]
            index: Any = (
                values
                if values.dtype.kind == "u"
                else values.view(np.uint8)
                if values.dtype != bool
                else values
            )
        else:
            table, index = places, np.subtract(values, span.low, dtype=np.int32) if span.low else values
        found: Any = take(lift(values.recorder, table.astype(np.min_scalar_type(count))), index)
    else:
        found = digitize(values, edges) - 1
        found = where(values == edges[-1], count - 1, found)
        found = where((found < 0) | (found >= count), count, found)
    return _counted(found, count + 1)[:count].copy(), lift(values.recorder, edges)


@function_rule(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    values = lift(recorder_of(x, bins), x)
    if not known(bins):
        refuse("np.digitize needs edges that do not depend on values; (x[:, None] >= edges).sum(1)")
    edges = np.asarray(plain(bins))
    np.digitize(np.zeros(1, values.dtype), edges, right)
    if edges.size and edges[0] > edges[-1]:
        return edges.size - searchsorted(edges[::-1], values, "left" if right else "right")
    return searchsorted(edges, values, "left" if right else "right")


@function_rule(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left") -> Any:
    """How many of the sorted elements are less, or at most, for each value."""
    recorder = recorder_of(a, v)
    edges, values = lift(recorder, a), lift(recorder, v)
    if edges.ndim != 1 or side not in ("left", "right"):
        refuse("np.searchsorted takes sorted elements of one axis, and side 'left' or 'right'")
    each: Any = reshaped(values, (*values.shape, 1))
    ends = plain(edges) if edges.value is not None else edges
    return np.sum(each > ends if side == "left" else each >= ends, axis=-1)
