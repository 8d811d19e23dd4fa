"""Lines of bytes: a serial port, or the pins of a simulated board."""

import contextlib
import math
import os
import pathlib
import time
import warnings
from typing import Any, Protocol

from tosaic.errors import DeviceError, UnsupportedError
from tosaic.install import install_command

from .base import Unreachable

DEFAULT_BAUD = 1_000_000
SYSFS = pathlib.Path("/sys/class/tty")
LOW_LATENCY_MS = 1


class Line(Protocol):
    """Bytes in both directions, in order, that may be lost, damaged or made up."""

    byte_seconds: float
    """What a byte takes on the line; it may still be there when `write` returns."""

    def write(self, data: bytes) -> None:
        """Send; DeviceError when the line is gone."""

    def read(self, seconds: float) -> bytes:
        """What has come, at least one byte unless nothing comes within `seconds`; DeviceError when it is gone."""

    def fill_bytes(self, cycles: int, clock_hz: int) -> int | None:
        """The bytes that take as long on the line as so many cycles of a board with this clock; None where nobody
        knows, or where the line does not hand over byte by byte what is written."""

    def pause(self, seconds: float) -> None:
        """Let time go by on the other side."""

    def clear(self, address: int, count: int) -> bool:
        """Set bytes of the external memory on the other side to zero at once; False where there is no way but the
        line."""

    def close(self) -> None: ...


class SerialLine:
    """A serial port of this computer, a USB bridge's or a pseudo-terminal's. `sysfs` is for tests."""

    def __init__(self, path: str, baud: int = DEFAULT_BAUD, sysfs: pathlib.Path = SYSFS):
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
        _shorten_timer(path, sysfs)
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

    def fill_bytes(self, cycles: int, clock_hz: int) -> int | None:
        # A pseudo-terminal has no baud rate.
        if not clock_hz or os.path.realpath(self.path).startswith("/dev/pts/"):
            return None
        return math.ceil(cycles / clock_hz / self.byte_seconds)

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


def _shorten_timer(path: str, sysfs: pathlib.Path) -> None:
    """Sets the timer after which FTDI's chips hand over a short answer, as Linux has it; a UserWarning says how to
    where this process must not. Other chips have no such file."""
    timer = sysfs / pathlib.Path(os.path.realpath(path)).name / "device" / "latency_timer"
    try:
        if int(timer.read_text()) <= LOW_LATENCY_MS:
            return
        with contextlib.suppress(OSError):
            timer.write_text(f"{LOW_LATENCY_MS}\n")
        held_ms = int(timer.read_text())
    except (OSError, ValueError):
        return
    if held_ms > LOW_LATENCY_MS:
        warnings.warn(
            f"serial://{path}: its USB chip holds each answer for {held_ms} ms, and an inference waits for three: "
            f"echo {LOW_LATENCY_MS} | sudo tee {timer}",
            UserWarning,
            stacklevel=2,
        )
