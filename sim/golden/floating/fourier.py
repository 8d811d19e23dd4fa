"""Computes FFT2D and RFFT2D (TOSA 0.30 sections 2.3.6 and 2.3.10)."""

import numpy as np

from tosaic.sim.golden.kernels import float_kernel

_PLANE = (1, 2)


@float_kernel("FFT2D")
def fft2d(input_real: np.ndarray, input_imag: np.ndarray, *, inverse: bool) -> tuple[np.ndarray, np.ndarray]:
    """Real and imaginary part [N,H,W] of the transform over H and W; the inverse one is not divided by H*W."""
    values = input_real + 1j * input_imag
    if inverse:
        result = np.fft.ifft2(values, axes=_PLANE, norm="forward")
    else:
        result = np.fft.fft2(values, axes=_PLANE)
    return result.real, result.imag


@float_kernel("RFFT2D")
def rfft2d(input_real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Real and imaginary part [N,H,W/2+1] of the transform of real numbers [N,H,W] over H and W."""
    result = np.fft.rfft2(input_real, axes=_PLANE)
    return result.real, result.imag
