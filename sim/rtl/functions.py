"""The functions of harness.cpp, in a shared library of this process."""

import contextlib
import ctypes
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

HANDLE = ctypes.c_void_p
U8, U32, U64, I64 = ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64
SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "create": ([U32], HANDLE),
    "destroy": ([HANDLE], None),
    "reset": ([HANDLE], None),
    "set_memory": ([HANDLE, HANDLE, U64, U64], None),
    "set_timing": ([HANDLE, U32, U32, U32, U64], None),
    "set_interleaving": ([HANDLE, ctypes.c_bool], None),
    "set_errors": ([HANDLE, U64, U64], None),
    "control_read": ([HANDLE, U32], I64),
    "control_write": ([HANDLE, U32, U32], I64),
    "control_accesses": ([HANDLE, HANDLE, U64, HANDLE, U64, U32, U64], ctypes.c_bool),
    "run": ([HANDLE, U64], ctypes.c_int32),
    "cycle": ([HANDLE], U64),
    "beats_read": ([HANDLE], U64),
    "beats_written": ([HANDLE], U64),
    "violation": ([HANDLE], ctypes.c_int32),
}
"""Types of the arguments and of the result by name, without `tosaic_`."""


class Functions(Protocol):
    """The functions of harness.cpp, wherever they run, by their names there; addresses are of the place they run in."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The function of this name, with integers as arguments and result."""

    def share(self, memory: np.ndarray) -> int:
        """The address of `memory` (uint8, contiguous) for the machine; what either side writes the other one sees."""

    def lend(self, array: np.ndarray) -> contextlib.AbstractContextManager[int]:
        """The address of an array's bytes for calls within the context; what they change is in the array behind it."""


class NativeFunctions:
    """Those of a shared library. Calls release the GIL."""

    def __init__(self, library: pathlib.Path):
        self.library = ctypes.CDLL(str(library))
        for name, (arguments, result) in SIGNATURES.items():
            function = getattr(self.library, f"tosaic_{name}")
            function.argtypes, function.restype = arguments, result

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The library's own function."""
        return getattr(self.library, name)

    def share(self, memory: np.ndarray) -> int:
        """The array's own address; the caller keeps the array."""
        return memory.ctypes.data

    @contextlib.contextmanager
    def lend(self, array: np.ndarray) -> Iterator[int]:
        """The array's own address."""
        yield array.ctypes.data
