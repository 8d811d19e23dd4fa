"""Handlers by operator name."""

from collections.abc import Callable

from tosaic.compiler.importers.tflite.node import TfliteNode

Handler = Callable[[TfliteNode], str | list[str]]
"""From an operator to the TOSA tensors of its results, as `values.STORAGE` holds them."""

HANDLERS: dict[str, Handler] = {}
"""Every operator that has a lowering; control flow and variables are the importer's own."""


def handles(*kinds: str) -> Callable[[Handler], Handler]:
    """Registers a function as the handler of operators."""

    def register(handler: Handler) -> Handler:
        for kind in kinds:
            HANDLERS[kind] = handler
        return handler

    return register
