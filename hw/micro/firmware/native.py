"""The firmware as a shared library of the machine it is built on: the same C, to be compared with the emulator."""

import ctypes
import dataclasses
import os
import pathlib
import subprocess
import tempfile

import numpy as np

from tosaic.hw.config import Config
from tosaic.hw.csr_map import REGISTER

from .header import machine_header

SOURCES = pathlib.Path(__file__).parent
MOVES_MAX = 1 << 24
"""Steps of units and sequencer after which a run is given up: a loop that does not end."""


@dataclasses.dataclass(frozen=True)
class NativeRun:
    """What a run came to."""

    done: bool
    """END was met; otherwise `code` and `unit` (0 if the run was given up) tell what stopped it."""
    code: int
    unit: int
    pc: int
    layers: tuple[int, ...]
    """Of the marks, in order; there is room for a few only."""


class NativeFirmware:
    """The firmware of `config`, compiled by the machine's C compiler (the environment's CC, else cc)."""

    def __init__(self, config: Config):
        self.config = config
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "machine.h").write_text(machine_header(config, native=True))
            compiler = [os.environ.get("CC", "cc"), "-O1", "-std=gnu11", "-fno-strict-aliasing", "-fwrapv"]
            options = ["-shared", "-fPIC", "-DNATIVE", f"-I{path}"]
            warnings = ["-Wall", "-Wextra", "-Werror"]
            library = path / "firmware.so"
            subprocess.run(
                [*compiler, *options, *warnings, str(SOURCES / "firmware.c"), "-o", str(library)], check=True
            )
            self._library = ctypes.CDLL(str(library))
        self._library.firmware_register.restype = ctypes.c_uint32

    def run(self, memory: np.ndarray, program_address: int, program_bytes: int) -> NativeRun:
        """Execute the program at `program_address` of `memory` (uint8, changed in place), with cleared memories."""
        if memory.dtype != np.uint8 or not memory.flags.c_contiguous or not memory.flags.writeable:
            raise ValueError("external memory must be a writable contiguous uint8 array")
        pointer = memory.ctypes.data_as(ctypes.c_void_p)
        done = self._library.firmware_run(pointer, memory.size, program_address, program_bytes, MOVES_MAX)
        error = REGISTER["ERROR"]
        value = self._register("ERROR")
        return NativeRun(
            bool(done),
            error.field("code").extract(value),
            error.field("unit").extract(value),
            self._register("PC"),
            tuple(self._layers()),
        )

    def _register(self, name: str) -> int:
        return self._library.firmware_register(REGISTER[name].offset)

    def _layers(self) -> list[int]:
        layers = []
        for index in range(self._register("MARK_COUNT")):
            self._library.firmware_mark(index)
            layers.append(self._register("MARK_LAYER"))
        return layers
