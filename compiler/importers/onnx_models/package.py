"""The optional package `onnx`."""

from typing import Any

from tosaic.errors import UnsupportedError
from tosaic.install import install_command


def load_onnx_package() -> Any:
    """The module `onnx` with the parts the importer uses; UnsupportedError with the way to install it."""
    try:
        import onnx
        import onnx.checker
        import onnx.defs
        import onnx.helper
        import onnx.numpy_helper
        import onnx.reference
    except ImportError:
        raise UnsupportedError(f"ONNX models need the package onnx: {install_command('onnx')}") from None
    return onnx
