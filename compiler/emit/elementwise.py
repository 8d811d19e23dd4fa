"""Emits elementwise layers (clauses 2.4 to 2.8, 2.10, 2.13)."""

from tosaic.compiler.emit.layer_emission import LayerEmission
from tosaic.compiler.emit.nest_go import Nest, emit_nest
from tosaic.compiler.fuse.moves import blocks
from tosaic.compiler.place.placement import BufferKey, Role
from tosaic.compiler.place.strides import dense_strides, operand_span, operand_strides
from tosaic.compiler.tile.elementwise import ElementwisePlan, Shape, box_limit
from tosaic.compiler.tile.loops import Axis, merge


def emit_elementwise(emission: LayerEmission, plan: ElementwisePlan) -> None:
    """A layer without a convolution or pool."""
    match plan.shape:
        case Shape.STRIPES:
            _emit_stripes(emission, plan.elements)
        case Shape.BOXES:
            _emit_boxes(emission, plan.elements)


def _sizes(emission: LayerEmission) -> tuple[int, ...]:
    """Bytes of an element of each stream, the store last."""
    loads = emission.layer.program.loads
    return (*(load.element.bytes for load in loads), emission.tensors.element(emission.layer.output).bytes)


def _emit_stripes(emission: LayerEmission, stripe_elements: int) -> None:
    layer, tensors, sizes = emission.layer, emission.tensors, _sizes(emission)
    total = tensors.elements(layer.output)
    for start in range(0, total, stripe_elements):
        stop = min(start + stripe_elements, total)
        # What several streams read is brought in once: a second turn would be the buffer of the next stripe.
        fetched: dict[tuple[str, int], int] = {}
        addresses = []
        for load in layer.program.loads:
            size, key = load.element.bytes, BufferKey(Role.OPERAND, tensors.storage[load.tensor])
            if (key.tensor, size) not in fetched:
                fetched[key.tensor, size] = emission.fetch(key, start * size, stop * size)
            addresses.append(fetched[key.tensor, size])
        first, last = start * sizes[-1], stop * sizes[-1]
        out = emission.target(first, last)
        axes, table = [Axis(stop - start, sizes)], emission.take_table()
        emit_nest(emission.emitter, Nest(layer.program, axes, [*addresses, out], sizes, table=table))
        emission.finish(out, first, last)


def _emit_boxes(emission: LayerEmission, limit_elements: int) -> None:
    """A layer that broadcasts or goes by channels, box by box."""
    layer, tensors, sizes = emission.layer, emission.tensors, _sizes(emission)
    target = tensors.shape(layer.output)
    loads = [(load, tensors.shape(load.tensor)) for load in layer.program.loads]
    columns = [operand_strides(shape, target, load.element.bytes) for load, shape in loads]
    columns.append(dense_strides(target, sizes[-1]))
    tile, boxes = 1, list(blocks(target, limit_elements))
    if layer.per_channel is not None:
        tile = emission.config.columns
        # Boxes that use the same parameters follow each other.
        boxes = sorted(blocks(target, box_limit(limit_elements, tile)), key=lambda box: box[0][-1])
    for low, counts in boxes:
        addresses = []
        for stream, (load, shape) in enumerate(loads):
            start, stop = operand_span(shape, low, counts, load.element.bytes)
            key = BufferKey(Role.OPERAND, tensors.storage[load.tensor], stream)
            offset = tensors.offset_bytes(load.tensor)
            addresses.append(emission.fetch(key, offset + start, offset + stop))
        first, last = operand_span(target, low, counts, sizes[-1])
        addresses.append(emission.target(first, last))
        axes = [Axis(count, tuple(column[i] for column in columns)) for i, count in enumerate(counts)]
        if layer.per_channel is not None:
            emission.bring_params(low[-1] // tile, -(-counts[-1] // tile))
            _emit_per_channel(emission, axes, addresses, low[-1] // tile)
        else:
            nest = Nest(layer.program, axes, addresses, sizes, table=emission.take_table())
            emit_nest(emission.emitter, nest)
        emission.finish(addresses[-1], first, last)


def _emit_per_channel(
    emission: LayerEmission, axes: list[Axis], addresses: list[int], first_tile: int
) -> None:
    """A per-channel RESCALE without a convolution: one pass per group of channels along the last axis."""
    sizes = _sizes(emission)
    rows, along = merge(axes[:-1]), axes[-1]
    columns = emission.config.columns
    for number, first in enumerate(range(0, along.count, columns)):
        group = Axis(min(columns, along.count - first), along.strides)
        moved = [a + first * stride for a, stride in zip(addresses, along.strides, strict=True)]
        nest = Nest(
            emission.layer.program,
            [*rows, group],
            moved,
            sizes,
            params=emission.params_of(first_tile + number),
            table=emission.take_table(),
            keep_axes=True,
        )
        emit_nest(emission.emitter, nest)
