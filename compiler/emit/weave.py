"""Lets layers that follow each other run together: VECTOR works on one while the array computes another.

Each layer's work stays in its order, and no piece comes before one of another layer that touches the same bytes: so the
new order computes what the old one does. Of the pieces that may come next it takes one for which VECTOR, through which
all work passes, need not wait; the units find the rest by their semaphores."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator

from tosaic.compiler.cost.clock import UnitClock, UnitWork
from tosaic.compiler.emit.commands import Work
from tosaic.compiler.emit.emitter import Emitter, Taped
from tosaic.compiler.emit.vector_go import VectorGo
from tosaic.compiler.place.address import Region
from tosaic.compiler.place.intervals import Intervals
from tosaic.hw.isa import Op, Opcode, Unit

_TABLES = (Op.TABLE8, Op.TABLE16)
_Accesses = dict[Region, tuple[Intervals, Intervals]]
"""Number of the last piece that read and wrote each byte."""


@dataclasses.dataclass(slots=True, eq=False)
class _Chunk:
    """Work that stays together: what VECTOR takes from the array, with the array's work, and what moves for it."""

    taped: list[Taped] = dataclasses.field(default_factory=list)
    pieces: list[UnitWork] = dataclasses.field(default_factory=list)
    others: set[UnitWork] = dataclasses.field(default_factory=set)
    """Pieces of other layers that must have a place in the order."""


class _Layer:
    """What is left of a layer."""

    def __init__(self, tape: list[Taped], before: Iterable["_Layer"]):
        self.chunks = collections.deque(_chunks(tape))
        self._count = len(self.chunks)
        self.looks_up = any(each.go is not None and _looks_up(each.go) for each in tape)
        """VECTOR looks up a table, of which it holds one."""
        self.on_array = any(each.work.unit is Unit.ARRAY for each in tape)
        self._accesses: dict[Unit, _Accesses] = {}
        self._pieces: list[UnitWork] = []
        before = list(before)
        for chunk in self.chunks:
            for each in chunk.taped:
                piece = each.work.cost
                assert piece is not None
                own = set(self.touching(each.work))
                other = {found for layer in before for found in layer.touching(each.work)}
                chunk.others |= {found for found in other if found.end is None}
                piece.after = [*own, *other]
                self._note(each.work)
                self._pieces.append(piece)
                chunk.pieces.append(piece)

    @property
    def left(self) -> float:
        """The part of the layer that has no place yet."""
        return len(self.chunks) / self._count

    def touching(self, work: Work) -> Iterator[UnitWork]:
        """The last piece of each unit that must come before some work."""
        for accesses in self._accesses.values():
            last = -1
            for span in (*work.reads, *work.streams):
                if span.region in accesses:
                    last = max(last, accesses[span.region][1].latest(span.start, span.end, span.columns))
            for span in work.writes:
                if span.region in accesses:
                    for side in accesses[span.region]:
                        last = max(last, side.latest(span.start, span.end, span.columns))
            if last >= 0:
                yield self._pieces[last]

    def _note(self, work: Work) -> None:
        known, number = self._accesses.setdefault(work.unit, {}), len(self._pieces)
        for spans, side in (((*work.reads, *work.streams), 0), (work.writes, 1)):
            for span in spans:
                if span.start < span.end:
                    sides = known.setdefault(span.region, (Intervals(), Intervals()))
                    sides[side].put(span.start, span.end, number, span.columns)


class Weaver:
    """Layers whose work is there but not yet in order."""

    def __init__(self, emitter: Emitter):
        self._emitter = emitter
        self._layers: collections.deque[_Layer] = collections.deque()
        self._clock = UnitClock(emitter.config, emitter.speed)

    def add(self, tape: list[Taped]) -> None:
        """The work of the next layer."""
        self._layers.append(_Layer(tape, self._layers))

    def finish(self) -> None:
        """Emits what is left."""
        while self._layers:
            self._step()

    def _step(self) -> None:
        """Emits the chunk that comes next: one for which VECTOR need not wait, the array's first, of the layer of which
        the most is left."""
        best: tuple[tuple[float, bool, float, int], _Layer] | None = None
        looked_up = False
        for number, layer in enumerate(self._layers):
            if layer.chunks and (not number or self._may_come(layer, looked_up=looked_up)):
                stall = self._clock.stall_cycles(layer.chunks[0].pieces)
                key = (stall, not layer.on_array, -layer.left, number)
                if best is None or key < best[0]:
                    best = key, layer
            looked_up |= layer.looks_up
        assert best is not None
        chunk = best[1].chunks.popleft()
        self._clock.take(chunk.pieces)
        for each in chunk.taped:
            self._emitter.play(each)
        self._load_ahead()
        while self._layers and not self._layers[0].chunks:
            self._layers.popleft()

    def _load_ahead(self) -> None:
        """Emits what the layers' next chunks load, as far as nothing holds it up: LOAD takes all in order, and one that
        waits would hold up what others need first."""
        for layer in self._layers:
            while layer.chunks and self._is_ready(layer.chunks[0].pieces[0]):
                chunk = layer.chunks[0]
                self._clock.take([chunk.pieces.pop(0)])
                self._emitter.play(chunk.taped.pop(0))
                if not chunk.pieces:
                    layer.chunks.popleft()

    def _is_ready(self, piece: UnitWork) -> bool:
        """Whether it is a load for which all is complete when VECTOR is done with what it has."""
        now = self._clock.free[Unit.VECTOR]
        return piece.unit is Unit.LOAD and all(
            other.end is not None and other.end <= now for other in piece.after
        )

    def _may_come(self, layer: _Layer, *, looked_up: bool) -> bool:
        """Whether the next chunk of a layer may come before layers before it are complete. Its last one tells the host
        that it is; `looked_up`: one of those needs the table that VECTOR holds."""
        known = all(piece.end is not None for piece in layer.chunks[0].others)
        return len(layer.chunks) > 1 and known and not (looked_up and layer.looks_up)


def _chunks(tape: list[Taped]) -> Iterator[_Chunk]:
    """The chunks of a layer, each of which ends with work of VECTOR and what STORE does with it."""
    chunk, last = _Chunk(), Unit.LOAD
    for each in tape:
        unit = each.work.unit
        goes_on = unit is Unit.STORE or (unit is Unit.VECTOR and (last is not Unit.VECTOR or _goes_on(each)))
        if chunk.taped and not goes_on and (last is not Unit.ARRAY or unit not in (Unit.ARRAY, Unit.LOAD)):
            yield chunk
            chunk = _Chunk()
        chunk.taped.append(each)
        last = last if last in (Unit.ARRAY, Unit.VECTOR) and unit in (Unit.LOAD, Unit.STORE) else unit
    if chunk.taped:
        yield chunk


def _goes_on(taped: Taped) -> bool:
    """Whether VECTOR's work rests on what its last one left in the unit."""
    go = taped.go
    if go is None:
        return False
    if go.consumes_array:
        # Another part of the same vectors: what comes from the array anew has its work in front.
        return True
    return go.params is None and (go.program.bias or go.program.per_channel)


def _looks_up(go: VectorGo) -> bool:
    return any(item.opcode is Opcode.VECTOR_UOP and item.op in _TABLES for item in go.program.instructions)
