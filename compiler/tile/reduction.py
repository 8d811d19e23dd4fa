"""Reductions: boxes of the elements that fit the activation memory, and the passes that reduce a box (clause 2.9).

A box is a range of the axes before the reduced one, or a stretch of the reduced axis. A pass leaves P partial results
for each element of the result (see `fuse/reductions.py`), where P is chosen by the predicted cycles.
"""

import dataclasses
import functools
import math
from collections.abc import Hashable, Iterator
from typing import ClassVar

from tosaic.compiler.cost.moves import ReductionDemand, reduced_cycles
from tosaic.compiler.cost.vector import ReductionPass
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.fuse.moves import blocks
from tosaic.compiler.fuse.reduced_axis import ReducedAxis
from tosaic.compiler.fuse.reductions import index_bits
from tosaic.compiler.machine_numbers import (
    REDUCED_BOX_AM_PART,
    REDUCED_BOXES_SHARE,
    REDUCED_ROW_AM_PART,
)
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.place.buffers import Buffers, Sizes
from tosaic.compiler.place.placement import PARTIALS, BufferKey, Role
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.place.strides import operand_span
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.tile.box_search import Room, beside_recent, cheapest, even_parts
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, width

MAX_REPEATS = 1 << (width(Opcode.VECTOR_GO, "repeats") - 1)
"""Repetitions of one GO: the largest power of two that the field holds."""


@dataclasses.dataclass(frozen=True)
class ReducedBox:
    """Elements [low, low + counts) of the axes before the reduced one, and [start, stop) of that."""

    low: tuple[int, ...]
    counts: tuple[int, ...]
    start: int
    stop: int


@dataclasses.dataclass(frozen=True)
class ReductionPlan:
    """How a reduction runs."""

    partials: tuple[int, ...]
    """Partial results for each element of the result after each pass but the last: powers of two, falling."""
    outer_elements: int
    """The largest number of elements of the axes before the reduced one in a box."""
    along: int
    """The largest number of elements of the reduced axis in a box: all of them, or a multiple of `partials[0]`."""
    cycles: int
    """What VECTOR is predicted to take."""

    def boxes(self, reduced: ReducedAxis) -> Iterator[ReducedBox]:
        """The boxes in the order in which they run: those of one stretch of the result follow each other."""
        for low, counts in blocks(reduced.outer, self.outer_elements):
            for start in range(0, reduced.extent, self.along):
                yield ReducedBox(low, counts, start, min(start + self.along, reduced.extent))


def partial_bytes(reduced: ReducedAxis, partials: int, outer_elements: int) -> int:
    """Bytes of the partial results of a box."""
    return partials * outer_elements * math.prod(reduced.inner) * reduced.computation.partial.bytes


def spans(
    reduced: ReducedAxis, box: ReducedBox, sizes: tuple[int, ...]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Bytes [start, stop) of each operand that a box needs: those of the body, and those of what comes after it and of
    the result. `sizes` are the bytes of an element of each, the result last."""
    body, after, inner = [], [], reduced.inner
    none = (0,) * len(inner)
    for (_, shape), size in zip(reduced.body, sizes, strict=False):
        low, counts = (*box.low, box.start, *none), (*box.counts, box.stop - box.start, *inner)
        body.append(operand_span(shape, low, counts, size))
    for shape, size in zip(
        (*(shape for _, shape in reduced.after), reduced.target), sizes[len(reduced.body) :], strict=True
    ):
        after.append(operand_span(shape, (*box.low, 0, *none), (*box.counts, 1, *inner), size))
    return body, after


def plan_reduction(
    placer: Placer,
    layer: Layer,
    external: list[str],
    known: dict[Hashable, ReductionPlan] | None = None,
    arriving_bytes: int = 0,
) -> tuple[ReductionPlan, Buffers]:
    """The best boxes that fit beside what is resident; `external` are the storage names of what is not. `known`: passes
    by all that chooses them, which other layers have asked for. `arriving_bytes`: of resident operands that come for
    this layer; the first boxes may begin before the last rows are there."""
    cuts = _ReductionCuts(placer, layer, external, {} if known is None else known, arriving_bytes)
    room = Room(placer.arena)
    fits = room.turns_of(cuts.sizes(cuts.largest())) > 0
    if not fits:
        placer.release_pending(keep=placer.beside or 0)
    found = (
        cheapest(cuts, room)
        if fits or placer.beside is None
        else beside_recent(placer, room, lambda room: cheapest(cuts, room))
    )
    if found is None:
        needed = sum(cuts.sizes(cuts.largest()).values())
        raise OutOfMemory(
            f"{layer.root}: {needed} bytes of buffers, or of fewer rows, do not fit the activation memory"
        )
    return cuts.passes(found.tiles), found.buffers


class _ReductionCuts:
    """The boxes that a reduction may run in: (elements of the axes before the reduced one, elements of that)."""

    clearly: ClassVar[float] = REDUCED_BOXES_SHARE
    """Many GOs of a few vectors each wait for each other, which the prediction leaves out."""

    def __init__(
        self,
        placer: Placer,
        layer: Layer,
        external: list[str],
        known: dict[Hashable, ReductionPlan],
        arriving_bytes: int,
    ):
        self.layer, self.external, self.speed, self.known = layer, external, placer.memories.speed, known
        self.arriving_bytes = arriving_bytes
        self.tensors, self.config = placer.tensors, placer.config
        assert layer.reduction is not None
        self.reduced, self.elements = layer.reduction, element_sizes(placer.tensors, layer)
        of = self.reduced
        body = layer.program.body_beats()
        self.content = of.computation, of.outer, of.extent, of.inner, len(of.body), body, self.elements

    def passes(self, tiles: tuple[int, int]) -> ReductionPlan:
        """The passes for boxes of this size."""
        key = (*self.content, *tiles)
        if key not in self.known:
            self.known[key] = _passes(self.layer, self.config, self.elements, *tiles)
        return self.known[key]

    def largest(self) -> tuple[int, int]:
        """The preferred boxes: an eighth of the memory, so that one is fetched while another is in use."""
        outer, extent = math.prod(self.reduced.outer), self.reduced.extent
        if not self.external:
            return outer, extent
        box = _first_box(self.reduced, 1, extent)
        row_bytes = sum(stop - start for start, stop in spans(self.reduced, box, self.elements)[0])
        step = min(outer, max(1, self.config.am_bytes // REDUCED_BOX_AM_PART // max(1, row_bytes)))
        if row_bytes > self.config.am_bytes // REDUCED_ROW_AM_PART:
            return step, max(1, extent * (self.config.am_bytes // REDUCED_BOX_AM_PART) // row_bytes)
        return step, extent

    def rungs(self) -> Iterator[Iterator[tuple[int, int]]]:
        step, along = self.largest()
        yield ((part, along) for part in even_parts(step))
        if self.external:
            yield ((1, part) for part in even_parts(along))

    def sizes(self, tiles: tuple[int, int]) -> Sizes:
        return _buffer_sizes(self.tensors, self.layer, self.passes(tiles), self.external)

    def cycles(self, tiles: tuple[int, int], sizes: Sizes, turns: int) -> float:
        plan = self.passes(tiles)
        read = sum(size for key, size in sizes.items() if key.role is Role.OPERAND)
        written = sum(size for key, size in sizes.items() if key.role is Role.RESULT)
        boxes = self._count(tiles[0], plan.along)
        demand = ReductionDemand(boxes, plan.cycles, read, written, self.arriving_bytes)
        return reduced_cycles(demand, self.config, self.speed, doubled=turns > 1)

    def _count(self, outer: int, along: int) -> int:
        """Boxes of so many elements of the axes before the reduced one, and of that."""
        return -(-math.prod(self.reduced.outer) // outer) * -(-self.reduced.extent // along)


def element_sizes(tensors: Tensors, layer: Layer) -> tuple[int, ...]:
    """Bytes of an element of each operand, the result last."""
    return (*(load.element.bytes for load in layer.program.loads), tensors.element(layer.output).bytes)


def _first_box(reduced: ReducedAxis, outer_elements: int, along: int) -> ReducedBox:
    """The first box, which is as large as any."""
    low, counts = next(blocks(reduced.outer, outer_elements))
    return ReducedBox(low, counts, 0, min(along, reduced.extent))


def _buffer_sizes(tensors: Tensors, layer: Layer, plan: ReductionPlan, external: list[str]) -> Sizes:
    reduced, sizes = layer.reduction, element_sizes(tensors, layer)
    assert reduced is not None
    box = _first_box(reduced, plan.outer_elements, plan.along)
    body, after = spans(reduced, box, sizes)
    wanted: Sizes = {}
    for stream, (load, (start, stop)) in enumerate(zip(layer.program.loads, [*body, *after], strict=False)):
        name = tensors.storage[load.tensor]
        if name in external:
            wanted[BufferKey(Role.OPERAND, name, stream)] = stop - start
    output = tensors.storage[layer.output]
    if output in external:
        wanted[BufferKey(Role.RESULT, output)] = after[-1][1] - after[-1][0]
    if plan.partials:
        outer = math.prod(box.counts)
        wanted[PARTIALS] = sum(partial_bytes(reduced, count, outer) for count in plan.partials)
    return wanted


# --- passes


def _passes(layer: Layer, config: Config, sizes: tuple[int, ...], outer: int, along: int) -> ReductionPlan:
    """The passes with the fewest predicted cycles for boxes of `outer` elements times at most `along` ones."""
    reduced, program = layer.reduction, layer.program
    assert reduced is not None
    bits_fit, extent, inner = reduced.computation.fits, reduced.extent, math.prod(reduced.inner)
    partial, result = reduced.computation.partial.bytes, max(sizes[len(reduced.body) :])
    again = (partial, 1) if reduced.computation.argmax else (partial,)

    def predicted(before: int, after: int, body: tuple[int, ...], stored_bytes: int) -> int:
        return ReductionPass(before, after, inner, body, stored_bytes).cycles(outer, config)

    @functools.cache
    def rest(before: int) -> tuple[int, tuple[int, ...]]:
        """(cycles, partial results) of the passes that are left after one that leaves `before` of them."""
        found: list[tuple[int, tuple[int, ...]]] = [(predicted(before, 1, again, result), ())]
        for count in _counts(before):
            if bits_fit(index_bits(extent, count)):
                later, then = rest(count)
                found.append((predicted(before, count, again, partial) + later, (count, *then)))
        return min(found)

    body = program.body_beats()
    candidates: list[tuple[int, tuple[int, ...]]] = []
    if along == extent <= MAX_REPEATS:
        candidates.append((predicted(extent, 1, body, result), ()))
    for count in _counts(along) or [1]:
        if bits_fit(index_bits(extent, count)) and along // count <= MAX_REPEATS:
            later, then = rest(count)
            first = predicted(along, count, body, partial)
            candidates.append((first + later, (count, *then)))
    total, partials = min(candidates)
    if partials and along < extent:
        along = max(partials[0], along // partials[0] * partials[0])
    boxes = -(-math.prod(reduced.outer) // outer) * -(-extent // along)
    return ReductionPlan(partials, outer, along, boxes * total)


def _counts(before: int) -> list[int]:
    """How many partial results may be left of `before` elements."""
    return [1 << n for n in range(before.bit_length() - 1)]
