"""Elementwise layers: stripes of elements, or boxes of the result, whose tensors fit the activation memory
(clauses 2.4 to 2.8, 2.10, 2.13)."""

import dataclasses
import enum
import itertools
import math
from collections.abc import Iterator

from tosaic.compiler.cost.vector import elementwise_cycles
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
from tosaic.compiler.place.buffers import Buffers, Sizes, allocate_buffers, try_buffers
from tosaic.compiler.place.placement import PARAMETERS, BufferKey, Role
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.place.stored_box import StoredBox
from tosaic.compiler.place.strides import box_span, broadcast_strides, dense_strides
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.tile.channel_boxes import ChannelBoxes
from tosaic.compiler.tile.largest_fit import largest_fit
from tosaic.compiler.tile.loops import Axis, merge


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
class Operand:
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


def operands_of(tensors: Tensors, layer: Layer) -> list[Operand]:
    """The operands of a layer that is walked in boxes, one for each load stream."""
    target, found = tensors.shape(layer.output), []
    for load in layer.program.loads:
        name = load.tensor
        strides = broadcast_strides(tensors.shape(name), target, tensors.strides(name))
        place = tensors.storage[name], tensors.offset_bytes(name)
        found.append(Operand(*place, tuple(strides), load.element.bytes))
    return found


def joint_span(operands: list[Operand], low: tuple[int, ...], counts: tuple[int, ...]) -> tuple[int, int]:
    """Bytes around what a box needs of several parts of a tensor."""
    spans = [operand.span(low, counts) for operand in operands]
    return min(start for start, _ in spans), max(stop for _, stop in spans)


def _together(operands: list[Operand], external: list[str], counts: tuple[int, ...]) -> frozenset[str]:
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


def result_of(tensors: Tensors, layer: Layer) -> Operand:
    """The result of a layer that is walked in boxes, which its store stream writes."""
    size, shape = tensors.element(layer.output).bytes, tensors.shape(layer.output)
    return Operand(tensors.storage[layer.output], 0, tuple(dense_strides(shape, size)), size)


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
    tensors = placer.tensors
    shape = shape_of(tensors, layer)
    if external or param_bytes:
        placer.release_pending()
    if shape is Shape.BOXES:
        return _BoxTiler(placer, layer, external, param_bytes).choose()
    elements = tensors.elements(layer.output)
    beats = layer.program.beats(tensors.element(layer.output))
    cycles = elementwise_cycles(elements, beats, tensors.config)
    if not external:
        return ElementwisePlan(shape, (elements,), cycles), {}
    output = tensors.storage[layer.output]
    keys = {name: BufferKey(Role.RESULT if name == output else Role.OPERAND, name) for name in external}
    wholes = {keys[name]: placer.placements[name].bytes for name in external}

    def sizes_of(count: int) -> Sizes:
        return {key: min(whole, count * (whole // elements)) for key, whole in wholes.items()}

    step = tensors.config.columns
    most = -(-elements // step // _pieces(sum(wholes.values())))
    count = largest_fit(placer.arena, max(1, most), elements, step, sizes_of)
    if count is None:
        raise OutOfMemory(
            f"{layer.root}: one pixel of {tensors[layer.output]} and its inputs do not fit the activation memory"
        )
    return ElementwisePlan(shape, (count,), cycles), allocate_buffers(placer.arena, sizes_of(count))


class _BoxTiler:
    """Chooses the boxes of one layer."""

    def __init__(self, placer: Placer, layer: Layer, external: list[str], param_bytes: int):
        self.placer, self.layer, self.external, self.param_bytes = placer, layer, external, param_bytes
        self.tensors, self.config = placer.tensors, placer.config
        self.target, self.operands = self.tensors.shape(layer.output), operands_of(self.tensors, layer)
        self.channels: ChannelBoxes | None = None
        self._low = Role.WINDOW if layer.per_channel is None else Role.RESULT
        if layer.per_channel is not None:
            beats = layer.program.uop_beats(self.tensors.element(layer.output))
            self.channels = ChannelBoxes(self.config, placer.memories.speed, self.target, beats)

    def choose(self) -> tuple[ElementwisePlan, Buffers]:
        """The boxes, with their buffers."""
        if not self.external and not self.param_bytes:
            return self._plan(self.target), {}
        counts = self._better(self._contiguous())
        return self._plan(counts), allocate_buffers(self.placer.arena, self._sizes(counts), low=self._low)

    def _plan(self, counts: tuple[int, ...]) -> ElementwisePlan:
        if self.channels is not None:
            cycles = self.channels.computing(counts)
        else:
            beats = self.layer.program.beats(self.tensors.element(self.layer.output))
            cycles = elementwise_cycles(math.prod(self.target), beats, self.config)
        together = _together(self.operands, self.external, counts)
        return ElementwisePlan(Shape.BOXES, counts, cycles, together)

    def _contiguous(self) -> tuple[int, ...]:
        """The largest boxes of neighbouring elements that fit twice, or once if none does."""
        elements = math.prod(self.target)
        smallest = min(elements, self.config.am_bytes // ELEMENTWISE_BOX_AM_PART)
        moved = sum(self.placer.placements[name].bytes for name in self.external)
        limit = max(smallest, -(-elements // _pieces(moved)))
        while True:
            within = limit if self.channels is None else box_limit(limit, self.config.columns)
            # The first box is as large as any.
            _, counts = next(blocks(self.target, within))
            if limit == smallest or try_buffers(self.placer.arena, self._sizes(counts), self._low):
                return counts
            limit = max(smallest, limit // 2)

    def _better(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Boxes of many rows and few channels, where they are predicted to take clearly fewer cycles."""
        if self.channels is None:
            return counts
        best, least = counts, self._fitting(counts)
        limit = None if least is None else int(OTHER_BOXES_SHARE * least)
        for candidate in self.channels.candidates():
            cycles = self._fitting(candidate, limit)
            if cycles is not None:
                best, limit = candidate, cycles
        return best

    def _fitting(self, counts: tuple[int, ...], limit: int | None = None) -> int | None:
        """Cycles of all boxes by what they compute and transfer; None where they do not fit or take `limit` or more."""
        assert self.channels is not None
        sizes = self._sizes(counts)
        if sum(sizes.values()) > self.config.am_bytes:
            return None
        if limit is not None and self.channels.cycles(counts, sizes, doubled=True) >= limit:
            return None
        doubled = try_buffers(self.placer.arena, sizes, self._low)
        if doubled is None:
            return None
        cycles = self.channels.cycles(counts, sizes, doubled=doubled)
        return cycles if limit is None or cycles < limit else None

    def _sizes(self, counts: tuple[int, ...]) -> Sizes:
        """What boxes of at most `counts` elements need in memory; the result last."""
        tensors, low = self.tensors, (0,) * len(counts)
        output = tensors.storage[self.layer.output]
        sizes: Sizes = {}
        together = _together(self.operands, self.external, counts)
        for name in sorted(together):
            start, stop = joint_span([each for each in self.operands if each.storage == name], low, counts)
            sizes[BufferKey(Role.OPERAND, name)] = stop - start
        for stream, operand in enumerate(self.operands):
            if operand.storage in self.external and operand.storage not in together:
                box = operand.stored(low, counts)
                sizes[BufferKey(Role.OPERAND, operand.storage, stream)] = box.bytes
        if output in self.external:
            sizes[BufferKey(Role.RESULT, output)] = (
                math.prod(counts) * tensors.element(self.layer.output).bytes
            )
        if self.param_bytes:
            sizes[PARAMETERS] = -(-counts[-1] // self.config.columns) * self.param_bytes
        return sizes


def _pieces(size_bytes: int) -> int:
    """Into how many pieces a layer that moves `size_bytes` is cut, at least."""
    return max(1, min(ELEMENTWISE_MOST_BOXES, size_bytes // ELEMENTWISE_BOX_BYTES))
