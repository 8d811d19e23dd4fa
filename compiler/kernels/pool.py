"""AVG_POOL2D and MAX_POOL2D on the vector unit (clauses 2.3.2 and 2.3.9).

Padding is never read: output positions are grouped by the part of the window that lies inside the image, and each
group is a loop nest of its own; an average divides by that part's size.
"""

import dataclasses

from tosaic.compiler.ir import Graph
from tosaic.compiler.ir.errors import UnsupportedError
from tosaic.compiler.lower.layers import Layer
from tosaic.compiler.lower.reductions import reciprocal_scale
from tosaic.compiler.lower.translate import ELEMENT

from .elementwise import emit_piece
from .emitter import Emitter
from .geometry import Window
from .nest import Axis, merge, pieces, split_lanes
from .operands import WINDOW, Operands


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


def emit_pool(
    graph: Graph,
    layer: Layer,
    window: Window,
    operands: Operands,
    emitter: Emitter,
    stripe_rows: int,
    table: tuple[int, int] | None,
    storage: dict[str, str],
) -> None:
    """All stripes and window groups of a pooling layer."""
    program, output = layer.program, storage[layer.output]
    assert layer.base is not None
    source_size = ELEMENT[graph.tensors[layer.base.inputs[0]].dtype].bytes
    out_size = ELEMENT[graph.tensors[layer.output].dtype].bytes
    sizes = (*(load.element.bytes for load in program.loads), out_size)
    channels, pixel = window.ic // source_size, window.ic
    lanes = emitter.config.columns // max(sizes)
    if lanes < 1:
        raise UnsupportedError(
            f"{layer.root}: elements of {max(sizes)} bytes on a {emitter.config.columns}-byte machine"
        )
    for image in range(window.n):
        for oy0 in range(0, window.oh, stripe_rows):
            oy1 = min(oy0 + stripe_rows, window.oh)
            low, high = window.input_rows(oy0, oy1)
            start, stop = window.input_span(image, low, high)
            source = operands.fetch(window.view.storage, start, stop, WINDOW)
            row = window.ow * channels
            first, last = (image * window.oh + oy0) * row, (image * window.oh + oy1) * row
            extra = [
                operands.fetch(storage[load.tensor], first * load.element.bytes, last * load.element.bytes)
                for load in program.loads[1:]
            ]
            target = operands.target(output, first * out_size, last * out_size)
            for ys in stretches(range(oy0, oy1), window.sy, window.top, window.kh, window.ih):
                for xs in stretches(range(window.ow), window.sx, window.left, window.kw, window.iw):
                    iy = ys.start * window.sy - window.top + ys.first - low
                    ix = xs.start * window.sx - window.left + xs.first
                    place = (ys.start - oy0) * window.ow + xs.start
                    addresses = [source + iy * window.view.pitch + ix * pixel]
                    addresses += [
                        address + place * channels * size
                        for address, size in zip(extra, sizes[1:], strict=False)
                    ]
                    addresses.append(target + place * channels * out_size)
                    outs = sizes[1:]
                    axes = [
                        Axis(ys.count, (window.sy * window.view.pitch, *(row * s for s in outs))),
                        Axis(xs.count, (window.sx * pixel, *(channels * s for s in outs))),
                        Axis(channels, sizes),
                    ]
                    none = (0,) * len(outs)
                    reduced = [Axis(xs.taps, (pixel, *none)), Axis(ys.taps, (window.view.pitch, *none))]
                    _emit_group(emitter, layer, axes, reduced, addresses, sizes, lanes, table)
                    table = None
            operands.finish(output, target, first * out_size, last * out_size)


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
