"""The bench's external memory: a window with guard bytes on both sides, and faults on request."""

import numpy as np

MEM_BASE = 0x1000_0000
"""Where external memory lies on the bus; anything but 0 shows a forgotten base."""
GUARD_BYTES = 8192


class BusFault(Exception):
    """Answered with SLVERR."""


class GuardedMemory:
    """Target of an AxiSlave. `window` is the memory window at bus address MEM_BASE, changed in place.

    Writes next to the window go into guard bytes, so that `damage` can name them; reads there and accesses further away
    are answered with SLVERR and noted in `strays`. `read_errors` and `write_errors` hold bus addresses of beats to
    answer with SLVERR, too.
    """

    def __init__(self, window: np.ndarray, bus_bytes: int):
        self.window = window
        # Beats are whole: the last one may reach over the window's end.
        self._reach = -(-len(window) // bus_bytes) * bus_bytes
        guard = np.random.default_rng(len(window)).integers(0, 256, GUARD_BYTES).astype(np.uint8)
        self._bytes = np.concatenate([guard, window, guard])
        self._before = self._bytes.copy()
        self._bus_bytes = bus_bytes
        self.strays: list[str] = []
        self.read_errors: set[int] = set()
        self.write_errors: set[int] = set()

    async def read(self, address: int, length: int) -> bytes:
        """A beat's bytes; called by the AXI model."""
        offset = address - MEM_BASE
        if address in self.read_errors:
            raise BusFault
        if not 0 <= offset <= self._reach - length:
            self.strays.append(f"read of {length} bytes at window offset {offset}")
            raise BusFault
        start = GUARD_BYTES + offset
        return self._bytes[start : start + length].tobytes()

    async def write(self, address: int, data: bytes) -> None:
        """The written bytes of a beat, or of a part of it; called by the AXI model."""
        offset = address - MEM_BASE
        if address // self._bus_bytes * self._bus_bytes in self.write_errors:
            raise BusFault
        start = GUARD_BYTES + offset
        if not 0 <= start <= len(self._bytes) - len(data):
            self.strays.append(f"write of {len(data)} bytes at window offset {offset}")
            raise BusFault
        self._bytes[start : start + len(data)] = np.frombuffer(data, np.uint8)
        inside = slice(max(offset, 0), max(offset + len(data), 0))
        self.window[inside] = self._bytes[GUARD_BYTES : GUARD_BYTES + len(self.window)][inside]

    def refresh(self) -> None:
        """Take over what the bench itself wrote into `window`."""
        self._bytes[GUARD_BYTES : GUARD_BYTES + len(self.window)] = self.window

    def damage(self) -> list[str]:
        """Accesses that do not belong there, and guard bytes that changed."""
        changed = np.flatnonzero(self._bytes != self._before) - GUARD_BYTES
        outside = changed[(changed < 0) | (changed >= len(self.window))]
        return self.strays + [f"write over the guard byte at window offset {offset}" for offset in outside]
