"""Where the dots of an exploration's picture are: LUTs across, cycles up, both logarithmic."""

import dataclasses
import math
import pathlib
from collections.abc import Sequence

from .point import Point

WIDTH, HEIGHT, LEFT, BELOW, TOP, RIGHT = 900, 420, 90, 48, 40, 24
"""Pixels of the picture and its margins."""
_TICKS = 4


@dataclasses.dataclass(frozen=True)
class Dot:
    """One point of the exploration; `colour` counts the memories' bandwidths."""

    x: float
    y: float
    label: str
    colour: int
    on_front: bool
    best: bool


@dataclasses.dataclass(frozen=True)
class Tick:
    """A line of the frame, at `place` of its axis."""

    place: float
    value: int


@dataclasses.dataclass(frozen=True)
class Picture:
    """Dots of the front come last, above the others. `lines` join the front's dots of one bandwidth."""

    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    dots: tuple[Dot, ...]
    lines: tuple[tuple[int, str], ...]
    """Colour, and the points of an SVG polyline."""
    bandwidths: tuple[int, ...]

    width, height, left, below, top, right = WIDTH, HEIGHT, LEFT, BELOW, TOP, RIGHT


def picture_of(points: Sequence[Point], front: Sequence[Point], best: Point | None) -> Picture | None:
    """Draws the points; returns None where there is none."""
    if not points:
        return None
    luts, cycles = (
        _LogarithmicAxis([each.area.lut for each in points]),
        _LogarithmicAxis([each.score for each in points]),
    )
    bandwidths = sorted({each.bandwidth for each in points})

    def dot(point: Point, on_front: bool) -> Dot:
        colour = bandwidths.index(point.bandwidth)
        x, y = _x(luts.share(point.area.lut)), _y(cycles.share(point.score))
        return Dot(x, y, _label(point), colour, on_front, point is best)

    first = set(map(id, front))
    dots = [dot(each, id(each) in first) for each in points]
    lines = []
    for colour in range(len(bandwidths)):
        own = [dot(each, True) for each in front if each.bandwidth == bandwidths[colour]]
        if len(own) > 1:
            lines.append((colour, " ".join(f"{each.x:.1f},{each.y:.1f}" for each in own)))
    return Picture(
        across=tuple(Tick(_x(luts.share(tick)), tick) for tick in luts.ticks()),
        up=tuple(Tick(_y(cycles.share(tick)), tick) for tick in cycles.ticks()),
        dots=tuple(sorted(dots, key=lambda each: each.on_front)),
        lines=tuple(lines),
        bandwidths=tuple(bandwidths),
    )


def _x(share: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * share


def _y(share: float) -> float:
    return HEIGHT - BELOW - (HEIGHT - BELOW - TOP) * share


def _label(point: Point) -> str:
    cycles = ", ".join(f"{pathlib.Path(name).parent.name or name}: {c:,}" for name, c in point.cycles.items())
    return f"{point.config.name}, {point.bandwidth} B/cycle: {point.area.lut:,} LUTs; cycles {cycles}"


class _LogarithmicAxis:
    """A logarithmic axis over some values."""

    def __init__(self, values: Sequence[float]):
        low, high = min(values), max(values)
        self.low, self.high = low * 0.9, high * 1.1

    def share(self, value: float) -> float:
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[int]:
        """Round numbers, as many as there is room for."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
            ticks = [round(step * 10**power) for power in powers for step in steps]
            found = [tick for tick in ticks if self.low <= tick <= self.high]
            if len(found) >= _TICKS:
                break
        return found
