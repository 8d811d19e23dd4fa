"""What a session was opened from, and with what its integers are compared."""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Any

from tosaic.compiler.importers.bindings import Bindings
from tosaic.compiler.ir import Graph
from tosaic.compiler.program import Program
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

    def network(self, *, remembers: bool = False) -> "SourceNetwork":
        """The network to compare with, opened once."""
        from .source import find_network

        if self._found is None:
            self._found = find_network(self.model, self.source, self.bound, remembers=remembers)
        return self._found

    def limits(self, asked_db: float | None) -> "Limits":
        """What is asked of the outputs: the network's own limits, or the user's."""
        limits = self.network().limits
        return limits if asked_db is None else dataclasses.replace(limits, asked_db=asked_db)


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
    if callable(model):
        raise InputError(
            f"{getattr(model, '__name__', type(model).__name__)} is a function: tosaic.function(f).session(target, "
            'config, x="uint8[240,320,3]") opens it, see docs/numpy.md'
        )
    if not isinstance(model, str | pathlib.Path | Graph | Program) and not _is_quantized(model):
        raise InputError(
            f"a session opens a path, a Graph, a Quantized graph or a Program, not {type(model).__name__}"
        )
    return model


def _is_quantized(model: Any) -> bool:
    # Imported here: most models are files, and then the quantizer has no work.
    from tosaic.compiler.quantizer import Quantized

    return isinstance(model, Quantized)
