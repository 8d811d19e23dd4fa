"""A loop nest of the vector unit as VECTOR_GOs."""

import dataclasses
import math
from collections.abc import Iterable, Iterator

from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.nest import Piece, even_lanes, limited, pieces, split_lanes
from tosaic.compiler.emit.vector_go import Access, Dim, Entries, ParamUse, VectorGo
from tosaic.compiler.fuse.expression import Immediate, Load, Node
from tosaic.compiler.fuse.microprogram import MicroProgram, assemble
from tosaic.compiler.fuse.peeled import peeled
from tosaic.compiler.place.address import Span, activation_span
from tosaic.compiler.tile.loops import Axis, merge
from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, Element, Op

_STORE_ELEMENT = {
    element.bytes: element for element in (Element.INT8, Element.INT16, Element.INT32, Element.INT48)
}


@dataclasses.dataclass(frozen=True)
class GoNest:
    """A micro-program over a nest of loops. Addresses, element sizes (bytes) and strides are per stream, loads first,
    the store last."""

    program: MicroProgram
    axes: list[Axis]
    """Axes, the slowest first."""
    addresses: list[int]
    sizes: tuple[int, ...]
    reduced: list[Axis] = dataclasses.field(default_factory=list)
    """Loops over which the body repeats, fastest first; without a body those that the reads of a shared stream make."""
    params: ParamUse | None = None
    table: Entries | None = None
    keep_axes: bool = False
    """Neighbouring axes are not joined."""


def emit_nest(emitter: Emitter, nest: GoNest) -> None:
    """The GOs of a nest; the table goes with the first."""
    emit_gos(emitter, nest_gos(nest, emitter.config))


def emit_gos(emitter: Emitter, gos: Iterable[VectorGo]) -> None:
    """GOs that were made before, one after the other."""
    for go in gos:
        emitter.vector(go)


def nest_gos(nest: GoNest, config: Config) -> Iterator[VectorGo]:
    """The same, to be emitted."""
    merged = nest.axes if nest.keep_axes else merge(nest.axes)
    lanes = even_lanes(merged[-1].count, config.columns) if merged else 1
    outer, along, tail = split_lanes(merged, nest.sizes, lanes)
    splats = (False,) * len(nest.sizes)
    if merged and along is not None:
        # A load that the lanes do not walk gives all of them the same element.
        splats = tuple(stride == 0 for stride in merged[-1].strides)
    table = nest.table
    for piece in pieces(outer, along, lanes, tail, nest.reduced, len(nest.sizes), config.vector_slots):
        yield _go(nest, piece, splats, table)
        table = None


def row_gos(nest: GoNest, config: Config) -> Iterator[VectorGo]:
    """The GOs of a nest whose program goes by rows: its body repeats along the last axis."""
    *outer, along = nest.axes
    lanes, table = even_lanes(along.count, config.columns), nest.table
    splats = tuple(stride == 0 for stride in along.strides)
    for first, repeats, width in _groups(along.count, lanes):
        steps = Axis(repeats, tuple(stride * width for stride in along.strides))
        moved = [
            address + first * stride for address, stride in zip(nest.addresses, along.strides, strict=True)
        ]
        part = dataclasses.replace(nest, addresses=moved, reduced=[steps])
        vector = Axis(1, (0,) * len(along.strides))
        for piece in pieces(merge(outer), vector, width, width, [steps], len(splats), config.vector_slots):
            yield _go(part, piece, splats, table)
            table = None


def pixel_axes(nest: GoNest, program: MicroProgram) -> tuple[list[Axis], list[Axis]]:
    """The axes before the channels: those over which what `program` holds differs, and the pixels, over which it does
    not."""
    axes = nest.axes[:-1]
    held = [axis.count > 1 and any(axis.strides[stream] for stream in program.rows) for axis in axes]
    first = len(axes) - held[::-1].index(True) if True in held else 0
    return merge(axes[:first]), merge(axes[first:])


def channel_gos(nest: GoNest, slots: int, config: Config) -> Iterator[VectorGo]:
    """The GOs of a nest whose program goes by channels: batches of `slots` pixels of a group of channels, over whose
    pixels the body repeats. With parameters the groups are all whole, or one."""
    outer, pixels = pixel_axes(nest, nest.program)
    *before, inner = pixels or [Axis(1, (0,) * len(nest.addresses))]
    along, table = nest.axes[-1], nest.table
    lanes = config.columns if nest.params is not None else even_lanes(along.count, config.columns)
    splats = tuple(stride == 0 for stride in along.strides)
    blocks, rest = divmod(inner.count, slots)
    for first, groups, width in _groups(along.count, lanes):
        for start, count, repeats in ((0, slots, blocks), (blocks * slots, rest, 1)):
            if not count or not repeats:
                continue
            moved = tuple(
                first * channel + start * pixel
                for channel, pixel in zip(along.strides, inner.strides, strict=True)
            )
            steps = [Axis(repeats, tuple(stride * count for stride in inner.strides)), *before[::-1]]
            group = Axis(groups, tuple(stride * width for stride in along.strides))
            loops = (Axis(count, inner.strides), *steps, group, *outer[::-1])
            part = dataclasses.replace(nest, reduced=steps)
            for piece in limited(loops, moved, count, width, len(steps)):
                yield _go(part, piece, splats, table)
                table = None


def _groups(channels: int, lanes: int) -> Iterator[tuple[int, int, int]]:
    """(first channel, groups, channels of each) of the groups of `lanes` channels, and of the rest."""
    whole, rest = divmod(channels, lanes)
    if whole:
        yield 0, whole, lanes
    if rest:
        yield whole * lanes, 1, rest


def emit_move(emitter: Emitter, source: int, target: int, size_bytes: int) -> None:
    """Copies bytes from one activation-memory address to another; the two ranges do not overlap."""
    program = assemble(Load("", Element.INT8), emitter.config)
    emit_nest(emitter, GoNest(program, [Axis(size_bytes, (1, 1))], [source, target], (1, 1)))


def filling(value: int, config: Config) -> MicroProgram:
    """Stores one value everywhere."""
    return assemble(Node(Op.MOV, Immediate(value)), config)


def _go(nest: GoNest, piece: Piece, splats: tuple[bool, ...], table: Entries | None) -> VectorGo:
    streams: dict[int, Access] = {}
    reads: list[Span] = []
    writes: list[Span] = []
    program, reduced, last_stream = nest.program, nest.reduced, len(nest.addresses) - 1
    for stream, (address, size) in enumerate(zip(nest.addresses, nest.sizes, strict=True)):
        store = stream == last_stream
        start = address + piece.offsets[stream]
        # The store and the operands of the epilogue are walked once per batch, not over the reduced axes.
        once = stream in program.rows if program.rows else store or stream >= program.body_loads
        axes = (piece.axes[0], *piece.axes[1 + len(reduced) :]) if reduced and once else piece.axes
        dims = tuple(Dim(axis.count, axis.strides[stream]) for axis in axes)
        element = _STORE_ELEMENT[size] if store else program.loads[stream].element
        splat = not store and splats[stream]
        access = Access(start, element, dims, splat=splat)
        streams[STORE_STREAM if store else stream] = access
        low = start + sum(min(0, (d.count - 1) * d.stride) for d in dims)
        high = (
            start + sum(max(0, (d.count - 1) * d.stride) for d in dims) + size * (1 if splat else piece.lanes)
        )
        (writes if store else reads).append(activation_span(max(0, low), high))
    repeats = math.prod(axis.count for axis in reduced) if program.body_end > program.body_start else 1
    program, repeats = peeled(program, repeats)
    # The parameters of several batches: each batch has its own.
    blocks = nest.params.blocks if nest.params is not None else 1
    return VectorGo(
        program,
        streams,
        vectors=piece.vectors,
        slots=piece.vectors // blocks if blocks > 1 else piece.slots,
        lanes=piece.lanes,
        tail_lanes=piece.tail_lanes,
        repeats=repeats,
        reads=reads,
        writes=writes,
        params=nest.params,
        table=table,
    )
