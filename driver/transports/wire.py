"""The board server's protocol on TCP: what server and client share.

The server greets with GREETING and a nonce; the client answers with HMAC-SHA256 of the nonce under the token, and the
server with ADMITTED or REFUSED, after which it closes. So the token itself never crosses the network; what follows is
not encrypted. Then the client asks and the server answers, one message each: length (4 bytes, little endian), then the
body. A request's body is an operation (1 byte) and its fields, an answer's is an Outcome (1 byte) and its data; of a
failed one the data are the error in UTF-8.
"""

import enum
import hashlib
import hmac
import socket
import struct

GREETING = b"tosaic1 "
NONCE_BYTES = 16
PROOF_BYTES = 32
ADMITTED, REFUSED = b"\x01", b"\x00"
LENGTH = struct.Struct("<I")
MAX_MESSAGE_BYTES = 1 << 20
MAX_DATA_BYTES = 1 << 19
"""Memory bytes of one message; longer accesses are split."""
MAX_REGISTERS = 1024


class Request(enum.IntEnum):
    """Operations, with the format of their fields; data follow."""

    IDENTIFY = 1  # answers name and Identity
    ACQUIRE = 2  # I seconds to wait at most; answers 1 when nobody else had the device since
    RELEASE = 3
    READ_REGISTERS = 4  # II offset, count
    WRITE_REGISTER = 5  # II offset, value
    READ_MEMORY = 6  # II address, count
    WRITE_MEMORY = 7  # I address, then data
    WAIT = 8  # I number of the look at STATUS
    RESET = 9  # answers 1 when the device has a reset


FIELDS: dict[Request, struct.Struct] = {
    Request.IDENTIFY: struct.Struct("<"),
    Request.ACQUIRE: struct.Struct("<I"),
    Request.RELEASE: struct.Struct("<"),
    Request.READ_REGISTERS: struct.Struct("<II"),
    Request.WRITE_REGISTER: struct.Struct("<II"),
    Request.READ_MEMORY: struct.Struct("<II"),
    Request.WRITE_MEMORY: struct.Struct("<I"),
    Request.WAIT: struct.Struct("<I"),
    Request.RESET: struct.Struct("<"),
}


class Outcome(enum.IntEnum):
    """How a request ended."""

    OK = 0
    DEVICE_ERROR = 1  # the device failed
    BAD_REQUEST = 2  # the request makes no sense; the server closes the connection
    NOT_ACQUIRED = 3  # only IDENTIFY is for those who do not have the device


class ConnectionEnded(Exception):
    """The other end closed, was too slow, or sent what is no message."""


def proof(token: str, nonce: bytes) -> bytes:
    """What shows that one knows the token."""
    return hmac.new(token.encode(), nonce, hashlib.sha256).digest()


def receive_exactly(connection: socket.socket, count: int) -> bytes:
    """`count` bytes; ConnectionEnded when they do not come."""
    parts, left = [], count
    while left:
        try:
            part = connection.recv(min(left, 1 << 16))
        except OSError as error:
            raise ConnectionEnded(str(error)) from None
        if not part:
            raise ConnectionEnded("the other end closed the connection")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def receive_message(connection: socket.socket) -> bytes:
    """A message's body; ConnectionEnded when its length is 0 or too much."""
    (length,) = LENGTH.unpack(receive_exactly(connection, LENGTH.size))
    if not 1 <= length <= MAX_MESSAGE_BYTES:
        raise ConnectionEnded(f"a message of {length} bytes, allowed are 1 to {MAX_MESSAGE_BYTES}")
    return receive_exactly(connection, length)


def send_message(connection: socket.socket, body: bytes) -> None:
    """ConnectionEnded when it cannot be sent."""
    try:
        connection.sendall(LENGTH.pack(len(body)) + body)
    except OSError as error:
        raise ConnectionEnded(str(error)) from None
