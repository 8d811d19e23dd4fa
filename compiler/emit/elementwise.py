"""Emits elementwise layers (clauses 2.4 to 2.8, 2.10, 2.13)."""

from tosaic.compiler.emit.layer_emission import LayerEmission
from tosaic.compiler.emit.nest_go import Nest, emit_nest
from tosaic.compiler.fuse.moves import blocks
from tosaic.compiler.place.placement import BufferKey, Role
from tosaic.compiler.place.strides import box_span, dense_strides
from tosaic.compiler.tile.elementwise import (
    ElementwisePlan,
    Operand,
    Shape,
    box_limit,
    joint_span,
    operands_of,
)
from tosaic.compiler.tile.loops import Axis, merge


def emit_elementwise(emission: LayerEmission, plan: ElementwisePlan) -> None:
    """A layer without a convolution or pool."""
    match plan.shape:
        case Shape.STRIPES:
            _emit_stripes(emission, plan.elements)
        case Shape.BOXES:
            _emit_boxes(emission, plan)


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


def _emit_boxes(emission: LayerEmission, plan: ElementwisePlan) -> None:
    """A layer that broadcasts, goes by channels or reads parts of others, box by box."""
    layer, tensors, sizes = emission.layer, emission.tensors, _sizes(emission)
    target, limit_elements = tensors.shape(layer.output), plan.elements
    operands, dense = operands_of(tensors, layer), tuple(dense_strides(target, sizes[-1]))
    tile, boxes = 1, list(blocks(target, limit_elements))
    if layer.per_channel is not None:
        tile = emission.config.columns
        # Boxes that use the same parameters follow each other.
        boxes = sorted(blocks(target, box_limit(limit_elements, tile)), key=lambda box: box[0][-1])
    for low, counts in boxes:
        found = _fetch_box(emission, plan, operands, low, counts)
        first, last = box_span(dense, low, counts, sizes[-1])
        addresses = [*(address for address, _ in found), emission.target(first, last)]
        columns = [*(strides for _, strides in found), dense]
        axes = [Axis(count, tuple(column[i] for column in columns)) for i, count in enumerate(counts)]
        if layer.per_channel is not None:
            emission.bring_params(low[-1] // tile, -(-counts[-1] // tile))
            _emit_per_channel(emission, axes, addresses, low[-1] // tile)
        else:
            nest = Nest(layer.program, axes, addresses, sizes, table=emission.take_table())
            emit_nest(emission.emitter, nest)
        emission.finish(addresses[-1], first, last)


def _fetch_box(
    emission: LayerEmission,
    plan: ElementwisePlan,
    operands: list[Operand],
    low: tuple[int, ...],
    counts: tuple[int, ...],
) -> list[tuple[int, tuple[int, ...]]]:
    """AM address and strides of what a box reads of each operand."""
    joint: dict[str, int] = {}
    """Where the first byte of a tensor would be of which parts are fetched together."""
    for name in sorted(plan.together):
        start, stop = joint_span([each for each in operands if each.storage == name], low, counts)
        joint[name] = emission.fetch(BufferKey(Role.OPERAND, name), start, stop) - start
    found = []
    for stream, operand in enumerate(operands):
        start, stop = operand.span(low, counts)
        key = BufferKey(Role.OPERAND, operand.storage, stream)
        if operand.storage in joint:
            found.append((joint[operand.storage] + start, operand.strides))
        elif operand.apart and not emission.resident(operand.storage):
            address = emission.fetch_box(key, operand.stored(low, counts))
            found.append((address, operand.dense_strides(counts)))
        else:
            found.append((emission.fetch(key, start, stop), operand.strides))
    return found


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
