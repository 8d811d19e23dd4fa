"""A graph's tensors as they lie in memory."""

import math

from tosaic.compiler.ir import Graph, Tensor
from tosaic.compiler.legalize.normalise import storage_names
from tosaic.compiler.machine import ELEMENT
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import Element


class Tensors:
    """The tensors of one graph: their shapes, elements and bytes, and which of them share their bytes.

    The storage name of a tensor is that of the tensor whose bytes it shares: RESHAPE and IDENTITY move nothing."""

    def __init__(self, graph: Graph, config: Config):
        self.graph, self.config = graph, config
        self.storage = storage_names(graph)
        self._sharing: dict[str, list[str]] = {}
        for name, root in self.storage.items():
            self._sharing.setdefault(root, []).append(name)

    def __getitem__(self, name: str) -> Tensor:
        return self.graph.tensors[name]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.tensors[name].shape

    def element(self, name: str) -> Element:
        return ELEMENT[self.graph.tensors[name].dtype]

    def elements(self, name: str) -> int:
        return math.prod(self.shape(name))

    def size_bytes(self, name: str) -> int:
        """Bytes of a tensor in memory; UnsupportedError for a type that the accelerator does not hold."""
        tensor = self.graph.tensors[name]
        if tensor.dtype not in ELEMENT:
            raise UnsupportedError(
                f"tensor {tensor} cannot be in the accelerator's memory: its type does not run yet"
            )
        element_bytes = ELEMENT[tensor.dtype].bytes
        if element_bytes > self.config.columns:
            raise UnsupportedError(
                f"tensor {tensor} has elements of {element_bytes} bytes on a {self.config.columns}-byte machine; "
                f"use a larger configuration than {self.config.name!r}"
            )
        return math.prod(tensor.shape) * element_bytes

    def sharing(self, name: str) -> list[str]:
        """The tensors that share the bytes of a tensor, itself among them."""
        return self._sharing[self.storage[name]]

    def stored(self, names: list[str]) -> list[str]:
        """The storage names of some tensors, each once, in order."""
        return list(dict.fromkeys(self.storage[name] for name in names))
