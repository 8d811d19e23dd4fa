"""GATHER and SCATTER (TOSA 0.30 section 2.11); an index outside 0..K-1 is unpredictable, here clipped."""

import numpy as np

from tosaic.sim.golden.kernels import kernel
from tosaic.sim.golden.requirements import require


@kernel("GATHER", any_type=True)
def gather(values: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """values [N,K,C], int32 indices [N,W] to [N,W,C]: the row of `values` that each index names."""
    rows = _checked(indices, values.shape[1])
    return values[np.arange(values.shape[0])[:, None], rows]


@kernel("SCATTER", any_type=True)
def scatter(values_in: np.ndarray, indices: np.ndarray, input: np.ndarray) -> np.ndarray:
    """values_in [N,K,C] with the rows named by indices [N,W] replaced by those of input [N,W,C].

    A repeated index is unpredictable, here the last one wins.
    """
    rows = _checked(indices, values_in.shape[1])
    require("no index comes twice in a batch", indices, _is_first)
    result = values_in.copy()
    batch = np.arange(values_in.shape[0])
    for w in range(indices.shape[1]):
        result[batch, rows[:, w]] = input[:, w]
    return result


def _is_first(indices: np.ndarray) -> np.ndarray:
    """Returns where an index [N,W] stands for the first time in its batch, bool [N,W]."""
    order = np.argsort(indices, axis=1, kind="stable")
    ordered = np.take_along_axis(indices, order, axis=1)
    first = np.ones(indices.shape, dtype=bool)
    np.put_along_axis(first, order[:, 1:], ordered[:, 1:] != ordered[:, :-1], axis=1)
    return first


def _checked(indices: np.ndarray, size: int) -> np.ndarray:
    """The indices, which must lie in 0..size-1, limited to that."""
    require(f"the index lies in 0..{size - 1}", indices, lambda k: (k >= 0) & (k < size))
    return np.clip(indices, 0, size - 1)
