"""What users hand in, opened: a TOSA file, a model to import, a NumPy function or a compiled program."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tosaic.compiler.importers import import_model, is_imported, suffixes, survey_model
from tosaic.compiler.importers.bindings import Bindings, Bound, bind_values, refuse_types
from tosaic.compiler.importers.foreign_formats import is_saved_model, refusal
from tosaic.compiler.importers.formats import NATIVE_SUFFIXES
from tosaic.compiler.importers.survey import SourceOperator
from tosaic.compiler.ir import Graph, read_tosa
from tosaic.compiler.ir.file_builder import IDENTIFIER
from tosaic.compiler.ir.flatbuffer import Reader
from tosaic.compiler.ir.mapped_file import contents
from tosaic.compiler.program import Program
from tosaic.driver.encodings import Encodings, declared_of, encodings_of
from tosaic.driver.function_files import is_function, open_function
from tosaic.driver.integer_formats import open_integers
from tosaic.errors import InputError, ModelError, UnsupportedError, reading

if TYPE_CHECKING:
    from tosaic.compiler.quantizer import Quantized

Progress = Callable[[str, int, int], None]
"""Told (what, done, total) while long work goes on."""


def open_model(source: "str | pathlib.Path | Graph | Program", bound: Bound = None) -> Graph | Program:
    """The graph or program in a file (`.tosa`, `.tsc`, or what has an importer) or of a NumPy function
    (`file.py:function`), or the object itself.

    `bound` tells sizes that an imported model leaves open, and inputs that always have one value.

    InputError when there is no such file, UnsupportedError for a format that has no importer, ModelError for a
    damaged file.
    """
    return open_with_encodings(source, bound)[0]


def open_with_encodings(
    source: "str | pathlib.Path | Graph | Program | Quantized",
    bound: Bound = None,
) -> tuple[Graph | Program, Encodings]:
    """Opens as `open_model` does, with the encodings of inputs and outputs, where integers stand for reals.

    A .tosa or .tsc file may have them in a file of its own. An ONNX model or a PyTorch program whose float inputs and
    outputs pass through a quantize and a dequantize operator becomes integers from the first to the last of these, and
    so does a TFLite model between QUANTIZE and DEQUANTIZE.
    """
    if isinstance(source, Graph | Program):
        return source, {}
    if not isinstance(source, str | pathlib.Path):
        return source.graph, {**source.inputs, **source.outputs}
    path = pathlib.Path(source)
    if is_function(source):
        return open_function(source, Bindings.of(bound)), {}
    refuse_types(Bindings.of(bound), str(source))
    if is_imported(path):
        with _file_named(path):
            found, why_floats = _integers(path, bound)
            if found is not None:
                return found
            graph = import_model(path, bound)  # tells of an operator without a TOSA form in full
            graph.why_floats = why_floats
            return graph, {}
    return _opened(path, bound), encodings_of(path)


def _integers(path: pathlib.Path, bound: Bound) -> tuple[tuple[Graph, Encodings] | None, str]:
    """Returns what `open_integers` does, and for a model with encodings but no integers to take the reason."""
    try:
        return open_integers(path, bound), ""
    except UnsupportedError as error:
        return None, f"{path}: {error}"


def _opened(path: pathlib.Path, bound: Bound) -> Graph | Program:
    if is_saved_model(path):
        raise UnsupportedError(refusal(path, (*NATIVE_SUFFIXES, *suffixes())))
    if not path.is_file():
        reason = "it is a directory" if path.is_dir() else "there is no such file"
        raise InputError(f"{path}: cannot be read: {reason}; give a .tosa model or a .tsc program")
    try:
        data = contents(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if path.suffix not in NATIVE_SUFFIXES and Reader(data).identifier != IDENTIFIER:
        raise UnsupportedError(refusal(path, (*NATIVE_SUFFIXES, *suffixes())))
    bindings = Bindings.of(bound)
    if bindings.shapes:
        raise InputError(f"{path}: its shapes are static: leave --shape out")
    if bindings.values and path.suffix == ".tsc":
        raise InputError(f"{path}: it is compiled: leave --value out, or give it with the model")
    try:
        with reading(path, "compile, export or copy it again"):
            opened = Program.load(path) if path.suffix == ".tsc" else read_tosa(data)
        if isinstance(opened, Graph):
            opened.declared = declared_of(path, opened)
            bind_values(opened, bindings.values)
        return opened
    except ModelError as error:
        way_out = "" if path.suffix == ".tsc" else "; export or copy the model again"
        raise ModelError(f"{path}: {error}{way_out}") from None
    except UnsupportedError as error:
        raise UnsupportedError(f"{path}: {error}") from None


def survey_source(
    source: str | pathlib.Path, bound: Bound = None
) -> tuple[list[SourceOperator], Graph | Program | None]:
    """What becomes of each operator of an imported model, and its graph when all of them have a TOSA form.

    Files that need no import have no source operators. Raises what `open_model` raises.
    """
    path = pathlib.Path(source)
    if not is_imported(path):
        return [], open_model(source, bound)
    refuse_types(Bindings.of(bound), str(source))
    with _file_named(path):
        operators, graph = survey_model(path, bound)
        if graph is None:
            return operators, None
        found, graph.why_floats = _integers(path, bound)
        return operators, found[0] if found else graph


@contextlib.contextmanager
def _file_named(path: pathlib.Path) -> Iterator[None]:
    """What is wrong with a model is said with the file's name, and so is what its reader did not expect."""
    try:
        with reading(path, "export or copy it again; if it is whole, report it with what --verbose prints"):
            yield
    except (ModelError, UnsupportedError) as error:
        text = str(error)
        if text.startswith(str(path)):
            raise
        error.args = (f"{path}: {text}",)
        raise
