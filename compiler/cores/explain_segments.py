"""Shows how a network is split over cores, as text."""

from collections.abc import Iterator

from tosaic.compiler.cores.cores_plan import CoresPlan
from tosaic.compiler.cut.boxes import Box


def segments(plan: CoresPlan) -> Iterator[str]:
    """A segment and its results in a line, then the part of each core."""
    for planned in plan.segments:
        segment = planned.segment
        yield f"layers {segment.first} to {segment.last - 1}: {segment.grid}, predicted {segment.cycles} cycles"
        for core, share in planned.shares.items():
            parts = (f"{name}{_text(box)}" for name, box in share.share.wanted.items())
            yield f"    core {core} makes {', '.join(parts)}"
    yield f"predicted: {plan.cycles} cycles, of which {plan.border_cycles} at the end of each segment"


def _text(box: Box) -> str:
    return "[" + ", ".join(f"{first}:{last}" for first, last in box) + "]"
