"""Finds which work must wait for which: read/write conflicts between units on memory intervals."""

import dataclasses
import enum

from tosaic.compiler.schedule.intervals import Intervals
from tosaic.compiler.schedule.items import Item
from tosaic.hw.isa import Instruction, Unit


class Space(enum.Enum):
    AM = "activation memory"
    WM = "weight memory"
    DRAM = "external memory"
    TABLE = "vector table"


@dataclasses.dataclass(frozen=True)
class Span:
    """Bytes [start, end) of a memory."""

    space: Space
    start: int
    end: int


class Tracker:
    """Collects items in a correct sequential order and adds the waits and signals that keep them correct when the
    units run decoupled."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_unit: dict[Unit, list[Item]] = {unit: [] for unit in Unit}
        self._synced: dict[tuple[Unit, Unit], int] = {}
        self._read = {(space, unit): Intervals() for space in Space for unit in Unit}
        self._written = {(space, unit): Intervals() for space in Space for unit in Unit}

    def add(
        self,
        unit: Unit,
        work: list[Instruction],
        *,
        configuration: list[Instruction] | None = None,
        reads: list[Span] | None = None,
        writes: list[Span] | None = None,
        streams: list[Span] | None = None,
        consumes_array: bool = False,
    ) -> Item:
        """Appends work of a unit that reads and writes the given spans. It also reads `streams`, waiting for the words
        of the loads that bring them one by one."""
        item = Item(unit, len(self._by_unit[unit]), configuration or [], work, consumes_array)
        for span in streams or []:
            loaded = self._written[span.space, Unit.LOAD].latest(span.start, span.end)
            item.behind_load = max(item.behind_load, loaded)
            self._record(span, unit, item.index, False)
        need: dict[Unit, int] = {}
        for span, is_write in [(s, False) for s in reads or []] + [(s, True) for s in writes or []]:
            for other in Unit:
                if other == unit or span.start >= span.end:
                    continue
                index = self._written[span.space, other].latest(span.start, span.end)
                if is_write:
                    index = max(index, self._read[span.space, other].latest(span.start, span.end))
                if index > need.get(other, -1):
                    need[other] = index
        for producer, index in sorted(need.items()):
            if index > self._synced.get((producer, unit), -1):
                self._synced[producer, unit] = index
                item.waits[producer] = index
                self._by_unit[producer][index].signals.append(unit)
        for span, is_write in [(s, False) for s in reads or []] + [(s, True) for s in writes or []]:
            self._record(span, unit, item.index, is_write)
        self._by_unit[unit].append(item)
        self.items.append(item)
        return item

    def _record(self, span: Span, unit: Unit, index: int, writes: bool) -> None:
        # A unit works in order, so whoever waits for its later access of the same bytes has waited for the earlier one;
        # but a reader need not wait for reads, so a read does not replace a write.
        if span.start >= span.end:
            return
        if writes:
            self._read[span.space, unit].clear(span.start, span.end)
            self._written[span.space, unit].put(span.start, span.end, index)
        else:
            self._read[span.space, unit].put(span.start, span.end, index)
