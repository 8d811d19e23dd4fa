"""The inner loops are plain Python; when numba is installed (extra `nnr`) it compiles the same code.

Importing numba takes half a second, so only the modules with loops do it; they are imported when a tensor is coded.

Compiled loops take NumPy arrays, interpreted ones take lists and bytearrays: indexing a NumPy array from
the interpreter costs four times as much as indexing a list. `ints`, `zeros` and `octets` make the kind in use.
"""

import importlib.util
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

# NUMBA_DISABLE_JIT=1 is numba's own switch to interpret everything.
COMPILED = importlib.util.find_spec("numba") is not None and os.environ.get("NUMBA_DISABLE_JIT", "0") in (
    "",
    "0",
)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` at its first call, or leave it as it is.

    The compiled code is cached beside the source. numba notices a change of the file a function is in, but not
    of the files it calls into: a kernel and its helpers therefore live in one file.
    """
    return _compiled(function)


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function that kernels call: copied into them, which decodes a third faster than a call."""
    return _compiled(function, inline="always")


def _compiled(function: Callable[..., Any], **options: str) -> Callable[..., Any]:
    if not COMPILED:
        return function
    import numba

    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[call-overload]
    except RuntimeError:
        # No folder to keep the cache in: compile once per process.
        return numba.njit(**options)(function)  # type: ignore[call-overload]


def ints(values: Iterable[int]) -> Any:
    """A table or a row of levels, for a kernel to read."""
    return np.array(list(values), np.int64) if COMPILED else list(values)


def zeros(count: int) -> Any:
    """`count` integers, all 0, for a kernel to write."""
    return np.zeros(count, np.int64) if COMPILED else [0] * count


def octets(data: bytes, length_bytes: int) -> Any:
    """`data` followed by zeros up to `length_bytes`."""
    padded = bytearray(length_bytes)
    padded[: len(data)] = data
    return np.frombuffer(padded, np.uint8) if COMPILED else padded
