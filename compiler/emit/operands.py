"""Where a layer's tensors are while it runs: resident, or brought in and out in stripes of rows."""

import dataclasses

from tosaic.compiler.emit.emitter import Emitter, Rows
from tosaic.compiler.emit.transfers import StoredBox
from tosaic.compiler.place.memory import Arena, OutOfMemory
from tosaic.compiler.schedule.tracker import Space, Span


@dataclasses.dataclass(frozen=True)
class Placement:
    """A whole tensor: in activation memory (`resident`) or external memory."""

    resident: bool
    address: int
    bytes: int
    pitch: int = 0
    """Bytes from image row to image row, if the rows of a resident tensor [N, H, W, C] do not follow each other."""


@dataclasses.dataclass
class Arrival:
    """A tensor that becomes resident while the layer runs, row by row as boxes need it."""

    source: Placement
    """In external memory."""
    row_bytes: int
    rows: int
    loaded: int = 0
    """Rows that are there, or on their way."""


WINDOW = "window of "
"""Role of the tensor that a convolution or pool slides over."""
PARAMETERS = "parameters"
"""Role of per-channel parameters that do not stay on chip for the whole layer."""


class StripeBuffer:
    """Two activation-memory buffers that take turns, for a tensor that does not stay on chip."""

    def __init__(self, addresses: list[int], size_bytes: int):
        self.addresses, self.size_bytes, self._turn = addresses, size_bytes, 0

    def next(self) -> int:
        self._turn = (self._turn + 1) % len(self.addresses)
        return self.addresses[self._turn]


class Operands:
    """The tensors of one layer by storage name. Rows are counted in bytes of the dense tensor."""

    def __init__(self, emitter: Emitter, placements: dict[str, Placement], buffers: dict[str, StripeBuffer]):
        self.emitter, self.placements, self.buffers = emitter, placements, buffers
        self.arrivals: dict[str, Arrival] = {}

    def fetch(self, name: str, start: int, stop: int, role: str = "") -> int:
        """AM address of bytes [start, stop) of an input tensor. `role` tells uses of one tensor in one layer apart."""
        placement = self.placements[name]
        if name in self.arrivals:
            self._arrive(name, stop)
        if placement.resident:
            return placement.address + start
        buffer = self.buffers[role + name]
        address = buffer.next()
        assert stop - start <= buffer.size_bytes
        self.emitter.load(placement.address + start, address, stop - start)
        return address

    def fetch_rows(self, name: str, start: int, rows: int, row_bytes: int, pitch: int, role: str) -> int:
        """AM address of image rows of a tensor that is not resident, `pitch` bytes apart there."""
        base, address = self.placements[name].address + start, self.buffers[role + name].next()
        copies = [Rows(base, row_bytes, address, pitch, row_bytes, rows)]
        memory = Span(Space.DRAM, base, base + rows * row_bytes)
        self.emitter.gather(copies, memory, Span(Space.AM, address, address + rows * pitch))
        return address

    def _arrive(self, name: str, stop: int) -> None:
        """Loads the rows of an arriving tensor up to byte `stop` of its place in activation memory."""
        arrival, place = self.arrivals[name], self.placements[name]
        pitch, row_bytes = place.pitch or arrival.row_bytes, arrival.row_bytes
        first, last = arrival.loaded, min(-(-stop // pitch), arrival.rows)
        if last <= first:
            return
        memory, address = arrival.source.address + first * row_bytes, place.address + first * pitch
        count, arrival.loaded = last - first, last
        if pitch == row_bytes:
            self.emitter.load(memory, address, count * row_bytes)
            return
        self.emitter.gather(
            [Rows(memory, row_bytes, address, pitch, row_bytes, count)],
            Span(Space.DRAM, memory, memory + count * row_bytes),
            Span(Space.AM, address, address + count * pitch),
        )

    def arrive_fully(self) -> None:
        """Loads what no box needed."""
        for name, arrival in self.arrivals.items():
            self._arrive(name, arrival.rows * (self.placements[name].pitch or arrival.row_bytes))

    def target(self, name: str, start: int, stop: int) -> int:
        """AM address where bytes [start, stop) of the output tensor are to be written."""
        placement = self.placements[name]
        if placement.resident:
            return placement.address + start
        assert stop - start <= self.buffers[name].size_bytes
        return self.buffers[name].next()

    def finish(self, name: str, address: int, start: int, stop: int) -> None:
        """Sends a finished stripe of the output to external memory, if that is where it lives."""
        placement = self.placements[name]
        if not placement.resident:
            self.emitter.store(address, placement.address + start, stop - start)

    def resident(self, name: str) -> bool:
        return self.placements[name].resident

    def fetch_box(self, name: str, box: StoredBox, role: str = "") -> int:
        """AM address of a box of a tensor that is not resident, densely."""
        buffer, base = self.buffers[role + name], self.placements[name].address
        address = buffer.next()
        assert box.bytes <= buffer.size_bytes
        if box.bytes:
            self.emitter.gather(box.rows(base, address), *_spans(base, box, address))
        return address

    def finish_box(self, name: str, address: int, box: StoredBox) -> None:
        """Sends a finished box of the output, dense at `address`, to external memory."""
        base = self.placements[name].address
        self.emitter.scatter(box.rows(base, address), *_spans(base, box, address))

    def constant(self, role: str, constant_address: int, size_bytes: int) -> int:
        """AM address of constants that are brought in piece by piece."""
        address = self.buffers[role].next()
        assert size_bytes <= self.buffers[role].size_bytes
        self.emitter.load(constant_address, address, size_bytes)
        return address


def _spans(base: int, box: StoredBox, address: int) -> tuple[Span, Span]:
    memory = Span(Space.DRAM, base + box.start, base + box.end)
    return memory, Span(Space.AM, address, address + box.bytes)


def stripe_buffers(arena: Arena, sizes: dict[str, int]) -> tuple[dict[str, StripeBuffer], list[int]]:
    """Buffers of the given sizes, double where that fits; also the addresses to free afterwards."""
    for copies in (2, 1):
        taken: list[int] = []
        buffers = {}
        for name, size in sizes.items():
            addresses = [arena.allocate(size, high=True) for _ in range(copies)]
            taken += [address for address in addresses if address is not None]
            if None in addresses:
                break
            buffers[name] = StripeBuffer([a for a in addresses if a is not None], size)
        else:
            return buffers, taken
        for address in taken:
            arena.free(address)
    raise OutOfMemory(
        f"{sum(sizes.values())} bytes of stripes do not fit {arena.largest_gap_bytes()} free bytes"
    )
