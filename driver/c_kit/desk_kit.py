"""The C kit for a desk: headers, libraries, and what pkg-config and CMake find them by, under one prefix."""

import importlib.metadata
import os
import pathlib
import shutil
import subprocess
from collections.abc import Sequence

from tosaic.driver.replacing import replacing
from tosaic.errors import Error
from tosaic.hw.config import CONFIGS, Config
from tosaic.hw.csr_export import csr_c_header

from .folder import REGISTERS, SOURCES
from .names import c_identifier

DESK = SOURCES / "desk"
_LIBRARY_SOURCES = (
    SOURCES / "tosaic.c",
    SOURCES / "tosaic_mapped.c",
    SOURCES / "tosaic_uio.c",
    *sorted(DESK.glob("*.c")),
)
_HEADERS = (*sorted(SOURCES.glob("*.h")), DESK / "tosaic_link.h")
LIBRARY = "libtosaic.so"
_PKG_CONFIG = """\
prefix=${{pcfiledir}}/../..
includedir=${{prefix}}/include
libdir=${{prefix}}/lib

Name: tosaic
Description: Runs compiled models on the Tosaic NPU: on a board server, a board on Ethernet, or the simulator
Version: {version}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -Wl,-rpath,${{libdir}} -ltosaic
"""
_CMAKE = """\
# find_package(tosaic) gives the target tosaic::tosaic.
get_filename_component(_tosaic_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET tosaic::tosaic)
  add_library(tosaic::tosaic SHARED IMPORTED)
  set_target_properties(tosaic::tosaic PROPERTIES
    IMPORTED_LOCATION "${_tosaic_prefix}/lib/libtosaic.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_tosaic_prefix}/include")
endif()
unset(_tosaic_prefix)
"""
_CMAKE_VERSION = """\
set(PACKAGE_VERSION "{version}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"""


def simulator_name(config: Config) -> str:
    """The file name of a configuration's simulator, which the address sim://NAME opens."""
    return f"libtosaic_sim_{c_identifier(config.name)}.so"


def install_desk_kit(prefix: pathlib.Path, simulators: Sequence[Config]) -> list[pathlib.Path]:
    """Writes the kit under `prefix`, and the RTL of each configuration as a library; what was written.

    A simulator that is not in the cache is built, which takes a minute or so. Raises Error with what the compiler says,
    OSError.
    """
    folders = {name: prefix / name for name in ("include", "lib", "lib/pkgconfig", "lib/cmake/tosaic")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    texts = {folders["include"] / path.name: path.read_text() for path in _HEADERS}
    any_config = simulators[0] if simulators else next(iter(CONFIGS.values()))
    texts[folders["include"] / REGISTERS] = csr_c_header(any_config)
    version = importlib.metadata.version("tosaic")
    texts[folders["lib/pkgconfig"] / "tosaic.pc"] = _PKG_CONFIG.format(version=version)
    texts[folders["lib/cmake/tosaic"] / "tosaic-config.cmake"] = _CMAKE
    texts[folders["lib/cmake/tosaic"] / "tosaic-config-version.cmake"] = _CMAKE_VERSION.format(
        version=version
    )
    for path, text in texts.items():
        with replacing(path) as scratch:
            scratch.write_text(text)
    libraries = [folders["lib"] / LIBRARY]
    with replacing(libraries[0]) as scratch:
        _compile_library(folders["include"], scratch)
    for config in simulators:
        libraries.append(folders["lib"] / simulator_name(config))
        _copy_simulator(config, libraries[-1])
    return [*texts, *libraries]


def _compile_library(include: pathlib.Path, library: pathlib.Path) -> None:
    command = [
        *os.environ.get("CC", "cc").split(),
        *("-std=c99", "-O2", "-fPIC", "-shared", f"-Wl,-soname,{LIBRARY}", f"-I{include}", f"-I{DESK}"),
        *map(str, _LIBRARY_SOURCES),
        *("-ldl", "-o", str(library)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Error(
            f"the C kit needs {command[0]}, which is not there; install a C compiler or set CC"
        ) from None
    if done.returncode:
        lines = done.stderr.splitlines() or [f"exit code {done.returncode}"]
        said = next((line for line in lines if "error" in line), lines[0])
        raise Error(f"building {LIBRARY} failed in {command[0]}: {said}")


def _copy_simulator(config: Config, library: pathlib.Path) -> None:
    from tosaic.sim.rtl.build import simulator_library

    with replacing(library) as scratch:
        shutil.copyfile(simulator_library(config), scratch)
