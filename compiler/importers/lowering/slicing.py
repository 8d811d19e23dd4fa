"""Slices with a step, and sequences backwards."""

import math

import numpy as np

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.ir import DType


def strided(low: Lowering, x: str, axis: int, picked: range) -> str:
    """Elements at a constant distance: SLICE, REVERSE, and for larger steps RESHAPE and SLICE."""
    step, count = abs(picked.step), len(picked)
    first = min(picked[0], picked[-1])
    if count == 1:
        step = 1
    need = (count - 1) * step + 1
    x = low.slice_axis(x, axis, first, need)
    if step > 1:
        pads = [(0, 0)] * low.rank(x)
        pads[axis] = (0, step - 1)
        shape = low.shape(x)
        # The axes before and behind are joined: a rank of 6 has no room for another axis.
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        blocks = low.reshape(low.pad(x, pads), (before, count, step, after))
        x = low.reshape(low.slice_axis(blocks, 2, 0, 1), (*shape[:axis], count, *shape[axis + 1 :]))
    return low.reverse(x, axis) if picked.step < 0 else x


def reversed_sequences(low: Lowering, x: str, lengths: str, batch: int, time: int) -> str:
    """The first elements along axis `time` backwards, as many as `lengths` (int32) says for each place of `batch`."""
    shape = low.shape(x)
    order = [batch, time, *(axis for axis in range(len(shape)) if axis not in (batch, time))]
    steps, count, rest = shape[time], shape[batch], [shape[axis] for axis in order[2:]]
    low.make_room((steps,), np.int64)
    step = low.constant(np.arange(steps)[None], DType.INT32)
    length = low.reshape(lengths, (count, 1))
    backwards = low.sub(low.plus(length, -1), step)
    indices = low.select(low.greater(length, step), backwards, low.broadcast_to(step, (count, steps)))
    rows = low.reshape(low.transpose(x, order), (count, steps, math.prod(rest)))
    taken = low.reshape(low.gather_rows(rows, indices), (count, steps, *rest))
    return low.transpose(taken, [order.index(axis) for axis in range(len(shape))])
