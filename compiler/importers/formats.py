"""Which file format has which importer."""

import pathlib
from collections.abc import Mapping, Sequence

from tosaic.compiler.ir import Graph
from tosaic.compiler.ir.errors import InputError, UnsupportedError

IMPORTED_SUFFIXES = (".onnx",)


def import_model(path: str | pathlib.Path, shapes: Mapping[str, int | Sequence[int]] | None = None) -> Graph:
    """The TOSA graph of the model in `path`; the format follows from the file's suffix.

    `shapes` binds what the model leaves open: a symbolic dimension's name to its size, or an input's name to
    its whole shape. InputError when the file cannot be read, ModelError for an illegal model, UnsupportedError
    for a legal one that TOSA cannot express.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        reason = "it is a directory" if path.is_dir() else "there is no such file"
        raise InputError(f"{path}: cannot be read: {reason}; give a model file")
    if path.suffix == ".onnx":
        from tosaic.compiler.importers.onnx_models import import_onnx

        return import_onnx(path, shapes)
    known = ", ".join(IMPORTED_SUFFIXES)
    raise UnsupportedError(
        f"{path.name}: there is no importer for {path.suffix or 'this file'}; known: {known}"
    )
