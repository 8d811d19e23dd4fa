"""What a device can do for its driver."""

import abc
import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence

from tosaic.errors import DeviceError
from tosaic.hw.bridge.protocol import Identity
from tosaic.hw.csr_map import REGISTER, WATCHDOG_RESET_CYCLES
from tosaic.hw.isa import CoreProgram
from tosaic.sim.registers import REGISTER_BYTES, Registers

POLL_SECONDS = (0.0005, 0.05)
"""First and longest pause between two looks at STATUS, where no interrupt reaches the host."""
SEEN_SHARE = 0.9
"""Share of the time after which a host saw the end of a run: when to look for the end of the next one."""
RESET_SECONDS = 5.0
"""A soft reset takes far less: it gives up on its bus after 65,536 cycles."""


@dataclasses.dataclass(frozen=True)
class Watch:
    """How closely a device is watched."""

    verify_runs: int = 0
    """After the first run of a program, and after each further `verify_runs`, its instructions and constants are read
    back and compared before anybody gets the outputs; 0: never."""
    runs_twice: bool = False
    """Every run is done twice, and both must leave the same."""


class Unreachable(DeviceError):
    """Nothing gets through to the device; trying again at once would only take long."""


class Transport(abc.ABC):
    """What the driver needs of one machine: to run a program on it, and its memory.

    Every method raises DeviceError, in words, when the machine cannot be reached or refuses. Addresses of memory are
    offsets from the machine's first byte of external memory.
    """

    name: str
    """What errors call the device: its URI."""
    identity: Identity
    """What the device says it is. A transport without a bridge makes it up."""
    reads_fast = False
    """Whether memory is read at the host's own speed, so that all that was sent can be looked at."""
    has_real_clock = False
    """Whether a second of the machine is one of the host's, as of hardware that the host itself reaches."""
    _finished: Sequence[tuple[int, int]] = ()
    """Marks that `acknowledge` took along."""

    @abc.abstractmethod
    def read_registers(self, offset: int, count: int) -> list[int]:
        """The 32-bit registers from byte `offset` on."""

    @abc.abstractmethod
    def read_memory(self, address: int, count: int) -> bytes:
        """Bytes of external memory."""

    @abc.abstractmethod
    def write_memory(self, address: int, data: bytes) -> None:
        """Set bytes of external memory."""

    def together(self) -> contextlib.AbstractContextManager[None]:
        """What is asked of the machine inside, in this order, may be under way at the same time: a write that fails
        may be told later, at the latest at the end."""
        return contextlib.nullcontext()

    def ask_registers(self, offset: int, count: int) -> Callable[[], list[int]]:
        """Asks for registers; their values are waited for when they are called for."""
        values = self.read_registers(offset, count)
        return lambda: values

    def ask_memory(self, address: int, count: int) -> Callable[[], bytes]:
        """Asks for bytes of external memory; they are waited for when they are called for."""
        data = self.read_memory(address, count)
        return lambda: data

    @abc.abstractmethod
    def start(
        self,
        memory_bytes: int,
        program_address: int,
        program_bytes: int,
        watchdog_cycles: int = WATCHDOG_RESET_CYCLES,
        others: Sequence[CoreProgram] = (),
    ) -> None:
        """Start the program, and those of the `others` behind core 0. They reach the first `memory_bytes` of the memory
        and nothing else."""

    @abc.abstractmethod
    def finish(self) -> list[tuple[int, int]]:
        """(layer, cycle) of each mark of the run that has ended; its interrupt is cleared."""

    def acknowledge(self) -> None:
        """Finishes a run for a host that may ask for the `marks` later. Where that is no cheaper they are taken now."""
        self._finished = self.finish()

    def marks(self) -> list[tuple[int, int]]:
        """(layer, cycle) of each mark of the last run that was acknowledged, before another one starts."""
        return list(self._finished)

    @abc.abstractmethod
    def soft_reset(self) -> None:
        """Begin a soft reset: STATUS.idle tells its end."""

    def wait(self, attempt: int) -> None:
        """Let time go by until the next look at STATUS, or until the interrupt. `attempt` counts from 0."""
        first, longest = POLL_SECONDS
        self.pause(min(first * 2 ** min(attempt, 10), longest))

    def wait_for(self, cycles: int, seconds: float) -> None:
        """Let time go by until a run of that many cycles, begun now, has probably ended: one more look at STATUS is
        then enough. `seconds`: how long it took the host to see the end of one."""
        if self.has_real_clock and self.identity.clock_hz:
            seconds = cycles / self.identity.clock_hz
        else:
            # What was seen is later than the end, and only so can it ever be found to be shorter.
            seconds *= SEEN_SHARE
        self.pause(seconds)

    def pause(self, seconds: float) -> None:
        """Let time go by on the machine's side."""
        time.sleep(seconds)

    def reset(self) -> bool:
        """Reset the machine by hardware, in whatever state it is; False where the host has no way to."""
        return False

    def acquire(self) -> bool:
        """Wait for the device to be free and take it. False when others may have used it since the last time."""
        return True

    def release(self) -> None:  # noqa: B027  Most devices have one user.
        """Let others have the device."""

    def booted_image(self) -> int | None:
        """The CRC-32 of the boot image (hw.bridge.boot_image) that is in the machine's memory; None where there is
        none. DeviceError where there should be one, and booting failed."""
        return None

    def leave_boot(self) -> None:  # noqa: B027  Most devices have no flash.
        """Something else is loaded from now on."""

    @abc.abstractmethod
    def close(self) -> None:
        """Lets go of the device for good."""

    def make_idle(self) -> None:
        """End whatever the machine does, by a soft reset or, where that does not end, by hardware."""
        if self._is_idle():
            return
        self.soft_reset()
        deadline = time.monotonic() + RESET_SECONDS
        attempt = 0
        while not self._is_idle():
            if time.monotonic() > deadline:
                if self.reset():
                    return
                raise DeviceError(f"{self.name}: the soft reset does not end: reset the board")
            self.wait(attempt)
            attempt += 1

    def _is_idle(self) -> bool:
        status = REGISTER["STATUS"]
        return bool(status.field("idle").extract(self.read_registers(status.offset, 1)[0]))


class RegisterTransport(Transport):
    """A machine whose registers the host writes itself. The memory window begins at `identity.memory_base`."""

    @abc.abstractmethod
    def write_register(self, offset: int, value: int) -> None:
        """Set a register."""

    def write_registers(self, offset: int, values: Sequence[int]) -> None:
        """Set the registers from byte `offset` on; one request where the transport has one for it."""
        for index, value in enumerate(values):
            self.write_register(offset + REGISTER_BYTES * index, value)

    def start(
        self,
        memory_bytes: int,
        program_address: int,
        program_bytes: int,
        watchdog_cycles: int = WATCHDOG_RESET_CYCLES,
        others: Sequence[CoreProgram] = (),
    ) -> None:
        streams = (CoreProgram(program_address, program_bytes), *others)
        with self.together():
            Registers(self, len(streams)).start(
                self.identity.memory_base, memory_bytes, streams, watchdog_cycles
            )

    def finish(self) -> list[tuple[int, int]]:
        marks = self.marks()
        self.acknowledge()
        return marks

    def acknowledge(self) -> None:
        Registers(self).acknowledge()

    def marks(self) -> list[tuple[int, int]]:
        with self.together():
            return Registers(self).marks()

    def soft_reset(self) -> None:
        Registers(self).control("soft_reset")

    def clear_memory(self, address: int, count: int) -> bool:
        """Set bytes of external memory to zero at once; False where the host has no quick way to."""
        return False
