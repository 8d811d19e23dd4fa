"""Compiles the delegate's library: against ExecuTorch's wheel, with the sources of Tosaic's C kit."""

import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import subprocess
import tempfile

from tosaic.driver.c_kit.desk_kit import DESK
from tosaic.driver.c_kit.folder import REGISTERS, SOURCES
from tosaic.hw.config import CONFIGS
from tosaic.hw.csr_export import csr_c_header

LIBRARY = "libtosaic_executorch.so"
SOURCE = pathlib.Path(__file__).parent / "backend.cpp"


class BuildError(Exception):
    """A compiler refused something; the message is its first line."""


def executorch_folder() -> pathlib.Path:
    """Where ExecuTorch's wheel is installed."""
    found = importlib.util.find_spec("executorch")
    if found is None or not found.submodule_search_locations:
        raise BuildError("the package executorch is missing: pip install executorch==1.5.1")
    return pathlib.Path(next(iter(found.submodule_search_locations)))


def sources_digest() -> str:
    """A hash of what the library is made of."""
    digest = hashlib.sha256(importlib.metadata.version("executorch").encode())
    for path in (
        SOURCE,
        pathlib.Path(__file__),
        *sorted(SOURCES.glob("*.[ch]")),
        *sorted(DESK.glob("*.[ch]")),
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def build_library(target: pathlib.Path) -> None:
    """Writes the library to `target`, which is to lie in a package beside ExecuTorch's. BuildError."""
    executorch = executorch_folder()
    headers = executorch / "include"
    includes = [headers, headers / "executorch" / "runtime" / "core" / "portable_type" / "c10", SOURCES, DESK]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # Of any configuration: what the kit takes of it is the same in all.
        (folder / REGISTERS).write_text(csr_c_header(next(iter(CONFIGS.values()))))
        flags = ["-O2", "-fPIC", "-fvisibility=hidden", *(f"-I{path}" for path in (folder, *includes))]
        objects = []
        for source in (SOURCES / "tosaic.c", *sorted(DESK.glob("*.c"))):
            objects.append(str(folder / f"{source.stem}.o"))
            _call([*_compiler("CC", "cc"), "-std=c99", *flags, "-c", str(source), "-o", objects[-1]])
        objects.append(str(folder / "backend.o"))
        defines = ["-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED"]
        cxx = _compiler("CXX", "c++")
        _call([*cxx, "-std=c++17", *defines, *flags, "-c", str(SOURCE), "-o", objects[-1]])
        libraries = [f"-L{executorch / 'lib'}", "-lexecutorch", "-ldl"]
        beside = "-Wl,-rpath,$ORIGIN/../executorch/lib"
        _call([*cxx, "-shared", *objects, *libraries, beside, "-o", str(target)])


def _compiler(variable: str, default: str) -> list[str]:
    return os.environ.get(variable, default).split()


def _call(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError(
            f"{command[0]} is not there: install a C and C++ compiler, or set CC and CXX"
        ) from None
    if done.returncode:
        lines = done.stderr.splitlines() or [f"exit code {done.returncode}"]
        raise BuildError(next((line for line in lines if "error" in line), lines[0]))
