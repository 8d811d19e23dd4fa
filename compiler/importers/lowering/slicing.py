"""Slices with a step."""

import math

from tosaic.compiler.importers.lowering.lowering import Lowering


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
