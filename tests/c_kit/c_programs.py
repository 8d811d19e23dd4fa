"""The C kit compiled by the machine's compiler and loaded into this process, on the accelerator's RTL."""

import ctypes
import os
import pathlib
import subprocess

import numpy as np

from tosaic.compiler.program import Program
from tosaic.driver.c_kit import write_c_kit

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
CC = os.environ.get("CC", "cc").split()
HOST = pathlib.Path(__file__).parent / "host.c"
U32, POINTER = ctypes.c_uint32, ctypes.c_void_p
CALLBACKS = (
    ctypes.CFUNCTYPE(U32, POINTER, U32),
    ctypes.CFUNCTYPE(None, POINTER, U32, U32),
    ctypes.CFUNCTYPE(None, POINTER, U32, POINTER, U32),
    ctypes.CFUNCTYPE(None, POINTER, U32, POINTER, U32),
    ctypes.CFUNCTYPE(ctypes.c_int, POINTER),
)


def run(command: list[str], folder: pathlib.Path, **more) -> subprocess.CompletedProcess:
    """Runs it; the assertion shows what it says when it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, **more)
    assert done.returncode == 0, done.stderr.decode()
    return done


def build_host(folder: pathlib.Path, programs: dict[str, Program]) -> ctypes.CDLL:
    """The library of host.c, with these programs in this order."""
    for name, program in programs.items():
        write_c_kit(folder / f"{name}.c", program, {})
    includes = "".join(f'#include "{name}.h"\n' for name in programs)
    (folder / "models.h").write_text(includes)
    table = ",".join(f"&{name}_program" for name in programs)
    sources = [str(HOST), "tosaic.c", *(f"{name}.c" for name in programs)]
    command = [
        *CC,
        *STRICT,
        "-O1",
        "-shared",
        "-fPIC",
        "-I.",
        f"-DPROGRAMS={table}",
        *sources,
        "-o",
        "host.so",
    ]
    run(command, folder)
    library = ctypes.CDLL(str(folder / "host.so"))
    for name in ("tosaic_result_name", "tosaic_result_text", "tosaic_fault_name", "tosaic_unit_name"):
        getattr(library, name).restype = ctypes.c_char_p
    library.tosaic_decode_fault_name.restype = ctypes.c_char_p
    library.host_cycles.restype = ctypes.c_uint64
    library.host_counter.restype = U32
    library.host_fault.restype = ctypes.POINTER(U32)
    for name in ("host_run", "host_poll"):
        getattr(library, name).argtypes = [ctypes.c_uint64]
    return library


class Host:
    """The C program on a transport. Results are names; `waits` counts how often the C program waited."""

    def __init__(self, library: ctypes.CDLL, transport, *, base=None, memory_bytes=None, wait=True):
        self.library, self.waits, self.give_up_after, self.after_wait = library, 0, None, None
        self.transport = transport
        self.registers: dict[int, int] = {}
        """Values that reads of registers give instead of the machine's, by offset."""
        functions = (
            self._read_register,
            self._write_register,
            self._read_memory,
            self._write_memory,
            self._wait,
        )
        self._callbacks = [kind(function) for kind, function in zip(CALLBACKS, functions, strict=True)]
        if not wait:
            self._callbacks[-1] = CALLBACKS[-1](0)
        base = transport.identity.memory_base if base is None else base
        library.host_port(
            ctypes.c_uint64(base), memory_bytes or transport.identity.memory_bytes, *self._callbacks
        )

    def call(self, name: str, *arguments) -> str:
        """The result's name."""
        return self.library.tosaic_result_name(getattr(self.library, f"host_{name}")(*arguments)).decode()

    def fault(self) -> tuple[str, str, int]:
        """Code, unit and program counter of the last failure."""
        code, unit, pc = self.library.host_fault()[:3]
        names = self.library
        return names.tosaic_fault_name(code).decode(), names.tosaic_unit_name(unit).decode(), pc

    def write(self, program: int, index: int, value: np.ndarray) -> str:
        return self.call("write", program, index, np.ascontiguousarray(value).ctypes.data_as(POINTER))

    def read(self, program: int, index: int, like: np.ndarray, what: str = "read") -> np.ndarray:
        """An output, in the shape and type of `like`."""
        found = np.empty_like(like)
        assert self.call(what, program, index, found.ctypes.data_as(POINTER)) == "OK"
        return found

    def _read_register(self, context, offset):
        (value,) = self.transport.read_registers(offset, 1)
        return self.registers.get(offset, value)

    def _write_register(self, context, offset, value):
        self.transport.write_register(offset, value)

    def _read_memory(self, context, address, to, count):
        ctypes.memmove(to, self.transport.read_memory(address, count), count)

    def _write_memory(self, context, address, data, count):
        self.transport.write_memory(address, ctypes.string_at(data, count) if data else bytes(count))

    def _wait(self, context):
        self.waits += 1
        self.transport.wait(0)
        if self.after_wait is not None and self.after_wait():
            return True
        return self.give_up_after is not None and self.waits >= self.give_up_after
