"""EQUAL, GREATER and GREATER_EQUAL (TOSA 0.30 section 2.8): int32 or floats to bool, with broadcasting.

As the specification wants it, a comparison with NaN is false and the sign of zero does not count.
"""

import numpy as np

from tosaic.sim.golden.kernels import kernel


@kernel("EQUAL", any_type=True)
def equal(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 == input2."""
    return np.equal(input1, input2)


@kernel("GREATER", any_type=True)
def greater(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 > input2."""
    return np.greater(input1, input2)


@kernel("GREATER_EQUAL", any_type=True)
def greater_equal(input1: np.ndarray, input2: np.ndarray) -> np.ndarray:
    """Returns input1 >= input2."""
    return np.greater_equal(input1, input2)
