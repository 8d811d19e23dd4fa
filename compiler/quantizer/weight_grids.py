"""Recovers integers from constants that were integers once: scale * q, channel by channel."""

from dataclasses import dataclass

import numpy as np

_TOLERANCE = 2e-3
_LOWEST, _HIGHEST = -128, 127
_LARGEST = _HIGHEST - _LOWEST
_WIDEST = 65535
_SAMPLE = 16
_BIAS_ALONE = 2.0**20


@dataclass(frozen=True)
class WeightGrid:
    """One scale for each output channel, and the zero point that they share: real = scale * (q - zero_point).

    A `wide` grid has integers beyond int8, and zero point 0: a convolution for each of their bytes.
    """

    scales: np.ndarray
    zero_point: int
    wide: bool = False


def weight_grid(channels: np.ndarray) -> WeightGrid | None:
    """The grid of weights [output channel, taps] that a DequantizeLinear made; None if int8 does not hold them.

    Any grid that holds all values exactly gives the same products. The zero point is 0 where that is possible.
    """
    rows = channels.astype(np.float64)
    largest = np.abs(rows).max(1)
    symmetric = _on_grid(rows, np.where(largest > 0, largest, 1.0), _HIGHEST) & (largest > 0)
    quick = [
        (size / _HIGHEST, -_HIGHEST, _HIGHEST) if whole else _grid(row)
        for row, size, whole in zip(rows, largest.tolist(), symmetric, strict=True)
    ]
    return _shared(quick) or _shared([_grid(row) for row in rows])


def wide_grid(channels: np.ndarray) -> WeightGrid | None:
    """The same for integers of 9 to 17 bits: int16 weights, or int8 ones with a zero point for each channel."""
    scales: list[float] = []
    for row in channels.astype(np.float64):
        largest = float(np.abs(row).max())
        # The rows of a tensor mostly share one scale.
        tried = [round(largest / scale) for scale in scales[-1:]] if largest else []
        steps = next((n for n in tried if 0 < n <= _WIDEST and _is_wide(row, largest, n)), 0)
        if not steps and largest:
            numbers = np.arange(1, _WIDEST + 1)
            for column in row[np.argsort(-np.abs(row), kind="stable")[:_SAMPLE]]:
                numbers = numbers[_off_grid(column, largest, numbers) < _wide_tolerance(numbers)]
            steps = next((n for n in numbers.tolist() if _is_wide(row, largest, n)), 0)
            if not steps:
                return None
        scales.append(largest / steps if largest else 1.0)
    return WeightGrid(np.array(scales), 0, wide=True)


def _is_wide(row: np.ndarray, largest: float, steps: int) -> bool:
    return bool(_off_grid(row, largest, np.array(steps)).max() < _wide_tolerance(np.array(steps)))


def _off_grid(values: np.ndarray, largest: float, steps: np.ndarray) -> np.ndarray:
    scaled = values * (steps / largest)
    return np.asarray(np.abs(scaled - np.rint(scaled)))


def _wide_tolerance(steps: np.ndarray) -> np.ndarray:
    """A float32 is a share of itself off."""
    return np.asarray(_TOLERANCE + steps * 2.0**-22)


def _shared(found: list[tuple[float, int, int] | None]) -> WeightGrid | None:
    """One zero point for the grids of all channels."""
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
    # Few elements rule most numbers of steps out.
    numbers = np.arange(1, _LARGEST + 1)
    tried = np.broadcast_to(row[:_SAMPLE], (len(numbers), min(_SAMPLE, row.size)))
    for steps in numbers[_on_grid(tried, largest, numbers)].tolist():
        if _on_grid(row[None], largest, steps)[0]:
            low, high = int(np.rint(row.min() * steps / largest)), int(np.rint(row.max() * steps / largest))
            return (largest / steps, min(low, 0), max(high, 0)) if high - low <= _LARGEST else None
    return None


def _on_grid(rows: np.ndarray, largest: np.ndarray | float, steps: np.ndarray | int) -> np.ndarray:
    """Returns for each row whether its elements are whole where its largest magnitude is `steps`."""
    scaled = rows * np.reshape(steps / np.asarray(largest), (-1, 1))
    return np.asarray(np.abs(scaled - np.rint(scaled)).max(1) < _TOLERANCE)


def with_biases(grid: WeightGrid, channels: np.ndarray, biases: np.ndarray) -> WeightGrid:
    """The same weights on grids that hold the biases too, as far as their integers have room for a common factor.

    `biases` are in steps of the activations: a whole number of weight steps each, if the model brings them as int32.
    """
    if grid.zero_point:
        return grid
    scales = grid.scales.copy()
    for index, (row, bias) in enumerate(zip(channels.astype(np.float64), biases.tolist(), strict=True)):
        largest = float(np.abs(np.rint(row / scales[index])).max())
        if largest:
            factors = np.arange(1, _HIGHEST // largest + 1) if largest <= _HIGHEST else np.ones(1)
            steps = bias / scales[index] * factors
            whole = np.abs(steps - np.rint(steps)) < _TOLERANCE
            scales[index] /= factors[whole.argmax() if whole.any() else -1]
        elif bias:
            # Weights of zero fit every grid.
            scales[index] = abs(bias) / _BIAS_ALONE
    return WeightGrid(scales, grid.zero_point)
