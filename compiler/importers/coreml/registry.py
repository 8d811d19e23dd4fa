"""Handlers by layer kind."""

from collections.abc import Callable

from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue
from tosaic.compiler.importers.handlers import registrar

Handler = Callable[[CoreMlNode], CoreMlValue | list[CoreMlValue]]

HANDLERS: dict[str, Handler] = {}
"""Every layer kind that has a lowering; control flow is the importer's own."""
handles = registrar(HANDLERS)
