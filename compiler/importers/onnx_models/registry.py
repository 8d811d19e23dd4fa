"""Handlers by operator name."""

from collections.abc import Callable

from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.values import OnnxValue

Handler = Callable[[OnnxNode], OnnxValue | list[OnnxValue]]

HANDLERS: dict[str, Handler] = {}
"""Every operator of the default domain that has a lowering of its own."""


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Registers a function as the handler of operators."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register
