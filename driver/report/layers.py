"""Figures per layer: what was measured, and the bytes moved meanwhile."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from tosaic.hw.config import Config
from tosaic.sim.result import Slice


@dataclasses.dataclass(frozen=True)
class LayerFigures:
    name: str
    op: str
    start: int
    """Cycle."""
    cycles: int
    macs: int
    utilization: float
    """MACs by those the array could do in the layer's cycles."""
    bytes: int
    """Moved by LOAD and STORE in the layer's cycles, for whichever layer."""

    @property
    def end(self) -> int:
        return self.start + self.cycles


def layer_figures(stats: dict[str, Any], config: Config, timeline: Sequence[Slice]) -> list[LayerFigures]:
    """One entry per layer of `Session.stats`, in order."""
    found, start = [], 0
    for layer in stats["layers"]:
        end = start + layer["cycles"]
        moved = sum(piece.bytes * _share(piece, start, end) for piece in timeline if piece.bytes)
        utilization = layer["macs"] / max(layer["cycles"], 1) / config.macs_per_cycle
        found.append(
            LayerFigures(
                layer["name"], layer["op"], start, layer["cycles"], layer["macs"], utilization, round(moved)
            )
        )
        start = end
    return found


def _share(piece: Slice, start: int, end: int) -> float:
    """Part of the slice that lies in [start, end)."""
    inside = min(piece.end, end) - max(piece.start, start)
    return max(inside, 0) / max(piece.end - piece.start, 1)
