"""TRANSPOSE_CONV2D (TOSA 0.30 section 2.3.11, with the sign of out_pad of 1.0: positive adds)."""

from collections.abc import Sequence

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.sim.golden.arithmetic import as_int64, product_dtype, wrap
from tosaic.sim.golden.convolution import centred
from tosaic.sim.golden.kernels import kernel
from tosaic.sim.golden.taps import strided_overlap


@kernel("TRANSPOSE_CONV2D")
def transpose_conv2d(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    out_pad: Sequence[int],
    stride: Sequence[int],
    out_dtype: DType,
) -> np.ndarray:
    """input [N,IH,IW,IC], weight [OC,KH,KW,IC], bias [OC] or [1] to [N,OH,OW,OC] in int32 or int48.

    OH = (IH-1)*stride_y + out_pad_top + out_pad_bottom + KH, OW alike.
    """
    batch, in_y, in_x, in_channels = input.shape
    out_channels, kernel_y, kernel_x, _ = weight.shape
    top, bottom, left, right = out_pad
    out_y = (in_y - 1) * stride[0] + top + bottom + kernel_y
    out_x = (in_x - 1) * stride[1] + left + right + kernel_x
    image, taps = centred(input, input_zp), centred(weight, weight_zp)
    held = product_dtype(image, taps, taps[0].size)
    image, taps = image.astype(held), taps.astype(held)
    sums = np.zeros((batch, out_y, out_x, out_channels), dtype=held)
    for ky in range(kernel_y):
        rows, rows_out = strided_overlap(in_y, out_y, stride[0], top + ky)
        for kx in range(kernel_x):
            columns, columns_out = strided_overlap(in_x, out_x, stride[1], left + kx)
            read = image[:, rows, columns]
            products = read.reshape(-1, in_channels) @ taps[:, ky, kx].T
            sums[:, rows_out, columns_out] += products.reshape(*read.shape[:-1], out_channels)
    return wrap(as_int64(sums) + as_int64(bias), out_dtype)
