"""AVG_POOL2D and MAX_POOL2D on floats (TOSA 0.30 sections 2.3.2 and 2.3.9)."""

from collections.abc import Sequence

import numpy as np

from tosaic.sim.golden.floating.nan_mode import larger
from tosaic.sim.golden.kernels import float_kernel
from tosaic.sim.golden.pooling import pad_spatial, reduce_windows, window_sizes


@float_kernel("AVG_POOL2D")
def avg_pool2d(
    input: np.ndarray,
    input_zp: np.ndarray,
    output_zp: np.ndarray,
    *,
    kernel: Sequence[int],
    stride: Sequence[int],
    pad: Sequence[int],
) -> np.ndarray:
    """input [N,IH,IW,C] to [N,OH,OW,C]: means over the positions inside the input; the zero points are 0."""
    sums = reduce_windows(np.add, pad_spatial(input, pad), kernel, stride)
    return sums / window_sizes(input, kernel, stride, pad)


@float_kernel("MAX_POOL2D")
def max_pool2d(
    input: np.ndarray,
    *,
    kernel: Sequence[int],
    stride: Sequence[int],
    pad: Sequence[int],
    nan_mode: str = "PROPAGATE",
) -> np.ndarray:
    """Maps input [N,IH,IW,C] to [N,OH,OW,C]: largest element, padding never wins."""
    return reduce_windows(larger(nan_mode), pad_spatial(input, pad, value=-np.inf), kernel, stride)
