"""The one search of the tile stage: in which pieces a layer runs.

A kind of layer says what it may be cut into (`Cuts`): candidates, the buffers that each needs, and the cycles that it
is predicted to take. The search keeps the candidate with the fewest cycles of which the buffers fit. It ends early: a
candidate that would take no fewer cycles with all the buffers that it may have is not tried in the memory, and later
rungs of candidates are not looked at where an earlier one has something that fits twice.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

from tosaic.compiler.machine_numbers import (
    EVEN_PARTS_COMPARED,
    EVEN_PARTS_GROWTH_PART,
    WOVEN_BOXES_SHARE,
    WOVEN_BUFFERS_AM_PART,
)
from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.buffers import Buffers, Sizes, addresses_of, allocate_buffers
from tosaic.compiler.place.placement import Role
from tosaic.compiler.place.placer import Placer

Tiles = TypeVar("Tiles")


class Cuts(Protocol[Tiles]):
    """What a layer may be cut into."""

    clearly: ClassVar[float]
    """The share of the preferred candidate's cycles below which others are taken."""

    def rungs(self) -> Iterable[Iterable[Tiles]]:
        """Candidates, the preferred one first. Those of a later rung are for want of memory: they are compared only
        where none before is found whose buffers fit twice."""
        ...

    def sizes(self, tiles: Tiles) -> Sizes:
        """Bytes of the buffers of a candidate's largest piece; none where all is in activation memory."""
        ...

    def cycles(self, tiles: Tiles, sizes: Sizes, turns: int) -> float:
        """Predicted cycles of a candidate with up to `turns` blocks for each buffer: more of them take no more."""
        ...


@dataclasses.dataclass(frozen=True)
class Room:
    """The activation memory that buffers are taken from; see `allocate_buffers` for how they lie there."""

    arena: Arena
    turns: int = 2
    """Blocks of the image that a window slides over, at most."""
    apart: Sequence[tuple[int, int]] = ()
    low: Role = Role.WINDOW
    most_bytes: int | None = None
    """Bytes of all blocks at most."""

    def take(self, sizes: Sizes) -> Buffers | None:
        """Buffers of these sizes; None where they do not fit."""
        try:
            return allocate_buffers(self.arena, sizes, self.turns, self.apart, self.low)
        except OutOfMemory:
            return None

    def turns_of(self, sizes: Sizes) -> int:
        """Blocks of each buffer that fit; 0: none."""
        buffers = self.take(sizes)
        if buffers is None:
            return 0
        self.arena.give_back(addresses_of(buffers))
        turning = (len(buffer.addresses) for key, buffer in buffers.items() if key.role.takes_turns)
        return max(turning, default=self.turns)


@dataclasses.dataclass(frozen=True)
class Found(Generic[Tiles]):
    """The candidate that was chosen, with its buffers, which are taken."""

    tiles: Tiles
    buffers: Buffers
    cycles: float


def cheapest(cuts: Cuts[Tiles], room: Room) -> Found[Tiles] | None:
    """The best candidate; None where the buffers of none fit. The preferred one is the first that fits."""
    found: tuple[Tiles, Sizes, float] | None = None
    limit, most_turns = math.inf, 0
    free_bytes = sum(end - start for start, end in room.arena.gaps())
    for rung in cuts.rungs():
        for tiles in rung:
            sizes = cuts.sizes(tiles)
            needed = sum(sizes.values())
            if needed > free_bytes or (room.most_bytes is not None and room.turns * needed > room.most_bytes):
                continue
            cycles = cuts.cycles(tiles, sizes, room.turns)
            if cycles >= limit:
                continue
            turns = room.turns_of(sizes)
            if turns < room.turns:
                cycles = cuts.cycles(tiles, sizes, turns) if turns else math.inf
            if cycles < limit:
                limit = cycles if found is not None else cuts.clearly * cycles
                found, most_turns = (tiles, sizes, cycles), turns
        if most_turns > 1:
            break
    if found is None:
        return None
    buffers = room.take(found[1])
    assert buffers is not None
    return Found(found[0], buffers, found[2])


def beside_recent(
    placer: Placer, room: Room, search: Callable[[Room], Found[Tiles] | None]
) -> Found[Tiles] | None:
    """What `search` finds in memory that the last layers do not use, and in no more than a share of it, so that the
    layer may run together with them and with the next ones; where it finds something clearly better in all that is
    free, that."""
    arena = placer.arena
    found = search(dataclasses.replace(room, most_bytes=arena.size_bytes // WOVEN_BUFFERS_AM_PART))
    own = addresses_of(found.buffers) if found is not None else []
    with arena.without([*own, *itertools.chain(*placer.pending_free)]):
        roomy = search(room)
        blocks = arena.give_back(addresses_of(roomy.buffers)) if roomy is not None else []
    if found is not None and (roomy is None or WOVEN_BOXES_SHARE * found.cycles <= roomy.cycles):
        return found
    arena.give_back(own)
    placer.release_pending()
    arena.occupy(blocks)
    return roomy


def even_parts(size: int, step: int = 1) -> Iterator[int]:
    """The largest parts, largest first, of `size` cut evenly into 1, 2, 3, ... parts; each is a multiple of `step`, or
    all."""
    units, before, count = max(1, -(-size // step)), 0, 1
    while count <= units:
        part = -(-units // count)
        if part != before:
            yield min(size, part * step)
        before = part
        count += 1 if count < EVEN_PARTS_COMPARED else -(-count // EVEN_PARTS_GROWTH_PART)
    if before > 1:
        yield min(size, step)


def halved(size: int, least: int) -> Iterator[int]:
    """`size`, its half, its quarter, ... and at last `least`, which is not above it."""
    before = 0
    while size != before:
        yield size
        size, before = max(least, size // 2), size


def split(size: int, step: int) -> list[tuple[int, int]]:
    """(number of pieces, their size) of `size` cut into pieces of `step`, of which the last may be smaller."""
    whole, rest = divmod(size, step)
    return [(count, each) for count, each in ((whole, step), (1, rest)) if count and each]
