"""Functions by operator: what a stage does with each, registered where it is written."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class ByOperator(dict[str, Function]):
    """A dictionary that functions enter by the decorator `of`."""

    def of(self, *names: str) -> Callable[[Function], Function]:
        """Registers a function for operators of these names."""
        return self.of_each(names)

    def of_each(self, names: Iterable[str]) -> Callable[[Function], Function]:
        """The same for all names of a set, such as those that have a trait."""

        def register(function: Function) -> Function:
            self.update(dict.fromkeys(names, function))
            return function

        return register
