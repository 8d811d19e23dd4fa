"""One client's requests."""

import contextlib
import select
import socket
import ssl
import struct
import time

from tosaic.errors import DeviceError

from ..transports.wire import (
    FIELDS,
    MARK,
    MAX_DATA_BYTES,
    MAX_REGISTERS,
    PROTOCOL_VERSION,
    VERSION_1_OPERATIONS,
    Outcome,
    Request,
    receive_message,
    send_message,
)
from .board import SharedDevice

_CLOSED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
ANSWER_SECONDS = 60.0
"""A client that has not taken an answer after this time is dropped."""


class BadRequest(Exception):
    """What no client of ours sends."""


class Client:
    """A connection that has proved the token."""

    def __init__(self, connection: socket.socket, board: SharedDevice, address: str):
        self._connection, self._board, self._address = connection, board, address
        self._greeted = False
        self._lost = ""
        """Why the client has not got the device any more."""

    def serve(self) -> None:
        """Serves until the client goes, is silent for too long, or asks for nonsense. As a rule it ends by
        ConnectionEnded.

        One that has the device and is silent, or has had its turn, loses the device, not the connection.
        """
        while True:
            if not _has_data(self._connection, self._board.deadline(self)):
                if not self._board.has(self):
                    return
                self._lost = self._board.take_back(self)
                continue
            body = receive_message(self._connection, time.monotonic() + self._board.request_seconds)
            last = False
            try:
                outcome, data = self._answer(body)
            except DeviceError as error:
                outcome, data = Outcome.DEVICE_ERROR, str(error).encode()
            except BadRequest as error:
                outcome, data, last = Outcome.BAD_REQUEST, str(error).encode(), True
            send_message(self._connection, bytes([outcome]) + data, time.monotonic() + ANSWER_SECONDS)
            if last or not self._greeted:
                return

    def _answer(self, body: bytes) -> tuple[Outcome, bytes]:
        if not self._greeted and body[0] in VERSION_1_OPERATIONS:
            raise DeviceError(
                f"this board server speaks version {PROTOCOL_VERSION} of its protocol, the client version 1: "
                "install the server's version of tosaic"
            )
        try:
            request = Request(body[0])
            layout = FIELDS[request]
            fields = layout.unpack(body[1 : 1 + layout.size])
        except (ValueError, struct.error):
            raise BadRequest(f"no request: {body[:16].hex()}") from None
        data = body[1 + layout.size :]
        if data and request != Request.WRITE_MEMORY:
            raise BadRequest(f"{request.name} has {len(data)} bytes too many")
        if request == Request.HELLO:
            return self._hello(*fields)
        if not self._greeted:
            raise BadRequest(f"{request.name} before HELLO")
        if request == Request.ACQUIRE:
            self._lost = ""
            return Outcome.OK, bytes([self._board.has(self) or self._take(*fields)])
        if self._board.has(self) and self._board.is_over():
            self._lost = self._board.take_back(self)
        if not self._board.has(self):
            return Outcome.NOT_ACQUIRED, (self._lost or "the device was not acquired").encode()
        if request == Request.RELEASE:
            self._board.give(self)
            return Outcome.OK, b""
        self._board.end_long_run()
        return Outcome.OK, self._execute(request, fields, data)

    def _take(self, seconds: float) -> bool:
        return self._board.take(self, seconds, self._address, lambda: _has_hung_up(self._connection))

    def _hello(self, version: int) -> tuple[Outcome, bytes]:
        if version != PROTOCOL_VERSION:
            raise DeviceError(
                f"this board server speaks version {PROTOCOL_VERSION} of its protocol, the client version {version}: "
                "install the server's version of tosaic"
            )
        self._greeted = True
        return Outcome.OK, self._board.identity.to_bytes() + self._board.name.encode()

    def _execute(self, request: Request, fields: tuple[int, ...], data: bytes) -> bytes:
        board = self._board
        match request:
            case Request.READ_REGISTERS:
                offset, count = fields
                _limit("registers", count, MAX_REGISTERS)
                return struct.pack(f"<{count}I", *board.read_registers(offset, count))
            case Request.READ_MEMORY:
                _limit("bytes", fields[1], MAX_DATA_BYTES)
                return board.read_memory(*fields)
            case Request.WRITE_MEMORY:
                _limit("bytes", len(data), MAX_DATA_BYTES)
                board.write_memory(fields[0], data)
            case Request.RUN:
                board.run(*fields)
            case Request.WAIT:
                board.wait(min(fields[0], 100))
            case Request.FINISH:
                return b"".join(MARK.pack(*mark) for mark in board.finish())
            case Request.STOP:
                board.stop()
            case Request.RESET:
                return bytes([board.reset()])
        return b""

    def let_go(self) -> None:
        """The connection has ended."""
        with contextlib.suppress(DeviceError):
            self._board.forget(self)


def _limit(what: str, count: int, most: int) -> None:
    if count > most:
        raise BadRequest(f"{count} {what} at once, at most {most}")


def _has_data(connection: socket.socket, deadline: float) -> bool:
    """Whether a request begins to arrive before `deadline`."""
    if isinstance(connection, ssl.SSLSocket) and connection.pending():
        return True
    poll = select.poll()  # select() has no room for connections of high numbers.
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def _has_hung_up(connection: socket.socket) -> bool:
    """Whether the other side has closed the connection, whatever it sent before; nothing is read."""
    poll = select.poll()
    poll.register(connection, _CLOSED)
    return bool(poll.poll(0))
