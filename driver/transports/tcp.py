"""A device behind a board server (`tosaic serve`)."""

import socket
import struct

from tosaic.errors import DeviceError
from tosaic.hw.bridge.protocol import IDENTITY_BYTES, Identity

from .base import Transport, Unreachable
from .wire import (
    ADMITTED,
    FIELDS,
    GREETING,
    MAX_DATA_BYTES,
    NONCE_BYTES,
    ConnectionEnded,
    Outcome,
    Request,
    proof,
    receive_exactly,
    receive_message,
    send_message,
)

DEFAULT_PORT = 7626
TOKEN_VARIABLE = "TOSAIC_TOKEN"
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
TURN_SECONDS = 600
"""How long to wait for one's turn."""


class TcpTransport(Transport):
    """One connection to a board server, which serves its clients in turn."""

    def __init__(self, host: str, port: int, token: str):
        self.name = f"tcp://{host}:{port}"
        try:
            self._connection = socket.create_connection((host, port), CONNECT_SECONDS)
        except OSError as error:
            raise DeviceError(f"{self.name}: no board server answers: {error.strerror or error}") from None
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            greeting = receive_exactly(self._connection, len(GREETING) + NONCE_BYTES)
            if not greeting.startswith(GREETING):
                raise DeviceError(f"{self.name}: this is no Tosaic board server")
            self._connection.sendall(proof(token, greeting[len(GREETING) :]))
            if receive_exactly(self._connection, 1) != ADMITTED:
                raise DeviceError(
                    f"{self.name}: the board server refuses the token; `tosaic serve` shows the right one"
                )
        except (ConnectionEnded, OSError) as error:
            self.close()
            raise DeviceError(f"{self.name}: the board server hangs up: {error}") from None
        except DeviceError:
            self.close()
            raise
        self._connection.settimeout(ANSWER_SECONDS)
        answer = self._ask(Request.IDENTIFY)
        self.identity = Identity.from_bytes(answer[:IDENTITY_BYTES])
        self.device = answer[IDENTITY_BYTES:].decode()
        """What the server calls its device."""

    def read_registers(self, offset: int, count: int) -> list[int]:
        return list(struct.unpack(f"<{count}I", self._ask(Request.READ_REGISTERS, offset, count)))

    def write_register(self, offset: int, value: int) -> None:
        self._ask(Request.WRITE_REGISTER, offset, value)

    def read_memory(self, address: int, count: int) -> bytes:
        starts = range(0, count, MAX_DATA_BYTES)
        return b"".join(
            self._ask(Request.READ_MEMORY, address + start, min(MAX_DATA_BYTES, count - start))
            for start in starts
        )

    def write_memory(self, address: int, data: bytes) -> None:
        for start in range(0, len(data), MAX_DATA_BYTES):
            self._ask(Request.WRITE_MEMORY, address + start, data=data[start : start + MAX_DATA_BYTES])

    def wait(self, attempt: int) -> None:
        self._ask(Request.WAIT, min(attempt, 100))

    def reset(self) -> bool:
        return self._ask(Request.RESET) == b"\x01"

    def acquire(self) -> bool:
        self._connection.settimeout(TURN_SECONDS + ANSWER_SECONDS)
        try:
            return self._ask(Request.ACQUIRE, TURN_SECONDS) == b"\x01"
        finally:
            self._connection.settimeout(ANSWER_SECONDS)

    def release(self) -> None:
        self._ask(Request.RELEASE)

    def close(self) -> None:
        self._connection.close()

    def _ask(self, request: Request, *fields: int, data: bytes = b"") -> bytes:
        """The answer's data."""
        try:
            send_message(self._connection, bytes([request]) + FIELDS[request].pack(*fields) + data)
            answer = receive_message(self._connection)
        except ConnectionEnded as error:
            self.close()
            raise Unreachable(f"{self.name}: the connection to the board server is lost: {error}") from None
        if answer[0] != Outcome.OK:
            raise DeviceError(f"{self.name}: {answer[1:].decode(errors='replace')}")
        return answer[1:]
