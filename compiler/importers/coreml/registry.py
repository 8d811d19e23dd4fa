"""Handlers by layer kind."""

from collections.abc import Callable

from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue

Handler = Callable[[CoreMlNode], CoreMlValue | list[CoreMlValue]]

HANDLERS: dict[str, Handler] = {}
"""Every layer kind that has a lowering; control flow is the importer's own."""


def handles(*kinds: str) -> Callable[[Handler], Handler]:
    """Registers a function as the handler of layer kinds."""

    def register(handler: Handler) -> Handler:
        for kind in kinds:
            HANDLERS[kind] = handler
        return handler

    return register
