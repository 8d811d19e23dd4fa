"""Recurrent layers, unrolled in time."""

from collections.abc import Callable, Sequence

import numpy as np

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.ir import DType

Step = Callable[[str, list[str]], list[str]]
"""A function from an input [batch, features] and the states to the next states, the output first."""


LSTM_HALVES = (True, True, True, False)
"""Gates of `lstm_cell` whose sums are halved."""
GRU_HALVES = (True, True, False)
"""Those of a GRU's update, reset and new state."""


def unroll(
    low: Lowering,
    x: str,
    states: Sequence[str],
    step: Step,
    *,
    reverse: bool = False,
    lengths: str | None = None,
) -> tuple[list[str], list[str]]:
    """The output of every time, in the order of x [time, batch, features], and the last states.

    `reverse` begins with the last time. `lengths` (int32 [batch]) are the times that count of each sequence: behind
    them states stay and outputs are zero.
    """
    times, batch, features = low.shape(x)
    current, outputs = list(states), [""] * times
    for time in reversed(range(times)) if reverse else range(times):
        new = step(low.reshape(low.slice_axis(x, 0, time, 1), (batch, features)), current)
        outputs[time] = new[0]
        if lengths is not None:
            runs = low.greater(low.reshape(lengths, (batch, 1)), low.constant([[time]], DType.INT32))
            outputs[time] = low.select(runs, new[0], low.scalar(0, new[0]))
            new = [low.select(runs, after, before) for after, before in zip(new, current, strict=True)]
        current = new
    return outputs, current


def halved_gates(low: Lowering, x: str, halves: Sequence[bool]) -> str:
    """Weights or biases [..., gates * H], with those of some gates halved.

    sigmoid(x) is (1 + tanh(x / 2)) / 2: with that half in the weights one curve does for all gates of a cell at once,
    and for the cell's own tanh."""
    size = low.shape(x)[-1] // len(halves)
    line = np.repeat([0.5 if half else 1.0 for half in halves], size)
    return low.mul(x, low.constant(line.reshape((1,) * (low.rank(x) - 1) + (-1,)), low.dtype(x)))


def gated(low: Lowering, x: str, tanh: str) -> str:
    """2 * sigmoid(s) * x, where `tanh` is tanh(s / 2)."""
    return low.add(low.mul(tanh, x), x)


def lstm_cell(low: Lowering, sums: Sequence[str], c: str) -> list[str]:
    """[h, c] after sums [batch, H] of the gates input, output, forget and cell, halved as `LSTM_HALVES` says, in
    tensors of one or more gates."""
    size = low.shape(c)[-1]
    parts = [split(low, low.op("TANH", each), low.shape(each)[-1] // size) for each in sums]
    i, o, f, new = (gate for part in parts for gate in part)
    c = low.times(low.add(gated(low, c, f), gated(low, new, i)), 0.5)
    return [low.times(gated(low, low.op("TANH", c), o), 0.5), c]


def gru_output(low: Lowering, update: str, new: str, h: str) -> str:
    """The next state; `update` is tanh(s / 2) of the update gate's sum s."""
    return low.add(new, low.times(gated(low, low.sub(h, new), update), 0.5))


def stacked(low: Lowering, parts: Sequence[str]) -> str:
    """Tensors of one shape along a new first axis."""
    return low.concat([low.reshape(part, (1, *low.shape(part))) for part in parts], 0)


def split(low: Lowering, x: str, count: int) -> list[str]:
    """Equal parts of the last axis."""
    axis = low.rank(x) - 1
    size = low.shape(x)[axis] // count
    return [low.slice_axis(x, axis, part * size, size) for part in range(count)]


def zeros(low: Lowering, shape: Sequence[int], like: str) -> str:
    """A state to begin with."""
    return low.constant(np.zeros(tuple(shape)), low.dtype(like))
