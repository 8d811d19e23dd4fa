"""Handlers by operation name."""

from collections.abc import Callable

from tosaic.compiler.importers.handlers import registrar
from tosaic.compiler.importers.nnef.tosa.node import NnefNode

Handler = Callable[[NnefNode], str | list[str]]
"""Returns the TOSA tensor of each result, those of an array one after the other."""

HANDLERS: dict[str, Handler] = {}
"""Every operation that is lowered as it stands; compounds without a handler are expanded."""
handles = registrar(HANDLERS)
