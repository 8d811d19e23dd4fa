"""Computes RESIZE (TOSA 0.30 section 2.12.1, in the 1.0 form: scale n/d instead of stride and shift)."""

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.arithmetic import as_int64, wrap
from tosaic.sim.golden.kernels import kernel
from tosaic.sim.golden.requirements import require


@kernel("RESIZE")
def resize(
    input: np.ndarray,
    scale: np.ndarray,
    offset: np.ndarray,
    border: np.ndarray,
    *,
    mode: str,
    out_dtype: DType,
) -> np.ndarray:
    """input [N,IH,IW,C] to [N,OH,OW,C]; shape values scale [y_n, y_d, x_n, x_d], offset and border [y, x].

    NEAREST keeps the type. BILINEAR gives int8 to int32, int16 to int48, scaled up by y_n * x_n.
    """
    y_n, y_d, x_n, x_d = (int(v) for v in scale)
    y0, y1, dy = sample(input.shape[1], y_n, y_d, int(offset[0]), int(border[0]))
    x0, x1, dx = sample(input.shape[2], x_n, x_d, int(offset[1]), int(border[1]))
    if mode == "NEAREST":
        y = np.where(2 * dy >= y_n, y1, y0)
        x = np.where(2 * dx >= x_n, x1, x0)
        return input[:, y[:, None], x]
    dy, dx = dy[:, None, None], dx[:, None]
    upper = as_int64(input[:, y0])
    lower = as_int64(input[:, y1])
    above = upper[:, :, x0] * (x_n - dx) + upper[:, :, x1] * dx
    below = lower[:, :, x0] * (x_n - dx) + lower[:, :, x1] * dx
    return wrap(above * (y_n - dy) + below * dy, out_dtype)


def sample(
    in_size: int, numerator: int, denominator: int, offset: int, border: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns, for each output index of one axis, the two input indices and the distance from the first, in 1/n."""
    out_size = ((in_size - 1) * numerator - offset + border) // denominator + 1
    position = np.arange(out_size, dtype=np.int64) * denominator + offset
    index = position // numerator
    # The second clip keeps the index valid where the position is more than a pixel outside.
    require(
        f"the input index of an output row or column lies in -1..{in_size - 1}",
        index,
        lambda i: (i >= -1) & (i < in_size),
    )
    first = np.clip(index, 0, in_size - 1)
    second = np.clip(index + 1, 0, in_size - 1)
    return first, second, position - index * numerator
