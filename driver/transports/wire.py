"""The board server's protocol on TCP: what server and client share.

The server greets with GREETING and a nonce. The client answers with HMAC-SHA256 of the nonce under the token, and the
server with ADMITTED, REFUSED or FULL; after the latter two it closes. So the token itself never crosses the network.
What follows is encrypted only where the connection is TLS. Then the client asks and the server answers, one message
each: length (4 bytes, little endian), then the body. A request's body is an operation (1 byte) and its fields, an
answer's is an Outcome (1 byte) and its data. The data of a failure are the error in UTF-8.

The first request is HELLO with the client's PROTOCOL_VERSION. Version 1 had the same greeting and messages, but other
operations, numbered from 1 to 9: the server answers each of these in words that say so.
"""

import enum
import hashlib
import hmac
import socket
import struct
import time

PROTOCOL_VERSION = 2
GREETING = b"tosaic1 "
"""The version of the greeting and of the messages' form."""
NONCE_BYTES = 16
PROOF_BYTES = 32
ADMITTED, REFUSED, FULL = b"\x01", b"\x00", b"\x02"
LENGTH = struct.Struct("<I")
MAX_MESSAGE_BYTES = 1 << 20
MAX_DATA_BYTES = 1 << 19
"""Memory bytes of one message; longer accesses are split."""
MAX_REGISTERS = 1024
MARK = struct.Struct("<II")
"""A mark in the answer to FINISH: layer, cycle."""
VERSION_1_OPERATIONS = range(1, 10)


class Request(enum.IntEnum):
    """Operations, with the format of their fields; data follow."""

    HELLO = 16  # I version of the protocol; answers Identity and the device's name
    ACQUIRE = 17  # I seconds to wait at most; answers 1 when nobody else had the device since
    RELEASE = 18
    READ_REGISTERS = 19  # II offset, count; of registers that tell of a run
    READ_MEMORY = 20  # II address, count
    WRITE_MEMORY = 21  # I address, then data
    RUN = 22  # IIII bytes of memory that the program reaches, its address and bytes, cycles of the watchdog
    WAIT = 23  # I number of the look at STATUS
    FINISH = 24  # answers the marks of the run that has ended
    STOP = 25  # begins a soft reset
    RESET = 26  # answers 1 when the device has a reset


FIELDS: dict[Request, struct.Struct] = {
    Request.HELLO: struct.Struct("<I"),
    Request.ACQUIRE: struct.Struct("<I"),
    Request.RELEASE: struct.Struct("<"),
    Request.READ_REGISTERS: struct.Struct("<II"),
    Request.READ_MEMORY: struct.Struct("<II"),
    Request.WRITE_MEMORY: struct.Struct("<I"),
    Request.RUN: struct.Struct("<IIII"),
    Request.WAIT: struct.Struct("<I"),
    Request.FINISH: struct.Struct("<"),
    Request.STOP: struct.Struct("<"),
    Request.RESET: struct.Struct("<"),
}


class Outcome(enum.IntEnum):
    """How a request ended."""

    OK = 0
    DEVICE_ERROR = 1  # the device failed
    BAD_REQUEST = 2  # the request makes no sense; the server closes the connection
    NOT_ACQUIRED = 3  # only HELLO is for those who do not have the device


class ConnectionEnded(Exception):
    """The other end closed, was too slow, or sent what is no message."""


def proof(token: str, nonce: bytes) -> bytes:
    """What shows that one knows the token."""
    return hmac.new(token.encode(), nonce, hashlib.sha256).digest()


def receive_exactly(connection: socket.socket, count: int, deadline: float) -> bytes:
    """`count` bytes; ConnectionEnded when they have not all come at `deadline` (time.monotonic)."""
    parts, left = [], count
    while left:
        _allow_until(connection, deadline)
        try:
            part = connection.recv(min(left, 1 << 16))
        except (OSError, ValueError) as error:
            raise ConnectionEnded(str(error)) from None
        if not part:
            raise ConnectionEnded("the other end closed the connection")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def receive_message(connection: socket.socket, deadline: float) -> bytes:
    """A message's body; ConnectionEnded when its length is 0 or too much, or when it is not there at `deadline`."""
    (length,) = LENGTH.unpack(receive_exactly(connection, LENGTH.size, deadline))
    if not 1 <= length <= MAX_MESSAGE_BYTES:
        raise ConnectionEnded(f"a message of {length} bytes, allowed are 1 to {MAX_MESSAGE_BYTES}")
    return receive_exactly(connection, length, deadline)


def send_bytes(connection: socket.socket, data: bytes, deadline: float) -> None:
    """ConnectionEnded when the other end has not taken them all at `deadline`."""
    _allow_until(connection, deadline)
    try:
        connection.sendall(data)
    except (OSError, ValueError) as error:
        raise ConnectionEnded(str(error)) from None


def send_message(connection: socket.socket, body: bytes, deadline: float) -> None:
    """ConnectionEnded when it cannot be sent until `deadline`."""
    send_bytes(connection, LENGTH.pack(len(body)) + body, deadline)


def _allow_until(connection: socket.socket, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise ConnectionEnded("timed out")
    connection.settimeout(left)
