"""A machine on the bus of this computer, from user space: Linux UIO for registers, a contiguous buffer for data."""

import array
import contextlib
import fcntl
import mmap
import os
import pathlib
import select
import struct
from typing import Final

from tosaic.errors import DeviceError
from tosaic.hw.bridge.protocol import Identity
from tosaic.hw.csr_map import HIGH_BASE, LEAST_ADDRESS_BITS, MEM_BASE_HIGH, REGISTER

from .base import RegisterTransport

REGISTER_BYTES = 4096
INTERRUPT_SECONDS = 0.05
SYSFS = pathlib.Path("/sys/class")
WORD: Final = "L"
"""Format of a word of the buffer: the widest that one access of the processor moves, 32 or 64 bits."""
WORD_BYTES = struct.calcsize(WORD)


class DeviceMemory:
    """The bytes of a mapping that may be Device memory of an ARM core, as u-dma-buf maps what O_SYNC opens.

    Such memory takes single accesses that are aligned to their own size, and ends the process with SIGBUS at others.
    memcpy() and memset(), and so slices of `mmap`, `memoryview` and NumPy arrays, make others: wide registers, ends
    that overlap, whole cache lines of zeros. Here each access is one element of a `memoryview`, a load or a store of
    the element's size: words, and bytes in front of the first whole word and behind the last.
    """

    def __init__(self, mapped: mmap.mmap):
        self._bytes = memoryview(mapped)
        self._words = self._bytes[: len(mapped) // WORD_BYTES * WORD_BYTES].cast(WORD)

    def read(self, address: int, count: int) -> bytes:
        start, stop, end = _whole_words(address, count)
        words = array.array(WORD, self._words[start // WORD_BYTES : stop // WORD_BYTES].tolist())
        return (
            bytes(self._bytes[address:start].tolist())
            + words.tobytes()
            + bytes(self._bytes[stop:end].tolist())
        )

    def write(self, address: int, data: bytes) -> None:
        start, stop, end = _whole_words(address, len(data))
        for place in (*range(address, start), *range(stop, end)):
            self._bytes[place] = data[place - address]
        words = memoryview(data)[start - address : stop - address].cast(WORD)
        for index, word in enumerate(words, start // WORD_BYTES):
            self._words[index] = word

    def release(self) -> None:
        """Let the mapping be closed."""
        self._words.release()
        self._bytes.release()


def _whole_words(address: int, count: int) -> tuple[int, int, int]:
    """Where the whole words of these bytes begin and end, and where the bytes do."""
    end = address + count
    start = min(-(-address // WORD_BYTES) * WORD_BYTES, end)
    return start, max(start, end // WORD_BYTES * WORD_BYTES), end


class UioTransport(RegisterTransport):
    """Registers in the first mapping of a UIO device (`/dev/uio0`), data in a buffer that user space and the machine
    see alike (`/dev/udmabuf0` of u-dma-buf), whose bus address sysfs tells.

    The UIO device needs no driver of ours: `uio_pdrv_genirq` bound to the device-tree node of the control port. The
    buffer is opened with O_SYNC, which u-dma-buf maps uncached, so no cache has to be flushed; a coherent one is mapped
    cached. It may lie above 4 GiB where the machine's addresses do. Both files are locked:
    one process at a time has the machine. `clock_hz` is what the bitstream was made for; without it what the overlay's
    node tells, `clock-frequency`. `sysfs` is for tests.
    """

    reads_fast = True
    has_real_clock = True

    def __init__(self, device: str, memory: str, sysfs: pathlib.Path = SYSFS, clock_hz: int | None = None):
        self.name = f"uio://{device}"
        self._opened = contextlib.ExitStack()
        buffer = sysfs / "u-dma-buf" / pathlib.Path(memory).name
        base, size = self._number(buffer / "phys_addr"), self._number(buffer / "size")
        if base >> LEAST_ADDRESS_BITS != (base + size - 1) >> LEAST_ADDRESS_BITS:
            raise DeviceError(
                f"{self.name}: the buffer {memory}, {size} bytes at bus address 0x{base:x}, crosses a multiple of 4 GiB"
                ": put it into a reserved region that does not"
            )
        # What a port that is coherent writes is in the processor's caches, which an uncached mapping does not see.
        flags = 0 if self._coherent(buffer) else os.O_SYNC
        with contextlib.ExitStack() as opened:
            self._interrupts = self._open(opened, device)
            registers = self._map(opened, self._interrupts, REGISTER_BYTES, device)
            self._memory = self._map(opened, self._open(opened, memory, flags), size, memory)
            self._data = DeviceMemory(self._memory)
            opened.callback(self._data.release)
            self._words = opened.enter_context(memoryview(registers).cast("I"))
            self._set_high_base(memory, base, size)
            self._opened = opened.pop_all()
        # A plain file, as in tests, has no interrupts to wait for.
        self._has_interrupts = not os.path.isfile(device)
        if clock_hz is None:
            clock_hz = _overlay_clock_hz(sysfs / "uio" / pathlib.Path(device).name)
        self.identity = Identity("uio", base, size, clock_hz, 1 << 15)

    def _set_high_base(self, memory: str, base: int, size: int) -> None:
        """Tells the machine in which 4 GiB the buffer lies, or why it cannot be reached. A read of a register that is
        not there would end the process: so STATUS tells first."""
        high = base >> LEAST_ADDRESS_BITS
        if HIGH_BASE.extract(*self.read_registers(REGISTER["STATUS"].offset, 1)):
            offset = MEM_BASE_HIGH.offset
            self.write_register(offset, high)
            if self.read_registers(offset, 1) == [high]:
                return
        elif not high:
            return
        raise DeviceError(
            f"{self.name}: the buffer {memory} ends at bus address 0x{base + size:x}, which the machine does not reach"
            f": build it with address_bits={(base + size - 1).bit_length()}, or put the buffer into a reserved region "
            "below 4 GiB; or its window is locked to another one, then reset the machine"
        )

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
        return self._data.read(address, count)

    def write_memory(self, address: int, data: bytes) -> None:
        self._check(address, len(data), len(self._memory))
        self._data.write(address, data)

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

    def wait_for(self, cycles: int, seconds: float) -> None:
        if self._has_interrupts:
            self.wait(0)
        else:
            super().wait_for(cycles, seconds)

    def close(self) -> None:
        self._opened.close()

    def _open(self, opened: contextlib.ExitStack, path: str, flags: int = 0) -> int:
        try:
            file = os.open(path, os.O_RDWR | flags)
        except OSError as error:
            raise DeviceError(f"{self.name}: {path} cannot be opened: {error.strerror}") from None
        opened.callback(os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DeviceError(
                f"{self.name}: {path} is in use: close the session or end the process that has it, or share the device "
                "with `tosaic serve`"
            ) from None
        except OSError as error:
            raise DeviceError(f"{self.name}: {path} cannot be locked: {error.strerror}") from None
        return file

    def _map(self, opened: contextlib.ExitStack, file: int, size: int, path: str) -> mmap.mmap:
        try:
            return opened.enter_context(mmap.mmap(file, size))
        except (OSError, ValueError) as error:
            raise DeviceError(f"{self.name}: {path} cannot be mapped: {error}") from None

    def _number(self, path: pathlib.Path) -> int:
        try:
            return int(path.read_text().strip(), 0)
        except (OSError, ValueError):
            raise DeviceError(
                f"{self.name}: {path} does not tell the buffer's address: load u-dma-buf (udmabuf0=SIZE), "
                "or name the buffer with ?memory=/dev/NAME"
            ) from None

    def _coherent(self, buffer: pathlib.Path) -> bool:
        """Whether the device tree says that the machine's port sees the caches; no older u-dma-buf does."""
        try:
            return int((buffer / "dma_coherent").read_text().strip(), 0) == 1
        except (OSError, ValueError):
            return False

    def _check(self, address: int, count: int, size: int) -> None:
        if not 0 <= address <= size - count:
            raise DeviceError(f"{self.name}: {count} bytes at 0x{address:x} lie outside its {size} bytes")


def _overlay_clock_hz(uio: pathlib.Path) -> int:
    """`clock-frequency` of the device's node; 0 where it has none."""
    try:
        raw = (uio / "device" / "of_node" / "clock-frequency").read_bytes()
    except OSError:
        return 0
    return int.from_bytes(raw, "big") if len(raw) == 4 else 0
