"""Puts the units' items into one instruction stream: program order, with loads pulled ahead of their use."""

from tosaic.compiler.machine_numbers import LOADS_AHEAD_ITEMS
from tosaic.compiler.schedule.items import Item
from tosaic.hw.isa import Unit


def interleave(items: list[Item]) -> list[Item]:
    """A valid sequential order in which loads come as early as their waits and the look-ahead allow.

    Loads only move between groups of an array item and the vector item that consumes it: at every load, what was
    dispatched before can run to its end by itself, so a full queue never blocks the sequencer for good. A load that
    waits for another core stays behind all that comes before it, since that core may wait for it.
    """
    loads = [item for item in items if item.unit is Unit.LOAD]
    before = _others_before(items)
    emitted: dict[Unit, int] = {unit: -1 for unit in Unit}
    order: list[Item] = []
    next_load = 0
    needed = -1

    def emit(item: Item) -> None:
        order.append(item)
        emitted[item.unit] = item.index

    def pull(limit: int) -> None:
        nonlocal next_load
        while next_load < len(loads) and loads[next_load].index <= limit:
            load = loads[next_load]
            if any(emitted[unit] < index for unit, index in load.waits.items()):
                return
            if load.work.waits_for_core and len(order) - next_load < before[load.index]:
                return
            emit(load)
            next_load += 1

    others = [item for item in items if item.unit is not Unit.LOAD]
    for position, item in enumerate(others):
        if not item.work.array_vectors:
            needed = max(needed, item.waits.get(Unit.LOAD, -1), item.behind_load)
            # The consumer of an array item belongs to it: its loads must come before the pair.
            if position + 1 < len(others) and others[position + 1].work.array_vectors:
                needed = max(needed, others[position + 1].waits.get(Unit.LOAD, -1))
            pull(needed + LOADS_AHEAD_ITEMS)
            if next_load < len(loads) and loads[next_load].index <= needed:
                raise AssertionError(f"load {loads[next_load].index} waits for work that comes after its use")
        emit(item)
    pull(len(loads))
    return order


def _others_before(items: list[Item]) -> list[int]:
    """Returns for each load the number of items of other units that come before it."""
    counts, others = [], 0
    for item in items:
        if item.unit is Unit.LOAD:
            counts.append(others)
        else:
            others += 1
    return counts
