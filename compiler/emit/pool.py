"""AVG_POOL2D and MAX_POOL2D on the vector unit (clauses 2.3.2 and 2.3.9).

Padding is never read: output positions are grouped by the part of the window that lies inside the image, and each
group is a loop nest of its own; an average divides by that part's size.
"""

import dataclasses

from tosaic.compiler.emit.elementwise import emit_piece
from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.nest import Axis, merge, pieces, split_lanes
from tosaic.compiler.emit.operands import Operands
from tosaic.compiler.fuse.layers import Layer
from tosaic.compiler.fuse.reductions import reciprocal_scale
from tosaic.compiler.fuse.translate import ELEMENT
from tosaic.compiler.ir import Graph
from tosaic.compiler.place.geometry import Window
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Output positions [start, start + count) whose windows have the same valid taps [first, first + taps)."""

    start: int
    count: int
    first: int
    taps: int


def stretches(outputs: range, stride: int, pad: int, kernel: int, extent: int) -> list[Stretch]:
    """Groups output positions along one axis by the taps inside the image."""
    found: list[Stretch] = []
    for position in outputs:
        origin = position * stride - pad
        first, last = max(0, -origin), min(kernel, extent - origin)
        if found and (found[-1].first, found[-1].taps) == (first, last - first):
            found[-1] = dataclasses.replace(found[-1], count=found[-1].count + 1)
        else:
            found.append(Stretch(position, 1, first, last - first))
    return found


def pool_boxes(graph: Graph, layer: Layer, window: Window, lanes: int) -> ImageBoxes:
    """How a pool's output may be cut."""
    assert layer.base is not None
    size = ELEMENT[graph.tensors[layer.base.inputs[0]].dtype].bytes
    return ImageBoxes(window, window.ic // size, lanes, channel_bytes=size, multiplier=1)


def pool_lanes(graph: Graph, layer: Layer, config: Config) -> int:
    """Channels per vector."""
    out_size = ELEMENT[graph.tensors[layer.output].dtype].bytes
    size = max(out_size, layer.program.load_element_bytes())
    if size > config.columns:
        raise UnsupportedError(f"{layer.root}: elements of {size} bytes on a {config.columns}-byte machine")
    return config.columns // size


def emit_pool(
    graph: Graph,
    layer: Layer,
    window: Window,
    operands: Operands,
    emitter: Emitter,
    extent: Extent,
    table: tuple[int, int] | None,
    storage: dict[str, str],
) -> None:
    """All boxes and window groups of a pooling layer."""
    program, output = layer.program, storage[layer.output]
    out_size = ELEMENT[graph.tensors[layer.output].dtype].bytes
    sizes = (*(load.element.bytes for load in program.loads), out_size)
    lanes = pool_lanes(graph, layer, emitter.config)
    cut = pool_boxes(graph, layer, window, lanes)
    for box in cut.boxes(extent):
        source = cut.source(box, extent, operands)
        places = [
            cut.operand(storage[load.tensor], load.element.bytes, box, operands) for load in program.loads[1:]
        ]
        target = cut.target(output, out_size, box, operands)
        places.append(target)
        inner, pitch, pixel = source.window, source.window.view.pitch, source.window.ic
        base = source.address + box.c0 * cut.channel_bytes - source.channel
        for ys in stretches(range(inner.oh), inner.sy, inner.top, inner.kh, inner.ih):
            for xs in stretches(range(inner.ow), inner.sx, inner.left, inner.kw, inner.iw):
                iy = ys.start * inner.sy - inner.top + ys.first
                ix = xs.start * inner.sx - inner.left + xs.first
                addresses = [base + iy * pitch + ix * pixel]
                addresses += [
                    place.address + ys.start * place.row_bytes + xs.start * place.pixel_bytes
                    for place in places
                ]
                axes = [
                    Axis(ys.count, (inner.sy * pitch, *(place.row_bytes for place in places))),
                    Axis(xs.count, (inner.sx * pixel, *(place.pixel_bytes for place in places))),
                    Axis(box.c1 - box.c0, sizes),
                ]
                none = (0,) * len(places)
                reduced = [Axis(xs.taps, (pixel, *none)), Axis(ys.taps, (pitch, *none))]
                _emit_group(emitter, layer, axes, reduced, addresses, sizes, lanes, table)
                table = None
        cut.finish(output, out_size, box, target, operands)


def _emit_group(
    emitter: Emitter,
    layer: Layer,
    axes: list[Axis],
    reduced: list[Axis],
    addresses: list[int],
    sizes: tuple[int, ...],
    lanes: int,
    table: tuple[int, int] | None,
) -> None:
    program = layer.program.averaged(*reciprocal_scale(reduced[0].count * reduced[1].count))
    merged = merge(axes)
    outer, along, tail = split_lanes(merged, sizes, lanes)
    for piece in pieces(outer, along, lanes, tail, reduced, len(sizes), emitter.config.vector_slots):
        emit_piece(emitter, program, piece, addresses, sizes, reduced, (), None, table)
        table = None
