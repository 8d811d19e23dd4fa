"""Emits layout operators: strided copies on the vector unit, in blocks where a tensor exceeds the activation memory."""

import dataclasses
import itertools
import math
from collections.abc import Callable

from tosaic.compiler.emit.elementwise import emit_nest, filling
from tosaic.compiler.emit.emitter import Emitter, Rows
from tosaic.compiler.emit.nest import Axis
from tosaic.compiler.emit.operands import Placement
from tosaic.compiler.fuse.expression import Load
from tosaic.compiler.fuse.microprogram import assemble
from tosaic.compiler.fuse.moves import Move, Part, blocks
from tosaic.compiler.place.memory import OutOfMemory
from tosaic.compiler.schedule.tracker import Space, Span
from tosaic.hw.isa import Element

_MAX_ROWS = (1 << 16) - 1
_FETCH_BYTES = 4096
"""A source is fetched in pieces of this size, so that the first elements move before the last ones are there."""


@dataclasses.dataclass(frozen=True)
class _Buffers:
    """Where in activation memory what is not resident is worked on."""

    block_elements: int
    targets: list[int]
    """Blocks of the output take turns; none: it is resident."""
    whole: dict[str, int]
    """Addresses of sources fetched whole."""
    gathered: int | None
    """Holds the part of a source that a block needs; None: no source is fetched in parts."""

    def addresses(self) -> list[int]:
        return [*self.whole.values(), *self.targets, *([] if self.gathered is None else [self.gathered])]


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

    def start(
        self,
        move: Move,
        target: Placement,
        *,
        block_elements: int | None = None,
        targets: int = 1,
        whole_bytes: int | None = None,
    ) -> "MoveWork":
        """Allocates buffers; OutOfMemory when none fit. They are for blocks of at most so many elements of the output,
        `targets` of them, and sources of at most `whole_bytes` are fetched whole."""
        return MoveWork(self, move, target, self._buffers(move, target, block_elements, targets, whole_bytes))

    # --- memory

    def _buffers(
        self, move: Move, target: Placement, block_elements: int | None, targets: int, whole_bytes: int | None
    ) -> _Buffers:
        """The largest blocks that fit; sources are fetched whole rather than part by part."""
        names = dict.fromkeys(self.storage[part.source] for part in move.parts if part.source is not None)
        external = [name for name in names if not self.placements[name].resident]
        largest = math.prod(move.shape)
        if block_elements is not None:
            largest = min(largest, block_elements)
        # Smaller blocks would take ages; then rather let fewer tensors be resident.
        smallest = min(largest, max(1, self.emitter.config.am_bytes // 16 // self.size))
        copies = 0 if target.resident else targets
        total = sum(self.placements[name].bytes for name in external)
        for whole in (True, False) if whole_bytes is None or total <= whole_bytes else (False,):
            limit = largest
            while limit >= smallest:
                buffers = self._try(limit, copies, external, whole)
                if buffers is not None:
                    return buffers
                if limit == smallest:
                    break
                limit = max(smallest, limit // 2)
        raise OutOfMemory(f"a block of {smallest * self.size} bytes does not fit the activation memory")

    def _try(self, limit: int, copies: int, external: list[str], whole: bool) -> _Buffers | None:
        gather = bool(external) and not whole
        wanted = [limit * self.size] * (copies + gather)
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
        return _Buffers(
            limit,
            targets=taken[:copies],
            gathered=taken[copies] if gather else None,
            whole=dict(zip(external, taken[copies:], strict=True)) if whole else {},
        )


class MoveWork:
    """A Move on its way: it is emitted block by block, in the order of the output's elements."""

    def __init__(self, kernel: MoveKernel, move: Move, target: Placement, buffers: _Buffers):
        self.emitter, self.size = kernel.emitter, kernel.size
        self.storage = kernel.storage
        # Those of now: a source may become resident for others before the work is done.
        names = {self.storage[part.source] for part in move.parts if part.source is not None}
        self.placements = {name: kernel.placements[name] for name in names}
        self.move, self.target, self.buffers = move, target, buffers
        self.elements = math.prod(move.shape)
        self._strides = tuple(math.prod(move.shape[i + 1 :]) * self.size for i in range(len(move.shape)))
        self._blocks = blocks(move.shape, buffers.block_elements)
        self._done, self._turn = 0, 0
        self._fetched: set[tuple[str, int]] = set()

    def addresses(self) -> list[int]:
        """Of the buffers, to be freed afterwards."""
        return self.buffers.addresses()

    def emit(self, elements: int | None = None) -> None:
        """Emits what is still missing of the first so many elements of the output; None: of all."""
        stop = self.elements if elements is None else min(elements, self.elements)
        while self._done < stop:
            low, counts = next(self._blocks)
            self._block(low, counts)
            self._done += math.prod(counts)

    def _block(self, low: tuple[int, ...], counts: tuple[int, ...]) -> None:
        start = sum(i * stride for i, stride in zip(low, self._strides, strict=True))
        base, targets = self.target.address + start, self.buffers.targets
        if targets:
            base = targets[self._turn]
            self._turn = (self._turn + 1) % len(targets)
        for part in self.move.parts:
            inner = part.within(low, counts)
            if inner is None:
                continue
            inside = sum((i - j) * s for i, j, s in zip(inner.low, low, self._strides, strict=True))
            if inner.source is None:
                self._fill(inner, base + inside, self._strides)
            else:
                self._copy(inner, base + inside, self._strides)
        if targets:
            self.emitter.store(base, self.target.address + start, math.prod(counts) * self.size)

    # --- external memory

    def _fetch(self, part: Part, name: str) -> None:
        """Brings the pieces of a source that a part needs, unless they are there."""
        place, address = self.placements[name], self.buffers.whole[name]
        spans = [(count - 1) * stride for count, stride in zip(part.counts, part.strides, strict=True)]
        first = (part.offset + sum(min(0, span) for span in spans)) * self.size
        last = (part.offset + sum(max(0, span) for span in spans)) * self.size
        for piece in range(first // _FETCH_BYTES, last // _FETCH_BYTES + 1):
            if (name, piece) not in self._fetched:
                self._fetched.add((name, piece))
                start = piece * _FETCH_BYTES
                size = min(_FETCH_BYTES, place.bytes - start)
                self.emitter.load(place.address + start, address + start, size)

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

    def _copy(self, part: Part, target: int, strides: tuple[int, ...]) -> None:
        assert part.source is not None
        name = self.storage[part.source]
        place, whole = self.placements[name], self.buffers.whole
        if name in whole:
            self._fetch(part, name)
        if place.resident or name in whole:
            base = whole.get(name, place.address)
            source, steps = base + part.offset * self.size, [stride * self.size for stride in part.strides]
        else:
            assert self.buffers.gathered is not None
            source, steps = self._gather(part, name, self.buffers.gathered)
        axes = [Axis(*axis) for axis in zip(part.counts, zip(steps, strides, strict=True), strict=True)]
        # Elements are copied byte by byte, so that contiguous ones fill whole vectors whatever their type is.
        axes.append(Axis(self.size, (1, 1)))
        program = assemble(Load(part.source, Element.INT8), self.emitter.config)
        emit_nest(self.emitter, program, axes, [source, target], (1, 1))

    def _fill(self, part: Part, target: int, strides: tuple[int, ...]) -> None:
        axes = [Axis(count, (stride,)) for count, stride in zip(part.counts, strides, strict=True)]
        emit_nest(self.emitter, filling(part.fill, self.emitter.config), axes, [target], (self.size,))
