"""Which bytes a program may read: those that it has written, on every way to where it is, or was given.

What else a memory holds is what an earlier program left there: results would differ from run to run, and show it.
Bytes that are copied may be unknown, as the columns are that fill up the last words of weights which the machine makes,
if nobody looks at where they come to.
"""

import zlib
from collections.abc import Iterable, Mapping

import numpy as np

from .faults import Fault

_WRITTEN = "written"
"""Flags of external memory: something was written there, which may have been unknown."""
_PART = 1 << 17
"""Flags that are packed together: of those that no piece of a program changes there is one copy."""
Packed = tuple[bytes, ...]
"""Flags of all memories, part by part."""


class Known:
    """A flag for each byte of the memories; `sizes`: bytes of each by name, `external`: which is the external one, of
    which the bytes `given` are known at first. Bytes of its `scratch` are those that nobody looks at when the program
    has ended. Both: bool, for each byte."""

    def __init__(self, sizes: Mapping[str, int], external: str, given: np.ndarray, scratch: np.ndarray):
        self._sizes = {**sizes, _WRITTEN: sizes[external]}
        self._external, self._scratch = external, scratch
        self._bytes = {name: np.zeros(size, bool) for name, size in self._sizes.items()}
        self._bytes[external][:] = self._bytes[_WRITTEN][:] = given
        self._first_part: dict[str, int] = {}
        self._parts: list[np.ndarray] = []
        for name, flags in self._bytes.items():
            self._first_part[name] = len(self._parts)
            self._parts += [flags[start : start + _PART] for start in range(0, flags.size, _PART)]
        self._packed: list[bytes] = [b""] * len(self._parts)
        self._changed = set(range(len(self._parts)))
        """Parts that `_packed` has not as they are."""
        self.moved = 0
        """Flags that were packed and unpacked so far."""
        self._watched: dict[str, np.ndarray] = {}
        self._touched: set[int] = set()

    def of(self, name: str) -> np.ndarray:
        """The flags of a memory, not to be changed."""
        return self._bytes[name]

    def read(self, name: str, addresses: np.ndarray) -> None:
        """Fault unless all these bytes of a memory are known."""
        known = self._bytes[name][addresses]
        if not known.all():
            raise unknown(name, int(addresses[~known].min()))

    def write(self, name: str, addresses: np.ndarray) -> None:
        """These bytes are known from now on."""
        self._bytes[name][addresses] = True
        self._change(name, addresses)
        self._touch(name, addresses)

    def copy(self, source: str, addresses: np.ndarray, target: str, places: np.ndarray) -> None:
        """Bytes of one memory go to places of another, which are as known as they were. Fault where nothing was ever
        written, or where somebody may look at what is unknown."""
        known = self._bytes[source][addresses]
        if not known.all():
            if source == self._external:
                self.read(_WRITTEN, addresses)
            if target == self._external and not self._scratch[places[~known]].all():
                raise unknown(source, int(addresses[~known][~self._scratch[places[~known]]].min()))
        self._bytes[target][places] = known
        self._change(target, places)
        self._touch(target, places)

    def _touch(self, name: str, addresses: np.ndarray) -> None:
        if name == self._external:
            self._bytes[_WRITTEN][addresses] = True
            self._change(_WRITTEN, addresses)
        watched = self._watched.get(name)
        if watched is not None:
            self._touched.update(addresses[watched[addresses]].tolist())

    def watch(self, name: str, addresses: Iterable[int]) -> None:
        """Writes to these bytes of one memory are to be told by `touched`."""
        flags = np.zeros(self._sizes[name], bool)
        flags[list(addresses)] = True
        self._watched = {name: flags}

    def touched(self) -> set[int]:
        """Returns those of the watched bytes that were written since the last call."""
        found, self._touched = self._touched, set()
        return found

    def _change(self, name: str, addresses: np.ndarray) -> None:
        """Notes which parts hold these flags, or flags between them."""
        if addresses.size:
            first, last = (int(each) // _PART for each in (addresses.min(), addresses.max()))
            self._changed.update(range(self._first_part[name] + first, self._first_part[name] + last + 1))

    def packed(self) -> Packed:
        """Small, and equal for equal flags."""
        for number in self._changed:
            flags = self._parts[number]
            packed = zlib.compress(np.packbits(flags).tobytes(), 1)
            if packed != self._packed[number]:
                self._packed[number] = packed
            self.moved += flags.size
        self._changed.clear()
        return tuple(self._packed)

    def unpack(self, packed: Packed) -> None:
        """Take the flags that another one packed."""
        for number, (wanted, flags) in enumerate(zip(packed, self._parts, strict=True)):
            if number in self._changed or wanted is not self._packed[number]:
                flags[:] = np.unpackbits(np.frombuffer(zlib.decompress(wanted), np.uint8), count=flags.size)
                self.moved += flags.size
        self._packed[:] = packed
        self._changed.clear()


def unknown(name: str, address: int, before: str = "") -> Fault:
    """Returns the fault of a read of this byte; `before` begins its sentence."""
    name = "external memory" if name == _WRITTEN else name
    return Fault(
        None,
        f"{before}reads byte {address} of the {name}, which nothing has written: an earlier program left it",
    )


def both(one: Packed, other: Packed) -> Packed:
    """Returns what is known whichever of two ways was taken."""
    return tuple(a if a == b else _both(a, b) for a, b in zip(one, other, strict=True))


def _both(one: bytes, other: bytes) -> bytes:
    first, second = (np.frombuffer(zlib.decompress(each), np.uint8) for each in (one, other))
    return zlib.compress((first & second).tobytes(), 1)
