"""The board server: one device, many clients in turn, over TCP."""

import contextlib
import hmac
import os
import secrets
import socket
import struct
import threading

from tosaic.errors import DeviceError

from .transports import Transport
from .transports.wire import (
    ADMITTED,
    FIELDS,
    GREETING,
    MAX_DATA_BYTES,
    MAX_REGISTERS,
    NONCE_BYTES,
    PROOF_BYTES,
    REFUSED,
    ConnectionEnded,
    Outcome,
    Request,
    proof,
    receive_exactly,
    receive_message,
    send_message,
)

HANDSHAKE_SECONDS = 5.0
IDLE_SECONDS = 600.0
"""A client that says nothing for so long is dropped."""
HOLD_SECONDS = 60.0
"""The same for one that has the device, on which others may wait."""
MAX_CLIENTS = 64


class _BadRequest(Exception):
    pass


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


class _Turn:
    """Who has the device; one at a time, first come first served as threads are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: object = None

    def take(self, client: object, seconds: float) -> bool | None:
        """None: not in time. Else whether the client was also the last to have it."""
        if not self._lock.acquire(timeout=seconds):
            return None
        same, self._last = self._last is client, client
        return same

    def give(self) -> None:
        self._lock.release()


class BoardServer:
    """Serves a device from the moment it is made, in threads; `close` ends it.

    Only who knows `token` gets in. `host` is loopback unless said otherwise: the connection is not encrypted, so let
    only a network see it that you trust. `port` 0 takes a free one. Raises DeviceError when the address is taken.
    """

    def __init__(self, device: Transport, token: str, host: str = "127.0.0.1", port: int = 0):
        if not token:
            raise ValueError("token must not be empty")
        self._device, self._token = device, token
        self._turn = _Turn()
        self._open: set[socket.socket] = set()
        self._closing = threading.Event()
        try:
            self._listener = socket.create_server((host, port))
        except OSError as error:
            raise DeviceError(f"cannot serve on {host}:{port}: {_reason(error)}") from None
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._thread = threading.Thread(target=self._listen, name="board server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hang up on everybody. The device stays open."""
        self._closing.set()
        with contextlib.suppress(OSError):
            # Closing alone does not wake up accept().
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    @property
    def clients(self) -> int:
        """Connections there are."""
        return len(self._open)

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                continue
            if len(self._open) >= MAX_CLIENTS:
                connection.close()
                continue
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        client = _Client(connection, self._device, self._turn)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._admit(connection):
                client.serve()
        except (ConnectionEnded, OSError):
            pass
        finally:
            client.let_go()
            self._open.discard(connection)
            connection.close()

    def _admit(self, connection: socket.socket) -> bool:
        connection.settimeout(HANDSHAKE_SECONDS)
        nonce = secrets.token_bytes(NONCE_BYTES)
        connection.sendall(GREETING + nonce)
        right = hmac.compare_digest(receive_exactly(connection, PROOF_BYTES), proof(self._token, nonce))
        connection.sendall(ADMITTED if right else REFUSED)
        return right


class _Client:
    """One connection's requests."""

    def __init__(self, connection: socket.socket, device: Transport, turn: _Turn):
        self._connection, self._device, self._turn = connection, device, turn
        self._has_device = False

    def serve(self) -> None:
        """Until the client goes, is silent for too long, or asks for nonsense."""
        while True:
            self._connection.settimeout(HOLD_SECONDS if self._has_device else IDLE_SECONDS)
            body = receive_message(self._connection)
            try:
                outcome, data = self._answer(body)
            except DeviceError as error:
                outcome, data = Outcome.DEVICE_ERROR, str(error).encode()
            except _BadRequest as error:
                send_message(self._connection, bytes([Outcome.BAD_REQUEST]) + str(error).encode())
                return
            send_message(self._connection, bytes([outcome]) + data)

    def let_go(self) -> None:
        if self._has_device:
            self._has_device = False
            self._turn.give()

    def _answer(self, body: bytes) -> tuple[Outcome, bytes]:
        try:
            request = Request(body[0])
            layout = FIELDS[request]
            fields = layout.unpack(body[1 : 1 + layout.size])
        except (ValueError, struct.error):
            raise _BadRequest(f"no request: {body[:16].hex()}") from None
        data = body[1 + layout.size :]
        if data and request != Request.WRITE_MEMORY:
            raise _BadRequest(f"{request.name} has {len(data)} bytes too many")
        if request == Request.IDENTIFY:
            return Outcome.OK, self._device.identity.to_bytes() + self._device.name.encode()
        if request == Request.ACQUIRE:
            return self._acquire(*fields)
        if not self._has_device:
            return Outcome.NOT_ACQUIRED, b"the device was not acquired"
        try:
            return Outcome.OK, self._execute(request, fields, data)
        except (struct.error, ValueError, OverflowError) as error:
            # Fields that no register and no byte of memory could have.
            raise _BadRequest(f"{request.name}: {error}") from None

    def _acquire(self, seconds: int) -> tuple[Outcome, bytes]:
        if self._has_device:
            return Outcome.OK, b"\x01"
        kept = self._turn.take(self, min(seconds, IDLE_SECONDS))
        if kept is None:
            return Outcome.DEVICE_ERROR, b"another client has the board and does not give it back"
        self._has_device = True
        return Outcome.OK, bytes([kept])

    def _execute(self, request: Request, fields: tuple[int, ...], data: bytes) -> bytes:
        device = self._device
        match request:
            case Request.RELEASE:
                self.let_go()
            case Request.READ_REGISTERS:
                offset, count = fields
                if count > MAX_REGISTERS:
                    raise _BadRequest(f"{count} registers at once, at most {MAX_REGISTERS}")
                return struct.pack(f"<{count}I", *device.read_registers(offset, count))
            case Request.WRITE_REGISTER:
                device.write_register(*fields)
            case Request.READ_MEMORY:
                address, count = fields
                if count > MAX_DATA_BYTES:
                    raise _BadRequest(f"{count} bytes at once, at most {MAX_DATA_BYTES}")
                return device.read_memory(address, count)
            case Request.WRITE_MEMORY:
                device.write_memory(fields[0], data)
            case Request.WAIT:
                device.wait(min(fields[0], 100))
            case Request.RESET:
                return bytes([device.reset()])
        return b""
