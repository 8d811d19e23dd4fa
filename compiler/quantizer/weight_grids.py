"""Recovers integers from constants that were integers once: scale * q, channel by channel."""

from dataclasses import dataclass

import numpy as np

_TOLERANCE = 2e-3
_LOWEST, _HIGHEST = -128, 127
_LARGEST = _HIGHEST - _LOWEST


@dataclass(frozen=True)
class WeightGrid:
    """One scale for each output channel, and the zero point that they share: real = scale * (q - zero_point)."""

    scales: np.ndarray
    zero_point: int


def weight_grid(channels: np.ndarray) -> WeightGrid | None:
    """The grid of weights [output channel, taps] that a DequantizeLinear made; None if int8 does not hold them.

    Any grid that holds all values exactly gives the same products. The zero point is 0 where that is possible.
    """
    found = [_grid(row) for row in channels.astype(np.float64)]
    if any(grid is None for grid in found):
        return None
    grids = [grid for grid in found if grid is not None]
    least = max(_LOWEST - low for _, low, _ in grids)
    most = min(_HIGHEST - high for _, _, high in grids)
    if least > most:
        return None
    return WeightGrid(np.array([scale for scale, _, _ in grids]), min(max(0, least), most))


def _grid(row: np.ndarray) -> tuple[float, int, int] | None:
    """(scale, least and largest integer) with the fewest integers that one byte holds."""
    largest = float(np.abs(row).max())
    if largest == 0:
        return 1.0, 0, 0
    for steps in range(1, _LARGEST + 1):
        scaled = row * (steps / largest)
        if np.abs(scaled - np.rint(scaled)).max() < _TOLERANCE:
            low, high = int(np.rint(scaled.min())), int(np.rint(scaled.max()))
            return (largest / steps, min(low, 0), max(high, 0)) if high - low <= _LARGEST else None
    return None
