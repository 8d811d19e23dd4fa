"""Figures per layer: what was measured, the bytes moved meanwhile, and what limits it."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from tosaic.driver.layer_slices import layers_beside
from tosaic.driver.limits import Limit, limit, pieces_of_layers
from tosaic.hw.config import Config
from tosaic.sim.result import Slice


@dataclasses.dataclass(frozen=True)
class LayerFigures:
    number: int
    """The layer's number in the order in which layers ended; the first is 0."""
    name: str
    op: str
    start: int
    """Cycle in which it starts."""
    cycles: int
    macs: int
    utilization: float
    """MACs by those the array could do in the layer's cycles, 1 at most: it may have begun while the layer before
    still wrote its last results."""
    lost: int
    """Cycles beyond those in which the array at its full width would do the layer's MACs."""
    bytes: int | None = None
    """Moved by LOAD and STORE in the layer's cycles, for whichever layer; None where no timeline tells."""
    limit: Limit | None = None
    beside: Sequence[int] = ()
    """The numbers of the layers of which the other of ARRAY and VECTOR did work meanwhile."""

    @property
    def end(self) -> int:
        return self.start + self.cycles


def layer_figures(
    stats: dict[str, Any], macs_per_cycle: int, timeline: Sequence[Slice] = ()
) -> list[LayerFigures]:
    """One entry per layer of `Session.stats`, in order."""
    ends = list(itertools.accumulate(layer["cycles"] for layer in stats["layers"]))
    found, beside = [], layers_beside(timeline)
    for number, (layer, end, pieces) in enumerate(
        zip(stats["layers"], ends, pieces_of_layers(ends, timeline), strict=True)
    ):
        cycles, macs = layer["cycles"], layer["macs"]
        start = end - cycles
        moved = round(sum(piece.bytes * _share(piece, start, end) for piece in pieces if piece.bytes))
        found.append(
            LayerFigures(
                number,
                layer["name"],
                layer["op"],
                start,
                cycles,
                macs,
                utilization=min(macs / max(cycles, 1) / macs_per_cycle, 1.0),
                lost=max(cycles - -(-macs // macs_per_cycle), 0),
                bytes=moved if timeline else None,
                limit=limit(pieces, start, end) if timeline else None,
                beside=beside.get(number, ()),
            )
        )
    return found


def worst_layers(layers: Sequence[LayerFigures], count: int = 3) -> list[LayerFigures]:
    """Returns the layers that lose the most cycles, the worst first."""
    return sorted((layer for layer in layers if layer.lost), key=lambda layer: -layer.lost)[:count]


def macs_per_cycle_of(stats: dict[str, Any], config: Config | None = None) -> int:
    """Returns the multiply-accumulates per cycle of the machine that ran: from its configuration, or from
    what statistics imply.
    """
    if config is not None:
        return config.macs_per_cycle
    return int(stats.get("macs_per_cycle") or _implied(stats))


def _implied(stats: dict[str, Any]) -> int:
    utilization, cycles = stats["mac_utilization"], stats["cycles"]
    return round(stats["macs"] / utilization / cycles) if utilization and cycles else 1


def _share(piece: Slice, start: int, end: int) -> float:
    """Returns the part of the slice that lies in [start, end)."""
    inside = min(piece.end, end) - max(piece.start, start)
    return max(inside, 0) / max(piece.end - piece.start, 1)
