"""The functions of harness.cpp in WebAssembly, run by wasmtime."""

import contextlib
import ctypes
import functools
import hashlib
import importlib.metadata
import lzma
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import wasmtime

from tosaic.errors import DeviceError

from .cache import cached
from .functions import SIGNATURES

CLOCKED = frozenset(f"tosaic_{name}" for name in ("control_read", "control_write", "control_accesses", "run"))
"""Functions in which the machine is clocked, and so may read or write the memory that it shares."""


class WasmFunctions:
    """Those of a new instance of a module. Calls release the GIL."""

    def __init__(self, library: pathlib.Path):
        engine, module = _loaded(library)
        self._store = wasmtime.Store(engine)
        self._store.set_wasi(wasmtime.WasiConfig())
        linker = wasmtime.Linker(engine)
        linker.define_wasi()
        self._exports = linker.instantiate(self._store, module).exports(self._store)
        memory = self._exports["memory"]
        assert isinstance(memory, wasmtime.Memory)
        self._memory = memory
        self._shared: tuple[np.ndarray, int] | None = None
        self._call("_initialize")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The function of this name, with Python's integers."""
        arguments, result = SIGNATURES[name.removeprefix("tosaic_")]

        def call(*values: int) -> int | None:
            with self._together() if name in CLOCKED else contextlib.nullcontext():
                found = self._call(name, *map(_signed, arguments, values))
            return None if result is None else result(found).value

        return call

    def share(self, memory: np.ndarray) -> int:
        """The address of a copy, which equals the array before and after each call that clocks the machine."""
        if self._shared is not None:
            self._call("free", self._shared[1])
        self._shared = memory, self._allocate(memory.size)
        return self._shared[1]

    @contextlib.contextmanager
    def lend(self, array: np.ndarray) -> Iterator[int]:
        """The address of a copy, which is copied back at the end."""
        content = array.view(np.uint8)
        address = self._allocate(content.size)
        try:
            self._bytes(address, content.size)[:] = content
            yield address
            content[:] = self._bytes(address, content.size)
        finally:
            self._call("free", address)

    @contextlib.contextmanager
    def _together(self) -> Iterator[None]:
        if self._shared is None:
            yield
            return
        memory, address = self._shared
        self._bytes(address, memory.size)[:] = memory
        yield
        memory[:] = self._bytes(address, memory.size)

    def _allocate(self, size: int) -> int:
        address = self._call("malloc", _signed(ctypes.c_uint32, size)) if size < 1 << 32 else 0
        if not address:
            raise DeviceError(
                f"the simulator in WebAssembly has no room for {size} bytes of memory: set TOSAIC_SIMULATOR=native, "
                "which needs a C++ compiler"
            )
        return ctypes.c_uint32(address).value

    def _call(self, name: str, *values: int) -> Any:
        function = self._exports[name]
        assert isinstance(function, wasmtime.Func)
        return function(self._store, *values)

    def _bytes(self, address: int, size: int) -> np.ndarray:
        """A view of the module's memory, valid until that grows."""
        start = ctypes.addressof(self._memory.data_ptr(self._store).contents)
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start + address))


def _signed(kind: Any, value: int) -> int:
    """An argument of a C type as WebAssembly has it: its integers of 32 and 64 bits are signed."""
    bits = 64 if kind in (ctypes.c_uint64, ctypes.c_int64) else 32
    return (int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


@functools.cache
def _loaded(library: pathlib.Path) -> tuple[wasmtime.Engine, wasmtime.Module]:
    """The module, in the machine code of this processor, which the cache keeps."""
    engine = wasmtime.Engine()
    content = library.read_bytes()
    if library.suffix == ".xz":
        content = lzma.decompress(content)
    key = hashlib.sha256(content + importlib.metadata.version("wasmtime").encode()).hexdigest()[:20]

    def make(path: pathlib.Path) -> None:
        path.write_bytes(wasmtime.Module(engine, content).serialize())

    compiled = cached("wasm", library.stem.partition("-")[0], key, ".cwasm", make)
    return engine, wasmtime.Module.deserialize_file(engine, str(compiled))
