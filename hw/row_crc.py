"""The CRC of what LOAD brings: CRC-32 as of zlib, over whole words of external memory."""

import zlib
from collections.abc import Iterable

import numpy as np

CRC_BITS = 32


def rows_crc(crc: int, starts: Iterable[int], rows: np.ndarray, word_bytes: int) -> int:
    """Continues a CRC, 0 at first, by uint8 [n, bytes] `rows` that begin at the addresses `starts`. Bytes before and
    behind a row in its first and last word count as 0."""
    row_bytes = rows.shape[1]
    addresses = np.fromiter(starts, np.int64, len(rows))
    if not ((addresses % word_bytes).any() or row_bytes % word_bytes):
        return zlib.crc32(rows.tobytes(), crc)
    for start, row in zip(addresses.tolist(), rows, strict=True):
        behind = -(start + row_bytes) % word_bytes
        crc = zlib.crc32(bytes(start % word_bytes) + row.tobytes() + bytes(behind), crc)
    return crc


__all__ = ["CRC_BITS", "rows_crc"]
