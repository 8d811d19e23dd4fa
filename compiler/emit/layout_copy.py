"""Emits layout operators: strided copies on the vector unit, in blocks where a tensor exceeds the activation memory."""

import itertools
import math

from tosaic.compiler.emit.emitter import Emitter, RowCopies, Rows
from tosaic.compiler.emit.layer_emission import MAX_ROWS
from tosaic.compiler.emit.nest_go import GoNest, emit_nest, filling
from tosaic.compiler.emit.turn import emit_turn
from tosaic.compiler.fuse.expression import Load
from tosaic.compiler.fuse.microprogram import assemble
from tosaic.compiler.fuse.moves import MovedBox, blocks
from tosaic.compiler.machine_numbers import COPY_FETCH_BYTES
from tosaic.compiler.place.address import Address, Region, Span, activation_span
from tosaic.compiler.tile.layout_copy import LayoutCopy, copy_axes, straight_rows
from tosaic.compiler.tile.loops import Axis
from tosaic.compiler.tile.turn import turn_of
from tosaic.hw.isa import Element


class CopyEmission:
    """A layout copy on its way: it is emitted block by block, in the order of the output's elements."""

    def __init__(self, emitter: Emitter, copy: LayoutCopy):
        self.emitter, self.copy, self.size = emitter, copy, copy.element_bytes
        shape = copy.move.shape
        self._elements = math.prod(shape)
        self._strides = tuple(math.prod(shape[i + 1 :]) * self.size for i in range(len(shape)))
        self._blocks = blocks(shape, copy.buffers.block_elements)
        self._done, self._turn = 0, 0
        self._fetched: set[tuple[Address, int]] = set()
        self._whole = copy.buffers.whole

    def emit(self, elements: int | None = None) -> None:
        """Emits what is still missing of the first `elements` elements of the output; None: of all."""
        stop = self._elements if elements is None else min(elements, self._elements)
        while self._done < stop:
            low, counts = next(self._blocks)
            self._block(low, counts)
            self._done += math.prod(counts)

    def _block(self, low: tuple[int, ...], counts: tuple[int, ...]) -> None:
        start = sum(i * stride for i, stride in zip(low, self._strides, strict=True))
        target, targets = self.copy.target.address + start, self.copy.buffers.targets
        base = target.offset
        if targets:
            base = targets[self._turn]
            self._turn = (self._turn + 1) % len(targets)
        for part in self.copy.move.parts:
            inner = part.within(low, counts)
            if inner is None:
                continue
            inside = sum((i - j) * s for i, j, s in zip(inner.low, low, self._strides, strict=True))
            if inner.source is None:
                self._fill(inner, base + inside)
            elif inner.source in self.copy.straight:
                self._bring(inner, self.copy.sources[inner.source].address, base + inside)
            else:
                self._copy(inner, inner.source, base + inside)
        if targets:
            self.emitter.store(base, target, math.prod(counts) * self.size)

    # --- external memory

    def _fetch(self, part: MovedBox, source: Address, source_bytes: int) -> None:
        """Brings the pieces of a source that a part needs, unless they are there."""
        address = self._whole[source]
        spans = [(count - 1) * stride for count, stride in zip(part.counts, part.strides, strict=True)]
        first = (part.offset + sum(min(0, span) for span in spans)) * self.size
        last = (part.offset + sum(max(0, span) for span in spans)) * self.size
        for piece in range(first // COPY_FETCH_BYTES, last // COPY_FETCH_BYTES + 1):
            if (source, piece) not in self._fetched:
                self._fetched.add((source, piece))
                start = piece * COPY_FETCH_BYTES
                size = min(COPY_FETCH_BYTES, source_bytes - start)
                self.emitter.load(source + start, address + start, size)

    def _gather(self, part: MovedBox, source: Address, buffer: int) -> tuple[int, list[int]]:
        """Fetches the elements of a part densely; (address of its first element, bytes per output axis)."""
        size = self.size
        byte_strides = [stride * size for stride in part.strides]
        used = [i for i, count in enumerate(part.counts) if count > 1 and byte_strides[i]]
        used.sort(key=lambda i: abs(byte_strides[i]))
        start = source + part.offset * size
        run, local, first = size, [0] * len(part.counts), buffer
        outer: list[tuple[int, int, int]] = []
        dense = size
        for i in used:
            count, stride = part.counts[i], abs(byte_strides[i])
            local[i] = dense if byte_strides[i] > 0 else -dense
            if byte_strides[i] < 0:
                start += -(count - 1) * stride
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
            for row in range(0, rows, MAX_ROWS):
                count = min(MAX_ROWS, rows - row)
                transfers.append(
                    Rows(memory + row * pitch, pitch, at + row * local_pitch, local_pitch, run, count)
                )
        size_bytes = run + sum((count - 1) * stride for count, stride, _ in outer)
        span = Span(start.region, start.offset, start.offset + size_bytes)
        self.emitter.gather(RowCopies(transfers, span, activation_span(buffer, buffer + dense)))
        return first, local

    def _bring(self, part: MovedBox, source: Address, target: int) -> None:
        """Brings a part to its place in the target."""
        *outer, run = straight_rows(self.copy.move, part, self.size)
        memory = source + part.offset * self.size
        count, (pitch, local_pitch) = (outer[0].count, outer[0].strides) if outer else (1, (0, 0))
        self.emitter.gather(
            RowCopies(
                [Rows(memory, pitch, target, local_pitch, run.count, count)],
                memory.span((count - 1) * pitch + run.count),
                activation_span(target, target + (count - 1) * local_pitch + run.count),
            )
        )

    # --- vector unit

    def _copy(self, part: MovedBox, name: str, target: int) -> None:
        place = self.copy.sources[name]
        whole = self._whole.get(place.address)
        if whole is not None:
            self._fetch(part, place.address, place.bytes)
        if place.address.region is Region.ACTIVATION or whole is not None:
            base = place.address.offset if whole is None else whole
            source, steps = base + part.offset * self.size, [stride * self.size for stride in part.strides]
        else:
            assert self.copy.buffers.gathered is not None
            source, steps = self._gather(part, place.address, self.copy.buffers.gathered)
        axes = copy_axes(self.copy.move, part, steps, self.size)
        scratch = self.copy.buffers.scratch
        turn = turn_of(axes, self.size, self.emitter.config) if scratch is not None else None
        if turn is not None and scratch is not None and scratch.size_bytes >= turn.place_bytes:
            emit_turn(self.emitter, turn, scratch, source, target)
            return
        # Elements are copied byte by byte, so that contiguous ones fill whole vectors whatever their type is.
        axes.append(Axis(self.size, (1, 1)))
        program = assemble(Load(name, Element.INT8), self.emitter.config)
        emit_nest(self.emitter, GoNest(program, axes, [source, target], (1, 1)))

    def _fill(self, part: MovedBox, target: int) -> None:
        axes = [Axis(count, (stride,)) for count, stride in zip(part.counts, self._strides, strict=True)]
        program = filling(part.fill, self.emitter.config)
        emit_nest(self.emitter, GoNest(program, axes, [target], (self.size,)))
