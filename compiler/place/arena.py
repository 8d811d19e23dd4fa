"""Allocates the activation memory, first fit."""

import bisect
import contextlib
from collections.abc import Collection, Iterator, Sequence

from tosaic.compiler.machine_numbers import OWN_BANK_ROOM_SHARE
from tosaic.errors import UnsupportedError


class OutOfMemory(UnsupportedError):
    """The activation memory cannot hold what a layer needs at the current residency."""


class Arena:
    """First-fit allocator of activation memory, in bytes. A call costs what the gaps do, not what the blocks do."""

    def __init__(self, size_bytes: int, alignment: int):
        self.size_bytes, self.alignment = size_bytes, alignment
        self._used: dict[int, int] = {}
        """Start -> end of the blocks, in the order in which they were taken."""
        self._free = [(0, size_bytes)]
        """The gaps, ascending."""
        self.touched: set[int] = set()
        """Starts of blocks that were taken or freed; for others to clear."""

    def gaps(self, others: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int]]:
        """Returns the free (start, end), ascending; `others` count as used."""
        if not others:
            return self._free
        free, position = [], 0
        for start, end in sorted([*self._used.items(), *others]):
            if start > position:
                free.append((position, start))
            position = max(position, end)
        if position < self.size_bytes:
            free.append((position, self.size_bytes))
        return free

    def used(self) -> list[tuple[int, int]]:
        """Returns the allocated (start, end)."""
        return list(self._used.items())

    def end(self, start: int) -> int | None:
        """The end of the block that begins at `start`, if one does."""
        return self._used.get(start)

    def occupy(self, blocks: Sequence[tuple[int, int]]) -> None:
        """Takes blocks (start, end) that are free."""
        for block in blocks:
            self._take(*block)

    def largest_gap_bytes(self) -> int:
        return max((end - start for start, end in self._free), default=0)

    def allocate(
        self, size_bytes: int, *, high: bool = False, others: Sequence[tuple[int, int]] = ()
    ) -> int | None:
        """Address of a free block outside of `others`, None when there is none. `high` takes the last gap: for what
        lives briefly."""
        size_bytes = -(-max(size_bytes, 1) // self.alignment) * self.alignment
        gaps = self.gaps(others)
        for first, end in reversed(gaps) if high else gaps:
            if end - first >= size_bytes:
                start = end - size_bytes if high else first
                self._take(start, start + size_bytes)
                return start
        return None

    def allocate_apart(
        self, size_bytes: int, bank_bytes: int, taken: Collection[int], *, like_first: bool = False
    ) -> int | None:
        """The first free block in other banks than those `taken`; None where that would leave less than
        OWN_BANK_ROOM_SHARE of the memory in one piece, or, with `like_first`, less than the first free block would
        leave."""
        size_bytes = -(-max(size_bytes, 1) // self.alignment) * self.alignment
        least_bytes = OWN_BANK_ROOM_SHARE * self.size_bytes
        if like_first:
            fitting = (gap for gap in self._free if gap[1] - gap[0] >= size_bytes)
            if (gap := next(fitting, None)) is not None:
                least_bytes = min(least_bytes, self._largest_after(*gap, (gap[0], gap[0] + size_bytes)))
        for first, end in self._free:
            for start in (first, *range(-(-first // bank_bytes) * bank_bytes, end, bank_bytes)):
                block = (start, start + size_bytes)
                banks = range(start // bank_bytes, -(-block[1] // bank_bytes))
                if block[1] > end or any(bank in taken for bank in banks):
                    continue
                if self._largest_after(first, end, block) >= least_bytes:
                    self._take(*block)
                    return start
        return None

    def _largest_after(self, first: int, end: int, block: tuple[int, int]) -> int:
        """Bytes of the largest gap that a `block` (start, end) in the gap from `first` to `end` would leave."""
        others = max((last - start for start, last in self._free if start != first), default=0)
        return max(others, block[0] - first, end - block[1])

    def free(self, address: int) -> None:
        """Gives the block that begins at `address` back."""
        start, end = address, self._used.pop(address)
        self.touched.add(address)
        place = bisect.bisect_left(self._free, (start, end))
        if place < len(self._free) and self._free[place][0] == end:
            end = self._free.pop(place)[1]
        if place and self._free[place - 1][1] == start:
            place -= 1
            start = self._free.pop(place)[0]
        self._free.insert(place, (start, end))

    def give_back(self, addresses: Sequence[int]) -> list[tuple[int, int]]:
        """Frees the blocks that begin at these addresses; which ones, (start, end)."""
        blocks = [(address, self._used[address]) for address in addresses]
        for address in addresses:
            self.free(address)
        return blocks

    @contextlib.contextmanager
    def without(self, addresses: Sequence[int]) -> Iterator[None]:
        """Frees the blocks that begin at these addresses for a while, in which nobody keeps what he takes."""
        touched, blocks = set(self.touched), self.give_back(addresses)
        try:
            yield
        finally:
            self.occupy(blocks)
            self.touched = touched

    def _take(self, start: int, end: int) -> None:
        """Makes a block of bytes that are free."""
        place = bisect.bisect_right(self._free, (start, self.size_bytes)) - 1
        first, last = self._free[place]
        assert first <= start and end <= last
        self._free[place : place + 1] = [gap for gap in ((first, start), (end, last)) if gap[0] < gap[1]]
        self._used[start] = end
        self.touched.add(start)
