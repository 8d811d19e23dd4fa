"""The weight memory as a ring of blobs."""

from tosaic.compiler.place.address import Address, Region, Span


class WeightRing:
    """Weight memory as a ring of blobs, which may run over its end; a blob that is still there is not loaded again."""

    def __init__(self, size_bytes: int, aligned_bytes: int = 1):
        """Blobs begin at multiples of `aligned_bytes`."""
        self.size_bytes, self._aligned_bytes, self._end = size_bytes, aligned_bytes, 0
        # Places are counted on and on; the memory has the last size_bytes of them.
        self._starts: dict[tuple[Address, int], int] = {}

    def forget(self) -> None:
        """What the weight memory holds is not known any more."""
        self._starts = {}

    def place(self, blob: Address, size_bytes: int, *, whole: bool = False) -> tuple[int, bool]:
        """(byte address of its start, whether it must be loaded). `whole`: it must not run over the end."""
        start = self._starts.get((blob, size_bytes))
        if start is not None and start >= self._end - self.size_bytes:
            return start % self.size_bytes, False
        self._end += -self._end % self._aligned_bytes
        room = self.size_bytes - self._end % self.size_bytes
        if whole and room < size_bytes:
            self._end += room
        start = self._starts[blob, size_bytes] = self._end
        self._end += size_bytes
        return start % self.size_bytes, True

    def spans(self, address: int, size_bytes: int) -> list[Span]:
        """What lies from a byte address on, in one piece or two."""
        return ring_spans(address, size_bytes, self.size_bytes)


def ring_spans(address: int, size_bytes: int, ring_bytes: int) -> list[Span]:
    """What lies from a byte address of the weight memory on, in one piece or two."""
    end = address + size_bytes
    if end <= ring_bytes:
        return [Span(Region.WEIGHT, address, end)]
    return [Span(Region.WEIGHT, address, ring_bytes), Span(Region.WEIGHT, 0, end - ring_bytes)]
