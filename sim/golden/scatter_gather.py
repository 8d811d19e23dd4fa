"""GATHER and SCATTER (TOSA 0.30 section 2.11); an index outside 0..K-1 is unpredictable, here clipped."""

import numpy as np

from tosaic.sim.golden.kernels import kernel


@kernel("GATHER", any_type=True)
def gather(values: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """values [N,K,C], int32 indices [N,W] to [N,W,C]: the row of `values` that each index names."""
    rows = np.clip(indices, 0, values.shape[1] - 1)
    return values[np.arange(values.shape[0])[:, None], rows]


@kernel("SCATTER", any_type=True)
def scatter(values_in: np.ndarray, indices: np.ndarray, input: np.ndarray) -> np.ndarray:
    """values_in [N,K,C] with the rows named by indices [N,W] replaced by those of input [N,W,C].

    A repeated index is unpredictable, here the last one wins.
    """
    rows = np.clip(indices, 0, values_in.shape[1] - 1)
    result = values_in.copy()
    batch = np.arange(values_in.shape[0])
    for w in range(indices.shape[1]):
        result[batch, rows[:, w]] = input[:, w]
    return result
