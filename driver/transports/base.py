"""What a device can do for its driver."""

import abc
import time

from tosaic.errors import DeviceError
from tosaic.hw.bridge.protocol import Identity

POLL_SECONDS = (0.0005, 0.05)
"""First and longest pause between two looks at STATUS, where no interrupt reaches the host."""


class Unreachable(DeviceError):
    """Nothing gets through to the device; trying again at once would only take long."""


class Transport(abc.ABC):
    """Access to the registers and the memory of one machine.

    Every method raises DeviceError, in words, when the machine cannot be reached or refuses. Addresses of memory are
    offsets from the machine's first byte of external memory, `identity.memory_base` on its bus.
    """

    name: str
    """What errors call the device: its URI."""
    identity: Identity
    """What the device says it is. Of a transport without a bridge: made up by the transport."""

    @abc.abstractmethod
    def read_registers(self, offset: int, count: int) -> list[int]:
        """The 32-bit registers from byte `offset` on."""

    @abc.abstractmethod
    def write_register(self, offset: int, value: int) -> None:
        """Set a register."""

    @abc.abstractmethod
    def read_memory(self, address: int, count: int) -> bytes:
        """Bytes of external memory."""

    @abc.abstractmethod
    def write_memory(self, address: int, data: bytes) -> None:
        """Set bytes of external memory."""

    def wait(self, attempt: int) -> None:
        """Let time go by until the next look at STATUS, or until the interrupt. `attempt` counts from 0."""
        first, longest = POLL_SECONDS
        time.sleep(min(first * 2 ** min(attempt, 10), longest))

    def reset(self) -> bool:
        """Reset the machine by hardware, in whatever state it is; False where the host has no way to."""
        return False

    def acquire(self) -> bool:
        """Wait for the device to be free and take it. False when others may have used it since the last time."""
        return True

    def release(self) -> None:  # noqa: B027  Most devices have one user.
        """Let others have the device."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of the device for good."""
