"""Emits elementwise layers (clauses 2.4 to 2.8, 2.10, 2.13)."""

import dataclasses
import math
from collections.abc import Iterator

from tosaic.compiler.cost.vector import channels_cycles, pixel_slots, pixels_cycles, rows_cycles
from tosaic.compiler.emit.layer_emission import LayerEmission
from tosaic.compiler.emit.nest import MAX_COUNT
from tosaic.compiler.emit.nest_go import (
    GoNest,
    channel_gos,
    emit_gos,
    emit_nest,
    nest_gos,
    pixel_axes,
    row_gos,
)
from tosaic.compiler.emit.vector_go import VectorGo
from tosaic.compiler.place.placement import BufferKey, Role
from tosaic.compiler.tile.elementwise import (
    ElementwisePlan,
    Shape,
    StreamOperand,
    joint_span,
    operands_of,
    result_of,
)
from tosaic.compiler.tile.loops import Axis, merge
from tosaic.hw.isa import STREAM_DIMS

_MOST_ROW_AXES = STREAM_DIMS - 2
"""Loops over the rows of a command of several groups: beside them there are the groups and the lanes."""


def emit_elementwise(emission: LayerEmission, plan: ElementwisePlan) -> None:
    """A layer without a convolution or pool."""
    match plan.shape:
        case Shape.STRIPES:
            _emit_stripes(emission, plan)
        case Shape.BOXES:
            _emit_boxes(emission, plan)


def _sizes(emission: LayerEmission) -> tuple[int, ...]:
    """Bytes of an element of each stream, the store last."""
    loads = emission.layer.program.loads
    return (*(load.element.bytes for load in loads), emission.tensors.element(emission.layer.output).bytes)


def _emit_stripes(emission: LayerEmission, plan: ElementwisePlan) -> None:
    layer, tensors, sizes = emission.layer, emission.tensors, _sizes(emission)
    for (start,), (count,) in plan.boxes((tensors.elements(layer.output),)):
        stop = start + count
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
        axes, table = [Axis(count, sizes)], emission.take_table()
        emit_nest(emission.emitter, GoNest(layer.program, axes, [*addresses, out], sizes, table=table))
        emission.finish(out, first, last)


def _emit_boxes(emission: LayerEmission, plan: ElementwisePlan) -> None:
    """A layer that broadcasts, goes by channels or reads parts of others, box by box."""
    layer, tensors, sizes = emission.layer, emission.tensors, _sizes(emission)
    operands, result = operands_of(tensors, layer), result_of(tensors, layer)
    resident = emission.resident(result.storage)
    boxes = list(plan.boxes(tensors.shape(layer.output)))
    if layer.per_channel is not None:
        # Boxes that use the same parameters follow each other.
        boxes.sort(key=lambda box: box[0][-1])
    for low, counts in boxes:
        found = _fetch_box(emission, plan, operands, low, counts)
        stored = result.stored(low, counts)
        stop = stored.end if resident else stored.start + stored.bytes
        in_turn = found[len(layer.program.loads) :]
        found = found[: len(layer.program.loads)]
        addresses = [*(address for address, _ in found), emission.target(stored.start, stop)]
        written = result.strides if resident else result.held_strides(counts)
        columns = [*(strides for _, strides in found), written]
        axes = [Axis(count, tuple(column[i] for column in columns)) for i, count in enumerate(counts)]
        if layer.per_channel is not None:
            tile = emission.config.columns
            emission.bring_params(low[-1] // tile, -(-counts[-1] // tile))
            _emit_per_channel(emission, axes, addresses, low[-1] // tile)
        else:
            turns = []
            for address, strides in in_turn:
                assert strides == found[0][1]
                turns.append(Axis(2, (address - addresses[0], *(0 for _ in sizes[1:]))))
            table = emission.take_table()
            _emit_box(emission, GoNest(layer.program, axes, addresses, sizes, turns, table=table))
        if not stored.dims:
            emission.finish(addresses[-1], stored.start, stored.end)
        elif not resident:
            emission.finish_box(addresses[-1], stored)


def _emit_box(emission: LayerEmission, nest: GoNest) -> None:
    """A box, by rows or by channels where that takes fewer cycles."""
    layer, config = emission.layer, emission.config
    if not nest.axes or (layer.by_rows is None and layer.by_channels is None):
        emit_nest(emission.emitter, nest)
        return
    counts, stored = [axis.count for axis in nest.axes], emission.tensors.element(layer.output)
    rows, groups = math.prod(counts[:-1]), -(-counts[-1] // config.columns)
    ways: list[tuple[int, Iterator[VectorGo]]] = [
        (rows * groups * layer.program.beats(stored), nest_gos(nest, config))
    ]
    if layer.by_rows is not None:
        before, body = layer.by_rows.held_beats(stored)
        gos = row_gos(dataclasses.replace(nest, program=layer.by_rows), config)
        ways.append((rows_cycles(rows, counts[-1], before, body, config), gos))
    if layer.by_channels is not None:
        cycles, slots = _by_channels(emission, nest)
        gos = channel_gos(dataclasses.replace(nest, program=layer.by_channels), slots, config)
        ways.append((groups * cycles, gos))
    emit_gos(emission.emitter, min(ways, key=lambda way: way[0])[1])


def _by_channels(emission: LayerEmission, nest: GoNest) -> tuple[int, int]:
    """Cycles of a group of channels of a box that goes by channels, and the slots of its batches."""
    layer, config = emission.layer, emission.config
    program = layer.by_channels
    assert program is not None
    outer, pixels = pixel_axes(nest, program)
    before, body = program.held_beats(emission.tensors.element(layer.output))
    count, turns = (pixels[-1].count if pixels else 1), math.prod(axis.count for axis in pixels[:-1])
    slots = pixel_slots(count, before, body, config)
    others = math.prod(axis.count for axis in outer)
    return others * turns * pixels_cycles(count, slots, before, body, config), slots


def _fetch_box(
    emission: LayerEmission,
    plan: ElementwisePlan,
    operands: list[StreamOperand],
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
        key, stored = BufferKey(Role.OPERAND, operand.storage, stream), operand.stored(low, counts)
        if operand.storage in joint:
            found.append((joint[operand.storage] + start, operand.strides))
        elif emission.resident(operand.storage):
            found.append((emission.fetch(key, start, stop), operand.strides))
        else:
            address = emission.fetch_box(key, stored) if stored.dims else emission.fetch(key, start, stop)
            found.append((address, operand.held_strides(counts)))
    return found


def _emit_per_channel(
    emission: LayerEmission, axes: list[Axis], addresses: list[int], first_tile: int
) -> None:
    """A per-channel RESCALE without a convolution: groups of channels along the last axis, each with parameters of its
    own. Groups of a batch each are one command."""
    layer, sizes, columns, together = emission.layer, _sizes(emission), emission.config.columns, 1
    rows, along = merge(axes[:-1]), axes[-1]
    whole, rest = divmod(along.count, columns)
    vectors, slots = math.prod(axis.count for axis in rows), 0
    if layer.by_channels is not None:
        nest = GoNest(layer.by_channels, axes, addresses, sizes)
        cycles, slots = _by_channels(emission, nest)
        beats = layer.program.uop_beats(emission.tensors.element(layer.output))
        if cycles >= channels_cycles(emission.config, beats, vectors):
            slots = 0
        elif not pixel_axes(nest, layer.by_channels)[0]:
            together = MAX_COUNT
    if not slots and vectors <= emission.config.vector_slots and len(rows) < _MOST_ROW_AXES:
        together = MAX_COUNT
    parts = [(first, min(together, whole - first), columns) for first in range(0, whole, together)]
    for first, blocks, lanes in [*parts, *([(whole, 1, rest)] if rest else [])]:
        moved = [a + first * columns * s for a, s in zip(addresses, along.strides, strict=True)]
        groups = Axis(blocks, tuple(columns * stride for stride in along.strides))
        nest = GoNest(
            layer.program,
            [*([groups] if blocks > 1 else []), *rows, Axis(lanes, along.strides)],
            moved,
            sizes,
            params=emission.params_of(first_tile + first, blocks),
            table=emission.take_table(),
            keep_axes=True,
        )
        if slots and layer.by_channels is not None:
            channels = [*axes[:-1], Axis(blocks * lanes, along.strides)]
            nest = dataclasses.replace(nest, program=layer.by_channels, axes=channels)
            for go in channel_gos(nest, slots, emission.config):
                emission.emitter.vector(go)
            continue
        emit_nest(emission.emitter, nest)
