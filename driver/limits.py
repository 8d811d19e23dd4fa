"""What limits a layer: which units are busy for most of its cycles."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from tosaic.sim.result import Slice

_BINDS = 0.5
"""A unit that is busy for less of a layer's cycles than this does not limit it."""
_CLOSE = 0.05
"""Units whose shares of a layer's cycles differ by less work hand in hand: one drains what the other makes."""
_SEEN = 0.05
"""A unit that is busy for less is not worth its name in a table."""
_FULL = 0.8
"""Utilization from which on the multipliers themselves are what a layer waits for."""
_WORK = {
    "LOAD": "reading external memory",
    "ARRAY": "multiplications",
    "VECTOR": "elementwise work",
    "STORE": "writing external memory",
}


@dataclass(frozen=True)
class Limit:
    """The units that are the busiest in a layer, with their shares of its cycles."""

    shares: dict[str, float]
    binds: bool
    """They are busy for most of the cycles; else units wait for each other."""

    def __str__(self) -> str:
        told = ", ".join(f"{unit} {share:.0%}" for unit, share in self.shares.items())
        work = (
            " and ".join(_WORK[unit] for unit in self.shares) if self.binds else "units wait for each other"
        )
        return f"{work}: {told} busy"

    @property
    def short(self) -> str:
        """The busiest units for a table, or that none is busy."""
        told = ", ".join(f"{unit} {share:.0%}" for unit, share in self.shares.items() if share >= _SEEN)
        return told if self.binds else f"waiting{f' ({told})' if told else ''}"

    def way_out(self, utilization: float) -> str:
        """What would make the layer faster; `utilization` is that of the multipliers in its cycles."""
        if not self.binds:
            return "Its steps are short and wait for each other; more work in one layer hides that."
        ways = [_WAYS[unit] for unit in self.shares if unit in _WAYS]
        if "ARRAY" in self.shares and utilization >= _FULL:
            return "The multipliers are busy: only fewer products or a larger array is faster."
        if "ARRAY" in self.shares:
            ways.insert(
                0,
                f"The array works, but only {utilization:.0%} of its multipliers have something to do: pixels fill its "
                "rows, channels its columns and the bytes of a step.",
            )
        return " ".join(ways)


_WAYS = {
    "LOAD": "More bytes per cycle from external memory help, or weights that are fewer or compressed (--compress nnr).",
    "VECTOR": "Fewer operators between the products help, or a machine with more columns, which has more lanes.",
    "STORE": "More bytes per cycle help, or activation memory that keeps the result inside (--set am_bytes=1M).",
}


def limit(timeline: Sequence[Slice], start: int, end: int) -> Limit:
    """What limits the cycles from `start` to `end`: the work of the units that are busy for most of them."""
    within = [piece for piece in timeline if piece.start < end and piece.end > start]
    shares = {
        unit: _busy([piece for piece in within if piece.unit == unit], start, end) / max(end - start, 1)
        for unit in _WORK
    }
    most = max(shares.values())
    return Limit({unit: share for unit, share in shares.items() if share > most - _CLOSE}, most >= _BINDS)


def pieces_of_layers(ends: Sequence[int], timeline: Sequence[Slice]) -> list[list[Slice]]:
    """Returns for each layer the pieces that are under way in its cycles. `ends` are the layers' last cycles,
    in order.
    """
    found: list[list[Slice]] = [[] for _ in ends]
    for piece in timeline:
        index = bisect.bisect_right(ends, piece.start)
        while index < len(ends) and (start := ends[index - 1] if index else 0) < piece.end:
            if start < ends[index]:
                found[index].append(piece)
            index += 1
    return found


def _busy(pieces: Sequence[Slice], start: int, end: int) -> int:
    """Cycles of [start, end) in which at least one of the pieces, which may overlap, is under way."""
    reached, cycles = start, 0
    for piece in sorted(pieces, key=lambda each: each.start):
        cycles += max(min(piece.end, end) - max(piece.start, reached), 0)
        reached = max(reached, min(piece.end, end))
    return cycles
