"""What the larger and the smaller of two floats is when one is NaN (attribute nan_mode of TOSA 1.0)."""

import numpy as np


def larger(nan_mode: str) -> np.ufunc:
    """maximum; PROPAGATE: NaN if one is NaN, IGNORE: the one that is a number."""
    return np.fmax if nan_mode == "IGNORE" else np.maximum


def smaller(nan_mode: str) -> np.ufunc:
    """Returns the minimum, with NaN as in `larger`."""
    return np.fmin if nan_mode == "IGNORE" else np.minimum
