"""A graph's tensors as they lie in memory."""

import functools
import math

from tosaic.compiler.ir import Graph, GraphIndex, Tensor
from tosaic.compiler.legalize.normalise import storage_names
from tosaic.compiler.machine import ELEMENT
from tosaic.compiler.place.placement import BufferKey, Role
from tosaic.compiler.place.strides import dense_strides
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import Element


class Tensors:
    """The tensors of one graph: their shapes, elements and bytes, and which of them share their bytes.

    The storage name of a tensor is that of the tensor whose bytes it shares: RESHAPE and IDENTITY move nothing."""

    def __init__(self, graph: Graph, config: Config):
        self.graph, self.config = graph, config
        self.storage = storage_names(graph)
        groups: dict[str, list[str]] = {}
        for name, root in self.storage.items():
            groups.setdefault(root, []).append(name)
        self._sharing = {name: groups[root] for name, root in self.storage.items()}
        self._offsets: dict[str, int] = {}
        """Bytes from the start of another tensor, for tensors that lie inside of it."""
        self._strides: dict[str, list[int]] = {}
        """Bytes from one element to the next along each axis, for tensors whose elements do not follow each
        other there.
        """

    @functools.cached_property
    def index(self) -> GraphIndex:
        """Who writes and who reads each tensor."""
        return self.graph.index()

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
        return self._sharing[name]

    def put_inside(self, name: str, source: str, offset_bytes: int) -> None:
        """A tensor, with those that share its bytes, is the bytes of `source` from `offset_bytes` on."""
        offset = self.offset_bytes(source) + offset_bytes
        for other in self.sharing(name):
            self.storage[other], self._offsets[other] = self.storage[source], offset

    def put_apart(self, name: str, source: str, offset_bytes: int) -> None:
        """A tensor that shares its bytes with no other is elements of `source`, from `offset_bytes` on, which stay as
        far from each other as they are there."""
        assert self.sharing(name) == [name] and not self.is_apart(source)
        self._strides[name] = dense_strides(self.shape(source), self.element(source).bytes)
        self.put_inside(name, source, offset_bytes)

    def is_apart(self, name: str) -> bool:
        """Whether a tensor lies inside of another one with gaps between its elements."""
        return name in self._strides

    def strides(self, name: str) -> list[int]:
        """Bytes from one element to the next along each axis."""
        return self._strides.get(name) or dense_strides(self.shape(name), self.element(name).bytes)

    def is_part(self, name: str) -> bool:
        """Whether a tensor lies inside of the one that it is stored with."""
        return name in self._offsets

    def offset_bytes(self, name: str) -> int:
        """Bytes from the start of the stored tensor."""
        return self._offsets.get(name, 0)

    def operand_key(self, name: str, stream: int) -> BufferKey:
        """The buffer of an operand that is fetched by itself. Parts of one stored tensor have one each."""
        return BufferKey(Role.OPERAND, self.storage[name], stream if self.is_part(name) else None)

    def stored(self, names: list[str]) -> list[str]:
        """The storage names of some tensors, each once, in order."""
        return list(dict.fromkeys(self.storage[name] for name in names))
