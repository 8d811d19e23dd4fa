"""Who is connected: strangers, and clients that have proved the token."""

import collections
import contextlib
import socket
import threading

from .limits import ServerLimits


def hang_up(connection: socket.socket) -> None:
    """Wake up the thread that reads from the connection; it then closes it."""
    with contextlib.suppress(OSError):
        # An SSLSocket's own `shutdown` changes its state under the reading thread's feet.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class Connections:
    """Strangers can push out only each other, first those of their own address; they never take a client's place."""

    def __init__(self, limits: ServerLimits):
        self._limits = limits
        self._lock = threading.Lock()
        self._strangers: dict[socket.socket, str] = {}
        """Address by connection, the oldest first."""
        self._clients: dict[socket.socket, str] = {}

    def __len__(self) -> int:
        return len(self._strangers) + len(self._clients)

    def arrive(self, connection: socket.socket, address: str) -> None:
        """A new stranger; an older one goes when there are too many."""
        with self._lock:
            count = collections.Counter(self._strangers.values())
            if count[address] >= self._limits.strangers_per_address:
                self._push_out(address)
            elif len(self._strangers) >= self._limits.strangers:
                self._push_out(max(count, key=lambda place: count[place]))
            self._strangers[connection] = address

    def admit(self, connection: socket.socket) -> bool:
        """The stranger has proved the token. False when there is no room for one more client."""
        with self._lock:
            address = self._strangers.pop(connection, None)
            if address is None:
                return False
            same = sum(place == address for place in self._clients.values())
            if len(self._clients) >= self._limits.clients or same >= self._limits.clients_per_address:
                return False
            self._clients[connection] = address
            return True

    def leave(self, connection: socket.socket) -> None:
        with self._lock:
            self._strangers.pop(connection, None)
            self._clients.pop(connection, None)

    def push_out_oldest_stranger(self) -> None:
        """Where the computer has no room for one more connection."""
        with self._lock:
            if self._strangers:
                self._push_out(next(iter(self._strangers.values())))

    def hang_up_all(self) -> None:
        with self._lock:
            for connection in (*self._strangers, *self._clients):
                hang_up(connection)

    def _push_out(self, address: str) -> None:
        oldest = next(connection for connection, place in self._strangers.items() if place == address)
        del self._strangers[oldest]
        hang_up(oldest)
