"""Elementwise layers: stripes of elements, or boxes of the result, whose tensors fit the activation memory
(clauses 2.4 to 2.8, 2.10, 2.13)."""

import dataclasses
import enum
import math

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.fuse.moves import blocks
from tosaic.compiler.machine import GO_CYCLES, KIND, Kind
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.place.buffers import Buffers, Sizes, allocate_buffers, try_buffers
from tosaic.compiler.place.placement import PARAMETERS, BufferKey, Role
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.place.stored_box import StoredBox
from tosaic.compiler.place.strides import box_span, broadcast_strides, dense_strides
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.tile.largest_fit import largest_fit
from tosaic.compiler.tile.loops import Axis, merge

_MOST_PIECES, _PIECE_BYTES = 8, 8192
"""What comes from outside or goes there is worked on in pieces, so that the bus and VECTOR work at a time."""


class Shape(enum.Enum):
    """How the work of an elementwise layer is walked."""

    STRIPES = "ranges of elements: every operand has the result's shape"
    BOXES = "boxes of the result: operands are broadcast or parts of others, or parameters go by channels"


@dataclasses.dataclass(frozen=True)
class ElementwisePlan:
    """How an elementwise layer is cut: at most `elements` elements of the result at a time."""

    shape: Shape
    elements: int
    together: frozenset[str] = frozenset()
    """Storage names of tensors of which the layer reads several parts, which are fetched at once."""


@dataclasses.dataclass(frozen=True)
class Operand:
    """What a load stream of a layer that is walked in boxes reads."""

    storage: str
    offset_bytes: int
    """From the start of the stored tensor."""
    strides: tuple[int, ...]
    """Bytes from element to element along the result's axes; 0 where it is broadcast."""
    element_bytes: int
    apart: bool
    """There are gaps between its elements: outside, they are not fetched with it."""

    def span(self, low: tuple[int, ...], counts: tuple[int, ...]) -> tuple[int, int]:
        """Bytes [start, stop) of the stored tensor around what a box needs."""
        start, stop = box_span(self.strides, low, counts, self.element_bytes)
        return self.offset_bytes + start, self.offset_bytes + stop

    def stored(self, low: tuple[int, ...], counts: tuple[int, ...]) -> StoredBox:
        """The bytes that a box needs, without gaps."""
        dims = tuple((count, stride) for count, stride in zip(counts, self.strides, strict=True) if stride)
        return StoredBox(self.span(low, counts)[0], dims, self.element_bytes).merged()

    def dense_strides(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Of a box as it is fetched without gaps."""
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
        found.append(Operand(*place, tuple(strides), load.element.bytes, tensors.is_apart(name)))
    return found


def joint_span(operands: list[Operand], low: tuple[int, ...], counts: tuple[int, ...]) -> tuple[int, int]:
    """Bytes around what a box needs of several parts of a tensor."""
    spans = [operand.span(low, counts) for operand in operands]
    return min(start for start, _ in spans), max(stop for _, stop in spans)


def _together(
    operands: list[Operand], external: list[str], low: tuple[int, ...], counts: tuple[int, ...]
) -> frozenset[str]:
    """Which tensors are fetched once for all streams that read them: those of which the parts are walked alike, and
    take no more bytes together than one by one. `low` and `counts`: the first box."""
    found = set()
    for name in external:
        parts = [operand for operand in operands if operand.storage == name]
        if len({(part.strides, part.element_bytes) for part in parts}) != 1:
            continue
        start, stop = joint_span(parts, low, counts)
        if len(parts) > 1 and stop - start <= sum(part.stored(low, counts).bytes for part in parts):
            found.add(name)
    return frozenset(found)


def shape_of(tensors: Tensors, layer: Layer) -> Shape:
    """How a layer is walked."""
    same = all(
        tensors.shape(load.tensor) == tensors.shape(layer.output) and not tensors.is_part(load.tensor)
        for load in layer.program.loads
    )
    return Shape.STRIPES if same and layer.per_channel is None else Shape.BOXES


def copy_cycles(tensors: Tensors, name: str) -> int:
    """What VECTOR is predicted to take to copy a SLICE: a word in a cycle, and rows begin with a word."""
    *outer, row = tensors.shape(name)
    words = math.prod(outer) * -(-row * tensors.element(name).bytes // tensors.config.columns)
    return words + GO_CYCLES


def apart_cycles(tensors: Tensors, layer: Layer, name: str, source: str) -> int:
    """What a layer is predicted to take longer when it reads an operand `name` where that is in `source`: vectors end
    where its rows do."""
    shape, target = tensors.shape(name), tensors.shape(layer.output)
    counts = []
    for own in (dense_strides(tensors.shape(source), 1), dense_strides(shape, 1)):
        steps = zip(target, broadcast_strides(shape, target, own), dense_strides(target, 1), strict=True)
        axes = merge([Axis(count, (read, written)) for count, read, written in steps])
        counts.append(_vectors(axes, tensors.config.columns))
    return (counts[0] - counts[1]) * layer.program.beats(tensors.element(layer.output))


def _vectors(axes: list[Axis], columns: int) -> int:
    """Of a nest over a load and a store, with strides in elements."""
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
    """UnsupportedError where an element of a tensor that the layer reads or writes is wider than a word."""
    for name in (*(load.tensor for load in layer.program.loads), layer.output):
        tensors.size_bytes(name)


def box_limit(limit_elements: int, tile: int) -> int:
    """The largest count of elements so that boxes begin with a tile of channels, if they are parts of rows."""
    return max(tile, limit_elements // tile * tile)


def plan_elementwise(
    placer: Placer, layer: Layer, external: list[str], param_bytes: int
) -> tuple[ElementwisePlan, Buffers]:
    """Stripes or boxes for tensors that are not resident (`external`, storage names). `param_bytes`: bytes of the
    parameters for a tile of channels, when they are brought in box by box; else 0."""
    tensors = placer.tensors
    elements, shape = tensors.elements(layer.output), shape_of(tensors, layer)
    if not external and not param_bytes:
        return ElementwisePlan(shape, elements), {}
    placer.release_pending()
    if shape is Shape.BOXES:
        return _boxes(placer, layer, external, param_bytes)
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
    return ElementwisePlan(shape, count), allocate_buffers(placer.arena, sizes_of(count))


def _boxes(
    placer: Placer, layer: Layer, external: list[str], param_bytes: int
) -> tuple[ElementwisePlan, Buffers]:
    """The largest boxes of the result that fit twice, or once if none does."""
    elements = placer.tensors.elements(layer.output)
    # Boxes below a 64th of the memory cost more commands than they are worth: other tensors are spilled instead.
    smallest = min(elements, placer.config.am_bytes // 64)
    moved = sum(placer.placements[name].bytes for name in external)
    limit = max(smallest, -(-elements // _pieces(moved)))
    while True:
        sizes, together = _box_sizes(placer.tensors, layer, limit, external)
        if param_bytes:
            tile = placer.config.columns
            channels = min(placer.tensors.shape(layer.output)[-1], box_limit(limit, tile))
            sizes[PARAMETERS] = -(-channels // tile) * param_bytes
        if limit == smallest or try_buffers(placer.arena, sizes):
            return ElementwisePlan(Shape.BOXES, limit, together), allocate_buffers(placer.arena, sizes)
        limit = max(smallest, limit // 2)


def _pieces(size_bytes: int) -> int:
    """Into how many pieces a layer that moves `size_bytes` is cut, at least."""
    return max(1, min(_MOST_PIECES, size_bytes // _PIECE_BYTES))


def _box_sizes(
    tensors: Tensors, layer: Layer, limit_elements: int, external: list[str]
) -> tuple[Sizes, frozenset[str]]:
    """What boxes of at most `limit_elements` elements need in memory, the result last; and which tensors are fetched
    together for several streams."""
    output = tensors.storage[layer.output]
    if layer.per_channel is not None:
        limit_elements = box_limit(limit_elements, tensors.config.columns)
    # The first box is as large as any.
    low, counts = next(blocks(tensors.shape(layer.output), limit_elements))
    sizes: Sizes = {}
    operands = operands_of(tensors, layer)
    together = _together(operands, external, low, counts)
    for name in together:
        start, stop = joint_span([each for each in operands if each.storage == name], low, counts)
        sizes[BufferKey(Role.OPERAND, name)] = stop - start
    for stream, operand in enumerate(operands):
        if operand.storage in external and operand.storage not in together:
            start, stop = operand.span(low, counts)
            size = operand.stored(low, counts).bytes if operand.apart else stop - start
            sizes[BufferKey(Role.OPERAND, operand.storage, stream)] = size
    if output in external:
        sizes[BufferKey(Role.RESULT, output)] = math.prod(counts) * tensors.element(layer.output).bytes
    return sizes, together
