"""Handlers by operation name."""

from collections.abc import Callable
from typing import TypeVar

from tosaic.compiler.importers.nnef.tosa.node import NnefNode

Handler = Callable[[NnefNode], str | list[str]]
"""Returns the TOSA tensor of each result, those of an array one after the other."""

HANDLERS: dict[str, Handler] = {}
"""Every operation that is lowered as it stands; compounds without a handler are expanded."""


Given = TypeVar("Given", bound=Handler)


def handles(*names: str) -> Callable[[Given], Given]:
    """Registers a function as the handler of operations."""

    def register(handler: Given) -> Given:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register
