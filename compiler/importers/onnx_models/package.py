"""The optional package `onnx`."""

from typing import Any

from tosaic.errors import UnsupportedError


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
        raise UnsupportedError("ONNX models need the package onnx: pip install 'tosaic[onnx]'") from None
    return onnx
