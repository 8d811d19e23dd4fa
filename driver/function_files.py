"""NumPy functions that are models by their file: `FILE.py:FUNCTION`."""

import atexit
import importlib.util
import pathlib
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tosaic.compiler.importers.bindings import Bindings, bind_values
from tosaic.compiler.ir import Graph, write_tosa
from tosaic.driver.encodings import sidecar, write_encodings
from tosaic.errors import Error, InputError, ModelError, TraceError, in_words

if TYPE_CHECKING:
    from tosaic.compiler.numpy_in import DeclaredFunction

_REFERENCE = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)")


def is_function(source: Any) -> bool:
    """Whether a model is named as `file.py:function`."""
    return isinstance(source, str | pathlib.Path) and _REFERENCE.fullmatch(str(source)) is not None


def open_function(source: str | pathlib.Path, bound: Bindings) -> Graph:
    """The graph of a function that a file has; `bound.shapes` has shape and type of each argument ("uint8[3,4]"), as
    far as its decorator does not say them.

    The file is run. InputError for a file or function that is not there, ModelError for a file that fails, TraceError
    for what cannot be traced, and for what NumPy refuses, with the function's line.
    """
    match = _REFERENCE.fullmatch(str(source))
    assert match is not None
    path, name = pathlib.Path(match["file"]), match["name"]
    found = _named(path, name, _module(path))
    specs = {
        argument: spec if isinstance(spec, str) else _untyped(source, argument, spec)
        for argument, spec in bound.shapes.items()
    }
    try:
        graph = found.graph(None, None, **specs)
    except InputError as error:
        raise InputError(f"{source}: {error}; on the command line --input x=uint8[240,320,3]") from None
    except Error:
        raise
    except Exception as error:
        raise TraceError(f"{_line_of(path, error)}: {in_words(error)}; NumPy refuses it, too") from error
    bind_values(graph, bound.values)
    return graph


def model_files(models: Sequence[pathlib.Path], bound: Bindings) -> tuple[list[pathlib.Path], Bindings]:
    """Models for jobs, which may run elsewhere: a function becomes a .tosa file, with what it declares beside it, which
    is deleted when Python ends. What is bound of the others is left."""
    if not any(map(is_function, models)):
        return list(models), bound
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tosaic-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    found = []
    for number, model in enumerate(models):
        if is_function(model):
            graph = open_function(model, bound)
            model = folder / str(number) / f"{str(model).rpartition(':')[2]}.tosa"
            model.parent.mkdir()
            model.write_bytes(write_tosa(graph))
            write_encodings(sidecar(model), {}, {}, declared=graph.declared)
        found.append(model)
    return found, Bindings(bound.sizes, bound.values) if len(set(found) & set(models)) else Bindings()


def _untyped(source: Any, argument: str, sizes: Any) -> str:
    listed = ",".join(map(str, np.ravel(sizes).tolist()))
    raise InputError(f"{source}: {argument}={listed} has no type: write --input {argument}=uint8[{listed}]")


def _module(path: pathlib.Path) -> Any:
    """The module that a file is, run as an import would; its folder is searched for what it imports."""
    if not path.is_file():
        raise InputError(f"{path}: cannot be read: there is no such file; give FILE.py:FUNCTION")
    spec = importlib.util.spec_from_file_location(f"tosaic_function_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Error:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(
            f"{_line_of(path, error)}: the file fails: {in_words(error)}; make `python {path}` work first"
        ) from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _named(path: pathlib.Path, name: str, module: Any) -> "DeclaredFunction":
    from tosaic.compiler.numpy_in import DeclaredFunction

    found = getattr(module, name, None)
    if isinstance(found, DeclaredFunction):
        return found
    if callable(found) and not isinstance(found, type):
        return DeclaredFunction(found)
    own = [key for key, value in vars(module).items() if _is_own(value, module) and not key.startswith("_")]
    raise InputError(f"{path}: has no function {name!r}; it has {', '.join(own) or 'none'}")


def _is_own(value: Any, module: Any) -> bool:
    """Whether a module has made a value itself."""
    return callable(value) and getattr(value, "__module__", "") == module.__name__


def _line_of(path: pathlib.Path, error: BaseException) -> str:
    """The innermost line of the file that an error came through."""
    if isinstance(error, SyntaxError):
        return f"{path.name}:{error.lineno}"
    files = (str(path), str(path.resolve()))
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return f"{path.name}:{lines[-1]}" if lines else str(path)
