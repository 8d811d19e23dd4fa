"""Elementwise layers and reductions on the vector unit (clauses 2.4 to 2.10, 2.13)."""

import math

from tosaic.compiler.emit.emitter import Access, Dim, Emitter
from tosaic.compiler.emit.nest import Axis, Piece, merge, pieces, split_lanes
from tosaic.compiler.emit.operands import Operands
from tosaic.compiler.emit.placed_params import PlacedParams
from tosaic.compiler.fuse.expression import Immediate, Node
from tosaic.compiler.fuse.layers import Layer
from tosaic.compiler.fuse.microprogram import MicroProgram, assemble
from tosaic.compiler.fuse.moves import blocks
from tosaic.compiler.fuse.reductions import REDUCTIONS
from tosaic.compiler.fuse.translate import ELEMENT
from tosaic.compiler.ir import Graph
from tosaic.compiler.place.strides import dense_strides, operand_span, operand_strides
from tosaic.compiler.schedule.tracker import Space, Span
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, Element, Op

STORE_ELEMENT = {1: Element.INT8, 2: Element.INT16, 4: Element.INT32, 8: Element.INT48}


def stripeable(graph: Graph, layer: Layer) -> bool:
    """Whether the layer works on flat element ranges: every operand has the output's shape."""
    shape = graph.tensors[layer.output].shape
    same = all(graph.tensors[load.tensor].shape == shape for load in layer.program.loads)
    return layer.base is None and same and layer.per_channel is None


def tileable(layer: Layer) -> bool:
    """Whether any box of the output can be computed by itself: nothing is reduced."""
    return layer.base is None


def channel_tile(graph: Graph, layer: Layer, config: Config) -> int:
    """Channels that share a block of parameters in a per-channel layer without a convolution: one vector's."""
    return max(
        1,
        config.columns
        // max(ELEMENT[graph.tensors[layer.output].dtype].bytes, layer.program.load_element_bytes()),
    )


def tiles_of_box(graph: Graph, layer: Layer, limit_elements: int, config: Config) -> int:
    """Tiles of channels in the largest box of at most so many elements of a per-channel layer."""
    tile = channel_tile(graph, layer, config)
    channels = graph.tensors[layer.output].shape[-1]
    return -(-min(channels, box_limit(limit_elements, tile)) // tile)


def box_limit(limit_elements: int, tile: int) -> int:
    """The largest count of elements so that boxes begin with a tile of channels, if they are parts of rows."""
    return max(tile, limit_elements // tile * tile)


def operand_role(stream: int) -> str:
    """Tells operands apart that share storage but are broadcast differently."""
    return f"operand {stream}: "


def box_buffers(
    graph: Graph, layer: Layer, limit_elements: int, config: Config
) -> list[tuple[str, str, int]]:
    """(role, tensor, bytes) of what boxes of at most so many elements need in memory; the result last."""
    target = graph.tensors[layer.output]
    if layer.per_channel is not None:
        limit_elements = box_limit(limit_elements, channel_tile(graph, layer, config))
    # The first box is as large as any.
    low, counts = next(blocks(target.shape, limit_elements))
    found = []
    for stream, load in enumerate(layer.program.loads):
        start, stop = operand_span(graph.tensors[load.tensor].shape, low, counts, load.element.bytes)
        found.append((operand_role(stream), load.tensor, stop - start))
    return [*found, ("", layer.output, math.prod(counts) * ELEMENT[target.dtype].bytes)]


def _emit_tiles(
    graph: Graph,
    layer: Layer,
    operands: Operands,
    emitter: Emitter,
    limit_elements: int,
    params: PlacedParams,
    table: tuple[int, int] | None,
    storage: dict[str, str],
) -> None:
    """A layer that broadcasts or goes by channels, box by box."""
    target = graph.tensors[layer.output]
    size = ELEMENT[target.dtype].bytes
    loads = [(load, graph.tensors[load.tensor].shape) for load in layer.program.loads]
    sizes = (*(load.element.bytes for load, _ in loads), size)
    columns = [operand_strides(shape, target.shape, load.element.bytes) for load, shape in loads]
    columns.append(dense_strides(target.shape, size))
    boxes = blocks(target.shape, limit_elements)
    tile = 1
    if layer.per_channel is not None:
        tile = channel_tile(graph, layer, emitter.config)
        # Boxes that use the same parameters follow each other.
        boxes = iter(
            sorted(blocks(target.shape, box_limit(limit_elements, tile)), key=lambda box: box[0][-1])
        )
    for low, counts in boxes:
        addresses = []
        for stream, (load, shape) in enumerate(loads):
            start, stop = operand_span(shape, low, counts, load.element.bytes)
            addresses.append(operands.fetch(storage[load.tensor], start, stop, operand_role(stream)))
        first, last = operand_span(target.shape, low, counts, size)
        addresses.append(operands.target(storage[layer.output], first, last))
        axes = [Axis(count, tuple(column[i] for column in columns)) for i, count in enumerate(counts)]
        if layer.per_channel is not None:
            first_tile = low[-1] // tile
            params.bring(operands, first_tile, -(-counts[-1] // tile))
            _emit_per_channel(emitter, layer, axes, addresses, sizes, params, first_tile, table)
        else:
            _emit_nest(emitter, layer, layer.program, axes, [], addresses, sizes, None, table)
        operands.finish(storage[layer.output], addresses[-1], first, last)
        table = None


def emit_elementwise(
    graph: Graph,
    layer: Layer,
    operands: Operands,
    emitter: Emitter,
    stripe_elements: int,
    params: PlacedParams,
    table: tuple[int, int] | None,
    storage: dict[str, str],
) -> None:
    """A layer without a convolution or pool."""
    target = graph.tensors[layer.output]
    element = ELEMENT[target.dtype]
    total = math.prod(target.shape)
    sizes = (*(load.element.bytes for load in layer.program.loads), element.bytes)
    if stripeable(graph, layer):
        for start in range(0, total, stripe_elements):
            stop = min(start + stripe_elements, total)
            addresses = [
                operands.fetch(storage[load.tensor], start * load.element.bytes, stop * load.element.bytes)
                for load in layer.program.loads
            ]
            out = operands.target(storage[layer.output], start * element.bytes, stop * element.bytes)
            axes = [Axis(stop - start, sizes)]
            _emit_nest(emitter, layer, layer.program, axes, [], [*addresses, out], sizes, None, table)
            operands.finish(storage[layer.output], out, start * element.bytes, stop * element.bytes)
            table = None
        return
    if tileable(layer):
        _emit_tiles(graph, layer, operands, emitter, stripe_elements, params, table, storage)
        return
    addresses = []
    for load in layer.program.loads:
        source = graph.tensors[load.tensor]
        addresses.append(
            operands.fetch(storage[load.tensor], 0, math.prod(source.shape) * load.element.bytes)
        )
    out = operands.target(storage[layer.output], 0, total * element.bytes)
    axes, reduced, offsets = _axes(graph, layer, sizes)
    addresses = [a + o for a, o in zip([*addresses, out], offsets, strict=True)]
    _emit_nest(emitter, layer, layer.program, axes, reduced, addresses, sizes, None, table)
    operands.finish(storage[layer.output], out, 0, total * element.bytes)


def _axes(graph: Graph, layer: Layer, sizes: tuple[int, ...]) -> tuple[list[Axis], list[Axis], list[int]]:
    """(axes of the output slowest first, reduced axes fastest first, byte offsets) per stream."""
    target = graph.tensors[layer.output].shape
    offsets = [0] * len(sizes)
    reduced: list[Axis] = []
    out = dense_strides(target, sizes[-1])
    if layer.base is not None and layer.base.op in (*REDUCTIONS, "ARGMAX"):
        reductions = [operator for operator in layer.operators if operator.op in (*REDUCTIONS, "ARGMAX")]
        shape = graph.tensors[reductions[0].inputs[0]].shape
        over = sorted({operator.attributes["axis"] for operator in reductions}, reverse=True)
        if layer.base.op == "ARGMAX":
            # Its result has no such axis; with one of length 1 it is like any reduction's.
            target = (*target[: over[0]], 1, *target[over[0] :])
            out = dense_strides(target, sizes[-1])
        columns = []
        for stream, (load, size) in enumerate(zip(layer.program.loads, sizes, strict=False)):
            own = graph.tensors[load.tensor].shape
            if layer.base.op == "ARGMAX" and stream >= layer.program.body_loads:
                own = (*own[: over[0]], 1, *own[over[0] :])
            # Operands of the body meet the elements before the reduction, those of the epilogue its result.
            wanted = shape if stream < layer.program.body_loads else target
            if len(own) != len(wanted):
                raise UnsupportedError(f"{layer.root}: operands of different rank in a reduction")
            columns.append(operand_strides(own, wanted, size))
        per_axis = [(*(column[i] for column in columns), out[i]) for i in range(len(shape))]
        reduced = [Axis(shape[axis], (*per_axis[axis][:-1], 0)) for axis in over]
        axes = [Axis(target[i], per_axis[i]) for i in range(len(shape)) if i not in over]
        return axes, reduced, offsets
    columns = [
        operand_strides(graph.tensors[load.tensor].shape, target, size)
        for load, size in zip(layer.program.loads, sizes, strict=False)
    ]
    columns.append(out)
    return [Axis(target[i], tuple(c[i] for c in columns)) for i in range(len(target))], reduced, offsets


def _emit_per_channel(
    emitter: Emitter,
    layer: Layer,
    axes: list[Axis],
    addresses: list[int],
    sizes: tuple[int, ...],
    params: PlacedParams,
    first_tile: int,
    table: tuple[int, int] | None,
) -> None:
    """A per-channel RESCALE without a convolution: one pass per group of channels along the last axis."""
    rows, along = merge(axes[:-1]), axes[-1]
    lanes = max(1, emitter.config.columns // max(sizes))
    for number, first in enumerate(range(0, along.count, lanes)):
        group = Axis(min(lanes, along.count - first), along.strides)
        moved = [a + first * stride for a, stride in zip(addresses, along.strides, strict=True)]
        block = params.of(first_tile + number)
        _emit_nest(
            emitter, layer, layer.program, [*rows, group], [], moved, sizes, block, table, keep_axes=True
        )
        table = None


def _emit_nest(
    emitter: Emitter,
    layer: Layer,
    program: MicroProgram,
    axes: list[Axis],
    reduced: list[Axis],
    addresses: list[int],
    sizes: tuple[int, ...],
    params: tuple[int, bool, bool] | None,
    table: tuple[int, int] | None,
    keep_axes: bool = False,
) -> None:
    """The GOs of a nest; `addresses` and strides per stream, loads first."""
    lanes = emitter.config.columns // max(sizes)
    if lanes < 1:
        raise UnsupportedError(
            f"{layer.root}: elements of {max(sizes)} bytes on a {emitter.config.columns}-byte machine"
        )
    merged = axes if keep_axes else merge(axes)
    outer, along, tail = split_lanes(merged, sizes, lanes)
    splats = tuple(along is not None and stride == 0 for stride in merged[-1].strides) if merged else ()
    for piece in pieces(outer, along, lanes, tail, reduced, len(sizes), emitter.config.vector_slots):
        emit_piece(emitter, program, piece, addresses, sizes, reduced, splats, params, table)
        table = None


def emit_nest(
    emitter: Emitter, program: MicroProgram, axes: list[Axis], addresses: list[int], sizes: tuple[int, ...]
) -> None:
    """The GOs of a nest (slowest axis first) without reduction, parameters or table; addresses and element sizes per
    stream, loads first."""
    lanes = emitter.config.columns // max(sizes)
    merged = merge(axes)
    outer, along, tail = split_lanes(merged, sizes, lanes)
    splats = tuple(along is not None and stride == 0 for stride in merged[-1].strides) if merged else ()
    for piece in pieces(outer, along, lanes, tail, [], len(sizes), emitter.config.vector_slots):
        emit_piece(emitter, program, piece, addresses, sizes, [], splats, None, None)


def filling(value: int, config: Config) -> MicroProgram:
    """Stores one value everywhere."""
    return assemble(Node(Op.MOV, Immediate(value)), config)


def emit_piece(
    emitter: Emitter,
    program: MicroProgram,
    piece: Piece,
    addresses: list[int],
    sizes: tuple[int, ...],
    reduced: list[Axis],
    splats: tuple[bool, ...],
    params: tuple[int, bool, bool] | None,
    table: tuple[int, int] | None,
) -> None:
    """One VECTOR_GO of a nest."""
    streams: dict[int, Access] = {}
    reads: list[Span] = []
    writes: list[Span] = []
    repeats = math.prod(axis.count for axis in reduced)
    last_stream = len(addresses) - 1
    for stream, (address, size) in enumerate(zip(addresses, sizes, strict=True)):
        store = stream == last_stream
        start = address + piece.offsets[stream]
        # The store and the operands of the epilogue are walked once per batch, not over the reduced axes.
        once = store or stream >= program.body_loads
        axes = (piece.axes[0], *piece.axes[1 + len(reduced) :]) if reduced and once else piece.axes
        dims = tuple(Dim(axis.count, axis.strides[stream]) for axis in axes)
        splat = not store and bool(splats) and splats[stream]
        element = STORE_ELEMENT[size] if store else program.loads[stream].element
        streams[STORE_STREAM if store else stream] = Access(start, element, dims, splat)
        low = start + sum(min(0, (d.count - 1) * d.stride) for d in dims)
        high = start + sum(max(0, (d.count - 1) * d.stride) for d in dims) + piece.lanes * size
        (writes if store else reads).append(Span(Space.AM, max(0, low), high))
    emitter.vector(
        program,
        streams,
        vectors=piece.vectors,
        slots=piece.slots,
        lanes=piece.lanes,
        tail_lanes=piece.tail_lanes,
        repeats=repeats,
        reads=reads,
        writes=writes,
        params=params,
        table=table,
    )
