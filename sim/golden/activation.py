"""Computes CLAMP (TOSA 0.30 section 2.4.1)."""

import numpy as np

from tosaic.sim.golden.kernels import kernel


@kernel("CLAMP")
def clamp(input: np.ndarray, *, min_val: int, max_val: int) -> np.ndarray:
    """Each element limited to min_val .. max_val, which lie in the range of the input's type."""
    return np.clip(input, input.dtype.type(min_val), input.dtype.type(max_val))
