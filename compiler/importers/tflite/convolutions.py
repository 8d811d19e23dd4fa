"""Convolutions and fully connected layers."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tosaic.compiler.importers.lowering.convolution import convolve, transpose_convolve
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.rescaling import rescaled
from tosaic.compiler.importers.lowering.windows import AxisWindow, flat_pads
from tosaic.compiler.importers.tflite.arithmetic import activated
from tosaic.compiler.importers.tflite.multipliers import (
    Multiplier,
    fused,
    quantized_multiplier,
    rescale,
    wrapped,
)
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles
from tosaic.compiler.importers.tflite.tables import centred
from tosaic.compiler.ir import DType

_SPATIAL_OPTIONS = {"D": "StrideD", "H": "StrideH", "W": "StrideW"}


def windows_of(node: TfliteNode, sizes: Sequence[int], kernel: Sequence[int]) -> list[AxisWindow]:
    """The window of each spatial axis, with TFLite's padding: of SAME, the odd element goes to the end."""
    axes = "DHW"[-len(kernel) :]
    windows = [
        AxisWindow(
            extent, node.option(_SPATIAL_OPTIONS[axis], 1) or 1, node.option(f"Dilation{axis}Factor", 1) or 1
        )
        for axis, extent in zip(axes, kernel, strict=True)
    ]
    if node.choice("Padding", "Padding") == "SAME":
        windows = [w.same(size, upper=True) for w, size in zip(windows, sizes, strict=True)]
    for window, size in zip(windows, sizes, strict=True):
        if window.outputs(size) < 1:
            node.unsupported(
                f"a window of {window.extent} elements on an axis of {size}",
                "bind a larger input with --shape, or pad it",
            )
    return windows


def channel_multipliers(node: TfliteNode, weight: int = 1) -> list[Multiplier]:
    """Returns the input scale times each weight scale, divided by the result's scale."""
    value, result, weights = node.value(), node.result(), node.value(weight).quantization
    if weights is None:
        node.unsupported("its weights have no scale", "quantize the model again")
    ratios = [float(value.scale) * float(scale) / float(result.scale) for scale in weights.scales]
    return [quantized_multiplier(ratio) for ratio in ratios]


def zero_points(node: TfliteNode, weight: int = 1) -> tuple[int, int]:
    """Zero points of the input and of the weights, which have one."""
    weights = node.value(weight).quantization
    if weights is not None and (weights.zero_points != weights.zero_points[0]).any():
        node.unsupported("weights with several zero points", "use symmetric weights")
    return node.value().zero_point, node.value(weight).zero_point


def bias_of(node: TfliteNode, index: int, channels: int) -> str | None:
    """The bias, in the type that sums have; None for zeros."""
    low = node.low
    if not node.has(index):
        return None
    if not node.is_quantized:
        return low.reshape(node.real(index), (channels,))
    wide = DType.INT48 if low.dtype(node.x()) is DType.INT16 else DType.INT32
    data = node.low.data(node.x(index))
    if data is None:
        node.unsupported("a bias that is computed at run time", "make it a constant, or use float32")
    return low.constant(data.astype(np.int64).reshape(channels), wide)


def accumulated(
    node: TfliteNode, sums: str, bias: int, multipliers: Sequence[Multiplier], rounding: str = "DOUBLE_ROUND"
) -> str:
    """Sums to the result's grid; 16-bit inputs with a 32-bit bias are summed in 32 bits by TFLite."""
    result = node.result()
    if node.low.dtype(sums) is DType.INT48 and node.has(bias) and node.value(bias).kind == "INT32":
        sums = _in_32_bits(node, sums)
    sums, multipliers = wrapped(node, sums, multipliers, _largest_sum(node, bias), rounding)
    y = rescale(node, sums, multipliers, node.result_type(), 0, result.zero_point, rounding)
    return fused(node, y)


def _largest_sum(node: TfliteNode, bias: int) -> int:
    """A bound of the sums' sizes; 0 if the weights are unknown."""
    low, weight = node.low, node.low.data(node.x(1))
    if weight is None:
        return 0
    channels = 3 if node.kind == "DEPTHWISE_CONV_2D" else 4 if node.kind == "CONV_3D" else 0
    sizes = np.abs(weight.astype(np.int64) - zero_points(node)[1])
    sums = np.moveaxis(sizes, channels, 0).reshape(sizes.shape[channels], -1).sum(1)
    sums = sums * int(np.abs(centred(node.value())).max())
    added = low.data(node.x(bias)) if node.has(bias) else None
    return int((sums if added is None else sums + np.abs(added.astype(np.int64)).reshape(-1)).max())


def _in_32_bits(node: TfliteNode, sums: str) -> str:
    """48-bit sums as int32, saturated."""
    return rescaled(node.low, sums, [(1 << 14, 14)], DType.INT32)


@handles("CONV_2D", "CONV_3D")
def convolution(node: TfliteNode) -> str:
    """x [N, spatial..., C] with weights [O, spatial..., C / groups] (3-D: [spatial..., C, O])."""
    low = node.low
    weight = node.x(1) if node.is_quantized else node.real(1)
    if node.kind == "CONV_3D":
        weight = low.transpose(weight, (4, 0, 1, 2, 3))
    outputs, *kernel, inner = low.shape(weight)
    windows = windows_of(node, node.shape()[1:-1], kernel)
    groups = node.shape()[-1] // inner
    bias = bias_of(node, 2, outputs)
    if not node.is_quantized:
        return activated(node, convolve(low, node.x(), weight, bias, windows, groups))
    sums = convolve(low, node.x(), weight, bias, windows, groups, zero_points(node))
    return accumulated(node, sums, 2, channel_multipliers(node))


@handles("DEPTHWISE_CONV_2D")
def depthwise_convolution(node: TfliteNode) -> str:
    """Weights [1, H, W, C * multiplier]: each channel on its own."""
    low, channels = node.low, node.shape()[-1]
    weight = node.x(1) if node.is_quantized else node.real(1)
    _, height, width, outputs = low.shape(weight)
    by_output = low.reshape(low.transpose(weight, (3, 1, 2, 0)), (outputs, height, width, 1))
    windows = windows_of(node, node.shape()[1:-1], (height, width))
    bias = bias_of(node, 2, outputs)
    if not node.is_quantized:
        return activated(node, convolve(low, node.x(), by_output, bias, windows, channels))
    sums = convolve(low, node.x(), by_output, bias, windows, channels, zero_points(node))
    return accumulated(node, sums, 2, channel_multipliers(node))


@handles("FULLY_CONNECTED")
def fully_connected(node: TfliteNode) -> str:
    """The rows of x [rows, C] by weights [O, C]."""
    low = node.low
    weight = node.x(1) if node.is_quantized else node.real(1)
    outputs, depth = low.shape(weight)
    rows = int(np.prod(node.shape())) // depth
    shape = (*node.shape()[:-1], outputs) if node.option("KeepNumDims", False) else (rows, outputs)
    bias = bias_of(node, 2, outputs)
    if not node.is_quantized:
        flat = low.reshape(node.x(), (rows, depth))
        y = matmul(low, flat, low.transpose(weight, (1, 0)))
        y = y if bias is None else low.add(y, bias)
        return low.reshape(activated(node, y), shape)
    weights = node.value(1)
    assert weights.quantization is not None
    if weights.quantization.scales.size == 1:
        product = float(node.value().scale) * float(weights.scale)
        multipliers = [quantized_multiplier(float(product) / float(node.result().scale))]
    else:
        multipliers = channel_multipliers(node)
    pixel = [AxisWindow(1), AxisWindow(1)]
    x = low.reshape(node.x(), (rows, 1, 1, depth))
    kernel = low.reshape(weight, (outputs, 1, 1, depth))
    sums = convolve(low, x, kernel, bias, pixel, 1, zero_points(node))
    if low.dtype(sums) is DType.INT48:
        # TFLite multiplies by all 31 bits. What saturates at 32 bits must saturate in the result as well.
        if any(exponent < -15 for _, exponent in multipliers) and not 0 < _largest_sum(node, 2) < 1 << 31:
            node.unsupported(
                "sums that need more than 32 bits", "quantize it to int8, or give it less inputs"
            )
        sums = _in_32_bits(node, sums)
    return low.reshape(accumulated(node, sums, 2, multipliers, "SINGLE_ROUND"), shape)


@handles("TRANSPOSE_CONV")
def transposed_convolution(node: TfliteNode) -> str:
    """Sizes of the result, weights [O, H, W, C], x and perhaps a bias."""
    low = node.low
    sizes = node.integers(0)
    outputs, height, width, _ = node.shape(1)
    data = _as_convolution(node)
    windows = [
        _cut(node, size, wanted, extent, stride)
        for size, wanted, extent, stride in zip(
            node.shape(2)[1:-1],
            sizes[1:3],
            (height, width),
            (node.option("StrideH", 1), node.option("StrideW", 1)),
            strict=True,
        )
    ]
    bias = bias_of(data, 2, outputs) if data.has(2) else None
    if not data.is_quantized:
        return activated(node, transpose_convolve(low, data.x(), data.real(1), bias, windows))
    wide = DType.INT48 if low.dtype(data.x()) is DType.INT16 else DType.INT32
    zero = zero_points(data)
    inside = all(w.before < w.kernel and w.after < w.kernel for w in windows)
    if not inside:
        node.unsupported("a result smaller than its windows", "choose another output size")
    sums = low.op(
        "TRANSPOSE_CONV2D",
        data.x(),
        data.x(1),
        bias or low.constant(np.zeros(outputs), wide),
        low.zero_point(data.x(), zero[0]),
        low.zero_point(data.x(1), zero[1]),
        dtype=wide,
        out_pad=[-pad for pad in flat_pads(windows)],
        stride=[w.stride for w in windows],
        acc_type=wide,
    )
    return accumulated(data, sums, 2, channel_multipliers(data))


def _as_convolution(node: TfliteNode) -> TfliteNode:
    """The operator with the inputs of a convolution: x, weights, bias."""
    inputs = [node.value(2), node.value(1), node.inputs[3] if node.has(3) else None]
    return TfliteNode(node.low, node.operator, inputs, node.outputs, node.name)


def _cut(node: TfliteNode, size: int, wanted: int, kernel: int, stride: int) -> AxisWindow:
    """What the result lacks of all windows: SAME cuts half of the rest in front."""
    whole = AxisWindow(kernel, stride)
    total = (
        max((size - 1) * stride + kernel - wanted, 0) if node.choice("Padding", "Padding") == "SAME" else 0
    )
    before = total // 2
    return replace(whole, before=before, after=(size - 1) * stride + kernel - wanted - before)
