"""`@tosaic.function`: a NumPy function, its graphs and its sessions."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.numpy_in import DeclaredFunction, Traced
from tosaic.driver.check import first_difference
from tosaic.driver.function_session import FunctionSession
from tosaic.errors import InputError, MismatchError


class Function(DeclaredFunction):
    """A function of NumPy arrays, which Tosaic can also run. Called, it is the function itself.

    `graph` traces it, `session` compiles it, `check` compares what the accelerator gives with what it gives.
    """

    def session(
        self,
        target: Any = "emulator",
        config: Any = None,
        *,
        ranges: Mapping[str, tuple[int, int]] | None = None,
        states: Sequence[str] | None = None,
        **specs: Any,
    ) -> FunctionSession:
        """A session that takes and gives NumPy's own types, and is called as the function is. `specs` and the rest as
        in `graph`; for more options of a session there is `tosaic.Session(f.graph(...), ...)`."""
        return FunctionSession(self.traced(specs, ranges, states), self.__name__, target, config)

    def check(self, *arrays: Any, target: Any = "emulator", config: Any = None, **named: Any) -> Any:
        """Runs the function on a target and on golden, and returns its results; MismatchError where these are not what
        Python gives. Arrays are as in a call; states are plain arguments."""
        given = self._bound(arrays, named)
        wanted = self.function(**{name: array.copy() for name, array in given.items()})
        traced = self.traced({name: _spec_of(array) for name, array in given.items()}, states=())
        session = FunctionSession(traced, self.__name__, target, config)
        got = session.call(given, check=session.target != "golden")
        self._compare(traced, wanted, got)
        return got

    def _bound(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Arguments by name."""
        try:
            bound = inspect.signature(self.function).bind(*arrays, **named)
        except TypeError as error:
            raise InputError(f"{self.__name__}: {error}") from None
        return {name: np.asarray(value) for name, value in bound.arguments.items()}

    def _compare(self, traced: Traced, wanted: Any, got: Any) -> None:
        for name, a, b in zip(traced.graph.run_outputs, _listed(got), _listed(wanted), strict=True):
            b = np.asarray(b)
            if a.dtype != b.dtype:
                raise MismatchError(f"{self.__name__}: {name} is {a.dtype}, the function gives {b.dtype}")
            problem = first_difference(name, a, b)
            if problem:
                raise MismatchError(f"{self.__name__}: {problem.replace('golden', 'the function')}")


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
