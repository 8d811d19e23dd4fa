"""Recovers integers from constants that were integers once: scale * q, channel by channel."""

import numpy as np

_TOLERANCE = 2e-3
_LARGEST = 128


def grid_scales(channels: np.ndarray) -> np.ndarray | None:
    """Scales [channel] with channels / scale whole numbers of at most 127; None if some channel has none.

    `channels` are float weights [output channel, taps] that a DequantizeLinear made.
    """
    scales = np.ones(len(channels))
    for index, row in enumerate(channels.astype(np.float64)):
        found = _scale(row)
        if found is None:
            return None
        scales[index] = found
    return scales


def _scale(row: np.ndarray) -> float | None:
    largest = float(np.abs(row).max())
    if largest == 0:
        return 1.0
    # Any grid that holds all values exactly gives the same products.
    for steps in range(_LARGEST - 1, 0, -1):
        scaled = row * (steps / largest)
        if np.abs(scaled - np.rint(scaled)).max() < _TOLERANCE:
            return largest / steps
    return None
