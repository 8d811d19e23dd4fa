"""IDENTITY (TOSA 0.30 section 2.14.2). CONST is not an operator of the IR: constants are tensors' data."""

import numpy as np

from tosaic.sim.golden.kernels import kernel


@kernel("IDENTITY", any_type=True)
def identity(input1: np.ndarray) -> np.ndarray:
    """Returns input1."""
    return input1
