"""A device behind a board server (`tosaic serve`)."""

import socket
import ssl
import struct
import time
from collections.abc import Sequence

from tosaic.errors import DeviceError, UnsupportedError
from tosaic.hw.bridge.protocol import IDENTITY_BYTES, Identity
from tosaic.hw.csr_map import WATCHDOG_RESET_CYCLES
from tosaic.hw.isa import CoreProgram

from .base import Transport, Unreachable
from .wire import (
    ADMITTED,
    FIELDS,
    FULL,
    GREETING,
    MARK,
    MAX_DATA_BYTES,
    NONCE_BYTES,
    PROTOCOL_VERSION,
    ConnectionEnded,
    Outcome,
    Request,
    proof,
    receive_exactly,
    receive_message,
    send_bytes,
    send_message,
)

DEFAULT_PORT = 7626
CONNECT_SECONDS = 10.0
CONNECT_PAUSE_SECONDS = 0.05
"""The first pause between two attempts to connect; each further one is twice as long."""
ANSWER_SECONDS = 60.0
ERASE_SECONDS = 600.0
"""How long an answer may take before which the server may have to erase memory."""
TURN_SECONDS = 600
"""How long to wait for one's turn."""


class TcpTransport(Transport):
    """A board server's device. With `tls` the connection is encrypted, and the server proves who it is.

    A connection that is lost is made again when the device is acquired next.
    """

    def __init__(self, host: str, port: int, token: str, tls: ssl.SSLContext | None = None):
        self.name = f"{'tcps' if tls else 'tcp'}://{host}:{port}"
        self._address, self._token, self._tls = (host, port), token, tls
        self._connection: socket.socket | None = None
        self.identity, self.device = self._connect()
        """`device` is what the server calls its device."""

    def read_registers(self, offset: int, count: int) -> list[int]:
        raw = self._ask(Request.READ_REGISTERS, offset, count)
        return list(struct.unpack(f"<{count}I", self._sized(raw, 4 * count)))

    def read_memory(self, address: int, count: int) -> bytes:
        parts = []
        for start in range(0, count, MAX_DATA_BYTES):
            size = min(MAX_DATA_BYTES, count - start)
            parts.append(self._sized(self._ask(Request.READ_MEMORY, address + start, size), size))
        return b"".join(parts)

    def write_memory(self, address: int, data: bytes) -> None:
        for start in range(0, len(data), MAX_DATA_BYTES):
            part = data[start : start + MAX_DATA_BYTES]
            self._ask(Request.WRITE_MEMORY, address + start, data=part, seconds=ERASE_SECONDS)

    def start(
        self,
        memory_bytes: int,
        program_address: int,
        program_bytes: int,
        watchdog_cycles: int = WATCHDOG_RESET_CYCLES,
        others: Sequence[CoreProgram] = (),
    ) -> None:
        if any(stream.bytes for stream in others):
            raise UnsupportedError(
                f"{self.name}: a server's board has one core, the program several: run it locally"
            )
        fields = (memory_bytes, program_address, program_bytes, watchdog_cycles)
        self._ask(Request.RUN, *fields, seconds=ERASE_SECONDS)

    def finish(self) -> list[tuple[int, int]]:
        raw = self._ask(Request.FINISH)
        return list(MARK.iter_unpack(self._sized(raw, len(raw) // MARK.size * MARK.size)))

    def soft_reset(self) -> None:
        self._ask(Request.STOP)

    def wait(self, attempt: int) -> None:
        self._ask(Request.WAIT, min(attempt, 100))

    def wait_for(self, cycles: int, seconds: float) -> None:
        # The server knows how its device tells of an end, and a simulated one works only while it waits.
        self.wait(0)

    def reset(self) -> bool:
        return self._ask(Request.RESET) == b"\x01"

    def acquire(self) -> bool:
        seconds = TURN_SECONDS + ERASE_SECONDS
        if self._connection is not None:
            try:
                return self._ask(Request.ACQUIRE, TURN_SECONDS, seconds=seconds) == b"\x01"
            except Unreachable:
                # The server was started anew, or it dropped a client that was silent for long.
                pass
        identity, _ = self._connect()
        if identity != self.identity:
            self.close()
            raise DeviceError(f"{self.name}: another device is served now: {identity.name}: open it anew")
        self._ask(Request.ACQUIRE, TURN_SECONDS, seconds=seconds)
        return False

    def release(self) -> None:
        self._ask(Request.RELEASE)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    # --- inside

    def _connect(self) -> tuple[Identity, str]:
        """Connect, prove that the token is known, and greet; what the server says of its device.

        A server to which many strangers connect may hang up before it has heard the proof: then once more.
        """
        deadline = time.monotonic() + CONNECT_SECONDS
        pause = CONNECT_PAUSE_SECONDS
        while True:
            try:
                self._connection = self._opened()
                self._prove(self._connection, deadline)
                return self._hello()
            except ConnectionEnded as error:
                self.close()
                if time.monotonic() + pause > deadline:
                    raise DeviceError(
                        f"{self.name}: the board server hangs up: {error}{self._hint()}"
                    ) from None
            except BaseException:
                self.close()
                raise
            time.sleep(pause)
            pause *= 2

    def _prove(self, connection: socket.socket, deadline: float) -> None:
        """Show that the token is known; DeviceError unless the server admits the client."""
        greeting = receive_exactly(connection, len(GREETING) + NONCE_BYTES, deadline)
        if not greeting.startswith(GREETING):
            raise DeviceError(f"{self.name}: this is no Tosaic board server")
        send_bytes(connection, proof(self._token, greeting[len(GREETING) :]), deadline)
        answer = receive_exactly(connection, 1, deadline)
        if answer == FULL:
            raise DeviceError(f"{self.name}: the board server has all the clients it takes: try again later")
        if answer != ADMITTED:
            raise DeviceError(
                f"{self.name}: the board server refuses the token; `tosaic serve` shows the right one"
            )

    def _opened(self) -> socket.socket:
        try:
            connection = socket.create_connection(self._address, CONNECT_SECONDS)
        except OSError as error:
            raise DeviceError(f"{self.name}: no board server answers: {error.strerror or error}") from None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return connection
        try:
            return self._tls.wrap_socket(connection, server_hostname=self._address[0])
        except (OSError, ValueError) as error:
            connection.close()
            reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error
            raise DeviceError(f"{self.name}: no TLS with the board server: {reason}") from None

    def _hint(self) -> str:
        return "" if self._tls else "; if it was started with --tls-cert, write tcps://HOST:PORT?ca=FILE"

    def _hello(self) -> tuple[Identity, str]:
        outcome, data = self._exchange(Request.HELLO, PROTOCOL_VERSION)
        if outcome == Outcome.BAD_REQUEST:
            raise DeviceError(
                f"{self.name}: the board server speaks an older protocol than this client's, version "
                f"{PROTOCOL_VERSION}: install this tosaic ({_text(data)}) where the board is"
            )
        if outcome != Outcome.OK:
            raise DeviceError(f"{self.name}: {_text(data)}")
        try:
            return Identity.from_bytes(data[:IDENTITY_BYTES]), _text(data[IDENTITY_BYTES:])
        except (ValueError, UnicodeDecodeError) as error:
            raise DeviceError(f"{self.name}: the board server does not tell its device: {error}") from None

    def _ask(
        self, request: Request, *fields: int, data: bytes = b"", seconds: float = ANSWER_SECONDS
    ) -> bytes:
        """The answer's data."""
        try:
            outcome, answer = self._exchange(request, *fields, data=data, seconds=seconds)
        except ConnectionEnded as error:
            raise Unreachable(f"{self.name}: the connection to the board server is lost: {error}") from None
        if outcome != Outcome.OK:
            raise DeviceError(f"{self.name}: {_text(answer)}")
        return answer

    def _exchange(
        self, request: Request, *fields: int, data: bytes = b"", seconds: float = ANSWER_SECONDS
    ) -> tuple[int, bytes]:
        """The outcome and the data of the answer. Whatever comes in between, Ctrl-C, too, ends the connection: an
        answer that nobody took would be taken for that of the next request."""
        if self._connection is None:
            raise ConnectionEnded("it was closed")
        deadline = time.monotonic() + seconds
        try:
            send_message(self._connection, bytes([request]) + FIELDS[request].pack(*fields) + data, deadline)
            answer = receive_message(self._connection, deadline)
        except BaseException:
            self.close()
            raise
        return answer[0], answer[1:]

    def _sized(self, data: bytes, count: int) -> bytes:
        if len(data) != count:
            self.close()
            raise DeviceError(f"{self.name}: the board server answers {len(data)} bytes instead of {count}")
        return data


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
