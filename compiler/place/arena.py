"""First-fit allocation of the activation memory."""

from collections.abc import Sequence

from tosaic.errors import UnsupportedError

_ROOM = 7 / 16
"""Least share of the memory in one piece beside a block in a bank of its own: a half, but for parameters."""


class OutOfMemory(UnsupportedError):
    """The activation memory cannot hold what a layer needs at the current residency."""


class Arena:
    """First-fit allocator of activation memory, in bytes."""

    def __init__(self, size_bytes: int, alignment: int):
        self.size_bytes, self.alignment = size_bytes, alignment
        self._used: list[tuple[int, int]] = []

    def gaps(self, others: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int]]:
        """Free (start, end), ascending; `others` count as used."""
        free, position = [], 0
        for start, end in sorted([*self._used, *others]):
            if start > position:
                free.append((position, start))
            position = max(position, end)
        if position < self.size_bytes:
            free.append((position, self.size_bytes))
        return free

    def used(self) -> list[tuple[int, int]]:
        """Allocated (start, end)."""
        return list(self._used)

    def occupy(self, blocks: Sequence[tuple[int, int]]) -> None:
        """Takes blocks (start, end) of an arena of the same size that is empty."""
        assert not self._used
        self._used = list(blocks)

    def largest_gap_bytes(self) -> int:
        return max((end - start for start, end in self.gaps()), default=0)

    def allocate(
        self, size_bytes: int, *, high: bool = False, others: Sequence[tuple[int, int]] = ()
    ) -> int | None:
        """Address of a free block outside of `others`, None when there is none. `high` takes the last gap: for what
        lives briefly."""
        size_bytes = -(-max(size_bytes, 1) // self.alignment) * self.alignment
        gaps = [gap for gap in self.gaps(others) if gap[1] - gap[0] >= size_bytes]
        if not gaps:
            return None
        start = gaps[-1][1] - size_bytes if high else gaps[0][0]
        self._used.append((start, start + size_bytes))
        return start

    def allocate_apart(self, size_bytes: int, bank_bytes: int, others: list[tuple[int, int]]) -> int | None:
        """The first free block in banks that hold none of `others`, (start, end); None where that would leave
        less than _ROOM of the memory in one piece."""
        size_bytes = -(-max(size_bytes, 1) // self.alignment) * self.alignment
        taken = {bank for start, end in others for bank in range(start // bank_bytes, -(-end // bank_bytes))}
        for first, end in self.gaps():
            for start in (first, *range(-(-first // bank_bytes) * bank_bytes, end, bank_bytes)):
                block = (start, start + size_bytes)
                banks = range(start // bank_bytes, -(-block[1] // bank_bytes))
                if block[1] > end or not taken.isdisjoint(banks):
                    continue
                self._used.append(block)
                if self.largest_gap_bytes() >= _ROOM * self.size_bytes:
                    return start
                self._used.pop()
        return None

    def free(self, address: int) -> None:
        block = next(block for block in self._used if block[0] == address)
        self._used.remove(block)
