"""The bridge's protocol: what gateware, driver and docs share.

A frame on the line is FLAG, content, FLAG. Inside, FLAG and ESCAPE are sent as ESCAPE and the byte exclusive-or
ESCAPE_XOR; so a receiver finds the next frame after any garbage. One FLAG may end a frame and begin the next; empty
frames mean nothing. The content ends with its CRC-32 (that of zlib), little endian; a frame whose CRC is wrong is
dropped without an answer.

Request: sequence (1 byte), operation (1), count in bytes (2), address (4), data of writes (count bytes), CRC (4).
Answer: sequence (1), data of reads (count bytes, fewer after an error), status (1), CRC (4). Numbers are little endian.

HELLO is always taken and makes its sequence number the current one. Every other request carries the current number
plus 1 modulo 256, which makes it current, or repeats the current one: a repeated write is not executed again but
answered as before, a repeated read is. Requests with any other number, and requests before the first HELLO after a
reset, are answered OUT_OF_SEQUENCE and not executed. The bridge works on one request at a time and does not listen
until its answer is on the line.
"""

import dataclasses
import enum
import struct

FLAG = 0x7E
ESCAPE = 0x7D
ESCAPE_XOR = 0x20
CRC_BYTES = 4
REQUEST_HEADER = struct.Struct("<BBHI")
"""sequence, operation, count, address."""
BRIDGE_MAGIC = 0x42534F54
"""ASCII "TOSB" as little-endian bytes."""
PROTOCOL_VERSION = 1


class Operation(enum.IntEnum):
    """What a request asks for. Registers are 32 bits: their address and count are multiples of 4."""

    HELLO = 1  # read the Identity; count and address are ignored
    READ_REGISTERS = 2
    WRITE_REGISTERS = 3
    READ_MEMORY = 4  # any byte address, any count up to the identity's data_bytes
    WRITE_MEMORY = 5
    RESET = 6  # reset the machine and its memory port, not the bridge; a write without data


class RequestStatus(enum.IntEnum):
    """How a request ended."""

    OK = 0
    BAD_REQUEST = 1  # an unknown operation, or a count that does not fit the frame or the buffer
    OUT_OF_SEQUENCE = 2
    REGISTER_ERROR = 3  # the control port answered with an error; later registers were not accessed
    MEMORY_ERROR = 4  # a byte lies outside the board's memory; later bytes were not accessed


WRITES = (Operation.WRITE_REGISTERS, Operation.WRITE_MEMORY, Operation.RESET)
"""Operations that a repeated request does not execute again."""

_IDENTITY = struct.Struct("<IBxHIII12s")
IDENTITY_BYTES = _IDENTITY.size
NAME_BYTES = 12


@dataclasses.dataclass(frozen=True)
class Identity:
    """What a bridge says about its board: the answer to HELLO."""

    name: str
    """The board's, at most 12 ASCII characters."""
    memory_base: int
    """Bus address of the memory's first byte: 32 bits of it where a bridge says so."""
    memory_bytes: int
    clock_hz: int
    data_bytes: int
    """The most data bytes of one request or answer."""

    def __post_init__(self) -> None:
        if not self.name.isascii() or not 1 <= len(self.name) <= NAME_BYTES:
            raise ValueError(f"name must be 1 to {NAME_BYTES} ASCII characters, not {self.name!r}")
        if not 0 <= self.memory_base < 1 << 64:
            raise ValueError(f"memory_base must fit 64 bits, not {self.memory_base}")
        for field in ("memory_bytes", "clock_hz"):
            if not 0 <= getattr(self, field) < 1 << 32:
                raise ValueError(f"{field} must fit 32 bits, not {getattr(self, field)}")
        if not 4 <= self.data_bytes < 1 << 16 or self.data_bytes & (self.data_bytes - 1):
            raise ValueError(f"data_bytes must be a power of two from 4 to 32768, not {self.data_bytes}")

    def to_bytes(self) -> bytes:
        return _IDENTITY.pack(
            BRIDGE_MAGIC,
            PROTOCOL_VERSION,
            self.data_bytes,
            self.memory_base,
            self.memory_bytes,
            self.clock_hz,
            self.name.encode(),
        )

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Identity":
        """ValueError when this is no identity, or one of another version of the protocol."""
        if len(raw) != IDENTITY_BYTES:
            raise ValueError(f"an identity has {IDENTITY_BYTES} bytes, not {len(raw)}")
        magic, version, data_bytes, base, size, clock_hz, name = _IDENTITY.unpack(raw)
        if magic != BRIDGE_MAGIC:
            raise ValueError(f"its first word is 0x{magic:08x}, not 0x{BRIDGE_MAGIC:08x}")
        if version != PROTOCOL_VERSION:
            raise ValueError(f"it speaks version {version} of the protocol, not {PROTOCOL_VERSION}")
        return cls(name.rstrip(b"\0").decode("ascii"), base, size, clock_hz, data_bytes)
