"""Opens what users hand in: a TOSA file or a compiled program."""

import pathlib

from tosaic.compiler.ir import Graph, read_tosa
from tosaic.compiler.ir.errors import InputError, ModelError, UnsupportedError
from tosaic.compiler.program import Program

_LATER = {
    ".onnx": "ONNX models",
    ".nnef": "NNEF models",
    ".mlmodel": "Core ML models",
    ".tflite": "TFLite models",
    ".nnr": "NNR bitstreams",
}


def open_model(source: "str | pathlib.Path | Graph | Program") -> Graph | Program:
    """The graph or program in a file (`.tosa`, `.tsc`), or the object itself.

    InputError when there is no such file, UnsupportedError for a format that has no importer, ModelError for a
    damaged file.
    """
    if isinstance(source, Graph | Program):
        return source
    path = pathlib.Path(source)
    if path.suffix in _LATER:
        raise UnsupportedError(
            f"{path.name}: {_LATER[path.suffix]} cannot be imported yet; convert the model to .tosa"
        )
    if not path.is_file():
        reason = "it is a directory" if path.is_dir() else "there is no such file"
        raise InputError(f"{path}: cannot be read: {reason}; give a .tosa model or a .tsc program")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return Program.load(data) if path.suffix == ".tsc" else read_tosa(data)
    except ModelError as error:
        way_out = "" if path.suffix == ".tsc" else "; export or copy the model again"
        raise ModelError(f"{path}: {error}{way_out}") from None
    except UnsupportedError as error:
        raise UnsupportedError(f"{path}: {error}") from None
