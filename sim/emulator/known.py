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


class Known:
    """A flag for each byte of the memories; `sizes`: bytes of each by name, `external`: which is the external one, of
    which the bytes `given` are known at first. Bytes of its `scratch` are those that nobody looks at when the program
    has ended. Both: bool, for each byte."""

    def __init__(self, sizes: Mapping[str, int], external: str, given: np.ndarray, scratch: np.ndarray):
        self._sizes = {**sizes, _WRITTEN: sizes[external]}
        self._external, self._scratch = external, scratch
        self._bytes = {name: np.zeros(size, bool) for name, size in self._sizes.items()}
        self._bytes[external][:] = self._bytes[_WRITTEN][:] = given
        self._watched: dict[str, np.ndarray] = {}
        self._touched: set[int] = set()

    def of(self, name: str) -> np.ndarray:
        """The flags of a memory, not to be changed."""
        return self._bytes[name]

    @property
    def size(self) -> int:
        """Flags in all."""
        return sum(self._sizes.values())

    def read(self, name: str, addresses: np.ndarray) -> None:
        """Fault unless all these bytes of a memory are known."""
        known = self._bytes[name][addresses]
        if not known.all():
            raise unknown(name, int(addresses[~known].min()))

    def write(self, name: str, addresses: np.ndarray) -> None:
        """These bytes are known from now on."""
        self._bytes[name][addresses] = True
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
        self._touch(target, places)

    def _touch(self, name: str, addresses: np.ndarray) -> None:
        if name == self._external:
            self._bytes[_WRITTEN][addresses] = True
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

    def packed(self) -> bytes:
        """Small, and equal for equal flags."""
        return zlib.compress(np.packbits(np.concatenate([*self._bytes.values()])).tobytes(), 1)

    def unpack(self, packed: bytes) -> None:
        """Take the flags that another one packed."""
        flags = np.unpackbits(np.frombuffer(zlib.decompress(packed), np.uint8)).view(bool)
        start = 0
        for name, size in self._sizes.items():
            self._bytes[name] = flags[start : start + size]
            start += size


def unknown(name: str, address: int, before: str = "") -> Fault:
    """Returns the fault of a read of this byte; `before` begins its sentence."""
    name = "external memory" if name == _WRITTEN else name
    return Fault(
        None,
        f"{before}reads byte {address} of the {name}, which nothing has written: an earlier program left it",
    )


def both(one: bytes, other: bytes) -> bytes:
    """Returns what is known whichever of two ways was taken, as packed flags."""
    if one == other:
        return one
    first, second = (np.frombuffer(zlib.decompress(each), np.uint8) for each in (one, other))
    return zlib.compress((first & second).tobytes(), 1)
