"""EQUAL, GREATER and GREATER_EQUAL (TOSA 0.30 section 2.8): int32 to bool, with broadcasting."""

import numpy as np

from tosaic.sim.golden.kernels import kernel


@kernel("EQUAL")
def equal(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """input1 == input2."""
    return np.equal(input1, input2)


@kernel("GREATER")
def greater(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """input1 > input2."""
    return np.greater(input1, input2)


@kernel("GREATER_EQUAL")
def greater_equal(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """input1 >= input2."""
    return np.greater_equal(input1, input2)
