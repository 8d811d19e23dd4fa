"""Layout operators, and weights that the machine packs: the blocks they are copied in, and buffers for these."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import ClassVar

from tosaic.compiler.cost.moves import CopyDemand, copy_cycles, moving_cycles
from tosaic.compiler.fuse.moves import Move, MovedBox, blocks
from tosaic.compiler.machine_numbers import (
    COPY_BLOCK_AM_PART,
    COPY_BLOCKS_SHARE,
    STRAIGHT_ROW_WORDS,
    TURN_SCRATCH_AM_PART,
)
from tosaic.compiler.place.address import Address
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.place.buffers import Buffers, Sizes
from tosaic.compiler.place.placement import BufferKey, Placement, Role
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.place.strides import dense_strides
from tosaic.compiler.tile.box_search import Room, beside_recent, cheapest, halved
from tosaic.compiler.tile.loops import Axis, merge
from tosaic.compiler.tile.turn import Scratch, turn_of
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, largest

MAX_ROWS = largest(Opcode.LOAD_GO, "rows")
_BLOCK, _GATHERED = BufferKey(Role.RESULT), BufferKey(Role.WHOLE)


@dataclasses.dataclass(frozen=True)
class CopyBuffers:
    """Where in activation memory what is not resident is worked on."""

    block_elements: int
    targets: list[int]
    """Blocks of the output take turns; none: it is resident."""
    whole: dict[Address, int]
    """Where sources lie that are fetched whole, by their place in external memory."""
    gathered: int | None
    """Holds the part of a source that a block needs; None: no source is fetched in parts."""
    scratch: Scratch | None = None
    """Memory for copies that turn a tensor."""

    def addresses(self) -> list[int]:
        scratch = () if self.scratch is None else self.scratch.addresses
        gathered = [] if self.gathered is None else [self.gathered]
        return [*self.whole.values(), *self.targets, *gathered, *scratch]


@dataclasses.dataclass(frozen=True)
class LayoutCopy:
    """A layout operator on its way to `target`, block by block. Sources are where they are now: one may become resident
    for other layers before the last block is copied."""

    move: Move
    sources: dict[str, Placement]
    """Placements by the names that `move` has for them."""
    target: Placement
    buffers: CopyBuffers
    element_bytes: int
    straight: frozenset[str] = frozenset()
    """Sources in external memory that LOAD brings to their places in the target."""
    cycles: int = 0
    """Predicted cycles of VECTOR whose operands are there, beside those of its GOs."""


def straight_rows(move: Move, part: MovedBox, element_bytes: int) -> list[Axis]:
    """A part of a copy as rows of bytes, [rows,] bytes: strides of its source and of the dense result."""
    steps = [stride * element_bytes for stride in part.strides]
    return merge([*copy_axes(move, part, steps, element_bytes), Axis(element_bytes, (1, 1))])


def goes_straight(config: Config, move: Move, name: str, element_bytes: int) -> bool:
    """Whether LOAD can bring a source in external memory to its places in the target, or in a block of it: in rows that
    are long enough to keep the bus busy."""
    for part in move.parts:
        if part.source == name:
            rows = straight_rows(move, part, element_bytes)
            if not rows:
                return False
            *outer, run = rows
            long = run.strides == (1, 1) and run.count >= STRAIGHT_ROW_WORDS * config.word_bytes
            if not long or len(outer) > 1 or any(axis.count > MAX_ROWS for axis in outer):
                return False
            if any(min(axis.strides) < run.count for axis in outer):
                return False
    return True


@dataclasses.dataclass(frozen=True)
class BlockLimits:
    """What the blocks of a copy are held to."""

    elements: int | None = None
    """The largest number of elements of a block of the output; None: as many as fit."""
    whole_bytes: int | None = None
    """Sources of at most this many bytes in total are fetched whole; None: of any size."""


def plan_copy(
    placer: Placer,
    move: Move,
    target: Placement,
    element_bytes: int,
    limits: BlockLimits,
    straight: frozenset[str] = frozenset(),
) -> LayoutCopy:
    """Takes buffers for the best blocks; sources that come `straight` to the target need none. OutOfMemory where none
    fit."""
    cuts = _CopyCuts(placer, move, target, element_bytes, limits, straight)
    room = Room(placer.arena)
    fits = room.turns_of(cuts.sizes(next(cuts.candidates()))) > 0
    if not fits:
        placer.release_pending(keep=placer.beside or 0)
    found = (
        cheapest(cuts, room)
        if fits or placer.beside is None
        else beside_recent(placer, room, lambda room: cheapest(cuts, room))
    )
    if found is None:
        smallest = cuts.smallest * element_bytes
        raise OutOfMemory(f"a block of {smallest} bytes does not fit the activation memory")
    buffers, cycles = cuts.copy_buffers(found.tiles, found.buffers), cuts.moved(found.tiles, int)
    return LayoutCopy(move, cuts.sources, target, buffers, element_bytes, straight, cycles)


@dataclasses.dataclass(frozen=True)
class _Blocks:
    """How a copy is worked on."""

    elements: int
    """Elements of the result at a time."""
    whole: bool
    """Sources are fetched whole, and not part by part."""
    turned: bool
    """There is scratch memory for parts that are better turned."""


class _CopyCuts:
    """The blocks that a copy may run in."""

    clearly: ClassVar[float] = COPY_BLOCKS_SHARE

    def __init__(
        self,
        placer: Placer,
        move: Move,
        target: Placement,
        element_bytes: int,
        limits: BlockLimits,
        straight: frozenset[str],
    ):
        self.move, self.target, self.element_bytes, self.limits = move, target, element_bytes, limits
        self.config, self.speed = placer.config, placer.memories.speed
        storage = placer.tensors.storage
        names = dict.fromkeys(part.source for part in move.parts if part.source is not None)
        self.sources = {name: placer.placements[storage[name]] for name in names}
        self.external = {
            place.address: place.bytes
            for name, place in self.sources.items()
            if not place.resident and name not in straight
        }
        self.read_bytes = sum({p.address: p.bytes for p in self.sources.values() if not p.resident}.values())
        self.largest = min(math.prod(move.shape), limits.elements or math.prod(move.shape))
        # Blocks below a sixteenth of the memory cost more commands than they are worth: other tensors are spilled.
        self.smallest = min(
            self.largest, max(1, placer.config.am_bytes // COPY_BLOCK_AM_PART // element_bytes)
        )
        axes = [
            copy_axes(move, part, [stride * element_bytes for stride in part.strides], element_bytes)
            for part in move.parts
            if part.source is not None and part.source not in straight
        ]
        self.turns = [turn_of(each, element_bytes, placer.config) for each in axes]
        self.vectors = [self._vectors(each) for each in axes]
        scratch = max((turn.bytes for turn in self.turns if turn is not None), default=0)
        self.scratch_bytes = min(scratch, placer.config.am_bytes // TURN_SCRATCH_AM_PART)

    def _vectors(self, axes: list[Axis]) -> int:
        """VECTOR's vectors for a part element by element, or word by word where neighbours stay neighbours."""
        *outer, (count, run) = [
            (axis.count, axis.strides) for axis in merge([*axes, Axis(self.element_bytes, (1, 1))])
        ] or [(1, (1, 1))]
        vectors = -(-count // self.config.columns) if run == (1, 1) else count
        return vectors * math.prod(count for count, _ in outer)

    def rungs(self) -> Iterator[Iterator[_Blocks]]:
        yield self.candidates()

    def candidates(self) -> Iterator[_Blocks]:
        """Turned ones first: these take a third of the time."""
        fits_whole = self.limits.whole_bytes is None or sum(self.external.values()) <= self.limits.whole_bytes
        for turned in (True, False) if self.scratch_bytes else (False,):
            for whole in (True, False) if fits_whole and self.external else (fits_whole,):
                for elements in halved(self.largest, self.smallest):
                    yield _Blocks(elements, whole, turned)

    def sizes(self, tiles: _Blocks) -> Sizes:
        sizes, block = Sizes(), tiles.elements * self.element_bytes
        if tiles.turned:
            sizes |= {BufferKey(Role.SCRATCH, stream=number): self.scratch_bytes for number in range(2)}
        if not self.target.resident:
            sizes[_BLOCK] = block
        if tiles.whole:
            sizes |= {BufferKey(Role.WHOLE, str(place)): size for place, size in self.external.items()}
        elif self.external:
            sizes[_GATHERED] = block
        return sizes

    def cycles(self, tiles: _Blocks, sizes: Sizes, turns: int) -> float:
        return copy_cycles(self._demand(tiles), self.config, self.speed, doubled=turns > 1)

    def moved(self, tiles: _Blocks, plain: Callable[[int], int]) -> int:
        """Cycles of VECTOR for all parts of the copy; `plain` tells those of vectors that are not turned."""
        return sum(
            turn.predicted(self.config) if tiles.turned and turn is not None else plain(vectors)
            for turn, vectors in zip(self.turns, self.vectors, strict=True)
        )

    def _demand(self, tiles: _Blocks) -> CopyDemand:
        gathered = self.external and not tiles.whole
        return CopyDemand(
            -(-math.prod(self.move.shape) // tiles.elements),
            self.moved(tiles, moving_cycles),
            len(self.turns),
            self.read_bytes,
            self._bursts(tiles.elements) if gathered else 0,
            0 if self.target.resident else tiles.elements * self.element_bytes,
        )

    def _bursts(self, elements: int) -> int:
        """Runs of bytes in external memory that the first block is gathered from."""
        low, counts = next(blocks(self.move.shape, elements))
        bursts = 0
        for part in self.move.parts:
            inner = part.within(low, counts)
            if (
                inner is None
                or inner.source is None
                or self.sources[inner.source].address not in self.external
            ):
                continue
            run, axes = 1, zip(inner.counts, inner.strides, strict=True)
            for stride, count in sorted(
                (abs(stride), count) for count, stride in axes if count > 1 and stride
            ):
                if stride != run:
                    break
                run *= count
            bursts += -(-math.prod(inner.counts) // run)
        return bursts

    def copy_buffers(self, tiles: _Blocks, buffers: Buffers) -> CopyBuffers:
        """The buffers of the candidate that was chosen."""
        places = {key: buffer.addresses for key, buffer in buffers.items()}
        scratch = [address for key, found in places.items() if key.role is Role.SCRATCH for address in found]
        return CopyBuffers(
            tiles.elements,
            targets=list(places.get(_BLOCK, ())),
            whole={
                place: places[BufferKey(Role.WHOLE, str(place))][0] for place in self.external if tiles.whole
            },
            gathered=places[_GATHERED][0] if _GATHERED in places else None,
            scratch=Scratch((scratch[0], scratch[1]), self.scratch_bytes) if scratch else None,
        )


def copy_axes(move: Move, part: MovedBox, source_strides: list[int], element_bytes: int) -> list[Axis]:
    """The loops of a part of a copy, byte strides of a source and of the dense result; element by element."""
    pairs = zip(source_strides, dense_strides(move.shape, element_bytes), strict=True)
    return [Axis(*axis) for axis in zip(part.counts, pairs, strict=True)]
