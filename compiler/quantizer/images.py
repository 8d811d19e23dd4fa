"""Quantizes pooling and resizing."""

import dataclasses

import numpy as np

from tosaic.compiler.ir import DType, Operator
from tosaic.compiler.quantizer.emission import Emission, natural
from tosaic.compiler.quantizer.encoding import Encoding, Integers

_MANY = 8
"""The mean of this many 8-bit activations has 1.5 bits more than they have: their own rounding hardly counts."""


@natural("AVG_POOL2D")
def average_pool(emission: Emission, op: Operator) -> Integers:
    """One window over the whole image is a sum; others are averages of int16, which keep fractions of int8."""
    _, height, width, _ = emission.shape(op.inputs[0])
    kernel, pad = op.attributes["kernel"], op.attributes["pad"]
    if list(kernel) == [height, width] and not any(pad):
        return _global_average(emission, op)
    source = emission.wide(op.inputs[0])
    if source.encoding is not None and source.dtype is DType.INT8:
        fine = Encoding(DType.INT16, source.encoding.scale / 64)
        held = emission.held(emission.convert(source, fine), fine)
    else:
        held = emission.activation(op.inputs[0], DType.INT16)
    zero = emission.low.constant([0], DType.INT16)
    attributes = {**op.attributes, "acc_type": DType.INT32}
    tensor = emission.emit("AVG_POOL2D", held.tensor, zero, zero, **attributes)
    return dataclasses.replace(held, tensor=tensor, encoding=None)


def _global_average(emission: Emission, op: Operator) -> Integers:
    batch, height, width, channels = emission.shape(op.inputs[0])
    count = height * width
    found = emission.activation(op.inputs[0]) if count >= _MANY else emission.settled(op.inputs[0])
    source = emission.as_summands(found, count)
    flat = emission.low.reshape(source.tensor, (batch, count, channels))
    sums = emission.low.reshape(emission.emit("REDUCE_SUM", flat, axis=1), emission.shape(op.outputs[0]))
    return Integers(sums, DType.INT32, source.scale / count, 0, source.bound * count)


@natural("RESIZE")
def resize(emission: Emission, op: Operator) -> Integers:
    """NEAREST picks elements; BILINEAR widens, and the numerators' product is its unit."""
    parameters = [emission.plain(name) for name in op.inputs[1:]]
    source = emission.activation(op.inputs[0])
    if op.attributes["mode"] == "NEAREST":
        tensor = emission.emit("RESIZE", source.tensor, *parameters, dtype=source.dtype, **op.attributes)
        return dataclasses.replace(source, tensor=tensor, encoding=None)
    scale = emission.data(op.inputs[1])
    assert scale is not None
    unit = int(scale[0]) * int(scale[2])
    wide = DType.INT32 if source.dtype is DType.INT8 else DType.INT48
    tensor = emission.emit("RESIZE", source.tensor, *parameters, dtype=wide, **op.attributes)
    if source.zero_point:
        tensor = emission.emit("SUB", tensor, emission.line(np.array([source.zero_point * unit]), tensor))
    return Integers(tensor, wide, source.scale / unit, 0, source.bound * unit)
