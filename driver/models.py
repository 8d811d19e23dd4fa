"""Opens what users hand in: a TOSA file or a compiled program."""

import pathlib

from tosaic.compiler.ir import Graph, read_tosa
from tosaic.compiler.ir.errors import InputError, UnsupportedError
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
        raise InputError(f"{path}: there is no such file" if not path.exists() else f"{path}: not a file")
    try:
        if path.suffix == ".tsc":
            return Program.load(path)
        return read_tosa(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
