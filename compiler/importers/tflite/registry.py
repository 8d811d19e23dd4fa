"""Handlers by operator name."""

from collections.abc import Callable

from tosaic.compiler.importers.handlers import registrar
from tosaic.compiler.importers.tflite.node import TfliteNode

Handler = Callable[[TfliteNode], str | list[str]]
"""A function from an operator to the TOSA tensors of its results, as `values.STORAGE` holds them."""

HANDLERS: dict[str, Handler] = {}
"""Every operator that has a lowering; control flow and variables are the importer's own."""
handles = registrar(HANDLERS)
