"""Items of 1 to 64 bits, packed without gaps (5.2).

The text names no bit order. Whole bytes follow its "little-endian byte order"; items of other widths run from the
most significant bit of each byte on, as Khronos' own reader takes items of one bit.
"""

import numpy as np

_CHUNK_ITEMS = 1 << 16


def packed_bytes(count: int, bits: int) -> int:
    """Bytes that `count` items of `bits` bits take."""
    return (count * bits + 7) // 8


def unpack(data: bytes | memoryview, count: int, bits: int) -> tuple[np.ndarray, bool]:
    """`count` items (uint64), and whether the bits after them are all 0."""
    if bits % 8 == 0:
        width = bits // 8
        if width in (1, 2, 4, 8):
            return np.frombuffer(data, f"<u{width}", count).astype(np.uint64), True
        items = np.zeros((count, 8), np.uint8)
        items[:, :width] = np.frombuffer(data, np.uint8, count * width).reshape(count, width)
        return items.view("<u8").reshape(-1).astype(np.uint64), True
    result = np.zeros(count, np.uint64)
    source = np.frombuffer(data, np.uint8)
    # A chunk of a multiple of 8 items starts on a byte.
    for first in range(0, count, _CHUNK_ITEMS):
        number = min(_CHUNK_ITEMS, count - first)
        start = first * bits // 8
        stream = np.unpackbits(source[start : start + packed_bytes(number, bits)], count=number * bits)
        rows = stream.reshape(number, bits)
        for column in range(bits):
            result[first : first + number] = result[first : first + number] << np.uint64(1) | rows[:, column]
    unused = -count * bits % 8
    return result, not (count and unused and source[-1] & ((1 << unused) - 1))


def pack(items: np.ndarray, bits: int) -> bytes:
    """The inverse of `unpack`; `items` are unsigned and below 2**bits."""
    items = items.reshape(-1).astype("<u8")
    if bits % 8 == 0:
        return items.view(np.uint8).reshape(-1, 8)[:, : bits // 8].tobytes()
    parts = []
    for first in range(0, len(items), _CHUNK_ITEMS):
        chunk = items[first : first + _CHUNK_ITEMS]
        shifts = np.arange(bits - 1, -1, -1, dtype=np.uint64)
        parts.append(np.packbits((chunk[:, None] >> shifts & np.uint64(1)).astype(np.uint8)).tobytes())
    return b"".join(parts)
