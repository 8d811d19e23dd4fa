"""`@tosaic.function`: a NumPy function, its graphs and its sessions; and functions that a file of Python names."""

import functools
import importlib.util
import inspect
import pathlib
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tosaic.compiler.importers.bindings import Bindings, bind_values
from tosaic.compiler.ir import Graph
from tosaic.driver.check import first_difference
from tosaic.errors import Error, InputError, MismatchError, ModelError, TraceError, in_words

if TYPE_CHECKING:
    from tosaic.compiler.numpy_in import Traced
    from tosaic.driver.function_session import FunctionSession

_REFERENCE = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)")


class Function:
    """A function of NumPy arrays, which Tosaic can also run. Called, it is the function itself.

    `graph` traces it, `session` compiles it, `check` compares what the accelerator gives with what it gives.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        ranges: Mapping[str, tuple[int, int]] | None = None,
        states: Sequence[str] = (),
        specs: Mapping[str, Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.__name__: str = getattr(function, "__name__", "function")
        self._function = function
        self._ranges, self._states, self._specs = dict(ranges or {}), tuple(states), dict(specs or {})

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._function(*arguments, **named)

    def graph(
        self,
        ranges: Mapping[str, tuple[int, int]] | None = None,
        states: Sequence[str] | None = None,
        **specs: Any,
    ) -> Graph:
        """The TOSA graph for arguments of these shapes and types, see `tosaic.trace`; what is left out is as the
        decorator says."""
        return self._traced(ranges, states, specs).graph

    def session(
        self,
        target: Any = "emulator",
        config: Any = None,
        *,
        ranges: Mapping[str, tuple[int, int]] | None = None,
        states: Sequence[str] | None = None,
        **specs: Any,
    ) -> "FunctionSession":
        """A session that takes and gives NumPy's own types, and is called as the function is. `specs` and the rest as
        in `graph`; for more options of a session there is `tosaic.Session(f.graph(...), ...)`."""
        from tosaic.driver.function_session import FunctionSession

        return FunctionSession(self._traced(ranges, states, specs), self.__name__, target, config)

    def check(self, *arrays: Any, target: Any = "emulator", config: Any = None, **named: Any) -> Any:
        """Runs the function on a target and on golden, and returns its results; MismatchError where these are not what
        Python gives. Arrays are as in a call; states are plain arguments."""
        from tosaic.driver.function_session import FunctionSession

        given = self._bound(arrays, named)
        wanted = self._function(**{name: array.copy() for name, array in given.items()})
        traced = self._traced(None, (), {name: _spec_of(array) for name, array in given.items()})
        session = FunctionSession(traced, self.__name__, target, config)
        got = session.call(given, check=session.target != "golden")
        self._compare(traced, wanted, got)
        return got

    def _bound(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Arguments by name."""
        try:
            bound = inspect.signature(self._function).bind(*arrays, **named)
        except TypeError as error:
            raise InputError(f"{self.__name__}: {error}") from None
        return {name: np.asarray(value) for name, value in bound.arguments.items()}

    def _compare(self, traced: "Traced", wanted: Any, got: Any) -> None:
        for name, a, b in zip(traced.graph.run_outputs, _listed(got), _listed(wanted), strict=True):
            b = np.asarray(b)
            if a.dtype != b.dtype:
                raise MismatchError(f"{self.__name__}: {name} is {a.dtype}, the function gives {b.dtype}")
            problem = first_difference(name, a, b)
            if problem:
                raise MismatchError(f"{self.__name__}: {problem.replace('golden', 'the function')}")

    def _traced(
        self,
        ranges: Mapping[str, tuple[int, int]] | None,
        states: Sequence[str] | None,
        specs: Mapping[str, Any],
    ) -> "Traced":
        from tosaic.compiler.numpy_in import trace_function

        whole = self._specs | dict(specs)
        if not whole:
            raise InputError(
                f"{self.__name__}: say shape and type of each argument, as x=((240, 320, 3), np.uint8), or in the "
                "decorator"
            )
        return trace_function(
            self._function,
            whole,
            {name: each for name, each in self._ranges.items() if name in whole}
            if ranges is None
            else ranges,
            self._states if states is None else states,
        )


def _listed(result: Any) -> list[Any]:
    """The arrays that a function gives."""
    if isinstance(result, dict):
        return list(result.values())
    return list(result) if isinstance(result, list | tuple) else [result]


def _spec_of(array: np.ndarray) -> tuple[tuple[int, ...], np.dtype]:
    return array.shape, array.dtype


def function(
    traced: Callable[..., Any] | None = None,
    *,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    states: Sequence[str] = (),
    **specs: Any,
) -> Any:
    """Decorates a function of NumPy integers, so that it also runs on the accelerator, bit for bit:

        @tosaic.function
        def add(x, y):
            return x + y

    `@tosaic.function(x="uint8[240,320,3]", ranges={...}, states=(...))` says once what `graph` and `session` would be
    told; commands that take a model as `file.py:add` need it, or `--input`. See docs/numpy.md.
    """
    if traced is None:
        return lambda given: Function(given, ranges, states, specs)
    return Function(traced, ranges, states, specs)


# --- functions in files


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
    for bound_name in bound.values:
        graph.declared.pop(bound_name, None)
    return graph


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


def _named(path: pathlib.Path, name: str, module: Any) -> Function:
    found = getattr(module, name, None)
    if isinstance(found, Function):
        return found
    if callable(found) and not isinstance(found, type):
        return Function(found)
    own = [key for key, value in vars(module).items() if _is_own(value, module) and not key.startswith("_")]
    raise InputError(f"{path}: has no function {name!r}; it has {', '.join(own) or 'none'}")


def _is_own(value: Any, module: Any) -> bool:
    """Whether a module has made a value itself."""
    return isinstance(value, Function) or getattr(value, "__module__", "") == module.__name__


def _line_of(path: pathlib.Path, error: BaseException) -> str:
    """The innermost line of the file that an error came through."""
    if isinstance(error, SyntaxError):
        return f"{path.name}:{error.lineno}"
    files = (str(path), str(path.resolve()))
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return f"{path.name}:{lines[-1]}" if lines else str(path)
