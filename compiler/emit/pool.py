"""Emits AVG_POOL2D and MAX_POOL2D on the vector unit (clauses 2.3.2 and 2.3.9).

Padding is never read: output positions are grouped by the part of the window that lies inside the image, and each
group is a loop nest of its own; an average divides by that part's size.
"""

import dataclasses

from tosaic.compiler.cut.window_axis import WindowAxis
from tosaic.compiler.emit.box_transfers import BoxPlace, BoxSource, BoxTransfers
from tosaic.compiler.emit.layer_emission import LayerEmission
from tosaic.compiler.emit.nest_go import GoNest, emit_nest
from tosaic.compiler.machine import reciprocal_scale
from tosaic.compiler.tile.image_boxes import Box
from tosaic.compiler.tile.loops import Axis
from tosaic.compiler.tile.work import PoolBody


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Output positions [start, start + count) whose windows have the same valid taps [first, first + taps)."""

    start: int
    count: int
    first: int
    taps: int


def stretches(axis: WindowAxis) -> list[Stretch]:
    """Groups the outputs along one axis by the taps inside the image."""
    found: list[Stretch] = []
    for position in range(axis.outputs):
        low, high = axis.needs((position, position + 1))
        first, taps = low - position * axis.stride + axis.pad, high - low
        if found and (found[-1].first, found[-1].taps) == (first, taps):
            found[-1] = dataclasses.replace(found[-1], count=found[-1].count + 1)
        else:
            found.append(Stretch(position, 1, first, taps))
    return found


def emit_pool(emission: LayerEmission, body: PoolBody) -> None:
    """All boxes of a pooling layer."""
    tensors, layer = emission.tensors, emission.layer
    transfers = BoxTransfers(emission, body.cut, body.extent)
    out_size = tensors.element(layer.output).bytes
    for box in body.cut.boxes(body.extent):
        source = transfers.source(box)
        places = [transfers.operand(stream, box) for stream in range(1, len(layer.program.loads))]
        target = transfers.target(out_size, box)
        base = source.address + box.c0 * body.cut.channel_bytes - source.channel
        _emit_box(emission, source, base, box, [*places, target])
        transfers.finish(out_size, box, target)


def _emit_box(
    emission: LayerEmission, source: BoxSource, base: int, box: Box, places: list[BoxPlace]
) -> None:
    """A nest for each group of output positions. `places` are those of further operands and of the result."""
    inner, pitch, pixel = source.window, source.window.view.pitch, source.window.ic
    program = emission.layer.program
    sizes = (
        *(load.element.bytes for load in program.loads),
        emission.tensors.element(emission.layer.output).bytes,
    )
    none = (0,) * len(places)
    for ys in stretches(inner.row_axis):
        for xs in stretches(inner.column_axis):
            iy = ys.start * inner.sy - inner.top + ys.first
            ix = xs.start * inner.sx - inner.left + xs.first
            addresses = [base + iy * pitch + ix * pixel]
            addresses += [
                place.address + ys.start * place.row_bytes + xs.start * place.pixel_bytes for place in places
            ]
            axes = [
                Axis(ys.count, (inner.sy * pitch, *(place.row_bytes for place in places))),
                Axis(xs.count, (inner.sx * pixel, *(place.pixel_bytes for place in places))),
                Axis(box.c1 - box.c0, sizes),
            ]
            reduced = [Axis(xs.taps, (pixel, *none)), Axis(ys.taps, (pitch, *none))]
            averaged = program.averaged(*reciprocal_scale(xs.taps * ys.taps))
            table = emission.take_table()
            nest = GoNest(averaged, axes, addresses, sizes, reduced, table=table)
            emit_nest(emission.emitter, nest)
