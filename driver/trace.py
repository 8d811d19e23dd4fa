"""A run's timeline in the trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open."""

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from tosaic.sim.result import Slice

TRACKS = ("LOAD", "ARRAY", "VECTOR", "STORE")
_LAYERS = 0
"""Thread number of the layers' track; the units follow."""


def write_trace(path: pathlib.Path, stats: dict[str, Any], timeline: Sequence[Slice]) -> None:
    """Writes the trace; one microsecond of the viewer is one cycle. `stats` is `Session.stats`."""
    document = {
        "displayTimeUnit": "ns",
        "otherData": {
            "config": stats["config"],
            "target": stats["target"],
            "cycles": stats["cycles"],
            "units": "one microsecond is one cycle; units by the cycle model, layers as the target counted them",
        },
        "traceEvents": list(_events(stats, timeline)),
    }
    path.write_text(json.dumps(document) + "\n")


def _events(stats: dict[str, Any], timeline: Sequence[Slice]) -> Iterator[dict[str, Any]]:
    yield _name("process_name", 0, f"tosaic {stats['config']}")
    for thread, name in enumerate(("layers", *TRACKS)):
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
        yield _slice(_LAYERS, layer["name"], start, layer["cycles"], arguments)
        start += layer["cycles"]
    for piece in timeline:
        arguments = {"bytes": piece.bytes} if piece.bytes else {}
        yield _slice(
            1 + TRACKS.index(piece.unit), piece.name, piece.start, piece.end - piece.start, arguments
        )


def _name(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": 0, "tid": thread, "name": kind, "args": {"name": name}}


def _slice(thread: int, name: str, start: int, cycles: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "pid": 0, "tid": thread, "name": name, "ts": start, "dur": cycles, "args": arguments}
