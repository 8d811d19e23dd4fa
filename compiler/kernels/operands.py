"""Where a layer's tensors are while it runs: resident, or brought in and out in stripes of rows."""

import dataclasses

from tosaic.compiler.memory import Arena, OutOfMemory
from tosaic.compiler.schedule.tracker import Space, Span

from .emitter import Emitter
from .transfers import StoredBox


@dataclasses.dataclass(frozen=True)
class Placement:
    """A whole tensor: in activation memory (`resident`) or external memory."""

    resident: bool
    address: int
    bytes: int


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

    def fetch(self, name: str, start: int, stop: int, role: str = "") -> int:
        """AM address of bytes [start, stop) of an input tensor. `role` tells uses of one tensor in one layer apart."""
        placement = self.placements[name]
        if placement.resident:
            return placement.address + start
        buffer = self.buffers[role + name]
        address = buffer.next()
        assert stop - start <= buffer.size_bytes
        self.emitter.load(placement.address + start, address, stop - start)
        return address

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
