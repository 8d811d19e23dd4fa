"""Emits layout operators: strided copies on the vector unit, in blocks where a tensor exceeds the activation memory."""

import dataclasses
import itertools
import math
from collections.abc import Callable

from tosaic.compiler.lower.expression import Immediate, Load, Node
from tosaic.compiler.lower.microprogram import MicroProgram, assemble
from tosaic.compiler.lower.moves import Move, Part, blocks
from tosaic.compiler.memory import OutOfMemory
from tosaic.compiler.schedule.tracker import Space, Span
from tosaic.hw.config import Config
from tosaic.hw.isa import Element, Op

from .elementwise import emit_piece
from .emitter import Emitter, Rows
from .nest import Axis, merge, pieces, split_lanes
from .operands import Placement

_MAX_ROWS = (1 << 16) - 1


@dataclasses.dataclass(frozen=True)
class _Buffers:
    """Where in activation memory what is not resident is worked on; None: it is resident, or fetched in parts."""

    block_elements: int
    target: int | None
    whole: dict[str, int]
    """Addresses of sources fetched whole."""
    gathered: int | None
    """Holds the part of a source that a block needs."""

    def addresses(self) -> list[int]:
        found = [*self.whole.values(), self.target, self.gathered]
        return [address for address in found if address is not None]


class MoveKernel:
    """One layout operator. `placements` are those of its sources by storage name, `size` the bytes of an element."""

    def __init__(
        self,
        emitter: Emitter,
        placements: dict[str, Placement],
        storage: dict[str, str],
        size: int,
        allocate: Callable[[int], int | None],
        free: Callable[[int], None],
    ):
        self.emitter, self.placements, self.storage, self.size = emitter, placements, storage, size
        self.allocate, self.free = allocate, free

    def emit(self, move: Move, target: Placement) -> list[int]:
        """Emits everything; the addresses of buffers, to be freed afterwards. OutOfMemory when none fit."""
        buffers = self._buffers(move, target)
        fetched = {}
        for name, address in buffers.whole.items():
            place = self.placements[name]
            self.emitter.load(place.address, address, place.bytes)
            fetched[name] = address
        strides = tuple(math.prod(move.shape[i + 1 :]) * self.size for i in range(len(move.shape)))
        for low, counts in blocks(move.shape, buffers.block_elements):
            start = sum(i * stride for i, stride in zip(low, strides, strict=True))
            base = target.address + start if buffers.target is None else buffers.target
            for part in move.parts:
                inner = part.within(low, counts)
                if inner is None:
                    continue
                inside = sum((i - j) * s for i, j, s in zip(inner.low, low, strides, strict=True))
                if inner.source is None:
                    self._fill(inner, base + inside, strides)
                else:
                    self._copy(inner, base + inside, strides, fetched, buffers.gathered)
            if buffers.target is not None:
                self.emitter.store(base, target.address + start, math.prod(counts) * self.size)
        return buffers.addresses()

    # --- memory

    def _buffers(self, move: Move, target: Placement) -> _Buffers:
        """The largest blocks that fit; sources are fetched whole rather than part by part."""
        names = dict.fromkeys(self.storage[part.source] for part in move.parts if part.source is not None)
        external = [name for name in names if not self.placements[name].resident]
        elements = math.prod(move.shape)
        # Smaller blocks would take ages; then rather let fewer tensors be resident.
        smallest = min(elements, max(1, self.emitter.config.am_bytes // 16 // self.size))
        for whole in (True, False):
            limit = elements
            while limit >= smallest:
                buffers = self._try(limit, target, external, whole)
                if buffers is not None:
                    return buffers
                if limit == smallest:
                    break
                limit = max(smallest, limit // 2)
        raise OutOfMemory(f"a block of {smallest * self.size} bytes does not fit the activation memory")

    def _try(self, limit: int, target: Placement, external: list[str], whole: bool) -> _Buffers | None:
        wanted: list[int] = []
        if not target.resident:
            wanted.append(limit * self.size)
        gather = bool(external) and not whole
        if gather:
            wanted.append(limit * self.size)
        if whole:
            wanted += [self.placements[name].bytes for name in external]
        taken: list[int] = []
        for size in wanted:
            address = self.allocate(size)
            if address is None:
                for other in taken:
                    self.free(other)
                return None
            taken.append(address)
        addresses = iter(taken)
        return _Buffers(
            limit,
            target=None if target.resident else next(addresses),
            gathered=next(addresses) if gather else None,
            whole={name: next(addresses) for name in external} if whole else {},
        )

    def _gather(self, part: Part, name: str, buffer: int) -> tuple[int, list[int]]:
        """Fetches the elements of a part densely; (address of its first element, bytes per output axis)."""
        size, place = self.size, self.placements[name]
        byte_strides = [stride * size for stride in part.strides]
        used = [i for i, count in enumerate(part.counts) if count > 1 and byte_strides[i]]
        used.sort(key=lambda i: abs(byte_strides[i]))
        start = place.address + part.offset * size
        run, local, first = size, [0] * len(part.counts), buffer
        outer: list[tuple[int, int, int]] = []
        dense = size
        for i in used:
            count, stride = part.counts[i], abs(byte_strides[i])
            local[i] = dense if byte_strides[i] > 0 else -dense
            if byte_strides[i] < 0:
                start -= (count - 1) * stride
                first += (count - 1) * dense
            if not outer and stride == run:
                run *= count
            else:
                outer.append((count, stride, dense))
            dense *= count
        rows, pitch, local_pitch = outer[0] if outer else (1, 0, 0)
        transfers = []
        for turn in itertools.product(*(range(count) for count, _, _ in outer[1:])):
            memory = start + sum(t * stride for t, (_, stride, _) in zip(turn, outer[1:], strict=True))
            at = buffer + sum(t * step for t, (_, _, step) in zip(turn, outer[1:], strict=True))
            for row in range(0, rows, _MAX_ROWS):
                count = min(_MAX_ROWS, rows - row)
                transfers.append(
                    Rows(memory + row * pitch, pitch, at + row * local_pitch, local_pitch, run, count)
                )
        end = start + run + sum((count - 1) * stride for count, stride, _ in outer)
        self.emitter.gather(transfers, Span(Space.DRAM, start, end), Span(Space.AM, buffer, buffer + dense))
        return first, local

    # --- vector unit

    def _copy(
        self, part: Part, target: int, strides: tuple[int, ...], fetched: dict[str, int], gathered: int | None
    ) -> None:
        assert part.source is not None
        name = self.storage[part.source]
        place = self.placements[name]
        if place.resident or name in fetched:
            base = place.address if place.resident else fetched[name]
            source, steps = base + part.offset * self.size, [stride * self.size for stride in part.strides]
        else:
            assert gathered is not None
            source, steps = self._gather(part, name, gathered)
        axes = [Axis(*axis) for axis in zip(part.counts, zip(steps, strides, strict=True), strict=True)]
        # Elements are copied byte by byte, so that contiguous ones fill whole vectors whatever their type is.
        axes.append(Axis(self.size, (1, 1)))
        program = assemble(Load(part.source, Element.INT8), self.emitter.config)
        self._nest(program, axes, [source, target], (1, 1))

    def _fill(self, part: Part, target: int, strides: tuple[int, ...]) -> None:
        axes = [Axis(count, (stride,)) for count, stride in zip(part.counts, strides, strict=True)]
        self._nest(_filling(part.fill, self.emitter.config), axes, [target], (self.size,))

    def _nest(
        self, program: MicroProgram, axes: list[Axis], addresses: list[int], sizes: tuple[int, ...]
    ) -> None:
        lanes = self.emitter.config.columns // max(sizes)
        merged = merge(axes)
        outer, along, tail = split_lanes(merged, sizes, lanes)
        splats = tuple(along is not None and stride == 0 for stride in merged[-1].strides) if merged else ()
        for piece in pieces(outer, along, lanes, tail, [], len(sizes), self.emitter.config.vector_slots):
            emit_piece(self.emitter, program, piece, addresses, sizes, [], splats, None, None)


def _filling(value: int, config: Config) -> MicroProgram:
    return assemble(Node(Op.MOV, Immediate(value)), config)
