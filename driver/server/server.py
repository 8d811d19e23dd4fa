"""Listens, and lets in who knows the token."""

import contextlib
import hmac
import os
import secrets
import socket
import ssl
import threading
import time

from tosaic.errors import DeviceError
from tosaic.hw.config import Config

from ..transports import RegisterTransport
from ..transports.wire import (
    ADMITTED,
    FULL,
    GREETING,
    NONCE_BYTES,
    PROOF_BYTES,
    REFUSED,
    ConnectionEnded,
    proof,
    receive_exactly,
    send_bytes,
)
from .board import SharedDevice
from .client import Client
from .connections import Connections, hang_up
from .limits import ServerLimits

ACCEPT_PAUSE_SECONDS = 0.1
"""Seconds to wait after an error of accept: the computer may have no room for one more connection for a while."""

KEEP_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds of silence before the first question, seconds between questions, and how many."""


class BoardServer:
    """Serves a device from the moment it is made, in threads; `close` ends it.

    Only who knows `token` gets in. `host` is loopback unless said otherwise: without `tls` the connection is not
    encrypted, so let only a network see it that you trust. `port` 0 takes a free one. `config` is the device's
    configuration, if it is none of those with a name. Raises DeviceError when the address is taken.
    """

    def __init__(
        self,
        device: RegisterTransport,
        token: str,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
        limits: ServerLimits | None = None,
        config: Config | None = None,
    ):
        if not token:
            raise ValueError("token must not be empty")
        self._limits = limits or ServerLimits()
        self._board = SharedDevice(device, self._limits, config)
        self._token, self._tls = token, tls
        self._connections = Connections(self._limits)
        self._threads: set[threading.Thread] = set()
        self._closing = threading.Event()
        try:
            self._listener = socket.create_server((host, port))
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise DeviceError(f"cannot serve on {host}:{port}: {reason}") from None
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._thread = threading.Thread(target=self._listen, name="board server", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises DeviceError unless the device is one that can be shared."""
        self._board.check()

    def close(self) -> None:
        """Hang up on everybody; what the last client left is erased. The device stays open."""
        self._closing.set()
        hang_up(self._listener)  # Closing alone does not wake up accept().
        self._thread.join()
        self._listener.close()
        self._board.close()
        self._connections.hang_up_all()
        for thread in list(self._threads):
            thread.join()

    @property
    def clients(self) -> int:
        """Number of connections."""
        return len(self._connections)

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                connection, address = self._listener.accept()
            except OSError:
                self._closing.wait(ACCEPT_PAUSE_SECONDS)
                self._connections.push_out_oldest_stranger()
                continue
            with contextlib.suppress(OSError, RuntimeError):
                # RuntimeError: no thread can be started.
                self._begin(connection, address[0])

    def _begin(self, connection: socket.socket, address: str) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A client whose computer or network went sends nothing any more; it is gone after about half a minute.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEP_ALIVE.items():
                if hasattr(socket, option):
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            if self._tls is not None:
                connection = self._tls.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
            self._connections.arrive(connection, address)
            thread = threading.Thread(target=self._serve, args=(connection, address), daemon=True)
            self._threads.add(thread)
            thread.start()
        except BaseException:
            self._connections.leave(connection)
            connection.close()
            raise

    def _serve(self, connection: socket.socket, address: str) -> None:
        client = Client(connection, self._board, address)
        try:
            if self._admit(connection):
                client.serve()
        except (ConnectionEnded, OSError):
            pass
        finally:
            client.let_go()
            self._connections.leave(connection)
            connection.close()
            self._threads.discard(threading.current_thread())

    def _admit(self, connection: socket.socket) -> bool:
        deadline = time.monotonic() + self._limits.handshake_seconds
        if isinstance(connection, ssl.SSLSocket):
            connection.settimeout(self._limits.handshake_seconds)
            connection.do_handshake()
        nonce = secrets.token_bytes(NONCE_BYTES)
        send_bytes(connection, GREETING + nonce, deadline)
        answer = receive_exactly(connection, PROOF_BYTES, deadline)
        if not hmac.compare_digest(answer, proof(self._token, nonce)):
            send_bytes(connection, REFUSED, deadline)
            return False
        admitted = self._connections.admit(connection)
        send_bytes(connection, ADMITTED if admitted else FULL, deadline)
        return admitted
