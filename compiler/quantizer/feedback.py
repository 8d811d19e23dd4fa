"""Weights rounded with error feedback: the error of each is made up for by the weights of the same row behind it.

What counts is the error of the sums on what a convolution reads, not that of the weights. Channels go together, so a
weight that is rounded up lets its likes be rounded down (GPTQ, arXiv 2210.17323: one column after the other, by the
Cholesky factor of the inverse of the inputs' covariance).
"""

from collections.abc import Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tosaic.compiler.ir import Graph, Operator

_MOST_TAPS = 2048
"""The covariance of more takes more memory and time than it is worth; such weights are rounded to the nearest."""
_DAMPING = 0.01
"""Share of the mean variance that is added to each at least."""
_DOUBT = 0.3
"""The same, times the weights of a row by the rows that were seen: few rows vary together by chance."""
_LEAST = 2.0**-30
_BLOCK = 128
"""Columns whose errors reach those behind them in one product of matrices."""


class Covariances:
    """How what each CONV2D with constant weights reads varies together, by the operator's result."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[np.ndarray, np.ndarray, int]] = {}

    def observe(self, graph: Graph, values: Mapping[str, np.ndarray]) -> None:
        """One run: arrays by tensor name."""
        for op in graph.operators:
            weight = graph.tensors[op.inputs[1]].data if op.op == "CONV2D" else None
            if weight is None or not 1 < weight[0].size <= _MOST_TAPS or op.inputs[0] not in values:
                continue
            rows = _read(values[op.inputs[0]].astype(np.float64), weight.shape[1:3], op)
            square, total, count = self._sums.get(op.outputs[0], (0.0, 0.0, 0))
            self._sums[op.outputs[0]] = (square + rows.T @ rows, total + rows.sum(0), count + len(rows))

    def of(self, result: str) -> np.ndarray | None:
        """The covariance [taps, taps], damped: what was seen is a sample. None where nothing was."""
        if result not in self._sums:
            return None
        square, total, count = self._sums[result]
        found = square / count - np.outer(total / count, total / count)
        # The difference may be off by a share of the squares where nothing varies.
        least = _LEAST * float(np.trace(square)) / count or 1.0
        share = max(_DAMPING, _DOUBT * len(found) / count)
        return np.asarray(
            found + np.eye(len(found)) * (share * max(float(np.diag(found).mean()), 0.0) + least)
        )


def _read(x: np.ndarray, kernel: tuple[int, ...], op: Operator) -> np.ndarray:
    """What each result of a convolution is made of: [results, taps]."""
    top, bottom, left, right = op.attributes["pad"]
    (down, across), (high, wide) = op.attributes["stride"], op.attributes["dilation"]
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    windows = sliding_window_view(padded, high * (kernel[0] - 1) + 1, 1)
    windows = sliding_window_view(windows, wide * (kernel[1] - 1) + 1, 2)
    windows = windows[:, ::down, ::across, :, ::high, ::wide]
    return windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, kernel[0] * kernel[1] * x.shape[-1])


def round_with_feedback(
    weights: np.ndarray, covariance: np.ndarray, limits: tuple[int, int], steps: np.ndarray | float = 1.0
) -> np.ndarray:
    """Integers within `limits` for weights [output channel, taps] in `steps`."""
    taps = len(covariance)
    # What varies most is rounded first: the others make up for it.
    order = np.argsort(-np.diag(covariance), kind="stable")
    factor = np.linalg.cholesky(np.linalg.inv(covariance[np.ix_(order, order)])).T
    left, found = weights[:, order], np.zeros_like(weights)
    step = np.broadcast_to(steps, weights.shape)[:, order]
    for first in range(0, taps, _BLOCK):
        last = min(first + _BLOCK, taps)
        errors = np.zeros((len(weights), last - first))
        for tap in range(first, last):
            found[:, tap] = np.clip(np.rint(left[:, tap] / step[:, tap]), *limits)
            error = (left[:, tap] - found[:, tap] * step[:, tap]) / factor[tap, tap]
            left[:, tap + 1 : last] -= np.outer(error, factor[tap, tap + 1 : last])
            errors[:, tap - first] = error
        left[:, last:] -= errors @ factor[first:last, last:]
    result = np.empty_like(found)
    result[:, order] = found
    return result
