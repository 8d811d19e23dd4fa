"""Opens what users hand in: a TOSA file, a model to import, or a compiled program."""

import contextlib
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from tosaic.compiler.importers import import_model, is_imported, survey_model
from tosaic.compiler.importers.survey import SourceOperator
from tosaic.compiler.ir import Graph, read_tosa
from tosaic.compiler.program import Program
from tosaic.driver.encodings import Encodings, encodings_of
from tosaic.driver.quantize.encoded_models import import_encoded
from tosaic.errors import InputError, ModelError, UnsupportedError


def open_model(
    source: "str | pathlib.Path | Graph | Program", shapes: Mapping[str, int | Sequence[int]] | None = None
) -> Graph | Program:
    """The graph or program in a file (`.tosa`, `.tsc`, or what has an importer), or the object itself.

    `shapes` binds the open dimensions of an imported model, by dimension or by input.

    InputError when there is no such file, UnsupportedError for a format that has no importer, ModelError for a
    damaged file.
    """
    return open_with_encodings(source, shapes)[0]


def open_with_encodings(
    source: "str | pathlib.Path | Graph | Program", shapes: Mapping[str, int | Sequence[int]] | None = None
) -> tuple[Graph | Program, Encodings]:
    """As `open_model`, with the encodings of inputs and outputs, where integers stand for reals.

    A .tosa or .tsc file may have them in a file of its own. An ONNX model whose float inputs and outputs pass
    through QuantizeLinear and DequantizeLinear becomes integers from the first to the last of these.
    """
    if isinstance(source, Graph | Program):
        return source, {}
    path = pathlib.Path(source)
    if is_imported(path):
        with _file_named(path):
            found = _encoded(path, shapes)
            return found or (import_model(path, shapes), {})
    return _opened(path, shapes), encodings_of(path)


def _encoded(
    path: pathlib.Path, shapes: Mapping[str, int | Sequence[int]] | None
) -> tuple[Graph, Encodings] | None:
    """The integers of an ONNX model that brings its encodings; None for any other model."""
    if path.suffix != ".onnx" or not path.is_file():
        return None
    try:
        found = import_encoded(path, shapes)
    except UnsupportedError:
        # An operator without an integer form; or without a TOSA form at all, which the import tells in full.
        return None
    return (found.graph, {**found.inputs, **found.outputs}) if found else None


def _opened(path: pathlib.Path, shapes: Mapping[str, int | Sequence[int]] | None) -> Graph | Program:
    if shapes:
        raise InputError(f"{path}: its shapes are static: leave --shape out")
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


def survey_source(
    source: str | pathlib.Path, shapes: Mapping[str, int | Sequence[int]] | None = None
) -> tuple[list[SourceOperator], Graph | Program | None]:
    """What becomes of each operator of an imported model, and its graph when all of them have a TOSA form.

    Files that need no import have no source operators. Raises what `open_model` raises.
    """
    path = pathlib.Path(source)
    if not is_imported(path):
        return [], open_model(path, shapes)
    with _file_named(path):
        operators, graph = survey_model(path, shapes)
        found = _encoded(path, shapes) if graph is not None else None
        return operators, found[0] if found else graph


@contextlib.contextmanager
def _file_named(path: pathlib.Path) -> Iterator[None]:
    """What is wrong with a model is said with the file's name."""
    try:
        yield
    except (ModelError, UnsupportedError) as error:
        text = str(error)
        if text.startswith(str(path)):
            raise
        error.args = (f"{path}: {text}",)
        raise
