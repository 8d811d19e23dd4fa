"""The convolutions on floats (TOSA 0.30 sections 2.3.3 to 2.3.7 and 2.3.11); the zero points are 0."""

import numpy as np

from tosaic.sim.golden.correlation import Spread, correlate, correlate_channels, correlate_transposed
from tosaic.sim.golden.kernels import float_kernel
from tosaic.sim.golden.taps import TapWindow


@float_kernel("CONV2D")
@float_kernel("CONV3D")
def convolution(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    window: TapWindow,
) -> np.ndarray:
    """input [N,I...,IC], weight [OC,K...,IC], bias [OC] or [1] to [N,O...,OC], with two or three axes I."""
    return correlate(input, weight, window) + bias


@float_kernel("DEPTHWISE_CONV2D")
def depthwise_conv2d(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    window: TapWindow,
) -> np.ndarray:
    """Maps input [N,IH,IW,C], weight [KH,KW,C,M], bias [C*M] or [1] to [N,OH,OW,C*M]."""
    return correlate_channels(input, weight, window) + bias


@float_kernel("TRANSPOSE_CONV2D")
def transpose_conv2d(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    input_zp: np.ndarray,
    weight_zp: np.ndarray,
    *,
    spread: Spread,
) -> np.ndarray:
    """input [N,IH,IW,IC], weight [OC,KH,KW,IC], bias [OC] or [1] to [N,OH,OW,OC]; a positive out_pad adds."""
    return correlate_transposed(input, weight, spread) + bias


@float_kernel("FULLY_CONNECTED")
def fully_connected(
    input: np.ndarray, weight: np.ndarray, bias: np.ndarray, input_zp: np.ndarray, weight_zp: np.ndarray
) -> np.ndarray:
    """Maps input [N,IC], weight [OC,IC], bias [OC] or [1] to [N,OC]."""
    return input @ weight.T + bias
