"""WeightParams: floats, halves, integers with a scale or a table, in every width."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tosaic.errors import ModelError, UnsupportedError

_PIECE = 1 << 16
"""Integers that are decoded at once; a multiple of 8, so that each piece begins with a byte."""


def read_weights(params: Any, count: int, what: str, channels: int = 1) -> np.ndarray:
    """The `count` weights of a WeightParams message as float32, row major, shape [count].

    `channels` is the number of output channels, the outermost axis: integers may have a scale for each.
    ModelError, which names `what`, when the message holds another number of weights or contradicts itself.
    """
    kinds = [
        kind for kind in ("floatValue", "float16Value", "rawValue", "int8RawValue") if getattr(params, kind)
    ]
    if len(kinds) > 1:
        raise ModelError(f"{what} are stored twice, as {' and as '.join(kinds)}; keep one")
    if not kinds:
        raise ModelError(f"{what} are missing: {count} numbers are needed")
    data = getattr(params, kinds[0])
    if kinds[0] == "floatValue":
        return _counted(_floats(data, what), count, what)
    if kinds[0] == "float16Value":
        if len(data) % 2:
            raise ModelError(f"{what}: {len(data)} bytes are no whole number of float16")
        return _counted(np.frombuffer(data, "<f2"), count, what).astype(np.float32)
    if kinds[0] == "int8RawValue":
        integers = _counted(np.frombuffer(data, np.int8), count, what)
        linear = params.quantization.linearQuantization
        if linear.bias or len(linear.scale) != 1:
            raise ModelError(
                f"{what}: int8 weights of a layer with int8DynamicQuantize have one scale and no bias"
            )
        return integers.astype(np.float32) * np.float32(linear.scale[0])
    return _decoded(data, params.quantization, count, what, channels)


def has_weights(params: Any) -> bool:
    """Whether a WeightParams message holds anything."""
    return bool(params.floatValue or params.float16Value or params.rawValue or params.int8RawValue)


def _floats(chunks: Any, what: str) -> np.ndarray:
    """`floatValue`, which our schema reads as bytes."""
    data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if len(data) % 4:
        raise ModelError(f"{what}: {len(data)} bytes are no whole number of float32")
    return np.frombuffer(data, "<f4")


def _counted(values: np.ndarray, count: int, what: str) -> np.ndarray:
    if len(values) != count:
        raise ModelError(f"{what} are {len(values)} numbers, not the {count} that the layer's sizes need")
    return values


def _decoded(data: bytes, quantization: Any, count: int, what: str, channels: int) -> np.ndarray:
    """`rawValue`: unsigned integers of 1 to 8 bits, the first in the highest bits of the first byte."""
    bits = quantization.numberOfBits
    if not 1 <= bits <= 8:
        raise UnsupportedError(f"{what} have {bits} bits; 1 to 8 are known: quantize the model again")
    if len(data) != (count * bits + 7) // 8:
        raise ModelError(
            f"{what}: {len(data)} bytes, not the {(count * bits + 7) // 8} of {count} numbers of {bits} bits"
        )
    which = quantization.WhichOneof("QuantizationType")
    if which == "lookupTableQuantization":
        table = np.array(quantization.lookupTableQuantization.floatValue, np.float32)
        if len(table) != 1 << bits:
            raise ModelError(
                f"{what}: the look-up table has {len(table)} entries, not the {1 << bits} of {bits} bits"
            )
        return _by_pieces(data, bits, count, lambda integers, _: table[integers])
    if which != "linearQuantization":
        raise ModelError(f"{what} are integers without a scale or a look-up table")
    linear = quantization.linearQuantization
    scale, bias = np.array(linear.scale, np.float32), np.array(linear.bias, np.float32)
    bias = bias if len(bias) else np.zeros(1, np.float32)
    for name, values in (("scale", scale), ("bias", bias)):
        if len(values) not in (1, channels):
            raise ModelError(
                f"{what}: {len(values)} entries of {name}, not 1 or {channels}, one for each channel"
            )
    if count == 0 or count % max(channels, 1):
        raise ModelError(f"{what} are {count} numbers for {channels} channels")
    each = count // max(channels, 1)

    def value(integers: Any, first: int) -> Any:
        channel = np.arange(first, first + len(integers)) // each
        return integers * scale[channel if len(scale) > 1 else 0] + bias[channel if len(bias) > 1 else 0]

    return _by_pieces(data, bits, count, value)


def _by_pieces(
    data: bytes, bits: int, count: int, value: Callable[[np.ndarray, int], np.ndarray]
) -> np.ndarray:
    """float32 values of integers, decoded piece by piece; `value` gets the integers and the number of the first."""
    result = np.empty(count, np.float32)
    for first in range(0, count, _PIECE):
        number = min(_PIECE, count - first)
        packed = np.frombuffer(data, np.uint8)[first * bits // 8 : ((first + number) * bits + 7) // 8]
        if bits != 8:
            unpacked = np.unpackbits(packed)[: number * bits].reshape(number, bits)
            packed = np.right_shift(np.packbits(unpacked, axis=1)[:, 0], np.uint8(8 - bits))
        result[first : first + number] = value(packed, first)
    return result
