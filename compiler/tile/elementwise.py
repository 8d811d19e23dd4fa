"""Elementwise layers: stripes of elements, or boxes of the result, whose tensors fit the activation memory
(clauses 2.4 to 2.8, 2.10, 2.13)."""

import dataclasses
import enum
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import ClassVar, TypeVar

from tosaic.compiler.cost.vector import HeldLines
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.fuse.moves import blocks
from tosaic.compiler.machine import KIND, Kind
from tosaic.compiler.machine_numbers import (
    ELEMENTWISE_BOX_AM_PART,
    ELEMENTWISE_BOX_BYTES,
    ELEMENTWISE_MOST_BOXES,
    OTHER_BOXES_SHARE,
)
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.place.buffers import Buffers, Sizes
from tosaic.compiler.place.placement import PARAMETERS, BufferKey, Role
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.place.stored_box import StoredBox
from tosaic.compiler.place.strides import box_span, broadcast_strides, dense_strides
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.tile.box_search import Room, beside_recent, cheapest, even_parts, halved
from tosaic.compiler.tile.channel_boxes import ChannelCost, ElementCost
from tosaic.compiler.tile.loops import Axis, merge

Cost = TypeVar("Cost", bound=ElementCost)


class Shape(enum.Enum):
    """How the work of an elementwise layer is walked."""

    STRIPES = "ranges of elements: every operand has the result's shape"
    BOXES = "boxes of the result: operands are broadcast or parts of others, or parameters go by channels"


@dataclasses.dataclass(frozen=True)
class ElementwisePlan:
    """How an elementwise layer is cut."""

    shape: Shape
    counts: tuple[int, ...]
    """The largest number of elements of the result at a time, along each axis; stripes have one axis, that of
    all elements.
    """
    cycles: int
    """What VECTOR is predicted to take."""
    together: frozenset[str] = frozenset()
    """Storage names of tensors of which the layer reads several parts, which are fetched at once."""

    def boxes(self, shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """(first element, sizes) of the boxes that a result of `shape` is cut into."""
        steps = [range(0, size, count) for size, count in zip(shape, self.counts, strict=True)]
        for low in itertools.product(*steps):
            sizes = zip(shape, low, self.counts, strict=True)
            yield low, tuple(min(count, size - first) for size, first, count in sizes)


@dataclasses.dataclass(frozen=True)
class StreamOperand:
    """What a stream of a layer that is walked in boxes reads; or writes, if it is the result."""

    storage: str
    offset_bytes: int
    """Bytes from the start of the stored tensor."""
    strides: tuple[int, ...]
    """Bytes from element to element along the result's axes; 0 where it is broadcast."""
    element_bytes: int

    def span(self, low: tuple[int, ...], counts: tuple[int, ...]) -> tuple[int, int]:
        """Bytes [start, stop) of the stored tensor around what a box needs."""
        start, stop = box_span(self.strides, low, counts, self.element_bytes)
        return self.offset_bytes + start, self.offset_bytes + stop

    def stored(self, low: tuple[int, ...], counts: tuple[int, ...]) -> StoredBox:
        """The bytes that a box needs, without what lies between them."""
        dims = tuple((count, stride) for count, stride in zip(counts, self.strides, strict=True) if stride)
        return StoredBox(self.span(low, counts)[0], dims, self.element_bytes).merged()

    def held_strides(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Bytes from element to element of a box as it is fetched, densely."""
        held = tuple(count if stride else 1 for count, stride in zip(counts, self.strides, strict=True))
        dense = dense_strides(held, self.element_bytes)
        return tuple(new if old else 0 for new, old in zip(dense, self.strides, strict=True))


def operands_of(tensors: Tensors, layer: Layer) -> list[StreamOperand]:
    """The operands of a layer that is walked in boxes, one for each load stream, and last what the first stream brings
    in turn with its own."""
    program, target, found = layer.program, tensors.shape(layer.output), []
    first, second = program.turns[:1], program.turns[1:]
    reads = [(load.tensor, load.element) for load in program.loads]
    reads = [(each, program.loads[0].element) for each in first] + reads[len(first) :]
    for name, element in [*reads, *((each, program.loads[0].element) for each in second)]:
        strides = broadcast_strides(tensors.shape(name), target, tensors.strides(name))
        place = tensors.storage[name], tensors.offset_bytes(name)
        found.append(StreamOperand(*place, tuple(strides), element.bytes))
    return found


def joint_span(
    operands: list[StreamOperand], low: tuple[int, ...], counts: tuple[int, ...]
) -> tuple[int, int]:
    """Bytes around what a box needs of several parts of a tensor."""
    spans = [operand.span(low, counts) for operand in operands]
    return min(start for start, _ in spans), max(stop for _, stop in spans)


def _together(operands: list[StreamOperand], external: list[str], counts: tuple[int, ...]) -> frozenset[str]:
    """Which tensors are fetched once for all streams that read them: those of which the parts are walked alike, and
    take no more bytes together than one by one. `counts`: of the first box, which is as large as any."""
    found, low = set(), (0,) * len(counts)
    for name in external:
        parts = [operand for operand in operands if operand.storage == name]
        if len({(part.strides, part.element_bytes) for part in parts}) != 1:
            continue
        start, stop = joint_span(parts, low, counts)
        if len(parts) > 1 and stop - start <= sum(part.stored(low, counts).bytes for part in parts):
            found.add(name)
    return frozenset(found)


def result_of(tensors: Tensors, layer: Layer) -> StreamOperand:
    """The result of a layer that is walked in boxes, which its store stream writes."""
    size, shape = tensors.element(layer.output).bytes, tensors.shape(layer.output)
    return StreamOperand(tensors.storage[layer.output], 0, tuple(dense_strides(shape, size)), size)


def shape_of(tensors: Tensors, layer: Layer) -> Shape:
    """How a layer is walked."""
    same = all(
        tensors.shape(load.tensor) == tensors.shape(layer.output) and not tensors.is_part(load.tensor)
        for load in layer.program.loads
    )
    return Shape.STRIPES if same and layer.per_channel is None else Shape.BOXES


def copied_vectors(tensors: Tensors, name: str) -> int:
    """Vectors of a copy of a SLICE: a word each, and rows begin with a word."""
    *outer, row = tensors.shape(name)
    return math.prod(outer) * -(-row * tensors.element(name).bytes // tensors.config.columns)


def apart_beats(tensors: Tensors, layer: Layer, name: str, source: str) -> int:
    """Beats by which a layer takes longer when it reads an operand `name` where that is in `source`: vectors end where
    its rows do."""
    shape, target = tensors.shape(name), tensors.shape(layer.output)
    counts = []
    for own in (dense_strides(tensors.shape(source), 1), dense_strides(shape, 1)):
        steps = zip(target, broadcast_strides(shape, target, own), dense_strides(target, 1), strict=True)
        axes = merge([Axis(count, (read, written)) for count, read, written in steps])
        counts.append(_vectors(axes, tensors.config.columns))
    return (counts[0] - counts[1]) * layer.program.beats(tensors.element(layer.output))


def _vectors(axes: list[Axis], columns: int) -> int:
    """Returns the vectors of a nest over a load and a store, with strides in elements."""
    if not axes:
        return 1
    *outer, (count, (read, written)) = [(axis.count, axis.strides) for axis in axes]
    vectors = -(-count // columns) if read in (0, 1) and written == 1 else count
    return vectors * math.prod(count for count, _ in outer)


def writes_behind_reads(tensors: Tensors, layer: Layer, names: list[str]) -> bool:
    """Whether the result may lie on the operands of some storage names: every element is read before it is written."""
    if KIND[layer.root.op] is not Kind.ELEMENTWISE or layer.base is not None:
        return False
    element_bytes = tensors.element(layer.output).bytes
    loads = [load for load in layer.program.loads if tensors.storage[load.tensor] in names]
    dense = all(load.element.bytes == element_bytes for load in loads)
    return dense and shape_of(tensors, layer) is Shape.STRIPES


def check_elements(tensors: Tensors, layer: Layer) -> None:
    """Raises UnsupportedError where an element of a tensor that the layer reads or writes is wider than a word."""
    for name in (*(load.tensor for load in layer.program.loads), layer.output):
        tensors.size_bytes(name)


def box_limit(limit_elements: int, tile: int) -> int:
    """The largest count of elements so that boxes begin with a tile of channels, if they are parts of rows."""
    return max(tile, limit_elements // tile * tile)


def passing(placer: Placer, layer: Layer, reads: list[str], *, wanted_outside: bool) -> set[str]:
    """What an elementwise layer reads from outside, or is to send there, and no later layer reads, by storage name:
    parts of it come and go while others are computed. Small tensors are there as a whole, and large ones would not
    fit anyway."""
    tensors, output, limit = placer.tensors, placer.tensors.storage[layer.output], placer.limit_bytes
    names = [name for name in reads if tensors[name].data is None and not placer.locate(name).resident]
    # The parts of a resident result leave one by one, too, but only where boxes are neighbouring elements.
    leaves = wanted_outside and output not in {*placer.parts_outside, *placer.taken_over}
    if leaves and (layer.per_channel is not None or not names):
        names.append(output)
    sizes = {name: tensors.size_bytes(name) for name in names if placer.dies_now(name)}
    least = placer.config.am_bytes // ELEMENTWISE_BOX_AM_PART
    found = {name for name, size in sizes.items() if least <= size <= limit}
    cut = layer.per_channel is not None or _pieces(sum(sizes[name] for name in found)) > 1
    return found if cut else set()


def plan_elementwise(
    placer: Placer, layer: Layer, external: list[str], param_bytes: int
) -> tuple[ElementwisePlan, Buffers]:
    """Stripes or boxes for tensors that are not resident (`external`, storage names). `param_bytes`: bytes of the
    parameters for a tile of channels, when they are brought in box by box; else 0."""
    cuts: _StripeCuts = _BoxCuts(placer, layer, external, param_bytes)
    if shape_of(placer.tensors, layer) is Shape.STRIPES:
        cuts = _StripeCuts(placer, layer, external)
    room = Room(placer.arena, low=cuts.low)
    outside = bool(external or param_bytes)
    if outside:
        placer.release_pending(keep=placer.beside or 0)
    found = (
        cheapest(cuts, room)
        if not outside or placer.beside is None
        else beside_recent(placer, room, lambda room: cheapest(cuts, room))
    )
    if found is None:
        raise OutOfMemory(
            f"{layer.root}: a box of {placer.tensors[layer.output]} and its inputs do not fit the activation memory"
        )
    return cuts.plan(found.tiles), found.buffers


class _StripeCuts:
    """The ranges of elements that a layer may run in."""

    clearly: ClassVar[float] = OTHER_BOXES_SHARE
    low = Role.WINDOW

    def __init__(self, placer: Placer, layer: Layer, external: list[str]):
        self.placer, self.layer, self.external = placer, layer, external
        self.tensors, self.config = placer.tensors, placer.config
        self.target: tuple[int, ...] = (self.tensors.elements(layer.output),)
        self.cost = self._cost(ElementCost)
        self.pieces = _pieces(sum(placer.placements[name].bytes for name in external))

    def _cost(self, kind: type[Cost]) -> Cost:
        layer, stored = self.layer, self.tensors.element(self.layer.output)
        beats = layer.program.uop_beats(stored)
        return kind(self.config, self.placer.memories.speed, self.target, beats, self._held())

    def _held(self) -> HeldLines | None:
        """The program by channels, where lines are read."""
        program, shape = self.layer.by_channels, self.tensors.shape(self.layer.output)
        if program is None:
            return None
        operands = operands_of(self.tensors, self.layer)
        strides = [operands[stream].strides for stream in program.rows]
        axes = [(size, any(each[axis] for each in strides)) for axis, size in enumerate(shape)]
        pixels = itertools.takewhile(lambda axis: axis[0] == 1 or not axis[1], axes[-2::-1])
        stored = self.tensors.element(self.layer.output)
        return HeldLines(*program.held_beats(stored), math.prod(size for size, _ in pixels))

    def plan(self, counts: tuple[int, ...]) -> ElementwisePlan:
        """The plan of the candidate that was chosen."""
        beats = self.layer.program.beats(self.tensors.element(self.layer.output))
        cycles = math.prod(self.target) * beats // self.config.columns
        return ElementwisePlan(Shape.STRIPES, counts, cycles)

    def rungs(self) -> Iterator[Iterable[tuple[int, ...]]]:
        if not self.external:
            yield [self.target]
        most = -(-self.target[0] // self.pieces)
        yield (
            (count,)
            for count in even_parts(self.target[0], self.config.columns)
            if count <= most + self.config.columns
        )

    def sizes(self, tiles: tuple[int, ...]) -> Sizes:
        output, sizes = self.tensors.storage[self.layer.output], Sizes()
        for name in self.external:
            whole = self.placer.placements[name].bytes
            key = BufferKey(Role.RESULT if name == output else Role.OPERAND, name)
            sizes[key] = min(whole, tiles[0] * (whole // self.target[0]))
        return sizes

    def cycles(self, tiles: tuple[int, ...], sizes: Sizes, turns: int) -> float:
        return self.cost.cycles(tiles, sizes, doubled=turns > 1)


class _BoxCuts(_StripeCuts):
    """The boxes of a result: of neighbouring elements, or of many rows and few channels."""

    def __init__(self, placer: Placer, layer: Layer, external: list[str], param_bytes: int):
        super().__init__(placer, layer, external)
        self.param_bytes = param_bytes
        self.target, self.operands = self.tensors.shape(layer.output), operands_of(self.tensors, layer)
        self.by_channels: ChannelCost | None = None
        if layer.per_channel is not None:
            self.low, self.by_channels = Role.RESULT, self._cost(ChannelCost)
        self.cost = self.by_channels or self._cost(ElementCost)

    def plan(self, counts: tuple[int, ...]) -> ElementwisePlan:
        together = _together(self.operands, self.external, counts)
        held = self.by_channels is not None or self.layer.by_channels is not None
        cycles = self.cost.computing(counts) if held else super().plan(counts).cycles
        return ElementwisePlan(Shape.BOXES, counts, cycles, together)

    def rungs(self) -> Iterator[Iterable[tuple[int, ...]]]:
        if not self.external and not self.param_bytes:
            yield [self.target]
        of_channels = self.by_channels.candidates() if self.by_channels is not None else []
        yield itertools.chain(self._contiguous(), of_channels)

    def _contiguous(self) -> Iterator[tuple[int, ...]]:
        """Boxes of neighbouring elements, the largest first."""
        elements = math.prod(self.target)
        smallest = min(elements, self.config.am_bytes // ELEMENTWISE_BOX_AM_PART)
        for limit in halved(max(smallest, -(-elements // self.pieces)), smallest):
            within = limit if self.by_channels is None else box_limit(limit, self.config.columns)
            # The first box is as large as any.
            yield next(blocks(self.target, within))[1]

    def sizes(self, tiles: tuple[int, ...]) -> Sizes:
        """What boxes of at most `tiles` elements need in memory; the result last."""
        tensors, low = self.tensors, (0,) * len(tiles)
        output = tensors.storage[self.layer.output]
        sizes: Sizes = {}
        together = _together(self.operands, self.external, tiles)
        for name in sorted(together):
            start, stop = joint_span([each for each in self.operands if each.storage == name], low, tiles)
            sizes[BufferKey(Role.OPERAND, name)] = stop - start
        for stream, operand in enumerate(self.operands):
            if operand.storage in self.external and operand.storage not in together:
                box = operand.stored(low, tiles)
                sizes[BufferKey(Role.OPERAND, operand.storage, stream)] = box.bytes
        if output in self.external:
            sizes[BufferKey(Role.RESULT, output)] = (
                math.prod(tiles) * tensors.element(self.layer.output).bytes
            )
        if self.param_bytes:
            sizes[PARAMETERS] = -(-tiles[-1] // self.config.columns) * self.param_bytes
        return sizes


def _pieces(size_bytes: int) -> int:
    """Into how many pieces a layer that moves `size_bytes` is cut, at least."""
    return max(1, min(ELEMENTWISE_MOST_BOXES, size_bytes // ELEMENTWISE_BOX_BYTES))
