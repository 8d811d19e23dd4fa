"""A function with what was said of its arguments once: what `@tosaic.function` makes."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tosaic.compiler.ir import Graph
from tosaic.compiler.numpy_in.functions import Ranges, Traced, trace_function
from tosaic.errors import InputError


class DeclaredFunction:
    """A function of NumPy arrays, which can also be traced. Called, it is the function itself."""

    def __init__(
        self,
        function: Callable[..., Any],
        ranges: Ranges | None = None,
        states: Sequence[str] = (),
        specs: Mapping[str, Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.__name__: str = getattr(function, "__name__", "function")
        self.function = function
        self._ranges, self._states, self._specs = dict(ranges or {}), tuple(states), dict(specs or {})

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def graph(self, ranges: Ranges | None = None, states: Sequence[str] | None = None, **specs: Any) -> Graph:
        """The TOSA graph for arguments of these shapes and types, see `tosaic.trace`; what is left out is as the
        decorator says."""
        return self.traced(specs, ranges, states).graph

    def traced(
        self, specs: Mapping[str, Any], ranges: Ranges | None = None, states: Sequence[str] | None = None
    ) -> Traced:
        """As `graph`, with how the function gives its results."""
        whole = self._specs | dict(specs)
        if not whole:
            raise InputError(
                f"{self.__name__}: say shape and type of each argument, as x=((240, 320, 3), np.uint8), or in the "
                "decorator"
            )
        own = {name: each for name, each in self._ranges.items() if name in whole}
        return trace_function(
            self.function,
            whole,
            own if ranges is None else ranges,
            self._states if states is None else states,
        )
