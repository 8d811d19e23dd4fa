"""How much memory an import may take beside what its file holds: a small file must not become large."""

import weakref

import numpy as np

from tosaic.errors import UnsupportedError

FREE_BYTES = 64 << 20
"""Arrays that any import may make."""
STORED_FACTOR = 4
"""Bytes of memory allowed for each byte of the file."""
MAX_OPERATORS = 1 << 16
"""TOSA operators of one import; each takes about 1.5 KiB."""
MAX_TRIPS = 4096
"""Loops that run longer are not unrolled."""
MAX_LOOPED = 1 << 16
"""The source's operators inside loops that are executed: unrolled loops multiply when they are nested."""


class TooLargeError(UnsupportedError):
    """What is asked for is larger than the allowance; an importer puts its operator's name in front."""


class Allowance:
    """Counts the bytes of arrays that an import makes, as long as they are in use.

    At most 64 MiB, and four times what the file holds: its bytes, where numbers of fewer than 32 bits count as
    float32. Views of the file's own bytes, and of arrays that are counted already, are free.
    """

    def __init__(self, file_bytes: int) -> None:
        self.limit_bytes = FREE_BYTES + STORED_FACTOR * file_bytes
        self.used_bytes = 0
        self._encoded_bytes = file_bytes
        self._counted: dict[int, weakref.ref[np.ndarray]] = {}

    def decoded(self, array: np.ndarray, encoded_bytes: int) -> np.ndarray:
        """Count `array`, which `encoded_bytes` of the file have become, and give room for it, each byte once."""
        if encoded_bytes <= self._encoded_bytes:
            self._encoded_bytes -= encoded_bytes
            self.limit_bytes += STORED_FACTOR * max(array.nbytes - encoded_bytes, 0)
        return self.hold(array)

    def check(self, size_bytes: int, what: str = "a constant") -> None:
        """Raises TooLargeError if there is no room for an array of this size."""
        if self.used_bytes + size_bytes > self.limit_bytes:
            raise TooLargeError(
                f"{what} would take {_mebibytes(size_bytes)}, beside {_mebibytes(self.used_bytes)} of other constants "
                f"that are not in the file; at most {_mebibytes(self.limit_bytes)} are made for a file of this size: "
                "make its sizes smaller"
            )

    def hold(self, array: np.ndarray, what: str = "a constant") -> np.ndarray:
        """The array, counted until it is gone. TooLargeError when that is too much."""
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        known = self._counted.get(id(root))
        if root.base is not None or (known is not None and known() is root):
            return array
        self.check(root.nbytes, what)
        self.used_bytes += root.nbytes
        self._counted[id(root)] = weakref.ref(root)
        weakref.finalize(root, self._release, id(root), root.nbytes).atexit = False
        return array

    def _release(self, key: int, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        self._counted.pop(key, None)


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MiB"
