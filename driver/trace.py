"""A run's timeline in the trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open."""

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from tosaic.driver.replacing import replacing
from tosaic.sim.result import Slice

_WINDOWS = 256
"""Samples of what is drawn over time."""
TRACKS = ("LOAD", "ARRAY", "VECTOR", "STORE")
_LAYERS = 0
"""Thread number of the layers' track; the units follow."""


def titles_of(timeline: Sequence[Slice]) -> list[str]:
    """A title for each unit of each core."""
    cores = 1 + max((piece.core for piece in timeline), default=0)
    return list(TRACKS) if cores == 1 else [f"{unit} {core}" for core in range(cores) for unit in TRACKS]


def seen_by(timeline: Sequence[Slice]) -> str:
    """Where the cycles of the units are from."""
    return (
        "as measured on the RTL" if timeline and all(p.measured for p in timeline) else "by the cycle model"
    )


def in_turn(timeline: Sequence[Slice]) -> Iterator[tuple[int, int, Slice]]:
    """Each piece with the number of its track and its start where those of a track do not overlap: a unit takes a GO
    while the data of those before it are under way, but Perfetto drops what overlaps, and a chart paints it over."""
    behind: dict[int, int] = {}
    for piece in sorted(timeline, key=lambda piece: (piece.end, piece.start)):
        track = piece.core * len(TRACKS) + TRACKS.index(piece.unit)
        yield track, max(piece.start, behind.get(track, 0)), piece
        behind[track] = piece.end


def write_trace(path: pathlib.Path, stats: dict[str, Any], timeline: Sequence[Slice]) -> None:
    """Writes the trace; one microsecond of the viewer is one cycle. `stats` is `Session.stats`."""
    document = {
        "displayTimeUnit": "ns",
        "otherData": {
            "config": stats["config"],
            "target": stats["target"],
            "cycles": stats["cycles"],
            "counters": stats["counters"],
            "units": f"one microsecond is one cycle; units {seen_by(timeline)}, layers as the target counted them",
        },
        "traceEvents": list(_events(stats, timeline)),
    }
    with replacing(path) as scratch:
        scratch.write_text(json.dumps(document) + "\n")


def _events(stats: dict[str, Any], timeline: Sequence[Slice]) -> Iterator[dict[str, Any]]:
    yield _name("process_name", 0, f"tosaic {stats['config']}")
    for thread, name in enumerate(("layers", *titles_of(timeline))):
        yield _name("thread_name", thread, name)
        yield {
            "ph": "M",
            "pid": 0,
            "tid": thread,
            "name": "thread_sort_index",
            "args": {"sort_index": thread},
        }
    start = 0
    for layer in stats["layers"]:
        arguments = {"op": layer["op"], "macs": layer["macs"]}
        yield _slice(_LAYERS, f"{layer['name']} ({layer['op']})", start, layer["cycles"], arguments)
        start += layer["cycles"]
    yield from _rates(stats["cycles"], timeline)
    for unit, figures in stats["units"].items():
        shares = {f"{label} (cycles)": cycles for label, cycles in figures["cycles"].items()}
        yield _counter(f"{unit} in all", 0, shares)
    for track, start, piece in in_turn(timeline):
        arguments = {"bytes": piece.bytes, "taken in cycle": piece.start} if piece.bytes else {}
        yield _slice(1 + track, piece.name, start, piece.end - start, arguments)


def _rates(cycles: int, timeline: Sequence[Slice]) -> Iterator[dict[str, Any]]:
    """Tracks of bytes per cycle on the bus, and of every unit's busy share, over time."""
    window = max(-(-cycles // _WINDOWS), 1)
    windows = -(-cycles // window)
    busy = {unit: [0] * windows for unit in TRACKS}
    moved = {unit: [0.0] * windows for unit in ("LOAD", "STORE")}
    for piece in timeline:
        for index in range(piece.start // window, min(-(-piece.end // window), windows)):
            inside = min(piece.end, (index + 1) * window) - max(piece.start, index * window)
            busy[piece.unit][index] += inside
            if piece.bytes:
                moved[piece.unit][index] += piece.bytes * inside / (piece.end - piece.start)
    for index in range(windows):
        start = index * window
        length = min(window, cycles - start)
        for unit in TRACKS:
            # GOs of LOAD and STORE overlap.
            yield _counter(
                f"{unit} busy", start, {"percent": min(round(100 * busy[unit][index] / length), 100)}
            )
        for unit, numbers in moved.items():
            yield _counter(f"{unit} bytes per cycle", start, {"bytes": round(numbers[index] / length, 2)})


def _counter(name: str, at: int, values: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "C", "pid": 0, "name": name, "ts": at, "args": values}


def _name(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": 0, "tid": thread, "name": kind, "args": {"name": name}}


def _slice(thread: int, name: str, start: int, cycles: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "pid": 0, "tid": thread, "name": name, "ts": start, "dur": cycles, "args": arguments}
