"""Handlers by operator name."""

from collections.abc import Callable

from tosaic.compiler.importers.handlers import registrar
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.values import OnnxValue

Handler = Callable[[OnnxNode], OnnxValue | list[OnnxValue]]

HANDLERS: dict[str, Handler] = {}
"""Every operator of the default domain that has a lowering of its own."""
handles = registrar(HANDLERS)
