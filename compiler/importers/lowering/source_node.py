"""What a handler sees of one operator of a source model, whatever the format calls it: node, layer, operation."""

from abc import ABC, abstractmethod
from typing import NoReturn

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.errors import UnsupportedError


class SourceNode(ABC):
    """One operator of a source model and the graph under construction; `str(node)` says which operator it is."""

    def __init__(self, low: Lowering) -> None:
        self.low = low

    @abstractmethod
    def described_tensors(self) -> str:
        """The tensors that a complaint names, with what stands in front of them; "" for none."""

    def unsupported(self, reason: str, way_out: str) -> NoReturn:
        """Raises UnsupportedError with the operator and its tensors."""
        raise UnsupportedError(f"{self}{self.described_tensors()}: {reason}; {way_out}")
