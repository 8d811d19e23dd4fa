"""TRANSPOSE_CONV2D (TOSA 0.30 section 2.3.11, with the sign of out_pad of 1.0: positive adds)."""

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.arithmetic import as_int64, largest_sum, magnitude, product_dtype, wrap
from tosaic.sim.golden.convolution import centred
from tosaic.sim.golden.correlation import Spread, correlate_transposed, transposed_terms
from tosaic.sim.golden.kernels import kernel
from tosaic.sim.golden.requirements import require_partial_sums


@kernel("TRANSPOSE_CONV2D")
def transpose_conv2d(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    spread: Spread,
    out_dtype: DType,
) -> np.ndarray:
    """Maps input [N,IH,IW,IC], weight [OC,KH,KW,IC], bias [OC] or [1] to [N,OH,OW,OC] in int32 or int48.

    OH = (IH-1)*stride_y + out_pad_top + out_pad_bottom + KH, OW alike.
    """
    image, taps = centred(input, input_zp), centred(weight, weight_zp)
    held = product_dtype(image, taps, taps[0].size)
    sums = correlate_transposed(image.astype(held), taps.astype(held), spread)
    require_partial_sums(
        np.broadcast_to(bias, sums.shape),
        lambda: transposed_terms(image, taps, spread),
        lambda: largest_sum(image, taps, taps[0].size) + magnitude(as_int64(bias)),
        out_dtype,
    )
    return wrap(as_int64(sums) + as_int64(bias), out_dtype)
