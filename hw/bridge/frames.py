"""Frames of the bridge's protocol in software: the driver's side, and the reference of the gateware's tests."""

import zlib
from collections.abc import Iterable, Iterator

from .protocol import CRC_BYTES, ESCAPE, ESCAPE_XOR, FLAG, REQUEST_HEADER, Operation


def encode_frame(content: bytes) -> bytes:
    """The bytes on the line for a frame's content: CRC appended, escaped, between flags."""
    whole = content + zlib.crc32(content).to_bytes(CRC_BYTES, "little")
    escaped = whole.replace(bytes([ESCAPE]), bytes([ESCAPE, ESCAPE ^ ESCAPE_XOR]))
    escaped = escaped.replace(bytes([FLAG]), bytes([ESCAPE, FLAG ^ ESCAPE_XOR]))
    return bytes([FLAG]) + escaped + bytes([FLAG])


def encode_request(
    sequence: int, operation: Operation, address: int = 0, count: int = 0, data: bytes = b""
) -> bytes:
    """The bytes on the line for a request."""
    return encode_frame(REQUEST_HEADER.pack(sequence, operation, count, address) + data)


class FrameDecoder:
    """Finds frames in what comes from a line, in any pieces. Damaged ones are dropped and counted."""

    def __init__(self, limit: int = 1 << 16):
        self._limit = limit
        self._content = bytearray()
        self._escaped = self._lost = False
        self.damaged = 0
        """Frames with a wrong CRC, an escape before a flag or too many bytes; garbage counts as one, too."""

    def feed(self, received: Iterable[int]) -> Iterator[bytes]:
        """The contents, without CRC, of the frames that end in these bytes."""
        for byte in received:
            if byte == FLAG:
                content = bytes(self._content)
                whole = not self._lost and not self._escaped and len(content) > CRC_BYTES
                found = bool(content) or self._lost or self._escaped
                self._content.clear()
                self._escaped = self._lost = False
                if whole and zlib.crc32(content[:-CRC_BYTES]) == int.from_bytes(
                    content[-CRC_BYTES:], "little"
                ):
                    yield content[:-CRC_BYTES]
                elif found:
                    self.damaged += 1
            elif len(self._content) >= self._limit:
                self._lost = True
            elif byte == ESCAPE and not self._escaped:
                self._escaped = True
            else:
                self._content.append(byte ^ ESCAPE_XOR if self._escaped else byte)
                self._escaped = False
