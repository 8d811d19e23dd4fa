"""What all pages show alike: cards of figures, columns of tables, and how quantities are written."""

import math
from typing import NamedTuple


class Card(NamedTuple):
    """A figure at the head of a page."""

    title: str
    value: str
    note: str = ""
    good: bool | None = None
    """Whether it is shown in green, in red, or (None) in neither."""


class Column(NamedTuple):
    """A column of a table that sorts."""

    title: str
    number: bool = False
    """Says that the cells are numbers: they are on the right, and the largest comes first."""
    wide: bool = False
    """Left out on a phone."""
    tip: str = ""


def bytes_shown(count: int) -> str:
    """A number of bytes in the largest unit that leaves one digit before the point."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}" if count % unit else f"{count // unit} {name}"
    return f"{count} B"


def share_shown(part: float, whole: float) -> str:
    """A part of a whole in percent; one below half a percent is not 0 %."""
    if not part:
        return "0 %"
    share = part / max(whole, 1)
    return "< 1 %" if share < 0.005 else f"{share * 100:.0f} %"


def decibels(value: float) -> str:
    """A ratio for people."""
    return "exact" if value == math.inf else f"{value:.1f} dB"
