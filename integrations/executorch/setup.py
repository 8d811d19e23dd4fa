"""Builds the wheel's library; everything else of the package is in pyproject.toml."""

import importlib.util
import pathlib

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PACKAGE = pathlib.Path(__file__).parent / "src" / "tosaic_executorch"


def building():
    """The package's own module that calls the compilers, without the package, which needs torch."""
    found = importlib.util.spec_from_file_location("building", PACKAGE / "building.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


class BuildLibrary(build_ext):
    """One shared library without Python's interface: ExecuTorch's runtime finds it when it is loaded."""

    def get_ext_filename(self, fullname):
        return building().LIBRARY

    def build_extension(self, ext):
        target = pathlib.Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        building().build_library(target)


setup(
    ext_modules=[Extension("tosaic_executorch.library", ["src/tosaic_executorch/backend.cpp"])],
    cmdclass={"build_ext": BuildLibrary},
)
