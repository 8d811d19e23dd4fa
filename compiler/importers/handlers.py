"""Tables of handlers by operator name, in which functions register themselves."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

H = TypeVar("H", bound=Callable[..., Any])


class Registrar(Protocol):
    """`@handles("Add", "Sub")` before a function makes it the handler of both."""

    def __call__(self, *names: str) -> Callable[[H], H]: ...


def registrar(table: dict[str, Any]) -> Registrar:
    """What registers functions in a table."""

    def handles(*names: str) -> Callable[[H], H]:
        def register(handler: H) -> H:
            table.update(dict.fromkeys(names, handler))
            return handler

        return register

    return handles
