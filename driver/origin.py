"""What a session was opened from, and with what its integers are compared."""

import dataclasses
from typing import TYPE_CHECKING, Any

from tosaic.compiler.importers.bindings import Bindings
from tosaic.errors import InputError

if TYPE_CHECKING:
    from .source import Limits, SourceNetwork


@dataclasses.dataclass
class Origin:
    """The model as it was given, the network that it was made of if that was named, and what was bound."""

    model: Any
    source: Any
    bound: Bindings
    _found: "SourceNetwork | None" = None

    def network(self, limit_db: float | None = None, *, remembers: bool = False) -> "SourceNetwork":
        """The network to compare with, opened once; `limit_db` is asked of its outputs from now on."""
        from .source import find_network

        if self._found is None:
            self._found = find_network(self.model, self.source, self.bound, remembers=remembers)
            self._limits = self._found.limits
        if limit_db is not None:
            self._limits = dataclasses.replace(self._found.limits, asked_db=limit_db)
        return self._found

    @property
    def limits(self) -> "Limits":
        """What is asked of outputs."""
        return self._limits


def checked_model(model: Any) -> Any:
    """The model; InputError for an object that `Session` does not open."""
    if hasattr(model, "forward") or hasattr(model, "graph_signature"):
        raise InputError(
            f"{type(model).__name__} is a PyTorch module: give it to "
            "tosaic.from_torch(module, example_inputs, calibration)"
        )
    if hasattr(model, "SerializeToString"):
        raise InputError(
            "an ONNX model is opened by its file: onnx.save(model, 'net.onnx'), then give 'net.onnx'"
        )
    return model
