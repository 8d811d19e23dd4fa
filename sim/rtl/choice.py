"""Which library simulates a configuration: one in WebAssembly or one of this processor's own code."""

import os
import pathlib
import shutil

from tosaic.errors import InputError, UnsupportedError
from tosaic.hw.config import Config
from tosaic.install import install_command

from .build import native_toolchain, simulator_library
from .prebuilt import prebuilt
from .wasm_build import has_zig, wasm_library

VARIABLE = "TOSAIC_SIMULATOR"
"""The environment variable that chooses."""
NATIVE, WASM = "native", "wasm"


def machine_library(config: Config) -> pathlib.Path:
    """The simulator of a configuration: the wheel's own in WebAssembly, which is there at once; else one that the C++
    compiler builds, or where there is none, one in WebAssembly that the package ziglang builds.

    TOSAIC_SIMULATOR chooses `native` or `wasm`. All of them run the same cycles; docs/timing.md has their speeds."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", NATIVE, WASM):
        raise InputError(f"{VARIABLE}={wanted}: it is {NATIVE} or {WASM}, or not set")
    if wanted != NATIVE:
        if (found := prebuilt(config)) is not None:
            return found
        if wanted == WASM:
            return wasm_library(config)
        compiler = native_toolchain().command[0]
        if shutil.which(compiler) is None:
            if has_zig():
                return wasm_library(config)
            raise UnsupportedError(
                f"simulating the RTL of {config.name} needs a C++ compiler, and there is no {compiler}: install one, "
                f"or set CXX, or {install_command('zig')}; the target emulator needs nothing"
            )
    return simulator_library(config)
