"""What each unit did with the cycles of a run, from the hardware's counters."""

from collections.abc import Mapping
from typing import NamedTuple


class UnitShare(NamedTuple):
    """A part of a unit's cycles."""

    label: str
    kind: str
    """work, stall, wait, other or idle."""
    cycles: int


class UnitFigures(NamedTuple):
    """A unit's run. The shares add up to the run's cycles."""

    unit: str
    shares: list[UnitShare]
    bytes: int
    """Bytes on the memory bus."""


_UNITS: dict[str, tuple[str, tuple[tuple[str, str, str], ...], str]] = {
    "LOAD": (
        "load_busy",
        (
            ("beats", "work", "load_beats"),
            ("waits for the bus", "stall", "load_stall_bus"),
            ("waits for activation memory", "stall", "load_stall_am"),
            ("waits for a semaphore", "wait", "load_wait"),
        ),
        "load_beats",
    ),
    "ARRAY": (
        "array_busy",
        (
            ("multiplies", "work", "array_active"),
            ("waits for streamed weights", "stall", "array_stall_weights"),
            ("waits for activation memory", "stall", "array_stall_am"),
            ("waits for VECTOR", "stall", "array_stall_vector"),
            ("waits for a semaphore", "wait", "array_wait"),
        ),
        "",
    ),
    "VECTOR": (
        "vector_busy",
        (
            ("computes", "work", "vector_active"),
            ("waits for ARRAY", "stall", "vector_stall_array"),
            ("waits for activation memory", "stall", "vector_stall_am"),
            ("waits for a semaphore", "wait", "vector_wait"),
        ),
        "",
    ),
    "STORE": (
        "store_busy",
        (
            ("beats", "work", "store_beats"),
            ("waits for the bus", "stall", "store_stall_bus"),
            ("waits for activation memory", "stall", "store_stall_am"),
            ("waits for a semaphore", "wait", "store_wait"),
        ),
        "store_beats",
    ),
    "SEQUENCER": (
        "",
        (
            ("waits for the program", "stall", "fetch_wait"),
            ("waits for room in a queue", "wait", "queue_wait"),
        ),
        "fetch_beats",
    ),
}
"""The counter of a unit's busy cycles, (label, kind, counter) of its shares, and the counter of its beats, by unit."""


def unit_figures(counters: Mapping[str, int], cycles: int, beat_bytes: int) -> list[UnitFigures]:
    """One entry per unit, LOAD first; empty where nothing was counted.

    `counters` are those of the register map, of all cores together; `cycles` the run's, times the cores; `beat_bytes`
    the width of a core's beats. A unit may wait for
    a semaphore while it still works on what came before: such cycles count as work. What it was busy with beside
    (the depth of its pipeline, its configuration) is of the kind `other`.
    """
    figures = []
    for unit, (busy, shares, beats) in _UNITS.items():
        names = [counter for _, _, counter in shares]
        if not all(name in counters for name in names):
            continue
        left, found = cycles, []
        for label, kind, name in shares:
            if kind == "wait" and busy:
                other = min(max(counters.get(busy, 0) - (cycles - left), 0), left)
                found.append(UnitShare("under way", "other", other))
                left -= other
            part = min(counters[name], left)
            found.append(UnitShare(label, kind, part))
            left -= part
        found.append(UnitShare("idle" if busy else "dispatches, or has ended", "idle", left))
        figures.append(
            UnitFigures(unit, [share for share in found if share.cycles], counters.get(beats, 0) * beat_bytes)
        )
    return figures
