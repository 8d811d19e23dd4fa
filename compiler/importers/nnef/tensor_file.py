"""Tensor files, `.dat` (5.2): floats, integers, linearly and logarithmically quantized items of any width."""

import math
import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tosaic.compiler.importers.nnef.bit_stream import pack, packed_bytes, unpack
from tosaic.compiler.importers.nnef.errors import NnefError, Position

MAGIC = b"\x4e\xef"
HEADER_BYTES = 128
RANK_LIMIT = 8
ITEM_LIMIT = 1 << 30
_CHUNK_ITEMS = 1 << 16
# magic, major, minor, length, rank, extents, bits, code, parameters
_HEADER = struct.Struct("<2sBBII8II2H32s")
_FLOATS = {16: "<f2", 32: "<f4", 64: "<f8"}


class Algorithm(IntEnum):
    """Khronos' codes of how items are stored."""

    FLOAT = 0x00
    INTEGER = 0x01
    LINEAR = 0x10
    LOGARITHMIC = 0x11


@dataclass(frozen=True, slots=True)
class ItemEncoding:
    """How items are stored. `signed` belongs to integers, `minimum` and `maximum` to quantized items."""

    algorithm: Algorithm
    bits: int
    signed: bool = False
    minimum: float = 0.0
    maximum: float = 0.0

    @property
    def sign_bit(self) -> bool:
        """Whether logarithmic items have a sign, their most significant bit."""
        return self.algorithm is Algorithm.LOGARITHMIC and self.minimum != 0


def read_tensor(data: bytes, file: str) -> tuple[np.ndarray, ItemEncoding]:
    """The tensor of a `.dat` file and how it was stored; `file` is the name that errors show.

    Floats keep their type, integers get the narrowest NumPy type that holds their width, quantized items become
    float32. Raises NnefError.
    """
    shape, encoding = read_header(data[:HEADER_BYTES], len(data), file)
    items = memoryview(data)[HEADER_BYTES:]
    return _decode(Position(file), items, math.prod(shape), encoding).reshape(shape), encoding


def read_header(data: bytes, size: int, file: str) -> tuple[tuple[int, ...], ItemEncoding]:
    """Extents and encoding of a `.dat` file of `size` bytes that starts with `data`. Raises NnefError."""
    position = Position(file)
    if data[:2] != MAGIC:
        raise NnefError("V112", position, f"the file starts with {data[:2].hex(' ')}", "it starts with 4e ef")
    if len(data) < HEADER_BYTES:
        raise NnefError("V114", position, f"{len(data)} bytes are no header", f"it has {HEADER_BYTES}")
    _, major, minor, length, rank, *rest = _HEADER.unpack_from(data)
    extents, (bits, vendor, code, parameters) = rest[:8], rest[8:]
    if (major, minor) != (1, 0):
        raise NnefError("V113", position, f"the version is {major}.{minor}", "this reader knows 1.0")
    if rank > RANK_LIMIT:
        raise NnefError("V115", position, f"the rank is {rank}", f"at most {RANK_LIMIT}")
    if any(extents[rank:]):
        raise NnefError("V116", position, f"rank {rank} has the extents {extents}", "unused ones are 0")
    if 0 in extents[:rank]:
        raise NnefError("V054", position, f"the extents are {extents[:rank]}", "extents are positive")
    if any(data[_HEADER.size : HEADER_BYTES]):
        raise NnefError("V123", position, f"bytes {_HEADER.size} to {HEADER_BYTES - 1} are not all zero")
    encoding = _encoding(position, bits, vendor, code, parameters)
    count = math.prod(extents[:rank])
    expected = packed_bytes(count, bits)
    if length != expected or length != size - HEADER_BYTES:
        raise NnefError(
            "V114",
            position,
            f"the header says {length} bytes of data, {size - HEADER_BYTES} follow it,"
            f" and {count} items of {bits} bits take {expected}",
            "write the file again",
        )
    if count > ITEM_LIMIT:
        raise NnefError(
            "limit", position, f"{count} items, at most {ITEM_LIMIT} are read", "split the tensor"
        )
    return tuple(extents[:rank]), encoding


def _encoding(position: Position, bits: int, first: int, second: int, parameters: bytes) -> ItemEncoding:
    # The text stores the vendor first, Khronos' writer a word with the vendor in its high half. Khronos is
    # vendor 0, so the half that is not 0 is the algorithm.
    if (first and second) or first | second not in list(Algorithm):
        raise NnefError(
            "V119",
            position,
            f"the algorithm code is {first:#x}, {second:#x}",
            f"known are {', '.join(f'{a.name} {a.value:#x}' for a in Algorithm)} of vendor 0",
        )
    algorithm = Algorithm(first | second)
    if not 1 <= bits <= 64 or (algorithm is Algorithm.FLOAT and bits not in _FLOATS):
        raise NnefError(
            "V117", position, f"{algorithm.name} items of {bits} bits", "1 to 64, floats 16, 32 or 64"
        )
    if algorithm is Algorithm.INTEGER:
        return ItemEncoding(algorithm, bits, signed=any(parameters[:4]))
    if algorithm is Algorithm.FLOAT:
        return ItemEncoding(algorithm, bits)
    encoding = ItemEncoding(algorithm, bits, False, *struct.unpack_from("<2f", parameters))
    _check_range(position, encoding)
    return encoding


def _check_range(position: Position, encoding: ItemEncoding) -> None:
    low, high = encoding.minimum, encoding.maximum
    found = f"the range is {low} to {high}"
    if encoding.algorithm is Algorithm.LINEAR:
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise NnefError("V120", position, found, "min is less than max, and both are finite")
    elif not (math.isfinite(high) and high > 0 and low in (0, -high)):
        raise NnefError("V121", position, found, "max is positive, and min is 0 or -max")
    elif encoding.sign_bit and encoding.bits < 2:
        raise NnefError("V121", position, "signed items have one bit", "the sign takes one of at least two")


def _decode(position: Position, data: memoryview, count: int, encoding: ItemEncoding) -> np.ndarray:
    bits = encoding.bits
    if encoding.algorithm is Algorithm.FLOAT:
        return np.frombuffer(data, _FLOATS[bits], count).astype(f"f{bits // 8}")
    if encoding.algorithm is Algorithm.INTEGER:
        width = next(size for size in (8, 16, 32, 64) if bits <= size)
        result = np.zeros(count, f"{'i' if encoding.signed else 'u'}{width // 8}")
    else:
        result = np.zeros(count, np.float32)
    # In pieces, which start on a byte: a 64-bit integer for every item of a few bits would take too much.
    for first in range(0, count, _CHUNK_ITEMS):
        number = min(_CHUNK_ITEMS, count - first)
        start = first * bits // 8
        items, clean = unpack(data[start : start + packed_bytes(number, bits)], number, bits)
        if not clean:
            raise NnefError("V122", position, "bits after the last item are not zero", "pad with zeros")
        result[first : first + number] = _values(items, encoding)
    return result


def _values(items: np.ndarray, encoding: ItemEncoding) -> np.ndarray:
    """What unsigned items stand for."""
    bits = encoding.bits
    if encoding.algorithm is Algorithm.INTEGER:
        if not encoding.signed:
            return items
        spare = np.uint64(64 - bits)
        return (items << spare).view(np.int64) >> spare.view(np.int64)
    if encoding.algorithm is Algorithm.LINEAR:
        steps = 2.0**bits - 1
        span = encoding.maximum - encoding.minimum
        return (items.astype(np.float64) / steps * span + encoding.minimum).astype(np.float32)
    magnitude_bits = bits - encoding.sign_bit
    largest = np.uint64(2**magnitude_bits - 1)
    below = largest - (items & largest)
    values = np.exp2(_exponent(encoding) - below.astype(np.float64))
    negative = items > largest
    return np.where(negative, -values, values).astype(np.float32)


def _exponent(encoding: ItemEncoding) -> int:
    """Returns m = ceil(log2(max)), exactly."""
    fraction, exponent = math.frexp(encoding.maximum)
    return exponent - (fraction == 0.5)


def write_tensor(values: np.ndarray, encoding: ItemEncoding, file: str = "tensor") -> bytes:
    """A `.dat` file. Integers must fit; quantized values are clamped to the range (5.2). Raises NnefError."""
    position = Position(file)
    if values.ndim > RANK_LIMIT:
        raise NnefError("V115", position, f"the rank is {values.ndim}", f"at most {RANK_LIMIT}")
    if 0 in values.shape:
        raise NnefError("V054", position, f"the shape is {list(values.shape)}", "extents are positive")
    parameters = struct.pack("<I", encoding.signed)
    if encoding.algorithm in (Algorithm.LINEAR, Algorithm.LOGARITHMIC):
        parameters = struct.pack("<2f", encoding.minimum, encoding.maximum)
    # What is written is what will be read: min and max as float32, and all the checks of the reader.
    encoding = _encoding(position, encoding.bits, 0, encoding.algorithm, parameters.ljust(32, b"\0"))
    body = _encode(position, np.asarray(values), encoding)
    extents = values.shape + (0,) * (RANK_LIMIT - values.ndim)
    header = _HEADER.pack(
        MAGIC, 1, 0, len(body), values.ndim, *extents, encoding.bits, 0, encoding.algorithm, parameters
    )
    return header.ljust(HEADER_BYTES, b"\0") + body


def _encode(position: Position, values: np.ndarray, encoding: ItemEncoding) -> bytes:
    bits = encoding.bits
    if encoding.algorithm is Algorithm.FLOAT:
        return values.astype(_FLOATS[bits]).tobytes()
    if encoding.algorithm is Algorithm.INTEGER:
        low = -(2 ** (bits - 1)) if encoding.signed else 0
        if values.dtype.kind not in "iub" or int(values.min()) < low or int(values.max()) >= low + 2**bits:
            raise NnefError(
                "V119",
                position,
                f"the values are no {'signed' if encoding.signed else 'unsigned'} {bits}-bit integers",
            )
        items = values.astype(np.int64 if encoding.signed else np.uint64).view(np.uint64)
        return pack(items & np.uint64(2**bits - 1), bits)
    x = values.astype(np.float64)
    if np.isnan(x).any():
        raise NnefError("V120", position, "a value is not a number", "quantize numbers only")
    if encoding.algorithm is Algorithm.LINEAR:
        span = encoding.maximum - encoding.minimum
        share = np.clip((x - encoding.minimum) / span, 0.0, 1.0)
        return pack(_rounded(share * (2.0**bits - 1), bits), bits)
    magnitude_bits = bits - encoding.sign_bit
    largest = 2.0**magnitude_bits - 1
    top = _exponent(encoding)
    with np.errstate(divide="ignore"):
        logarithm = np.log2(np.abs(x) if encoding.sign_bit else np.maximum(x, 0.0))
    codes = _rounded(np.clip(logarithm, top - largest, top) - (top - largest), magnitude_bits)
    if encoding.sign_bit:
        codes |= (x < 0).astype(np.uint64) << np.uint64(magnitude_bits)
    return pack(codes, bits)


def _rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """round() of 4.2.1, in `bits` bits; float64 rounds 2**64 - 1 up, so the top code is set apart."""
    whole = np.floor(values + 0.5)
    top = whole >= 2.0**bits - 1
    return np.where(top, np.uint64(2**bits - 1), np.where(top, 0, whole).astype(np.uint64))
