"""Files as views of memory: the bytes of a large one come as they are looked at, and may go again."""

import mmap
import os
import pathlib

import numpy as np

MAPPED_BYTES = 1 << 24
"""Smaller files are read at once: nothing is gained there, and they may be changed while they are in use."""
LARGE_BYTES = 1 << 16
"""Bytes of an array from which on it is worth while to let go of its memory."""


def contents(path: str | os.PathLike[str]) -> bytes | memoryview:
    """The bytes of a file; those of a large one are mapped into memory, so it must stay as it is while they are in use.

    OSError for what cannot be read."""
    with pathlib.Path(path).open("rb") as file:
        if os.fstat(file.fileno()).st_size < MAPPED_BYTES:
            return file.read()
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError):  # a file system without maps
            return file.read()


def let_go(view: np.ndarray | memoryview) -> None:
    """Frees the memory of the mapped file that an array is a view of: what is looked at again comes again. Other arrays
    stay as they are."""
    base: object = view
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
