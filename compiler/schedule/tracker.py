"""Finds which work must wait for which: read/write conflicts between units on memory intervals."""

import bisect
import collections

from tosaic.compiler.emit.commands import Work
from tosaic.compiler.machine_numbers import SEMAPHORE_MOST_TOKENS, VECTORS_BEHIND
from tosaic.compiler.place.address import Region, Span
from tosaic.compiler.place.intervals import Intervals
from tosaic.compiler.schedule.items import Item
from tosaic.hw.isa import Unit

_HOLDING = {Unit.VECTOR, Unit.STORE}
"""Units that wait for the array's vectors, or for a unit that does."""


class _Accesses:
    """The accesses of a unit to a memory."""

    def __init__(self) -> None:
        self.read, self.written = Intervals(), Intervals()


class Tracker:
    """Collects work in a correct sequential order and adds the waits and signals that keep it correct when the units
    run decoupled."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_unit: dict[Unit, list[Item]] = {unit: [] for unit in Unit}
        self._synced: dict[tuple[Unit, Unit], int] = {}
        self._places: dict[Unit, list[int]] = {unit: [] for unit in Unit}
        """Places in `items` of each unit's accesses."""
        self._takers: dict[tuple[Unit, Unit], collections.deque[int]] = collections.defaultdict(
            collections.deque
        )
        """Places of the items that wait, by producer and consumer, but for those before the last item waited for."""
        self._drains: collections.deque[tuple[int, int]] = collections.deque()
        """VECTOR's items that took the array's vectors, and the number of these, from the last one on that is over when
        the array has done what it has to do so far."""
        self._later_vectors = 0
        """Vectors that all of them but the first took."""
        self._taken_from: int | None = None
        """Number of the array's item whose vectors VECTOR's last item took; None if that took none."""
        self._held_loads: list[int] = []
        """Numbers of the loads that wait for VECTOR or STORE, or for another core, which may wait for STORE."""
        self._memories: dict[Region, dict[Unit, _Accesses]] = {region: {} for region in Region}
        """The accesses of the units that have any."""

    def add(self, work: Work) -> Item:
        """Appends a piece of work."""
        item = Item(work, len(self._by_unit[work.unit]))
        for span in work.streams:
            loads = self._memories[span.region].get(Unit.LOAD)
            if loads is not None:
                item.behind_load = max(item.behind_load, loads.written.latest(span.start, span.end))
            self._record(span, item, writes=False)
        if work.unit is Unit.VECTOR:
            self._note_taken(work)
        needs = self._needs(work)
        if work.streams:
            needs[Unit.LOAD] = max(needs.get(Unit.LOAD, -1), self._last_held_load(item.behind_load))
        for producer, index in sorted(needs.items()):
            if index > self._synced.get((producer, work.unit), -1):
                if (producer, work.unit) == (Unit.VECTOR, Unit.ARRAY):
                    index = max(index, self._drained())
                index = self._with_few_tokens(producer, index, work)
                self._synced[producer, work.unit] = index
                item.waited += (producer, index)
                self._by_unit[producer][index].signals += (work.unit,)
        if work.unit is Unit.LOAD and (work.waits_for_core or not _HOLDING.isdisjoint(item.waited[::2])):
            self._held_loads.append(item.index)
        if work.array_vectors:
            self._note_drain(item.index, work.array_vectors)
        for span in work.reads:
            self._record(span, item, writes=False)
        for span in work.writes:
            self._record(span, item, writes=True)
        self._by_unit[work.unit].append(item)
        self._places[work.unit].append(len(self.items))
        self.items.append(item)
        return item

    def _with_few_tokens(self, producer: Unit, index: int, work: Work) -> int:
        """The item of `producer` to wait for: `index`, or its last one where many tokens lie there already, which no
        work of the same unit has to wait for then."""
        places, takers = self._places[producer], self._takers[producer, work.unit]
        while takers and takers[0] < places[index]:
            takers.popleft()
        if len(takers) >= SEMAPHORE_MOST_TOKENS:
            # The array's work that this consumes is not complete before it.
            index = max(index, len(places) - (2 if work.array_vectors and producer is Unit.ARRAY else 1))
        takers.append(len(self.items))
        return index

    def _drained(self) -> int:
        """VECTOR's last item that is over when the array has done what it has to do so far: of later drains, more
        vectors have left the array than there is room for behind it. To wait for it rather than for an earlier one
        costs nothing, and whoever needs one of those between needs no token any more."""
        return self._drains[0][0] if self._later_vectors > VECTORS_BEHIND else -1

    def _note_drain(self, index: int, vectors: int) -> None:
        self._later_vectors += vectors if self._drains else 0
        self._drains.append((index, vectors))
        while len(self._drains) > 1 and self._later_vectors - self._drains[1][1] > VECTORS_BEHIND:
            self._drains.popleft()
            self._later_vectors -= self._drains[0][1]

    def _note_taken(self, work: Work) -> None:
        """Once VECTOR turns to other work, it has taken all vectors of the array's item before, which needs no token to
        be known as complete."""
        source = len(self._by_unit[Unit.ARRAY]) - 1 if work.array_vectors else None
        if self._taken_from not in (None, source):
            pair = (Unit.ARRAY, Unit.VECTOR)
            self._synced[pair] = max(self._synced.get(pair, -1), self._taken_from)
        self._taken_from = source

    def _last_held_load(self, limit: int) -> int:
        """The last load up to number `limit` that waits for a unit behind the array; -1 if there is none.

        The last vectors of an array GO leave the array in slots of the next one, so a GO that waits for streamed words
        holds them back. If LOAD waits for VECTOR to take these vectors before it brings the words, nobody goes on. An
        array that waits for a token lets its vectors go.
        """
        place = bisect.bisect_right(self._held_loads, limit)
        return self._held_loads[place - 1] if place else -1

    def _needs(self, work: Work) -> dict[Unit, int]:
        """Returns, by other unit, the last item that must be complete first."""
        need: dict[Unit, int] = {}
        for span in work.reads:
            self._add_needs(span, work.unit, need, writes=False)
        for span in work.writes:
            self._add_needs(span, work.unit, need, writes=True)
        return need

    def _add_needs(self, span: Span, unit: Unit, need: dict[Unit, int], *, writes: bool) -> None:
        start, end = span.start, span.end
        if start >= end:
            return
        for other, accesses in self._memories[span.region].items():
            if other is unit:
                continue
            index = accesses.written.latest(start, end, span.columns)
            if index > need.get(other, -1):
                need[other] = index
            if writes and (index := accesses.read.latest(start, end, span.columns)) > need.get(other, -1):
                need[other] = index

    def _record(self, span: Span, item: Item, *, writes: bool) -> None:
        # A unit works in order, so whoever waits for its later access of the same bytes has waited for the earlier one;
        # but a reader need not wait for reads, so a read does not replace a write.
        if span.start >= span.end:
            return
        accesses = self._memories[span.region].setdefault(item.work.unit, _Accesses())
        if writes:
            if span.columns is None:
                accesses.read.clear(span.start, span.end)
            accesses.written.put(span.start, span.end, item.index, span.columns)
        else:
            accesses.read.put(span.start, span.end, item.index, span.columns)
