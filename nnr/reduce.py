"""Encoder-side methods that leave a regular model behind: sparsification (8.1) and low rank (9.1)."""

from collections.abc import Sequence

import numpy as np

from tosaic.nnr.errors import NnrError


def sparsify(weights: np.ndarray, threshold: float) -> np.ndarray:
    """Set weights whose absolute value is below `threshold` to zero; same shape and dtype."""
    values = np.asarray(weights)
    # In float64: the most negative integer has no absolute value in its own type.
    return np.where(np.abs(values.astype(np.float64)) < threshold, values.dtype.type(0), values)


def threshold_for(weights: np.ndarray, zero_ratio: float) -> float:
    """The smallest threshold at which `sparsify` makes at least `zero_ratio` (0..1) of the weights zero."""
    if not 0 <= zero_ratio <= 1:
        raise NnrError(f"the share of zeros must be 0..1, not {zero_ratio}")
    sizes = np.sort(np.abs(np.asarray(weights, np.float64)).reshape(-1))
    wanted = int(np.ceil(zero_ratio * sizes.size))
    return float(np.nextafter(sizes[wanted - 1], np.inf)) if wanted else 0.0


_AXIS = {1: 0, 2: 2, 3: 3, 4: 3}


def matrix_of(weights: np.ndarray, mode: int) -> np.ndarray:
    """Reshape a kernel (height, width, inputs, outputs) to a matrix, as one of the four modes of 9.1.

    Mode 1 has a column per height, 2 a column per input, 3 a column per output, 4 a row per output.
    """
    values = np.asarray(weights)
    axis = _axis(values.shape, mode)
    rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    return rows if mode == 4 else rows.T


def kernel_of(matrix: np.ndarray, shape: Sequence[int], mode: int) -> np.ndarray:
    """The kernel of `shape` whose `matrix_of` in this mode is `matrix`."""
    axis = _axis(shape, mode)
    rows = matrix if mode == 4 else matrix.T
    others = [size for number, size in enumerate(shape) if number != axis]
    return np.moveaxis(rows.reshape(shape[axis], *others), 0, axis)


def _axis(shape: Sequence[int], mode: int) -> int:
    if len(shape) != 4:
        raise NnrError(f"reshaping modes are for tensors of rank 4, not {len(shape)}")
    if mode not in _AXIS:
        raise NnrError(f"reshaping mode must be 1..4, not {mode}")
    return _AXIS[mode]


def low_rank(matrix: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors A (m x rank) and B (rank x n), float32, whose product is nearest to `matrix` (m x n).

    Two layers with weights A and B are a regular model; nothing about them is signalled (E-49).
    """
    values = np.asarray(matrix, np.float64)
    if values.ndim != 2 or not 1 <= rank <= min(values.shape):
        raise NnrError(
            f"rank must be 1..{min(values.shape, default=0)} for a matrix of shape {values.shape}, not {rank}"
        )
    left, sizes, right = np.linalg.svd(values, full_matrices=False)
    root = np.sqrt(sizes[:rank])
    return (left[:, :rank] * root).astype(np.float32), (root[:, None] * right[:rank]).astype(np.float32)


def rank_for(matrix: np.ndarray, energy: float) -> int:
    """The smallest rank at which `low_rank` keeps the share `energy` (0..1) of the sum of squares."""
    if not 0 < energy <= 1:
        raise NnrError(f"the share of the energy must be above 0 and at most 1, not {energy}")
    squares = np.linalg.svd(np.asarray(matrix, np.float64), compute_uv=False) ** 2
    kept = np.cumsum(squares)
    return min(int(np.searchsorted(kept, energy * kept[-1])) + 1, squares.size) if squares.any() else 1


def reconstruct_low_rank(weights: np.ndarray, rank: int, mode: int = 4) -> np.ndarray:
    """The nearest weights of that rank, float32, in the same shape: the factors of 9.1 multiplied out again.

    weights: a matrix, or a kernel that `mode` reshapes. The network's structure stays as it is.
    """
    values = np.asarray(weights)
    if values.ndim == 2:
        left, right = low_rank(values, rank)
        return left @ right
    left, right = low_rank(matrix_of(values, mode), rank)
    return kernel_of(left @ right, values.shape, mode)
