"""Finds which work must wait for which: read/write conflicts between units on memory intervals."""

import dataclasses
import enum

from tosaic.hw.isa import Instruction, Unit

from .items import Item


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


@dataclasses.dataclass
class _Access:
    start: int
    end: int
    unit: Unit
    index: int
    writes: bool


class Tracker:
    """Collects items in a correct sequential order and adds the waits and signals that keep them correct when the
    units run decoupled."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_unit: dict[Unit, list[Item]] = {unit: [] for unit in Unit}
        self._synced: dict[tuple[Unit, Unit], int] = {}
        self._accesses: dict[Space, list[_Access]] = {space: [] for space in Space}

    def add(
        self,
        unit: Unit,
        work: list[Instruction],
        *,
        configuration: list[Instruction] | None = None,
        reads: list[Span] | None = None,
        writes: list[Span] | None = None,
        consumes_array: bool = False,
    ) -> Item:
        """Appends work of a unit that reads and writes the given spans."""
        item = Item(unit, len(self._by_unit[unit]), configuration or [], work, consumes_array)
        need: dict[Unit, int] = {}
        for span, is_write in [(s, False) for s in reads or []] + [(s, True) for s in writes or []]:
            for access in self._accesses[span.space]:
                if access.unit == unit or not (access.writes or is_write):
                    continue
                if access.start < span.end and span.start < access.end:
                    need[access.unit] = max(need.get(access.unit, -1), access.index)
        for producer, index in need.items():
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
        # A unit works in order, so a later access of the same unit and kind that covers an earlier one replaces it.
        kept = [
            a
            for a in self._accesses[span.space]
            if not (
                a.unit == unit
                and (a.writes == writes or writes)
                and span.start <= a.start
                and a.end <= span.end
            )
        ]
        kept.append(_Access(span.start, span.end, unit, index, writes))
        self._accesses[span.space] = kept
