"""Simulators in WebAssembly that a wheel brings: of the named configurations, compressed by xz."""

import functools
import hashlib
import lzma
import pathlib

import tosaic.hw
from tosaic.hw.config import CONFIGS, Config

from .build import HERE
from .library import WASM_SUFFIXES
from .wasm_build import wasm_library

FOLDER = pathlib.Path(__file__).parent / "prebuilt"
SUFFIX = WASM_SUFFIXES[1]


def prebuilt(config: Config) -> pathlib.Path | None:
    """The simulator of a configuration as the wheel brings it; None where it has none of exactly these sources."""
    if not FOLDER.is_dir() or config not in CONFIGS.values():
        return None
    path = FOLDER / _file_name(config)
    return path if path.exists() else None


def write_prebuilt(folder: pathlib.Path) -> list[pathlib.Path]:
    """Builds those of all named configurations into a folder, and returns them."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / _file_name(config) for config in CONFIGS.values()]
    for config, path in zip(CONFIGS.values(), made, strict=True):
        path.write_bytes(lzma.compress(wasm_library(config).read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    return made


def _file_name(config: Config) -> str:
    """A name for these sources and this configuration: what has been edited since finds no file."""
    digest = hashlib.sha256(repr(config).encode() + _sources())
    return f"{config.name}-{digest.hexdigest()[:20]}{SUFFIX}"


@functools.cache
def _sources() -> bytes:
    """A digest of the sources of hardware and simulator."""
    digest = hashlib.sha256()
    for root in (pathlib.Path(tosaic.hw.__path__[0]), HERE):
        files = (path for path in root.rglob("*") if path.suffix in (".py", ".c", ".cpp", ".h", ".v"))
        for path in sorted(files):
            digest.update(f"\0{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.digest()
