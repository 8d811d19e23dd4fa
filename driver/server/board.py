"""The device as the server's clients see it: each has it for a time, and none sees another's data."""

import contextlib
import dataclasses
import time
from collections.abc import Callable

from tosaic.errors import DeviceError
from tosaic.hw.bridge.protocol import Identity
from tosaic.hw.config import CONFIGS, Config
from tosaic.hw.config_text import config_of_hash
from tosaic.hw.csr_map import REGISTER
from tosaic.sim.registers import REGISTER_BYTES, reported

from ..transports import RegisterTransport
from ..transports.identify import configuration_hash
from .erase import PLACE_BYTES, erase
from .limits import ServerLimits
from .turn import ClientTurn

READABLE = frozenset(register.offset for register in reported())
"""Offsets of the registers that clients may read."""


class SharedDevice:
    """One device for many clients.

    A client chooses neither where the memory window lies nor more than its size: it begins at the device's first byte,
    and ends inside its memory. When the device goes to another client, every memory that the one before may have
    written is erased. Methods with a `client` are for whoever has the device; the others answer anybody.
    """

    def __init__(self, device: RegisterTransport, limits: ServerLimits, config: Config | None = None):
        self._device, self._limits, self._config = device, limits, config
        self._turn = ClientTurn()
        self._last: object = None
        """The client whose data may be on the device."""
        self._holder: object = None
        self._erased = False
        """Whether nothing is on the device but what `_last` put there."""
        self._reached = 0
        """`_last` may have written bytes of the memory below this address."""
        self._unknown = 0
        """What lay from this address on when the server began was never erased."""
        self._turn_end = 0.0
        self._run_end: float | None = None

    @property
    def name(self) -> str:
        return self._device.name

    @property
    def identity(self) -> Identity:
        """What clients are told; where the memory lies on the bus is not their business."""
        return dataclasses.replace(self._device.identity, memory_base=0)

    def close(self) -> None:
        """Nobody waits for the device any more."""
        self._turn.end()

    def check(self) -> None:
        """Raises DeviceError unless this is a machine that can be erased."""
        self._configuration()

    # --- turns

    def take(
        self, client: object, seconds: float, address: str = "", gone: Callable[[], bool] = lambda: False
    ) -> bool:
        """Wait for the device and take it. Whether the client was also the last to have it: its data are still there.

        Addresses take turns. A client that is `gone` loses its place. DeviceError when others keep the device, or when
        it cannot be erased; then the client has not got it.
        """
        if not self._turn.take(client, min(seconds, self._limits.idle_seconds), address, gone):
            raise DeviceError("another client has the board and does not give it back")
        try:
            same = self._last is client and self._erased
            if not same and not self._is_clean():
                self._erase_all()
        except BaseException:
            self._turn.give(client)
            raise
        self._last = self._holder = client
        self._turn_end = time.monotonic() + self._limits.turn_seconds
        self._run_end = None
        return same

    def give(self, client: object) -> None:
        """Let others have the device; a program that still runs is stopped."""
        if self._holder is not client:
            return
        try:
            if self._run_end is not None and self._status("running"):
                self._stop()
        finally:
            self._holder = None
            self._turn.give(client)

    def forget(self, client: object) -> None:
        """The client is gone: its program ends, and its data go, too."""
        if self._last is not client:
            return
        if self._holder is not client and not self._turn.take(client, 0.0):
            return  # Whoever has the device instead has erased it, or is about to.
        try:
            if self._last is client:
                self._erase_all()
        except DeviceError:
            pass  # The next client's turn begins with another try.
        finally:
            self._holder = None
            self._turn.give(client)

    def has(self, client: object) -> bool:
        return self._holder is client

    def deadline(self, client: object) -> float:
        """Returns until when (time.monotonic) the client's next request has to begin."""
        if self._holder is not client:
            return time.monotonic() + self._limits.idle_seconds
        return min(time.monotonic() + self._limits.hold_seconds, self._turn_end)

    @property
    def request_seconds(self) -> float:
        """The longest time from a request's first byte to its last."""
        return self._limits.hold_seconds

    # --- for the client that has the device

    def is_over(self) -> bool:
        """Whether the turn of whoever has the device is over."""
        return time.monotonic() >= self._turn_end

    def take_back(self, client: object) -> str:
        """Let others have the device, which the client has for too long; why, in words."""
        over = self.is_over()
        with contextlib.suppress(DeviceError):
            self.give(client)
        if over:
            return f"the turn of {self._limits.turn_seconds:g} s is over, others may want the board"
        return f"who has the board and is silent for {self._limits.hold_seconds:g} s loses it"

    def end_long_run(self) -> None:
        """Raises DeviceError when a program ran for too long, and was stopped now; before every other request."""
        if self._run_end is None or time.monotonic() < self._run_end:
            return
        self._run_end = None
        if self._status("running"):
            self._stop()
            raise DeviceError(
                f"the program was stopped after {self._limits.run_seconds:g} s, the longest run that this board "
                "server allows"
            )

    def read_registers(self, offset: int, count: int) -> list[int]:
        for place in range(offset, offset + REGISTER_BYTES * count, REGISTER_BYTES):
            if place not in READABLE:
                raise DeviceError(f"{self.name}: register 0x{place:03x} is not for clients")
        return self._device.read_registers(offset, count)

    def read_memory(self, address: int, count: int) -> bytes:
        self._inside(address, count)
        # Beyond what the client's writes and programs reached, the memory is as if it were erased.
        known = max(0, min(count, self._reached - address))
        return (self._device.read_memory(address, known) if known else b"") + bytes(count - known)

    def write_memory(self, address: int, data: bytes) -> None:
        self._inside(address, len(data))
        self._reach(address + len(data))
        self._device.write_memory(address, data)

    def run(self, memory_bytes: int, address: int, program_bytes: int, watchdog_cycles: int) -> None:
        """Start the program at `address`; it reaches the first `memory_bytes` of the memory."""
        self._inside(0, memory_bytes)
        if address + program_bytes > memory_bytes:
            raise DeviceError(
                f"{self.name}: the program's {program_bytes} bytes at 0x{address:x} leave its {memory_bytes} bytes "
                "of memory"
            )
        if not self._status("idle"):
            raise DeviceError(f"{self.name}: the machine is not idle: stop its program first")
        self._reach(memory_bytes)
        self._device.start(memory_bytes, address, program_bytes, watchdog_cycles)
        self._run_end = time.monotonic() + self._limits.run_seconds

    def wait(self, attempt: int) -> None:
        self._device.wait(attempt)

    def finish(self) -> list[tuple[int, int]]:
        if self._status("running"):
            raise DeviceError(f"{self.name}: the program still runs")
        self._run_end = None
        return self._device.finish()

    def stop(self) -> None:
        self._run_end = None
        self._device.soft_reset()

    def reset(self) -> bool:
        self._run_end = None
        return self._device.reset()

    # --- inside

    def _inside(self, address: int, count: int) -> None:
        size = self._device.identity.memory_bytes
        if address + count > size:
            raise DeviceError(
                f"{self.name}: {count} bytes at 0x{address:x} lie outside its {size} bytes of memory"
            )

    def _status(self, field: str) -> bool:
        status = REGISTER["STATUS"]
        return bool(status.field(field).extract(self._device.read_registers(status.offset, 1)[0]))

    def _stop(self) -> None:
        self._run_end = None
        self._device.make_idle()

    def _reach(self, end: int) -> None:
        """The client is about to reach the memory below `end`: what nobody erased yet goes first."""
        if end > self._unknown:
            self._erase(self._unknown, end)
        self._reached = max(self._reached, end)

    def _is_clean(self) -> bool:
        """Whether nobody had the device since it was erased."""
        return self._erased and self._last is None

    def _erase_all(self) -> None:
        """What the last client may have written."""
        self._erased, self._holder = False, None
        self._erase(0, self._reached)
        self._erased, self._last, self._reached = True, None, 0

    def _erase(self, start: int, end: int) -> None:
        size = self._device.identity.memory_bytes
        end = min(max(-(-end // PLACE_BYTES), start // PLACE_BYTES + 1) * PLACE_BYTES, size)
        erase(self._device, self._configuration(), start, end)
        if start <= self._unknown:
            self._unknown = max(self._unknown, end)

    def _configuration(self) -> Config:
        found = configuration_hash(self._device)
        if (named := config_of_hash(found)) is not None:
            return named
        known = (*CONFIGS.values(), *((self._config,) if self._config else ()))
        for config in known:
            if config.hash == found:
                return config
        raise DeviceError(
            f"{self.name}: its configuration is unknown (CONFIG_HASH 0x{found:08x}), so nobody can erase it between "
            "two clients: load the board with one of " + ", ".join(config.name for config in known)
        )
