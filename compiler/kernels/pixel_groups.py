"""Convolutions with few output channels: neighbouring pixels of a row share a vector.

With p pixels of C channels where p*C <= columns, the output [OH, OW, C] is [OH, OW/p, p*C] in memory, byte for byte,
and that is a convolution with p times the stride and p shifted copies of each kernel side by side. Its runs are a
little longer, but it has a p-th of the pixels.
"""

import dataclasses
import math

import numpy as np

from tosaic.compiler.ir import Graph, Operator, Tensor
from tosaic.hw.config import Config

from .geometry import Window


@dataclasses.dataclass(frozen=True)
class Grouped:
    """The convolution with `pixels` pixels as one; its weights are a new constant of the graph."""

    operator: Operator
    window: Window
    pixels: int


def group_pixels(
    graph: Graph, operator: Operator, window: Window, columns: int, weight_zp: int, config: Config
) -> Grouped:
    """The best grouping of a CONV2D, perhaps none; only constant weights can be arranged so."""
    plain = Grouped(operator, window, 1)
    weight = graph.tensors[operator.inputs[1]]
    if operator.op != "CONV2D" or weight.data is None or not (window.dx == 1 or window.kw == 1):
        return plain
    channels = weight.shape[0]
    best, least = plain, _array_cycles(window, config)
    pixels = 2
    while pixels * channels <= columns:
        wider = _wider(window, pixels)
        if window.ow % pixels == 0 and _array_cycles(wider, config) < least:
            best, least = Grouped(operator, wider, pixels), _array_cycles(wider, config)
        pixels *= 2
    if best.pixels == 1:
        return plain
    name = f"{weight.name}'{best.pixels} pixels"
    # The window may be simplified: an image of one column is one row.
    kernel = weight.data.reshape(channels, window.kh, window.kw, window.ic)
    data = _side_by_side(kernel, window.sx, best.pixels, weight_zp)
    graph.tensors[name] = Tensor(name, data.shape, weight.dtype, data)
    return dataclasses.replace(
        best, operator=dataclasses.replace(operator, inputs=[operator.inputs[0], name, *operator.inputs[2:]])
    )


def _wider(window: Window, pixels: int) -> Window:
    return dataclasses.replace(
        window,
        ow=window.ow // pixels,
        kw=window.kw + (pixels - 1) * window.sx,
        sx=window.sx * pixels,
        dx=1,
    )


def _array_cycles(window: Window, config: Config) -> int:
    """Of one tile of output channels."""
    tiles = math.ceil(window.n * window.oh * window.ow / config.rows)
    return tiles * window.kh * math.ceil(window.kw * window.ic / config.columns) * config.columns


def _side_by_side(weight: np.ndarray, stride: int, pixels: int, weight_zp: int) -> np.ndarray:
    """[p*OC, KH, KW + (p-1)*stride, IC]: kernel j begins at column j*stride; weight_zp counts as zero."""
    oc, kh, kw, ic = weight.shape
    wide = np.full((pixels, oc, kh, kw + (pixels - 1) * stride, ic), weight_zp, weight.dtype)
    for pixel in range(pixels):
        wide[pixel, :, :, pixel * stride : pixel * stride + kw] = weight
    return wide.reshape(pixels * oc, *wide.shape[2:])
