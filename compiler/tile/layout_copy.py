"""Layout operators, and weights that the machine packs: the blocks they are copied in, and buffers for these."""

import dataclasses
import math

from tosaic.compiler.fuse.moves import Move, Part
from tosaic.compiler.machine_numbers import COPY_BLOCK_AM_PART, STRAIGHT_ROW_WORDS, TURN_SCRATCH_AM_PART
from tosaic.compiler.place.address import Address
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.place.placement import Placement
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.place.strides import dense_strides
from tosaic.compiler.tile.loops import Axis, merge
from tosaic.compiler.tile.turn import Scratch, turn_of
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, largest

MAX_ROWS = largest(Opcode.LOAD_GO, "rows")


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


def straight_rows(move: Move, part: Part, element_bytes: int) -> list[Axis]:
    """A part of a copy as rows of bytes, [rows,] bytes: strides of its source and of the dense result."""
    steps = [stride * element_bytes for stride in part.strides]
    return merge([*copy_axes(move, part, steps, element_bytes), Axis(element_bytes, (1, 1))])


def goes_straight(config: Config, move: Move, name: str, element_bytes: int) -> bool:
    """Whether LOAD can bring a source in external memory to its places in a resident target: in rows that are long
    enough to keep the bus busy."""
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
    targets: int = 1
    """Buffers for blocks of the output."""
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
    """Allocates buffers for the largest blocks that fit; sources are fetched whole rather than part by part, but for
    those that come `straight` to the target.

    OutOfMemory where none fit."""
    storage = placer.tensors.storage
    names = dict.fromkeys(part.source for part in move.parts if part.source is not None)
    sources = {name: placer.placements[storage[name]] for name in names}
    external = {
        place.address: place.bytes
        for name, place in sources.items()
        if not place.resident and name not in straight
    }
    largest = math.prod(move.shape)
    if limits.elements is not None:
        largest = min(largest, limits.elements)
    smallest = min(largest, max(1, placer.config.am_bytes // COPY_BLOCK_AM_PART // element_bytes))
    copies = 0 if target.resident else limits.targets
    fits_whole = limits.whole_bytes is None or sum(external.values()) <= limits.whole_bytes
    # A copy that turns a tensor takes a third of the time: its scratch goes before larger blocks.
    scratch = _scratch(placer, move, element_bytes)
    for kept in (scratch, None) if scratch is not None else (None,):
        if scratch is not None and kept is None:
            _free(placer, scratch)
        for whole in (True, False) if fits_whole else (False,):
            elements = largest
            while elements >= smallest:
                buffers = _allocate(placer, elements, element_bytes, copies, external, whole)
                if buffers is not None:
                    buffers = dataclasses.replace(buffers, scratch=kept)
                    return LayoutCopy(move, sources, target, buffers, element_bytes, straight)
                if elements == smallest:
                    break
                elements = max(smallest, elements // 2)
    raise OutOfMemory(f"a block of {smallest * element_bytes} bytes does not fit the activation memory")


def _free(placer: Placer, scratch: Scratch) -> None:
    for address in scratch.addresses:
        placer.arena.free(address)


def _allocate(
    placer: Placer, elements: int, element_bytes: int, copies: int, external: dict[Address, int], whole: bool
) -> CopyBuffers | None:
    gather = bool(external) and not whole
    wanted = [elements * element_bytes] * (copies + gather)
    if whole:
        wanted += external.values()
    taken: list[int] = []
    for size in wanted:
        address = placer.allocate(size, high=True)
        if address is None:
            for other in taken:
                placer.arena.free(other)
            return None
        taken.append(address)
    return CopyBuffers(
        elements,
        targets=taken[:copies],
        gathered=taken[copies] if gather else None,
        whole=dict(zip(external, taken[copies:], strict=True)) if whole else {},
    )


def copy_axes(move: Move, part: Part, source_strides: list[int], element_bytes: int) -> list[Axis]:
    """The loops of a part of a copy, byte strides of a source and of the dense result; element by element."""
    pairs = zip(source_strides, dense_strides(move.shape, element_bytes), strict=True)
    return [Axis(*axis) for axis in zip(part.counts, pairs, strict=True)]


def _scratch(placer: Placer, move: Move, element_bytes: int) -> Scratch | None:
    """Two buffers for parts that are better turned; None where there are none, or there is no room."""
    sizes = []
    for part in move.parts:
        if part.source is not None:
            steps = [stride * element_bytes for stride in part.strides]
            turn = turn_of(copy_axes(move, part, steps, element_bytes), element_bytes, placer.config)
            sizes += [turn.bytes] if turn is not None else []
    if not sizes:
        return None
    size = min(max(sizes), placer.config.am_bytes // TURN_SCRATCH_AM_PART)
    first = placer.allocate(size, high=True)
    second = placer.allocate(size, high=True)
    if first is not None and second is not None:
        return Scratch((first, second), size)
    for address in (first, second):
        if address is not None:
            placer.arena.free(address)
    return None
