"""The chart of units over time: `templates/timeline.js` draws it, since there may be tens of thousands of pieces."""

from collections.abc import Sequence
from typing import Any

from tosaic.driver.trace import in_turn, titles_of
from tosaic.sim.result import Slice


def timeline_data(stats: dict[str, Any], timeline: Sequence[Slice]) -> dict[str, Any]:
    """What the script draws: per track [start, cycles, name number, bytes] of every piece."""
    names: dict[str, int] = {}
    titles = ["layers", *titles_of(timeline)]
    tracks: list[list[list[int]]] = [[] for _ in titles]
    start = 0
    for layer in stats["layers"]:
        number = names.setdefault(f"{layer['name']} ({layer['op']})", len(names))
        tracks[0].append([start, layer["cycles"], number, 0])
        start += layer["cycles"]
    for track, begins, piece in in_turn(timeline):
        known = piece.layer is not None and piece.layer < len(stats["layers"])
        name = f"{piece.name}: {stats['layers'][piece.layer]['name']}" if known else piece.name
        number = names.setdefault(name, len(names))
        tracks[1 + track].append([begins, piece.end - begins, number, piece.bytes])
    return {"cycles": stats["cycles"], "titles": titles, "names": list(names), "tracks": tracks}
