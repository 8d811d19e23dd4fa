"""The inner loops are plain Python; when numba is installed (extra `nnr`) it compiles the same code.

Compiled loops take NumPy arrays, interpreted ones take lists and bytearrays: indexing a NumPy array from
the interpreter costs four times as much as indexing a list. `ints`, `zeros` and `octets` make the kind in use.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

try:
    import numba
except ImportError:
    COMPILED = False
else:
    # NUMBA_DISABLE_JIT=1 is numba's own switch to interpret everything.
    COMPILED = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]


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
