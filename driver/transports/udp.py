"""A board behind Ethernet: a frame of the bridge's protocol in each datagram."""

import secrets
import socket
import time
from typing import Protocol

from tosaic.errors import DeviceError
from tosaic.hw.bridge.datagrams import COUNT_BITS, NUMBER_BYTES, SESSION_BITS
from tosaic.hw.bridge.protocol import Identity, Operation

from .base import Unreachable
from .bridge import BridgeRequest, BridgeTransport

SESSIONS = 1 << SESSION_BITS
MOST_NUMBERS = (1 << COUNT_BITS) - 100
"""Numbers of a session at most: a few are left for repetitions of the last request."""
MOST_LATE = 100
"""Late copies that are dropped before a request is repeated."""


class DatagramPort(Protocol):
    """Datagrams to and from one board, which may be lost, damaged, repeated, and come in another order."""

    def send(self, payload: bytes) -> None:
        """Raises DeviceError when there is no way to the board."""

    def receive(self, seconds: float) -> bytes | None:
        """The next one; None if none comes in that time."""

    def pause(self, seconds: float) -> None:
        """Let time go by on the other side."""

    def close(self) -> None: ...


class SocketPort:
    """A UDP socket of this computer. DeviceError when the host has no address."""

    def __init__(self, host: str, port: int):
        self.name = f"udp://{host}:{port}"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.connect((host, port))
        except OSError as error:
            self._socket.close()
            raise DeviceError(
                f"{self.name}: there is no way to this host: {error.strerror or error}"
            ) from None

    def send(self, payload: bytes) -> None:
        try:
            self._socket.send(payload)
        except ConnectionRefusedError:
            # The answer to an earlier datagram: a computer is there, but nobody listens; perhaps in a moment.
            pass
        except OSError as error:
            raise Unreachable(
                f"{self.name}: there is no way to this host: {error.strerror or error}"
            ) from None

    def receive(self, seconds: float) -> bytes | None:
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(1 << 16)
        except (TimeoutError, BlockingIOError, ConnectionRefusedError):
            return None
        except OSError as error:
            raise Unreachable(
                f"{self.name}: there is no way to this host: {error.strerror or error}"
            ) from None

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        self._socket.close()


class UdpLine:
    """A line (transports.line) made of datagrams. Each has a number in front, greater than all before it; the board
    drops what is not, and answers with the number of the question: both sides tell late copies from new ones.

    A greeting begins a session, whose numbers the board takes from then on. A copy of one that comes late may end
    the session, so that nobody answers any more, but never lets a request be executed twice.
    """

    byte_seconds = 0.0

    def __init__(self, port: DatagramPort):
        self._port = port
        self._session = secrets.randbelow(SESSIONS)
        self._sent = self._heard = 0
        self.is_greeting = False
        """What is written is a greeting."""

    @property
    def is_spent(self) -> bool:
        """The session has no numbers left: the board must be greeted again."""
        return self._sent % (1 << COUNT_BITS) > MOST_NUMBERS

    def write(self, data: bytes) -> None:
        if self.is_greeting:
            # 0 is what a board believes in that was just switched on.
            self._session = self._session % (SESSIONS - 1) + 1
            self._sent = self._session << COUNT_BITS
            self._heard = self._sent - 1
        else:
            self._sent += 1
        self._port.send(self._sent.to_bytes(NUMBER_BYTES, "little") + data)

    def read(self, seconds: float) -> bytes:
        for _ in range(MOST_LATE):
            if (payload := self._port.receive(seconds)) is None:
                break
            number = int.from_bytes(payload[:NUMBER_BYTES], "little")
            if self._heard < number <= self._sent:
                self._heard = number
                return payload[NUMBER_BYTES:]
        return b""

    def fill_bytes(self, cycles: int, clock_hz: int) -> int | None:
        # A board loses what comes while it works on another datagram.
        return None

    def pause(self, seconds: float) -> None:
        self._port.pause(seconds)

    def clear(self, address: int, count: int) -> bool:
        return False

    def close(self) -> None:
        self._port.close()


class UdpTransport(BridgeTransport):
    """Speaks the bridge's protocol in datagrams. Nothing is encrypted, and whoever reaches the board may use it."""

    advice = "is it on this network, configured with Ethernet, and at this address?"

    def __init__(self, port: DatagramPort, name: str, boots: bool = False):
        self._datagrams = UdpLine(port)
        super().__init__(self._datagrams, name, boots)

    def _hello(self) -> Identity:
        self._datagrams.is_greeting = True
        try:
            return super()._hello()
        finally:
            self._datagrams.is_greeting = False

    def _send(
        self, operation: Operation, address: int = 0, count: int = 0, data: bytes = b""
    ) -> BridgeRequest:
        if self._datagrams.is_spent:
            self._greeted = False
        return super()._send(operation, address, count, data)
