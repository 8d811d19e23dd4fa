"""RESIZE of floats (TOSA 0.30 section 2.12.1, in the 1.0 form)."""

import numpy as np

from tosaic.sim.golden.image import sample
from tosaic.sim.golden.kernels import float_kernel


@float_kernel("RESIZE")
def resize(
    input: np.ndarray, scale: np.ndarray, offset: np.ndarray, border: np.ndarray, *, mode: str
) -> np.ndarray:
    """input [N,IH,IW,C] to [N,OH,OW,C]; shape values scale [y_n, y_d, x_n, x_d], offset and border [y, x]."""
    y_n, y_d, x_n, x_d = (int(v) for v in scale)
    y0, y1, y_parts = sample(input.shape[1], y_n, y_d, int(offset[0]), int(border[0]))
    x0, x1, x_parts = sample(input.shape[2], x_n, x_d, int(offset[1]), int(border[1]))
    if mode == "NEAREST":
        y = np.where(2 * y_parts >= y_n, y1, y0)
        x = np.where(2 * x_parts >= x_n, x1, x0)
        return input[:, y[:, None], x]
    dy, dx = (y_parts / y_n)[:, None, None], (x_parts / x_n)[:, None]
    above = input[:, y0][:, :, x0] * (1.0 - dx) + input[:, y0][:, :, x1] * dx
    below = input[:, y1][:, :, x0] * (1.0 - dx) + input[:, y1][:, :, x1] * dx
    return above * (1.0 - dy) + below * dy
