"""Constant data as `.tosa` files store it: little-endian, INT4 two per byte, INT48 in six bytes."""

import math
import warnings

import numpy as np

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.mapped_file import LARGE_BYTES
from tosaic.errors import ModelError, ModelWarning

_ALIGNMENT_BYTES = 8
_NUMPY_MAX_RANK = 32
_REPEATED = (
    "a constant of shape [1] holds several equal values, the first is taken "
    "(ExecuTorch stores the zero points of all channels so)"
)


def stored_bytes(dtype: DType, count: int) -> int:
    """Bytes that `count` elements take in a file."""
    return (count * dtype.bits + 7) // 8


def decode(dtype: DType, shape: tuple[int, ...], data: memoryview, what: str) -> np.ndarray:
    """Array of `shape` and `dtype.numpy` from stored bytes; many one-byte integers are a view of `data`.

    Writers may pad to 8 bytes (the reference's do, even an empty shape). A constant of shape [1] may hold
    several equal values, with a ModelWarning: ExecuTorch stores the zero points of all channels there. Any other
    length is a ModelError naming `what`.
    """
    count = math.prod(shape)
    if len(shape) > _NUMPY_MAX_RANK or (count == 0 and dtype is not DType.SHAPE):
        raise ModelError(
            f"{what}: a constant must have rank 0 to {_NUMPY_MAX_RANK} and at least one element; found {list(shape)}"
        )
    needed = stored_bytes(dtype, count)
    padded = -(-max(needed, 1) // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    repeated = shape == (1,) and any(data[needed:])  # the writer's padding is zeros
    if not needed <= len(data) <= padded or repeated:
        wrong = f"{what} ({dtype.name.lower()}{list(shape)}) has {len(data)} bytes of data, it needs {needed}"
        if shape != (1,) or len(data) < needed:
            raise ModelError(wrong)
        if not _holds_equal_values(dtype, data):
            raise ModelError(f"{wrong}; several values may stand for one only if they are equal")
        warnings.warn(_REPEATED, ModelWarning, stacklevel=2)
    return _DECODERS.get(dtype, _decode_plain)(dtype, count, data[:needed]).reshape(shape)


def _holds_equal_values(dtype: DType, data: memoryview) -> bool:
    """Whether `data` is one element over and over, and perhaps zeros up to a multiple of 8 bytes."""
    element_bytes = stored_bytes(dtype, 1)
    first = bytes(data[:element_bytes])
    for padding in range(_ALIGNMENT_BYTES if len(data) % _ALIGNMENT_BYTES == 0 else 1):
        count, rest = divmod(len(data) - padding, element_bytes)
        if rest == 0 and bytes(data) == first * count + bytes(padding):
            return True
    return False


def encode(dtype: DType, values: np.ndarray) -> bytes:
    """The bytes that a file stores for `values`."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return _ENCODERS.get(dtype, _encode_plain)(dtype, flat)


def _stored_dtype(dtype: DType) -> np.dtype:
    return dtype.numpy.newbyteorder("<")


def _decode_plain(dtype: DType, count: int, data: memoryview) -> np.ndarray:
    array = np.frombuffer(data, _stored_dtype(dtype), count)
    if array.itemsize == 1 and array.nbytes >= LARGE_BYTES:
        return array
    # A copy, for alignment; and to look at a small one shall not bring in what lies around it in a mapped file.
    return array.astype(dtype.numpy)


def _encode_plain(dtype: DType, flat: np.ndarray) -> bytes:
    return flat.astype(_stored_dtype(dtype)).tobytes()


def _decode_bool(_dtype: DType, count: int, data: memoryview) -> np.ndarray:
    return np.frombuffer(data, np.uint8, count) != 0


def _decode_int4(_dtype: DType, count: int, data: memoryview) -> np.ndarray:
    packed = np.frombuffer(data, np.int8)
    nibbles = np.empty((packed.size, 2), np.int8)
    nibbles[:, 0] = (packed << 4) >> 4
    nibbles[:, 1] = packed >> 4
    return nibbles.reshape(-1)[:count]


def _encode_int4(_dtype: DType, flat: np.ndarray) -> bytes:
    padded = np.append(flat, np.zeros(flat.size % 2, flat.dtype)).astype(np.uint8) & 0xF
    return (padded[0::2] | (padded[1::2] << 4)).tobytes()


def _decode_int48(_dtype: DType, count: int, data: memoryview) -> np.ndarray:
    wide = np.zeros((count, 8), np.uint8)
    wide[:, 2:] = np.frombuffer(data, np.uint8).reshape(count, 6)
    return wide.reshape(-1).view("<i8").astype(np.int64) >> 16


def _encode_int48(_dtype: DType, flat: np.ndarray) -> bytes:
    return flat.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :6].tobytes()


def _decode_bf16(_dtype: DType, count: int, data: memoryview) -> np.ndarray:
    return (np.frombuffer(data, "<u2", count).astype(np.uint32) << 16).view(np.float32)


def _encode_bf16(_dtype: DType, flat: np.ndarray) -> bytes:
    return (flat.astype(np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()


def _fp8_values(exponent_bits: int, bias: int, has_infinity: bool) -> np.ndarray:
    """All 256 values of an 8-bit float (OCP FP8), by code."""
    mantissa_bits = 7 - exponent_bits
    codes = np.arange(256)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = codes & ((1 << mantissa_bits) - 1)
    normal = (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)
    subnormal = mantissa / (1 << mantissa_bits) * 2.0 ** (1 - bias)
    magnitude = np.where(exponent == 0, subnormal, normal)
    top = exponent == (1 << exponent_bits) - 1
    if has_infinity:
        magnitude = np.where(top, np.where(mantissa == 0, np.inf, np.nan), magnitude)
    else:
        magnitude = np.where(top & (mantissa == (1 << mantissa_bits) - 1), np.nan, magnitude)
    return np.where(codes & 0x80, -magnitude, magnitude).astype(np.float32)


_FP8 = {DType.FP8E4M3: _fp8_values(4, 7, False), DType.FP8E5M2: _fp8_values(5, 15, True)}


def _decode_fp8(dtype: DType, count: int, data: memoryview) -> np.ndarray:
    return _FP8[dtype][np.frombuffer(data, np.uint8, count)]


def _encode_fp8(dtype: DType, flat: np.ndarray) -> bytes:
    table = _FP8[dtype]
    order = np.argsort(table.view(np.uint32), kind="stable")
    known = table.view(np.uint32)[order]
    not_a_number = table[np.flatnonzero(np.isnan(table))[0]]
    values = np.where(np.isnan(flat), not_a_number, flat).astype(np.float32)
    place = np.minimum(np.searchsorted(known, values.view(np.uint32)), known.size - 1)
    wrong = known[place] != values.view(np.uint32)
    if wrong.any():
        raise ModelError(f"{values[wrong][0]} is not a value of {dtype.spelling}")
    return order[place].astype(np.uint8).tobytes()


_DECODERS = {
    DType.BOOL: _decode_bool,
    DType.INT4: _decode_int4,
    DType.INT48: _decode_int48,
    DType.BF16: _decode_bf16,
    DType.FP8E4M3: _decode_fp8,
    DType.FP8E5M2: _decode_fp8,
}
_ENCODERS = {
    DType.INT4: _encode_int4,
    DType.INT48: _encode_int48,
    DType.BF16: _encode_bf16,
    DType.FP8E4M3: _encode_fp8,
    DType.FP8E5M2: _encode_fp8,
}
