"""A machine on the bus of this computer, from user space: Linux UIO for registers, a contiguous buffer for data."""

import contextlib
import mmap
import os
import pathlib
import select
import struct

from tosaic.errors import DeviceError
from tosaic.hw.bridge.protocol import Identity

from .base import RegisterTransport

REGISTER_BYTES = 4096
INTERRUPT_SECONDS = 0.05
SYSFS = pathlib.Path("/sys/class")


class UioTransport(RegisterTransport):
    """Registers in the first mapping of a UIO device (`/dev/uio0`), data in a buffer that user space and the machine
    see alike (`/dev/udmabuf0` of u-dma-buf), whose bus address sysfs tells.

    The UIO device needs no driver of ours: `uio_pdrv_genirq` bound to the device-tree node of the control port. The
    buffer is opened with O_SYNC, which u-dma-buf maps uncached, so no cache has to be flushed. `sysfs` is for tests.
    """

    reads_fast = True

    def __init__(self, device: str, memory: str, sysfs: pathlib.Path = SYSFS):
        self.name = f"uio://{device}"
        self._files: list[int] = []
        self._maps: list[mmap.mmap] = []
        buffer = sysfs / "u-dma-buf" / pathlib.Path(memory).name
        base, size = self._number(buffer / "phys_addr"), self._number(buffer / "size")
        if base + size > 1 << 32:
            raise DeviceError(
                f"{self.name}: the buffer {memory} ends at bus address 0x{base + size:x}, the machine reaches 4 GiB: "
                "put it into a reserved region below"
            )
        registers = self._open(device)
        try:
            self._registers = self._map(registers, REGISTER_BYTES, device)
            self._memory = self._map(self._open(memory, os.O_SYNC), size, memory)
        except DeviceError:
            self.close()
            raise
        self._words = memoryview(self._registers).cast("I")
        self._interrupts = registers
        # A plain file, as in tests, has no interrupts to wait for.
        self._has_interrupts = not os.path.isfile(device)
        self.identity = Identity("uio", base, size, 0, 1 << 15)

    def read_registers(self, offset: int, count: int) -> list[int]:
        self._check(offset, 4 * count, REGISTER_BYTES)
        first = offset // 4
        return [self._words[index] for index in range(first, first + count)]

    def write_register(self, offset: int, value: int) -> None:
        self._check(offset, 4, REGISTER_BYTES)
        # One 32-bit store: a copy of bytes might arrive as several.
        self._words[offset // 4] = value

    def read_memory(self, address: int, count: int) -> bytes:
        self._check(address, count, len(self._memory))
        return self._memory[address : address + count]

    def write_memory(self, address: int, data: bytes) -> None:
        self._check(address, len(data), len(self._memory))
        self._memory[address : address + len(data)] = data

    def clear_memory(self, address: int, count: int) -> bool:
        self.write_memory(address, bytes(count))
        return True

    def wait(self, attempt: int) -> None:
        if not self._has_interrupts:
            return super().wait(attempt)
        with contextlib.suppress(OSError):
            # uio_pdrv_genirq masks the interrupt when it fires; a 1 lets it through again.
            os.write(self._interrupts, struct.pack("=I", 1))
        readable, _, _ = select.select([self._interrupts], [], [], INTERRUPT_SECONDS)
        if readable:
            os.read(self._interrupts, 4)
        return None

    def close(self) -> None:
        words = getattr(self, "_words", None)
        if words is not None:
            words.release()
        for mapped in self._maps:
            mapped.close()
        for file in self._files:
            os.close(file)
        self._maps, self._files = [], []

    def _open(self, path: str, flags: int = 0) -> int:
        try:
            file = os.open(path, os.O_RDWR | flags)
        except OSError as error:
            self.close()
            raise DeviceError(f"{self.name}: {path} cannot be opened: {error.strerror}") from None
        self._files.append(file)
        return file

    def _map(self, file: int, size: int, path: str) -> mmap.mmap:
        try:
            mapped = mmap.mmap(file, size)
        except (OSError, ValueError) as error:
            raise DeviceError(f"{self.name}: {path} cannot be mapped: {error}") from None
        self._maps.append(mapped)
        return mapped

    def _number(self, path: pathlib.Path) -> int:
        try:
            return int(path.read_text().strip(), 0)
        except (OSError, ValueError):
            raise DeviceError(
                f"{self.name}: {path} does not tell the buffer's address: load u-dma-buf (udmabuf0=SIZE), "
                "or name the buffer with ?memory=/dev/NAME"
            ) from None

    def _check(self, address: int, count: int, size: int) -> None:
        if not 0 <= address <= size - count:
            raise DeviceError(f"{self.name}: {count} bytes at 0x{address:x} lie outside its {size} bytes")
