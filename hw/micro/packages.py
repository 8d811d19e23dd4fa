"""Packages that only this machine needs."""

import importlib.metadata
import importlib.util
import pathlib

from tosaic.hw.package_missing import PackageMissing

CORE = "pythondata-cpu-picorv32"
COMPILER = "ziglang"
EXTRA = "micro"


def find_package(name: str) -> pathlib.Path:
    """The folder of the package that pip calls `name`; PackageMissing where it is not installed."""
    found = importlib.util.find_spec(name.replace("-", "_"))
    if found is None or found.origin is None:
        raise PackageMissing(name, EXTRA)
    return pathlib.Path(found.origin).parent


def package_versions() -> tuple[str, ...]:
    """Of the core and of the compiler; PackageMissing where one of them is not installed."""
    for name in (CORE, COMPILER):
        find_package(name)
    return tuple(importlib.metadata.version(name) for name in (CORE, COMPILER))
