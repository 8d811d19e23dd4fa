"""Files as views of memory: the bytes of a large one come as they are looked at, and may go again."""

import mmap
import os
import pathlib

import numpy as np

MAPPED_BYTES = 1 << 24
"""Smaller files are read at once: nothing is gained there, and they may be changed while they are in use."""


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


def let_go(values: np.ndarray) -> None:
    """Frees the memory of an array that is a view of a mapped file until somebody looks at it again; other arrays stay
    as they are."""
    base: object = values
    while isinstance(base, np.ndarray):
        base = base.base
    mapped = base.obj if isinstance(base, memoryview) else None
    if not isinstance(mapped, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    start = values.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
    first, last = -(-start // mmap.PAGESIZE), (start + values.nbytes) // mmap.PAGESIZE
    if first < last:
        mapped.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)
