"""Casts, and the borders between reals and integers that stand for them."""

import numpy as np

from tosaic.compiler.importers.tflite.islands import island_of
from tosaic.compiler.importers.tflite.multipliers import quantized_multiplier, rescale
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles
from tosaic.compiler.importers.tflite.tables import looked_up
from tosaic.compiler.importers.tflite.values import OFFSET, RANGES
from tosaic.compiler.ir import DType


@handles("QUANTIZE")
def quantize(node: TfliteNode) -> str:
    """Reals to integers, or integers to another grid; what lies outside of the grid becomes its end."""
    low, result = node.low, node.result()
    if result.kind not in RANGES:
        node.unsupported(f"{result.kind.lower()} for reals", "quantize to int8, uint8 or int16")
    if node.is_quantized:
        value, same = node.value(), node.low.dtype(node.x()) is node.result_type()
        if same and (value.scale, value.zero_point) == (result.scale, result.zero_point):
            return node.x()
        multiplier = quantized_multiplier(float(value.scale) / float(result.scale))
        return rescale(node, node.x(), [multiplier], node.result_type(), value.zero_point, result.zero_point)
    if result.quantization is None:
        node.unsupported(f"its result {result.name!r} has no scale", "quantize the model again")
    least, most = (float(bound) for bound in RANGES[result.kind])
    island = island_of(node)
    if island is not None:
        # In 32 bits the sum with the zero point wraps.
        zero_point = result.zero_point + OFFSET.get(result.kind, 0)
        total = (island.results + zero_point).astype(np.int32).astype(np.int64)
        return looked_up(node, total - zero_point, island.source)
    grid = low.times(node.x(), 1.0 / float(result.scale))
    # The cast rounds; the bounds are inside of the type, so that it never wraps.
    limited = low.clamp(low.plus(grid, float(result.zero_point)), least, most)
    return low.cast(limited, node.result_type())


@handles("DEQUANTIZE")
def dequantize(node: TfliteNode) -> str:
    """Integers to reals; constants, also those of half precision, become float32 at import."""
    # Of a model with integers at its borders the result may be the integers themselves.
    return node.real() if node.outputs[0].kind in ("FLOAT32", "FLOAT16") else node.x()


@handles("DENSIFY")
def densify(node: TfliteNode) -> str:
    """A sparse constant, which the reader has made dense."""
    return node.x()


@handles("FAKE_QUANT")
def fake_quant(node: TfliteNode) -> str:
    """Reals rounded to a grid between two bounds, of which zero is a point."""
    low = node.low
    bits, narrow = node.option("NumBits", 8), bool(node.option("NarrowRange", False))
    lowest, highest = float(narrow), float((1 << bits) - 1)
    smallest, largest = float(node.option("Min", 0.0)), float(node.option("Max", 0.0))
    scale = (largest - smallest) / (highest - lowest)
    zero = float(np.clip(np.floor(lowest - smallest / scale + 0.5), lowest, highest))
    inside = low.clamp(node.x(), (lowest - zero) * scale, (highest - zero) * scale)
    return low.times(low.round_half_even(low.times(inside, 1.0 / scale)), scale)


@handles("CAST")
def cast(node: TfliteNode) -> str:
    """Reals to integers without their fraction; the real part of complex numbers."""
    low, value, dtype = node.low, node.value(), node.result_type()
    x = value.tensor
    if value.kind == "COMPLEX64":
        shape = low.shape(x)
        return low.cast(low.reshape(low.slice_axis(x, len(shape) - 1, 0, 1), shape[:-1]), dtype)
    if value.kind in OFFSET:
        x = low.plus(low.cast(x, DType.INT32), OFFSET[value.kind])
    if low.dtype(x).is_float and dtype.is_integer:
        x = low.cast(low.truncate(x), DType.INT32)
    result = node.outputs[0].kind
    if result in OFFSET:
        x = low.plus(low.cast(x, DType.INT32), -OFFSET[result])
    return low.cast(x, dtype)
