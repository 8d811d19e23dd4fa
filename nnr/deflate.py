"""Deflated parts of a bitstream: zlib streams (RFC 1950), inflated with a limit."""

import zlib

from tosaic.nnr.errors import NnrError

# A topology without its tensors is far smaller; a deflate bomb stops here. While zlib's output is put together it takes
# twice its length, and the parser takes more.
MAX_INFLATED_BYTES = 16 << 20


def inflate(data: bytes, origin: str, limit_bytes: int = MAX_INFLATED_BYTES) -> bytes:
    """Inflate one zlib stream; one byte 0x00 may follow it (E-31).

    Raises NnrError on a damaged stream, other trailing bytes, or more than `limit_bytes` of output.
    """
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(data, limit_bytes)
        if not stream.eof:
            # At the limit, or out of input.
            if stream.decompress(stream.unconsumed_tail, 1):
                raise NnrError(f"{origin}: inflates to more than {limit_bytes} bytes")
            if not stream.eof:
                raise NnrError(f"{origin}: the zlib stream is truncated")
    except zlib.error as error:
        raise NnrError(f"{origin}: not a zlib stream ({error})") from None
    if stream.unused_data not in (b"", b"\0"):
        raise NnrError(f"{origin}: {len(stream.unused_data)} bytes follow the zlib stream")
    return inflated


def deflate(data: bytes) -> bytes:
    """One zlib stream at the highest level."""
    return zlib.compress(data, 9)
