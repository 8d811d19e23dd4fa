"""Which file format has which importer."""

import pathlib

from tosaic.compiler.importers.bindings import Bindings, Bound, Sizes, bind_values
from tosaic.compiler.importers.foreign_formats import is_saved_model, refusal
from tosaic.compiler.importers.survey import SourceOperator, Survey
from tosaic.compiler.ir import Graph
from tosaic.errors import InputError, UnsupportedError

_SUFFIXES = {
    ".onnx": "onnx",
    ".nnr": "nnr",
    ".tflite": "tflite",
    ".pt2": "torch",
    **dict.fromkeys((".mlmodel", ".mlpackage", ".mlmodelc"), "coreml"),
    **dict.fromkeys((".nnef", ".tar", ".tgz", ".tbz2", ".txz", ".gz", ".bz2", ".xz"), "nnef"),
}

IMPORTED_SUFFIXES = tuple(_SUFFIXES)


def format_of(path: pathlib.Path) -> str | None:
    """The format that a path's name stands for; of a folder, its content decides. None if it has no importer."""
    if path.suffix in _SUFFIXES:
        return _SUFFIXES[path.suffix]
    return "nnef" if path.is_dir() and (path / "graph.nnef").is_file() else None


def is_imported(path: pathlib.Path) -> bool:
    """Whether a path names a model of a format that has an importer."""
    return format_of(path) is not None


def import_model(path: str | pathlib.Path, bound: Bound = None) -> Graph:
    """The TOSA graph of the model in `path`; the format follows from the file's suffix.

    `bound` tells sizes that the model leaves open, and which inputs are constants. InputError when the file cannot be
    read, ModelError for an illegal model, UnsupportedError for a legal one that TOSA cannot express.
    """
    return _import(pathlib.Path(path), bound, Survey())


def survey_model(path: str | pathlib.Path, bound: Bound = None) -> tuple[list[SourceOperator], Graph | None]:
    """A verdict on each operator of the source model, in its order, and the graph when all have a TOSA form.

    Raises what `import_model` raises, but for operators without a TOSA form.
    """
    survey = Survey(keep_going=True)
    graph = _import(pathlib.Path(path), bound, survey)
    return survey.operators, graph if survey.complete else None


def _import(path: pathlib.Path, bound: Bound, survey: Survey) -> Graph:
    kind = format_of(path)
    if not path.is_file() and not (path.is_dir() and kind in ("nnef", "coreml")) and not is_saved_model(path):
        reason = "it is a directory" if path.is_dir() else "there is no such file"
        raise InputError(f"{path}: cannot be read: {reason}; give a model file")
    if kind is None:
        raise UnsupportedError(refusal(path, IMPORTED_SUFFIXES))
    # Imported when they are needed: some need packages of their own.
    if kind == "onnx":
        from tosaic.compiler.importers.onnx_models import import_onnx

        return import_onnx(path, bound, survey)
    bindings = Bindings.of(bound)
    graph = _other_than_onnx(kind, path, bindings.sizes, survey)
    bind_values(graph, bindings.values)
    return graph


def _other_than_onnx(kind: str, path: pathlib.Path, shapes: Sizes, survey: Survey) -> Graph:
    if kind == "nnr":
        from tosaic.compiler.importers.nnr_models import import_nnr

        return import_nnr(path, shapes, survey)
    if kind == "tflite":
        from tosaic.compiler.importers.tflite import import_tflite

        return import_tflite(path, shapes, survey)
    if kind == "torch":
        from tosaic.compiler.importers.torch_models.onnx_road import import_torch

        return import_torch(path, shapes, survey)
    if kind == "coreml":
        from tosaic.compiler.importers.coreml import import_coreml

        return import_coreml(path, shapes, survey)
    from tosaic.compiler.importers.nnef.tosa import import_nnef

    return import_nnef(path, shapes, survey)
