"""Which file format has which importer: each is an entry point, this package's own and those of other packages."""

import pathlib
from collections.abc import Callable
from dataclasses import dataclass

from tosaic.compiler.importers.bindings import Bindings, Bound, bind_values
from tosaic.compiler.importers.foreign_formats import is_saved_model, refusal
from tosaic.compiler.importers.survey import SourceOperator, Survey
from tosaic.compiler.ir import Graph
from tosaic.errors import InputError, UnsupportedError
from tosaic.plugins import load_plugin, plugins

ARCHIVES = (".bz2", ".gz", ".tar", ".tbz2", ".tgz", ".txz", ".xz", ".zip")
"""Suffixes of archives, which may hold a model."""
GROUP = "tosaic.formats"
"""Entry points, each of which names a `Format` that is loaded when a model of it is opened. Its own name is a suffix
(".onnx"), or that of the file by which a folder is known for such a model ("graph.nnef")."""
NATIVE_SUFFIXES = (".tosa", ".tsc")
"""What needs no import: no entry point takes it."""


@dataclass(frozen=True)
class Format:
    """A format that has an importer."""

    read: Callable[..., Graph]
    """read(path, sizes, survey) makes the graph and reports each operator to the `Survey`. It raises InputError,
    ModelError or UnsupportedError. `sizes` are those that the user binds: a symbolic dimension's name to its size, or
    an input's name to its shape."""
    folders: bool = False
    """A model may be a folder."""
    binds_values: bool = False
    """`read` takes `Bindings` in place of sizes, and makes constants of inputs that have a value; else that is done to
    its graph."""


def suffixes() -> tuple[str, ...]:
    """The suffixes of formats that have an importer, those of archives last."""
    found = [name for name in plugins(GROUP) if name.startswith(".")]
    return tuple(sorted(found, key=lambda name: (name in ARCHIVES, name)))


def format_of(path: pathlib.Path) -> str | None:
    """The name of the entry point for a path, by its suffix or, of a folder, by a file in it; None if there is none."""
    if path.suffix in NATIVE_SUFFIXES:
        return None
    known = plugins(GROUP)
    if path.suffix in known:
        return path.suffix
    if not path.is_dir():
        return None
    return next((name for name in known if name[0] != "." and (path / name).is_file()), None)


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
    name = format_of(path)
    if not path.exists():
        raise InputError(f"{path}: cannot be read: there is no such file; give a model file")
    if name is None:
        if path.is_dir() and not is_saved_model(path):
            raise _is_directory(path)
        raise UnsupportedError(refusal(path, suffixes()))
    found = load_plugin(GROUP, name, Format)
    if path.is_dir() and not found.folders:
        raise _is_directory(path)
    bindings = Bindings.of(bound)
    if found.binds_values:
        return found.read(path, bindings, survey)
    graph = found.read(path, bindings.sizes, survey)
    bind_values(graph, bindings.values)
    return graph


def _is_directory(path: pathlib.Path) -> InputError:
    return InputError(f"{path}: cannot be read: it is a directory; give a model file")
