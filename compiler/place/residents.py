"""Which tensors are in activation memory, and what they take of its banks."""

import collections
from collections.abc import Iterable, Iterator

from tosaic.compiler.place.placement import Placement


class Residents:
    """Tensors in activation memory by storage name. What a call costs does not grow with their number."""

    def __init__(self, bank_bytes: int):
        self._bank_bytes = bank_bytes
        self._placements: dict[str, Placement] = {}
        self._names: dict[int, dict[str, None]] = {}
        """Start of a block -> the tensors there, the latest last."""
        self.banks: collections.Counter[int] = collections.Counter()
        """How many tensors take bytes of each bank; banks of none are left out."""
        self.touched: set[int] = set()
        """Starts where tensors came or went; for others to clear."""

    def __contains__(self, name: str) -> bool:
        return name in self._placements

    def __iter__(self) -> Iterator[str]:
        return iter(self._placements)

    def name(self, start: int) -> str | None:
        """The tensor that came last of those at `start`."""
        return next(reversed(self._names[start])) if start in self._names else None

    def banks_of(self, names: Iterable[str]) -> set[int]:
        """The banks of those of the tensors that are there."""
        there = (self._placements[name] for name in names if name in self._placements)
        return {bank for placement in there for bank in self._taken(placement)}

    def put(self, name: str, placement: Placement) -> None:
        """A tensor is there from now on, and nowhere else."""
        self.drop(name)
        self._placements[name] = placement
        self._names.setdefault(placement.address.offset, {})[name] = None
        self.banks.update(self._taken(placement))
        self.touched.add(placement.address.offset)

    def drop(self, name: str) -> None:
        """A tensor is not there any more, if it was."""
        placement = self._placements.pop(name, None)
        if placement is None:
            return
        start = placement.address.offset
        del self._names[start][name]
        if not self._names[start]:
            del self._names[start]
        for bank in self._taken(placement):
            self.banks[bank] -= 1
            if not self.banks[bank]:
                del self.banks[bank]
        self.touched.add(start)

    def _taken(self, placement: Placement) -> range:
        """The banks of a tensor's bytes."""
        start, end = placement.address.offset, placement.address.offset + placement.bytes
        return range(start // self._bank_bytes, -(-end // self._bank_bytes))
