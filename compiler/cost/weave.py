"""Cycles of layers whose work alternates: VECTOR is busy with one while the array computes another."""

import dataclasses
from collections.abc import Sequence

from tosaic.compiler.cost.vector import batch_cycles
from tosaic.compiler.machine_numbers import (
    ARRAY_DRAIN_CYCLES,
    WOVEN_GO_CYCLES,
)
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.hw.config import Config
from tosaic.hw.isa import Unit


def program_cycles(
    parts: Sequence[Sequence[int]], vectors: int, slots: int, repeats: int, config: Config
) -> int:
    """Cycles of a GO over `vectors` vectors, `slots` at a time. `parts`: cycles of the micro-operations before the
    body, in the body, which runs `repeats` times, and behind it."""
    before, body, after = parts
    whole, rest = divmod(vectors, slots)
    total = WOVEN_GO_CYCLES
    for count, size in ((whole, slots), (1, rest)):
        if count and size:
            each = [batch_cycles(part, size, config) for part in (before, body, after)]
            total += count * (each[0] + repeats * each[1] + each[2])
    return total


@dataclasses.dataclass(slots=True, eq=False)
class WovenWork:
    """A piece of a unit's work."""

    unit: Unit
    cycles: float
    """Cycles of the unit alone."""
    vectors: int = 0
    """Vectors of the array that it makes or takes."""
    after: Sequence["WovenWork"] = ()
    """What must be complete first."""
    end: float | None = None
    """Cycle in which it is complete; None until it has a place in the order."""


class UnitClock:
    """Units that take their pieces in order, side by side."""

    def __init__(self, config: Config, speed: MemorySpeed):
        self._latency, self._rows = speed.latency_cycles, config.rows
        self.free: dict[Unit, float] = dict.fromkeys(Unit, 0.0)
        """Cycle in which each unit is done with what it has."""
        self._drained = 0.0
        """Cycle in which VECTOR has taken all of the array's vectors."""

    def ends(self, pieces: Sequence[WovenWork]) -> tuple[list[float], dict[Unit, float], float]:
        """When the pieces would be complete that come next; `free` and `_drained` from then on."""
        free, drained, slots, ends = dict(self.free), self._drained, 0.0, list[float]()
        known: dict[int, float] = {}
        for piece in pieces:
            begin = free[piece.unit]
            for other in piece.after:
                ended = known.get(id(other), other.end)
                assert ended is not None
                begin = max(begin, ended)
            end = begin + piece.cycles
            free[piece.unit] = end
            if piece.unit is Unit.ARRAY:
                # Its vectors wait for those before, which VECTOR takes in between.
                free[piece.unit] = end = max(end, drained)
                slots = piece.cycles / max(1, piece.vectors)
            elif piece.vectors:
                # Of what the array makes, so much waits for VECTOR, and the rest comes when that has begun.
                made = max(free[Unit.ARRAY], begin + max(0, piece.vectors - 2 * self._rows) * slots)
                free[Unit.ARRAY] = made
                free[piece.unit] = drained = end = max(end, made + ARRAY_DRAIN_CYCLES)
            elif piece.unit in (Unit.LOAD, Unit.STORE):
                end += self._latency
            ends.append(end)
            known[id(piece)] = end
        return ends, free, drained

    def stall_cycles(self, pieces: Sequence[WovenWork]) -> float:
        """Cycles that VECTOR would wait if these came next, or for which they would hold up what comes behind them."""
        _, free, _ = self.ends(pieces)
        own = [piece.cycles for piece in pieces if piece.unit is Unit.VECTOR]
        last = free[Unit.VECTOR] if own else max(free[piece.unit] for piece in pieces)
        stall = last - self.free[Unit.VECTOR] - sum(own)
        return stall if stall > WOVEN_GO_CYCLES else 0

    def take(self, pieces: Sequence[WovenWork]) -> None:
        """Lets the pieces come next."""
        ends, self.free, self._drained = self.ends(pieces)
        for piece, end in zip(pieces, ends, strict=True):
            piece.end = end
