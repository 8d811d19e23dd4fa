"""Where each tensor lives: resident in activation memory, or in external memory."""

import dataclasses
import itertools
import math

from tosaic.compiler.emit.emitter import DATA_REGION, Emitter
from tosaic.compiler.emit.move import MoveKernel
from tosaic.compiler.emit.operands import Arrival, Placement
from tosaic.compiler.fuse.translate import ELEMENT
from tosaic.compiler.ir import Graph, Tensor
from tosaic.compiler.memory_history import MemoryHistory
from tosaic.compiler.place.memory import Arena, OutOfMemory
from tosaic.compiler.program import Port
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config

_LARGEST_MEMORY_BYTES = (1 << 32) - DATA_REGION
"""Of inputs, outputs and spilled tensors; instructions have 32-bit addresses, the rest is for constants."""

_LINGER_LAYERS = 6
"""Layers for which a layer's parameters keep their memory after it, see `free_after`."""


@dataclasses.dataclass
class Memories:
    """What all tensors of a program share: activation memory, and the data region of external memory."""

    arena: Arena
    limit_bytes: int
    """The largest tensor that may be resident."""
    data_bytes: int = 0
    history: MemoryHistory = dataclasses.field(default_factory=MemoryHistory)

    def external(self, size_bytes: int) -> int:
        """The address of so many bytes in the data region."""
        address = DATA_REGION + self.data_bytes
        self.data_bytes += -(-size_bytes // 64) * 64
        return address


class Placer:
    """Places tensors while layers are emitted, and emits the transfers that this takes.

    `storage` gives the name whose bytes a tensor shares."""

    def __init__(
        self, graph: Graph, config: Config, emitter: Emitter, storage: dict[str, str], memories: Memories
    ):
        self.graph, self.config, self.emitter, self.storage = graph, config, emitter, storage
        self.memories, self.arena, self.limit_bytes = memories, memories.arena, memories.limit_bytes
        self.placements: dict[str, Placement] = {}
        self.ports: dict[str, Port] = {}
        self.pitches: dict[str, int] = {}
        """Bytes from row to row of images whose rows are apart when they are resident."""
        self.last_use: dict[str, int] = {}
        """Storage name -> the last layer that reads it."""
        self.pending_free: list[list[int]] = []
        self._borrowed: set[str] = set()
        """Resident tensors of the region around this one, which go on living there."""

    def adopt(self, name: str, placement: Placement) -> None:
        """An input of the graph that the region around it has placed."""
        self.placements[name] = placement
        if placement.resident:
            self._borrowed.add(name)

    def size_bytes(self, name: str) -> int:
        """Bytes of a tensor in memory; UnsupportedError for a type the accelerator does not hold."""
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

    def external(self, name: str) -> Placement:
        """A tensor of the graph boundary, or one that is spilled, in external memory."""
        size, tensor = self.size_bytes(name), self.graph.tensors[name]
        address = self.reserve(size, tensor)
        self.ports[name] = Port(name, tuple(tensor.shape), tensor.dtype, address, size)
        self.placements[self.storage[name]] = Placement(False, address, size)
        return self.placements[self.storage[name]]

    def reserve(self, size_bytes: int, tensor: Tensor) -> int:
        """The address of fresh external memory for a form of `tensor`."""
        address = self.memories.external(size_bytes)
        if self.memories.data_bytes > _LARGEST_MEMORY_BYTES:
            raise UnsupportedError(
                f"tensor {tensor} does not fit the 4 GiB of external memory that instructions "
                "address; split the network"
            )
        return address

    def external_copy(self, name: str) -> Port:
        """A place in external memory for a tensor that stays resident."""
        resident = self.placements[self.storage[name]]
        self.external(name)
        self.placements[self.storage[name]] = resident
        return self.ports[name]

    def output_port(self, name: str) -> Port:
        """The port of a graph output; a constant or renamed tensor is copied where the host finds it."""
        tensor, root = self.graph.tensors[name], self.storage[name]
        if tensor.data is not None:
            raw = tensor.data.astype(tensor.dtype.numpy)
            return Port(
                name, tuple(tensor.shape), tensor.dtype, self.emitter.add_constant(raw), self.size_bytes(name)
            )
        known = self.ports.get(name) or self.ports.get(root)
        if known is None:
            known = next(port for key, port in self.ports.items() if self.storage[key] == root)
        return dataclasses.replace(known, name=name, shape=tuple(tensor.shape))

    def temporary(self, data: bytes, taken: list[int]) -> int:
        """Brings constants into activation memory for the time of a layer."""
        if not data:
            return 0
        address = self.allocate(len(data), high=True)
        if address is None:
            raise OutOfMemory(f"{len(data)} bytes of parameters do not fit the activation memory")
        taken.append(address)
        self.emitter.load(self.emitter.add_constant(data), address, len(data))
        return address

    def locate(self, name: str) -> Placement:
        """Where a tensor is; a constant is put into external memory."""
        if name not in self.placements:
            tensor = self.graph.tensors[name]
            if tensor.data is None:
                raise AssertionError(f"tensor {name} is read before it is written")
            constant = self.emitter.add_constant(tensor.data.astype(tensor.dtype.numpy))
            self.placements[name] = Placement(False, constant, self.size_bytes(name))
        return self.placements[name]

    def bring(self, name: str, beside_bytes: int = 0) -> None:
        """Makes an input of the layer resident if there is enough memory, `beside_bytes` left over."""
        placement = self.locate(name)
        if placement.resident or placement.bytes + beside_bytes > self.limit_bytes:
            return
        address = self.allocate(placement.bytes)
        if address is not None:
            self.emitter.load(placement.address, address, placement.bytes)
            self.placements[name] = Placement(True, address, placement.bytes)

    def bring_by_rows(self, name: str) -> Arrival | None:
        """Makes an image [N, H, W, C] resident if there is enough memory; the caller loads its rows."""
        placement = self.locate(name)
        size = self._resident_bytes(name, placement.bytes)
        if placement.resident or size > self.limit_bytes:
            return None
        address = self.allocate(size)
        if address is None:
            return None
        self.placements[name] = Placement(True, address, placement.bytes, self.pitches.get(name, 0))
        rows = math.prod(self.graph.tensors[name].shape[:2])
        return Arrival(placement, placement.bytes // rows, rows)

    def _resident_bytes(self, name: str, dense_bytes: int) -> int:
        """Bytes a tensor takes in activation memory."""
        if name not in self.pitches:
            return dense_bytes
        return math.prod(self.graph.tensors[name].shape[:2]) * self.pitches[name]

    def place_output(self, name: str, output: str, reads: list[str]) -> None:
        size = self._resident_bytes(name, self.size_bytes(name))
        streamed = sum(self.placements[read].bytes for read in reads if not self.placements[read].resident)
        if size <= self.limit_bytes:
            reserve = min(self.config.am_bytes // 4 if streamed else 0, streamed)
            address = self._allocate_apart(size)
            if address is not None and self.arena.largest_gap_bytes() < reserve and self.pending_free:
                self.arena.free(address)
                self.release_pending()
                address = self.allocate(size)
            if address is not None and self.arena.largest_gap_bytes() >= reserve:
                dense_bytes = self.size_bytes(name)
                self.placements[output] = Placement(True, address, dense_bytes, self.pitches.get(name, 0))
                return
            if address is not None:
                self.arena.free(address)
        self.external(name)

    def allocate(self, size_bytes: int, *, high: bool = False) -> int | None:
        """A block, if need be in memory that the layer before may still be reading: the tracker makes that wait."""
        address = self.arena.allocate(size_bytes, high=high)
        if address is None and self.pending_free:
            self.release_pending()
            address = self.arena.allocate(size_bytes, high=high)
        return address

    def _allocate_apart(self, size_bytes: int) -> int | None:
        """A block in another bank than the tensors that are there, if there is plenty of memory: units that read or
        write both at a time do not wait for each other."""
        others = [(p.address, p.address + p.bytes) for p in self.placements.values() if p.resident]
        address = self.arena.allocate_apart(size_bytes, self.config.am_bank_bytes, others)
        return self.allocate(size_bytes) if address is None else address

    def allocate_high(self, size_bytes: int) -> int | None:
        return self.allocate(size_bytes, high=True)

    def mover(self, size: int) -> MoveKernel:
        """Moves elements of `size` bytes; its buffers are to be freed by the caller."""
        return MoveKernel(
            self.emitter, self.placements, self.storage, size, self.allocate_high, self.arena.free
        )

    def release_pending(self) -> None:
        for address in itertools.chain(*self.pending_free):
            self.arena.free(address)
        self.pending_free = []

    def free_after(self, index: int, temporary: list[int]) -> None:
        """Frees what dies with this layer. Buffers of the layer itself stay some layers longer, unless memory runs
        short, so that the parameters of the next ones are fetched into other memory while this one computes."""
        names = {p.address: name for name, p in self.placements.items() if p.resident}
        blocks = {block: names.get(block[0], "parameters and buffers") for block in self.arena.used()}
        self.memories.history.note(blocks)
        self.pending_free.append(temporary)
        if len(self.pending_free) > _LINGER_LAYERS:
            for address in self.pending_free.pop(0):
                self.arena.free(address)
        for name, last in list(self.last_use.items()):
            if last == index and name in self.placements and self.placements[name].resident:
                self._release(name)

    def close(self) -> None:
        """Frees all that the region has in activation memory."""
        self.release_pending()
        for name in [name for name, placement in self.placements.items() if placement.resident]:
            self._release(name)

    def _release(self, name: str) -> None:
        if name not in self._borrowed:
            self.arena.free(self.placements[name].address)
            del self.placements[name]
