"""Elementwise layers: stripes of elements, or boxes of the result, whose tensors fit the activation memory
(clauses 2.4 to 2.8, 2.10, 2.13)."""

import dataclasses
import enum
import math

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.fuse.moves import blocks
from tosaic.compiler.machine import KIND, Kind
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.place.buffers import Buffers, Sizes, allocate_buffers, try_buffers
from tosaic.compiler.place.placement import PARAMETERS, BufferKey, Role
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.place.strides import operand_span
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.tile.largest_fit import largest_fit

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


def shape_of(tensors: Tensors, layer: Layer) -> Shape:
    """How a layer is walked."""
    same = all(
        tensors.shape(load.tensor) == tensors.shape(layer.output) and not tensors.is_part(load.tensor)
        for load in layer.program.loads
    )
    return Shape.STRIPES if same and layer.per_channel is None else Shape.BOXES


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
        sizes = _box_sizes(placer.tensors, layer, limit, external)
        if param_bytes:
            tile = placer.config.columns
            channels = min(placer.tensors.shape(layer.output)[-1], box_limit(limit, tile))
            sizes[PARAMETERS] = -(-channels // tile) * param_bytes
        if limit == smallest or try_buffers(placer.arena, sizes):
            return ElementwisePlan(Shape.BOXES, limit), allocate_buffers(placer.arena, sizes)
        limit = max(smallest, limit // 2)


def _pieces(size_bytes: int) -> int:
    """Into how many pieces a layer that moves `size_bytes` is cut, at least."""
    return max(1, min(_MOST_PIECES, size_bytes // _PIECE_BYTES))


def _box_sizes(tensors: Tensors, layer: Layer, limit_elements: int, external: list[str]) -> Sizes:
    """What boxes of at most `limit_elements` elements need in memory; the result last."""
    output = tensors.storage[layer.output]
    if layer.per_channel is not None:
        limit_elements = box_limit(limit_elements, tensors.config.columns)
    # The first box is as large as any.
    low, counts = next(blocks(tensors.shape(layer.output), limit_elements))
    sizes: Sizes = {}
    for stream, load in enumerate(layer.program.loads):
        name = tensors.storage[load.tensor]
        if name in external:
            start, stop = operand_span(tensors.shape(load.tensor), low, counts, load.element.bytes)
            sizes[BufferKey(Role.OPERAND, name, stream)] = stop - start
    if output in external:
        sizes[BufferKey(Role.RESULT, output)] = math.prod(counts) * tensors.element(layer.output).bytes
    return sizes
