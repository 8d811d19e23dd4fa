"""Lines of bytes: a serial port, or the pins of a simulated board."""

import contextlib
import time
from typing import Any, Protocol

from tosaic.errors import DeviceError, UnsupportedError
from tosaic.install import install_command

from .base import Unreachable

DEFAULT_BAUD = 1_000_000


class Line(Protocol):
    """Bytes in both directions, in order, that may be lost, damaged or made up."""

    byte_seconds: float
    """What a byte takes on the line; it may still be there when `write` returns."""

    def write(self, data: bytes) -> None:
        """Send; DeviceError when the line is gone."""

    def read(self, seconds: float) -> bytes:
        """What has come, at least one byte unless nothing comes within `seconds`; DeviceError when it is gone."""

    def pause(self, seconds: float) -> None:
        """Let time go by on the other side."""

    def clear(self, address: int, count: int) -> bool:
        """Set bytes of the external memory on the other side to zero at once; False where there is no way but the
        line."""

    def close(self) -> None: ...


class SerialLine:
    """A serial port of this computer, a USB bridge's or a pseudo-terminal's."""

    def __init__(self, path: str, baud: int = DEFAULT_BAUD):
        try:
            import serial
        except ImportError:
            raise UnsupportedError(
                f"boards on a serial line need the package pyserial: {install_command('boards-serial')}"
            ) from None
        self.path = path
        self.byte_seconds = 10 / baud
        try:
            # Exclusive: two hosts on one line would answer for each other.
            self._port: Any = serial.Serial(path, baud, timeout=0, write_timeout=5, exclusive=True)
        except (serial.SerialException, OSError, ValueError) as error:
            raise DeviceError(
                f"serial://{path}: cannot be opened: {getattr(error, 'strerror', None) or error}"
            ) from None
        _lower_latency(self._port)
        self._errors = (serial.SerialException, OSError, TypeError)

    def write(self, data: bytes) -> None:
        try:
            self._port.write(data)
        except self._errors as error:
            raise self._gone(error) from None

    def read(self, seconds: float) -> bytes:
        try:
            self._port.timeout = seconds
            first = self._port.read(1)
            return first + self._port.read(self._port.in_waiting) if first else b""
        except self._errors as error:
            raise self._gone(error) from None

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def clear(self, address: int, count: int) -> bool:
        return False

    def close(self) -> None:
        self._port.close()

    def _gone(self, error: Exception) -> Unreachable:
        return Unreachable(f"serial://{self.path}: the line is gone (unplugged?): {error}")


def _lower_latency(port: Any) -> None:
    """Let a USB bridge hand over what came after 1 ms, where FTDI's wait 16 ms for more; nothing where port or
    operating system has no such thing."""
    with contextlib.suppress(AttributeError, NotImplementedError, OSError, ValueError):
        port.set_low_latency_mode(True)
