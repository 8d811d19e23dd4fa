"""Custom operators that shipped models have."""

import struct

from tosaic.compiler.importers.lowering.convolution import transpose_convolve
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles

_SAME_PADDING = 1
"""TfLitePadding's value in the options, which are a C structure: padding, stride_width, stride_height."""


@handles("CUSTOM Convolution2DTransposeBias")
def transposed_convolution(node: TfliteNode) -> str:
    """MediaPipe's transposed convolution of reals: x, weights [O, H, W, C], bias."""
    low, options = node.low, node.operator.custom_options
    if len(options) < 12:
        node.unsupported(f"options of {len(options)} bytes", "export the model again")
    padding, stride_w, stride_h = struct.unpack_from("<3i", options)
    _, height, width, _ = node.shape(1)
    windows = []
    for kernel, stride in ((height, stride_h), (width, stride_w)):
        surplus = max(kernel - stride, 0) if padding == _SAME_PADDING else 0
        windows.append(AxisWindow(kernel, stride, 1, surplus // 2, surplus - surplus // 2))
    return transpose_convolve(low, node.x(), node.real(1), node.real(2) if node.has(2) else None, windows)
