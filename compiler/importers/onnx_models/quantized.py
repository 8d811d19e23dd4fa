"""Quantized operators: real = (q - zero point) * scale."""

import numpy as np

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.convolution import convolve
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.rescaling import rescaled
from tosaic.compiler.importers.onnx_models.errors import RunTimeValueError
from tosaic.compiler.importers.onnx_models.images import (
    channels_first,
    channels_last,
    check_fits,
    node_windows,
)
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import handles
from tosaic.compiler.importers.onnx_models.values import KINDS, OFFSET, OnnxValue
from tosaic.compiler.ir import DType

_RANGES = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}


def _along_axis(node: OnnxNode, tensor: str, axis: int, rank: int, block: int = 0, wanted: int = 0) -> str:
    """A scale or zero point in a shape that broadcasts to the tensor it belongs to."""
    low = node.low
    if low.rank(tensor) == 0 or low.shape(tensor) == (1,):
        return low.reshape(tensor, (1,) * rank)
    if low.rank(tensor) == 1:
        line = [1] * rank
        line[axis] = low.shape(tensor)[0]
        return low.reshape(tensor, line)
    shape = low.shape(tensor)
    repeated = low.tile(
        low.reshape(tensor, (*shape[: axis + 1], 1, *shape[axis + 1 :])), _ones(rank, axis + 1, block)
    )
    return low.slice_axis(
        low.reshape(repeated, (*shape[:axis], shape[axis] * block, *shape[axis + 1 :])), axis, 0, wanted
    )


def _ones(rank: int, axis: int, count: int) -> list[int]:
    multiples = [1] * (rank + 1)
    multiples[axis] = count
    return multiples


def _parameter(node: OnnxNode, index: int) -> str:
    low = node.low
    shape = node.shape()
    axis = node.axis(1) if len(shape) > 1 or node.attr("axis") in (0, -1) else 0
    wanted = shape[axis] if shape else 1
    return _along_axis(
        node, node.wide(index), axis, low.rank(node.raw()), int(node.attr("block_size", 0)), wanted
    )


@handles("QuantizeLinear")
def quantize_linear(node: OnnxNode) -> OnnxValue:
    """round(x / scale) + zero point, ties to even, saturated."""
    low = node.low
    number = int(node.attr("output_dtype", 0))
    kind = node.kind(2) if node.has(2) else KINDS.get(number, "uint8") if number else "uint8"
    x = low.cast(node.wide(0), DType.FP32)
    scale = low.cast(_parameter(node, 1), DType.FP32)
    zero_point = low.cast(_parameter(node, 2), DType.FP32) if node.has(2) else None
    return node.out(_quantize(node, low, x, scale, zero_point, kind), kind)


def _quantize(node: OnnxNode, low: Lowering, x: str, scale: str, zero_point: str | None, kind: str) -> str:
    """int32 values of a quantized float."""
    if kind not in _RANGES:
        node.unsupported(f"TOSA has no data type {kind}", "quantize to int8 or uint8")
    rounded = low.round_half_even(low.div(x, scale))
    if zero_point is not None:
        rounded = low.add(rounded, zero_point)
    lowest, highest = _RANGES[kind]
    return low.cast(low.clamp(rounded, float(lowest), float(highest)), DType.INT32)


@handles("DequantizeLinear")
def dequantize_linear(node: OnnxNode) -> OnnxValue:
    """Returns (q - zero point) * scale."""
    low, x = node.low, node.wide(0)
    if node.has(2):
        x = low.sub(x, _parameter(node, 2))
    scale = _parameter(node, 1)
    number = int(node.attr("output_dtype", 0))
    kind = KINDS.get(number, "float32") if number else node.kind(1)
    return node.out(low.mul(low.cast(x, low.dtype(scale)), scale), kind)


@handles("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: OnnxNode) -> list[OnnxValue]:
    """Lowers to uint8, with scale and zero point from the tensor's own range."""
    low, x = node.low, node.raw()
    axes = range(low.rank(x))
    zero = low.constant(0.0, DType.FP32)
    largest = low.maximum(low.reduce("MAX", x, axes, keep=False), zero)
    smallest = low.minimum(low.reduce("MIN", x, axes, keep=False), zero)
    scale = low.div(low.sub(largest, smallest), low.constant(255.0, DType.FP32))
    ratio = low.div(low.negate(smallest), scale)
    zero_point = low.round_half_even(low.clamp(ratio, 0.0, 255.0))
    y = _quantize(node, low, x, scale, zero_point, "uint8")
    return [
        node.out(y, "uint8"),
        node.out(scale, "float32"),
        node.out(low.cast(zero_point, DType.INT32), "uint8"),
    ]


# --- integer products -----------------------------------------------------------------------------------------


def _zero_point(node: OnnxNode, index: int) -> int:
    """One zero point, as the tensor is held (unsigned ones less their offset)."""
    if not node.has(index):
        return 0
    if node.value(index).data is None:
        name = node.value(index).name
        raise RunTimeValueError(
            f"{node}: its zero point {name!r} is computed at run time, as in dynamically quantized models, and the "
            "accelerator has none of these: take the float model and tosaic quantize, or quantize it statically",
            name,
        )
    values = node.const(index).reshape(-1)
    if (values != values[0]).any():
        node.unsupported("zero points that differ", "TOSA has one zero point for each tensor")
    return int(values[0]) - OFFSET.get(node.kind(index), 0)


def _held_zero_point(node: OnnxNode, data: int, index: int) -> int:
    """Zero point of input `data`; an absent one is 0, which an unsigned tensor holds as -128."""
    return _zero_point(node, index) if node.has(index) else -OFFSET.get(node.kind(data), 0)


@handles("ConvInteger")
def conv_integer(node: OnnxNode) -> OnnxValue:
    """Convolution of 8-bit integers to int32."""
    if node.has(3) and node.const(3).size > 1 and int(node.attr("group", 1)) == 1:
        return node.out(_convolve_per_channel(node), "int32")
    zero_points = _held_zero_point(node, 0, 2), _held_zero_point(node, 1, 3)
    return node.out(_convolve(node, 0, 1, None, zero_points), "int32")


def _convolve_per_channel(node: OnnxNode) -> str:
    """A zero point for each output channel: it multiplies the sum of the window, which is subtracted."""
    low = node.low
    products = _convolve(node, 0, 1, None, (_held_zero_point(node, 0, 2), 0))
    sizes, shape = node.shape(0)[2:], node.shape(1)
    ones = low.constant(np.ones((1, *shape[2:], shape[1])), DType.INT8)
    windows = node_windows(node, sizes, shape[2:])
    image = channels_last(low, node.raw(0))
    sums = channels_first(
        low, convolve(low, image, ones, None, windows, 1, (_held_zero_point(node, 0, 2), 0))
    )
    zero_points = node.const(3).astype(np.int64) - OFFSET.get(node.kind(3), 0)
    column = low.constant(zero_points.reshape(-1, *(1,) * len(sizes)), DType.INT32)
    return low.sub(products, low.mul(sums, column))


def _convolve(node: OnnxNode, x: int, w: int, bias: str | None, zero_points: tuple[int, int]) -> str:
    low, sizes = node.low, node.shape(x)[2:]
    windows = node_windows(node, sizes, node.shape(w)[2:])
    check_fits(node, sizes, windows)
    image, weight = channels_last(low, node.raw(x)), channels_last(low, node.raw(w))
    return channels_first(
        low, convolve(low, image, weight, bias, windows, int(node.attr("group", 1)), zero_points)
    )


@handles("MatMulInteger")
def matmul_integer(node: OnnxNode) -> OnnxValue:
    """Matrix product of 8-bit integers to int32."""
    zero_points = _held_zero_point(node, 0, 2), _held_zero_point(node, 1, 3)
    return node.out(matmul(node.low, node.raw(0), node.raw(1), zero_points), "int32")


def multiplier_and_shift(scale: float) -> tuple[int, int]:
    """Returns RESCALE's multiplier in 2^30 .. 2^31 - 1 and shift, with multiplier * 2^-shift = scale (TOSA
    0.30 1.9).
    """
    mantissa, exponent = np.frexp(scale)
    multiplier = round(float(mantissa) * (1 << 31))
    shift = 31 - int(exponent)
    if multiplier == 1 << 31:
        multiplier, shift = multiplier // 2, shift - 1
    if shift > 62:
        # Too small for the range of shifts: the multiplier gives bits up.
        multiplier, shift = multiplier >> min(shift - 62, 31), 62
    return multiplier, shift


def _rescale(node: OnnxNode, x: str, scales: np.ndarray, zero_point: int, dtype: DType) -> str:
    """int32 to an 8-bit type, one scale or one for each element of the last axis."""
    low = node.low
    pairs = [multiplier_and_shift(float(scale)) for scale in scales.reshape(-1)]
    if any(shift < 2 for _, shift in pairs):
        node.unsupported(f"a scale of {scales.max()}", "TOSA's RESCALE takes scales below 2^29")
    return rescaled(low, x, pairs, dtype, zeros=(0, zero_point))


def _scale(node: OnnxNode, index: int) -> np.ndarray:
    return node.const(index).astype(np.float64)


@handles("QLinearConv")
def qlinear_conv(node: OnnxNode) -> OnnxValue:
    """Convolution in integers, rescaled to the result's scale."""
    low = node.low
    zero_points = _held_zero_point(node, 0, 2), _held_zero_point(node, 3, 5)
    bias = node.raw(8) if node.has(8) else None
    sums = channels_last(low, _convolve(node, 0, 3, bias, zero_points))
    scales = _scale(node, 1) * _scale(node, 4) / _scale(node, 6)
    y = _rescale(node, sums, scales, _zero_point(node, 7), DType.INT8)
    return node.out_raw(channels_first(low, y), node.kind(7))


@handles("QLinearMatMul")
def qlinear_matmul(node: OnnxNode) -> OnnxValue:
    """Matrix product in integers, rescaled to the result's scale."""
    if any(node.const(i).size > 1 for i in (1, 4, 6)):
        node.unsupported("a scale for each row or column", "use one scale for each tensor")
    zero_points = _held_zero_point(node, 0, 2), _held_zero_point(node, 3, 5)
    product = matmul(node.low, node.raw(0), node.raw(3), zero_points)
    scales = _scale(node, 1) * _scale(node, 4) / _scale(node, 6)
    return node.out_raw(_rescale(node, product, scales, _zero_point(node, 7), DType.INT8), node.kind(7))
