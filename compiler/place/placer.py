"""Decides where each tensor lives: resident in activation memory, or in external memory."""

import collections
import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

from tosaic.compiler.machine_numbers import PARAMETERS_LINGER_LAYERS, STREAM_RESERVE_AM_PART, UNTOUCHED_LAYERS
from tosaic.compiler.memory_history import MemoryHistory
from tosaic.compiler.memory_speed import FULL_SPEED, MemorySpeed
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.external import ExternalMemory, PlacedPort
from tosaic.compiler.place.placement import Arrival, Copy, PartOutside, Placement, Sent, resident
from tosaic.compiler.place.residents import Residents
from tosaic.compiler.place.tensors import Tensors


@dataclasses.dataclass
class Memories:
    """What all tensors of a program share: activation memory and external memory."""

    arena: Arena
    limit_bytes: int
    """The largest tensor that may be resident."""
    external: ExternalMemory = dataclasses.field(default_factory=ExternalMemory)
    history: MemoryHistory = dataclasses.field(default_factory=MemoryHistory)
    speed: MemorySpeed = FULL_SPEED
    """Speed of external memory."""
    last_used: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    """Blocks of activation memory, (start, end), that the last layer uses."""
    crowded: bool = False
    """Something is not resident for want of memory."""


class Placer:
    """Places the tensors of one graph, layer after layer, in the memories that all graphs of a program share."""

    def __init__(self, tensors: Tensors, memories: Memories):
        self.tensors, self.config = tensors, tensors.config
        self.memories, self.arena, self.limit_bytes = memories, memories.arena, memories.limit_bytes
        self.placements: dict[str, Placement] = {}
        self.ports: dict[str, PlacedPort] = {}
        self._apart: dict[str, PlacedPort] = {}
        self.pitches: dict[str, int] = {}
        """Bytes from row to row of images whose rows are apart when they are resident."""
        self._resident = Residents(tensors.config.am_bank_bytes)
        """Those of `placements` that are in activation memory."""
        self._dying: dict[int, list[str]] = {}
        """Layer -> storage names that nothing reads after it."""
        self._read_with: dict[str, set[str]] = {}
        """Storage name -> those that some layer reads beside it, and itself."""
        self._recent: collections.deque[list[tuple[int, int]]] = collections.deque(maxlen=UNTOUCHED_LAYERS)
        """Blocks that were used in each of the last layers, the latest last."""
        self._layer = 0
        """Number of the layer that is planned."""
        self.pending_free: list[list[int]] = []
        self.beside: int | None = None
        """How many of the last layers the one that is planned runs together with; None: it runs by itself."""
        self._borrowed: set[str] = set()
        """Resident tensors of the graph around this one, which go on living there."""
        self.homes: dict[str, Address] = {}
        """Addresses that tensors have outside, if not any that is free, by storage name."""
        self.parts_outside: dict[str, PartOutside] = {}
        """Parts of results that are not at home as a whole and densely, by storage name. They must be resident, too."""
        self.taken_over: dict[str, Placement] = {}
        """Resident places of the graph around this one that results may take, by storage name."""

    def set_uses(self, last_use: dict[str, int], reads: Sequence[Sequence[str]]) -> None:
        """Tells the last layer that reads each tensor, and what each layer reads, by storage name."""
        for name, layer in last_use.items():
            self._dying.setdefault(layer, []).append(name)
        for together in reads:
            for name in together:
                self._read_with.setdefault(name, set()).update(together)

    def settle(self, homes: Mapping[str, Address], parts: Mapping[str, PartOutside]) -> None:
        """Tells where tensors are outside, and what of results is wanted there."""
        self.homes |= {self.tensors.storage[name]: address for name, address in homes.items()}
        self.parts_outside |= {self.tensors.storage[name]: part for name, part in parts.items()}

    def dies_now(self, name: str) -> bool:
        """Whether nothing reads a tensor, by storage name, after the layer that is planned."""
        return name in self._dying.get(self._layer, ())

    def _place(self, name: str, placement: Placement) -> None:
        self.placements[name] = placement
        if placement.resident:
            self._resident.put(name, placement)
        else:
            self._resident.drop(name)

    # --- external memory

    def adopt(self, name: str, placement: Placement) -> None:
        """An input of the graph that the graph around it has placed."""
        self._place(name, placement)
        if placement.resident:
            self._borrowed.add(name)

    def external(self, name: str) -> Placement:
        """A tensor of the graph's boundary, or one that is spilled, in external memory."""
        storage = self.tensors.storage[name]
        if storage in self.parts_outside:
            raise OutOfMemory(f"{self.tensors[name]} is not as a whole outside, and it is not resident")
        port = self._outside(name)
        self._place(storage, Placement(port.address, port.bytes))
        return self.placements[storage]

    def _outside(self, name: str) -> PlacedPort:
        """The place of a tensor in external memory from now on."""
        size = self.tensors.size_bytes(name)
        address = self.homes.get(self.tensors.storage[name])
        if address is None:
            address = self.memories.external.reserve(size, self.tensors[name])
        self.ports[name] = PlacedPort(self.tensors[name], address, size)
        return self.ports[name]

    def sent(self, name: str) -> Sent:
        """Sends a resident tensor, or the part that is wanted, to a place in external memory, too."""
        storage, port = self.tensors.storage[name], self._outside(name)
        source, part = self.placements[storage].address, self.parts_outside.get(storage)
        if part is None:
            return Sent(source, port.address, port.bytes)
        return Sent(source, port.address, part.end_byte, part.first_byte, part.rows)

    def move_outside(self, name: str) -> None:
        """Gives back the activation memory of a layer's result, which then lives in external memory only."""
        storage = self.tensors.storage[name]
        self.arena.free(self.placements[storage].address.offset)
        port = self.ports.get(name) or self._outside(name)
        self._place(storage, Placement(port.address, port.bytes))

    def show_apart(self, name: str) -> PlacedPort:
        """A place of its own for an output that would lie where the tensor is that it is another name of."""
        size = self.tensors.size_bytes(name)
        address = self.memories.external.reserve(size, self.tensors[name])
        self._apart[name] = PlacedPort(self.tensors[name], address, size)
        return self._apart[name]

    def output_port(self, name: str) -> PlacedPort:
        """The port of a graph output; a constant or renamed tensor is copied where the host finds it."""
        tensor, storage = self.tensors[name], self.tensors.storage
        if tensor.data is not None:
            address = self.memories.external.add_constant(tensor.data.astype(tensor.dtype.numpy, copy=False))
            return PlacedPort(tensor, address, self.tensors.size_bytes(name))
        known = self._apart.get(name) or self.ports.get(name) or self.ports.get(storage[name])
        if known is None:
            known = next(port for key, port in self.ports.items() if storage[key] == storage[name])
        return dataclasses.replace(known, tensor=tensor)

    def locate(self, name: str) -> Placement:
        """Where a tensor is; a constant is put into external memory."""
        if name not in self.placements:
            tensor = self.tensors[name]
            if tensor.data is None:
                raise AssertionError(f"tensor {name} is read before it is written")
            address = self.memories.external.add_constant(tensor.data.astype(tensor.dtype.numpy, copy=False))
            self._place(name, Placement(address, self.tensors.size_bytes(name)))
        return self.placements[name]

    # --- activation memory

    def bring_constants(self, source: Address, size_bytes: int, taken: list[int]) -> Copy:
        """Brings constants into activation memory for the time of a layer; notes in `taken` what to free."""
        address = self.allocate(size_bytes, high=True)
        if address is None:
            raise OutOfMemory(f"{size_bytes} bytes of parameters do not fit the activation memory")
        taken.append(address)
        return Copy(source, Address(Region.ACTIVATION, address), size_bytes)

    def bring(self, name: str, beside_bytes: int = 0, *, ahead: bool = False) -> Copy | None:
        """Makes an input of the layer resident if there is enough memory, `beside_bytes` left over; the copy that this
        takes. `ahead`: a constant that comes early, into memory where no unit is at work yet."""
        placement = self.locate(name)
        if placement.resident:
            return None
        fits = placement.bytes + beside_bytes <= self.limit_bytes
        address = self.allocate(placement.bytes, high=ahead) if fits else None
        if address is None:
            self.memories.crowded = True
            return None
        self._place(name, resident(address, placement.bytes))
        return Copy(placement.address, self.placements[name].address, placement.bytes)

    def bring_by_rows(self, name: str) -> Arrival | None:
        """Makes an image [N, H, W, C] resident if there is enough memory; its rows are loaded as they are needed."""
        placement = self.locate(name)
        size = self._resident_bytes(name, placement.bytes)
        if placement.resident or size > self.limit_bytes:
            return None
        address = self.allocate(size)
        if address is None:
            return None
        self._place(name, resident(address, placement.bytes, self.pitches.get(name, 0)))
        rows = math.prod(self.tensors.shape(name)[:2])
        return Arrival(placement, placement.bytes // rows, rows)

    def take_over(self, name: str) -> None:
        """Places a layer's result where the graph around this one will look for it."""
        self.adopt(self.tensors.storage[name], self.taken_over[self.tensors.storage[name]])

    def _resident_bytes(self, name: str, dense_bytes: int) -> int:
        """Bytes a tensor takes in activation memory."""
        if name not in self.pitches:
            return dense_bytes
        return math.prod(self.tensors.shape(name)[:2]) * self.pitches[name]

    def place_output(self, name: str, reads: list[str], *, ahead: bool = False) -> None:
        """Places a layer's result: resident if there is enough memory for it and for what the layer streams. `ahead`:
        LOAD brings it, and may do so while earlier layers run."""
        if self.tensors.storage[name] in self.taken_over and self.tensors.storage[name] in self.placements:
            return
        dense_bytes = self.tensors.size_bytes(name)
        size = self._resident_bytes(name, dense_bytes)
        streamed = sum(self.placements[read].bytes for read in reads if not self.placements[read].resident)
        if size <= self.limit_bytes:
            reserve = min(self.config.am_bytes // STREAM_RESERVE_AM_PART if streamed else 0, streamed)
            address = self._allocate_untouched(size) if ahead else None
            if address is None:
                address = self._allocate_apart(self.tensors.storage[name], size)
            if address is not None and self.arena.largest_gap_bytes() < reserve and self.pending_free:
                self.arena.free(address)
                self.release_pending(keep=self.beside or 0)
                address = self.allocate(size, keep=self.beside or 0)
            if address is not None and self.arena.largest_gap_bytes() >= reserve:
                output = self.tensors.storage[name]
                self._place(output, resident(address, dense_bytes, self.pitches.get(name, 0)))
                return
            if address is not None:
                self.arena.free(address)
        self.memories.crowded = True
        self.external(name)

    def place_resident(self, name: str) -> bool:
        """Places a layer's result in activation memory, if it is small enough and there is room."""
        dense_bytes = self.tensors.size_bytes(name)
        size = self._resident_bytes(name, dense_bytes)
        address = self.allocate(size) if size <= self.limit_bytes else None
        if address is not None:
            self._place(self.tensors.storage[name], resident(address, dense_bytes, self.pitches.get(name, 0)))
        return address is not None

    def pass_through(self, name: str) -> None:
        """An image of which only stripes are in activation memory. Its place is where row 0 is at first."""
        self.placements[name] = resident(0, self.tensors.size_bytes(name), self.pitches.get(name, 0))

    def withdraw(self, name: str) -> None:
        """Forgets an image that has passed through."""
        self.placements.pop(name, None)
        self._resident.drop(name)

    def allocate(self, size_bytes: int, *, high: bool = False, keep: int = 0) -> int | None:
        """A block, if need be in memory that layers before may still be reading: the schedule makes that wait. What the
        last `keep` ones use stays theirs."""
        address = self.arena.allocate(size_bytes, high=high)
        if address is None and self.beside is None:
            self.release_pending()
            address = self.arena.allocate(size_bytes, high=high)
        while address is None and len(self.pending_free) > keep:
            self.arena.give_back(self.pending_free.pop(0))
            address = self.arena.allocate(size_bytes, high=high)
        return address

    def hold(self, name: str) -> Placement:
        """Places a tensor that a loop changes turn by turn: resident if there is enough memory."""
        size = self.tensors.size_bytes(name)
        address = self.allocate(size, high=True) if size <= self.limit_bytes else None
        if address is None:
            self.memories.crowded = True
            return self.external(name)
        self._place(self.tensors.storage[name], resident(address, size))
        return self.placements[self.tensors.storage[name]]

    def _allocate_apart(self, name: str, size_bytes: int) -> int | None:
        """A block in another bank than the tensors that are there, if there is plenty of memory: units that read or
        write both at a time do not wait for each other. Else in another bank than those that are read together with
        this one, if that leaves no less in one piece."""
        bank_bytes, resident = self.config.am_bank_bytes, self._resident
        address = self.arena.allocate_apart(size_bytes, bank_bytes, resident.banks)
        beside = resident.banks_of(self._read_with.get(name, ())) if address is None else set[int]()
        if beside:
            address = self.arena.allocate_apart(size_bytes, bank_bytes, beside, like_first=True)
        return self.allocate(size_bytes, keep=self.beside or 0) if address is None else address

    def _allocate_untouched(self, size_bytes: int) -> int | None:
        """A block that no unit is likely to use any more."""
        return self.arena.allocate(size_bytes, others=[*itertools.chain(*self._recent)])

    # --- life times

    def release_pending(self, keep: int = 0) -> None:
        """Frees the buffers of earlier layers, but for the last `keep` ones."""
        while len(self.pending_free) > keep:
            self.arena.give_back(self.pending_free.pop(0))

    def free_after(self, index: int, own_blocks: list[int]) -> None:
        """Frees what dies with this layer. Its buffers and constants stay some layers longer, unless memory runs short,
        so that the parameters of the next ones are fetched into other memory while this one computes."""
        self._layer = index + 1
        self._recent.append(self.arena.used())
        self.memories.last_used = self._recent[-1]
        self.memories.history.note(self._changed_blocks())
        dying = [name for name in self._dying.get(index, ()) if name in self._resident]
        constants = [name for name in dying if self.tensors[name].data is not None]
        constants = [name for name in constants if name not in self._borrowed]
        self.pending_free.append([*own_blocks, *(self.placements[name].address.offset for name in constants)])
        for name in constants:
            del self.placements[name]
            self._resident.drop(name)
        if len(self.pending_free) > PARAMETERS_LINGER_LAYERS:
            self.arena.give_back(self.pending_free.pop(0))
        for name in dying:
            if name not in constants:
                self._release(name)

    def _changed_blocks(self) -> dict[int, tuple[int, str] | None]:
        """What MemoryHistory.note asks for."""
        changed: dict[int, tuple[int, str] | None] = {}
        for start in sorted(self.arena.touched | self._resident.touched):
            end = self.arena.end(start)
            name = self._resident.name(start) or "parameters and buffers"
            changed[start] = None if end is None else (end, name)
        self.arena.touched.clear()
        self._resident.touched.clear()
        return changed

    def close(self) -> None:
        """Frees all that the graph has in activation memory."""
        self.release_pending()
        for name in list(self._resident):
            self._release(name)

    def _release(self, name: str) -> None:
        if name not in self._borrowed:
            self.arena.free(self.placements.pop(name).address.offset)
            self._resident.drop(name)
