"""A bar per unit: what it did in how many of the run's cycles."""

import dataclasses
from collections.abc import Sequence

from tosaic.driver.units import UnitFigures

_WIDTH, _LEFT, _BAR, _STEP, _KEY = 1000, 90, 22, 40, 20
MEANINGS = {
    "work": "works",
    "stall": "is held up",
    "wait": "waits for its turn",
    "other": "under way",
    "idle": "idle",
}
"""Meanings of the kinds of shares, which are classes of the style sheet."""
_LABEL_WIDTH = 8
"""Pixels of a character, about."""


@dataclasses.dataclass(frozen=True)
class Bar:
    """A share of a unit's cycles."""

    x: float
    width: float
    kind: str
    tip: str
    label: str
    """What is written on it; "" where there is no room."""


@dataclasses.dataclass(frozen=True)
class UnitBars:
    """What the template draws."""

    width: int
    height: int
    bar: int
    key: list[tuple[int, str, str]]
    """Where, kind, and what it means."""
    rows: list[tuple[int, str, list[Bar]]]
    """Where, the unit's name, and its bars."""


def unit_bars(figures: Sequence[UnitFigures], cycles: int) -> UnitBars | None:
    """`cycles` are the run's. None where nothing was counted."""
    if not figures:
        return None
    key, x = [], _LEFT
    for kind, meaning in MEANINGS.items():
        key.append((x, kind, meaning))
        x += 40 + _LABEL_WIDTH * len(meaning)
    rows = [
        (_KEY + 8 + row * _STEP, unit.unit, _bars(unit, max(cycles, 1))) for row, unit in enumerate(figures)
    ]
    return UnitBars(_WIDTH, _KEY + 8 + _STEP * len(figures), _BAR, key, rows)


def _bars(unit: UnitFigures, cycles: int) -> list[Bar]:
    scale = (_WIDTH - _LEFT - 4) / cycles
    start, bars = float(_LEFT), []
    for share in unit.shares:
        width = share.cycles * scale
        text = f"{share.label} {share.cycles / cycles:.0%}"
        tip = f"{unit.unit}: {share.label}, {share.cycles:,} cycles ({share.cycles / cycles:.1%})"
        if share.kind == "work" and unit.bytes:
            tip += f", {unit.bytes:,} bytes"
        bars.append(Bar(start, width, share.kind, tip, text if width > _LABEL_WIDTH * len(text) else ""))
        start += width
    return bars
