"""Computes SELECT (TOSA 0.30 section 2.7.1)."""

import numpy as np

from tosaic.sim.golden.kernels import kernel


@kernel("SELECT", any_type=True)
def select(input1: np.ndarray, input2: np.ndarray, input3: np.ndarray) -> np.ndarray:
    """input2 where the bool input1 is true, else input3; all three broadcast along axes of size 1."""
    return np.where(input1, input2, input3)
