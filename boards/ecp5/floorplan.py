"""Where a design's block RAMs and multipliers lie on its part.

These blocks lie in a few rows across the device, and nextpnr's placer takes whichever are free when their turn comes: a
lane's multipliers 60 columns from the lane, wires longer than the logic between them. With the blocks at places given
here, the placer puts the logic around them, in half the time.
"""

import dataclasses
import re

RAM, MULTIPLIER = "DP16KD", "MULT18X18D"


class FloorplanError(Exception):
    """The design does not have what the floorplan places."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """The cells of a kind whose names begin with `prefix` go to `sites`, in the order of their names; those beyond the
    last site are the placer's."""

    kind: str
    prefix: str
    sites: tuple[str, ...]
    may_be_absent: bool = False
    """Whether a design of the board may lack such cells."""


@dataclasses.dataclass(frozen=True)
class Floorplan:
    rules: tuple[Rule, ...]
    passing_on: str | None = None
    """Registers whose names begin so are copied for each place they drive, if they only pass on what they are given
    (fan_out.py)."""
    for_each_end: tuple[str, ...] = ()
    """Beginnings of the names of registers of which each end has a copy (fan_out.py)."""
    by_timing: bool = True
    """Late paths are placed and routed before others. They then give way to no other wire, so that a design which needs
    most of a part's wires is not routed: with False, all wires are as short as they can be, and multipliers take the
    registers of a factor, too."""
    free_rows: tuple[int, ...] = ()
    """Rows without logic in `free_columns`, so that what lies between them has more wires (free_rows.py)."""
    free_columns: range = range(0)
    asked_hz: float | None = None
    """The clock that the router is asked for, above the board's own. What misses it is routed once more, up to 1,500
    times: for a design that is placed so that it can be met."""

    def __post_init__(self) -> None:
        sites = [site for rule in self.rules for site in rule.sites]
        twice = sorted({site for site in sites if sites.count(site) > 1})
        if twice:
            raise ValueError(f"sites may be given out once, not twice: {', '.join(twice)}")

    def place(self, design: dict, top: str) -> int:
        """Give each cell of module `top` of a design, Yosys' JSON, that a rule places the attribute BEL; how many
        these are.

        FloorplanError where a rule finds no cell, or nothing is to be copied: the design's names have changed.
        """
        cells = design["modules"][top]["cells"]
        placed = 0
        for prefix in self.for_each_end:
            if not any(name.startswith(prefix) for name in cells):
                raise FloorplanError(f"the floorplan copies registers of {prefix}, but there is none")
        for rule in self.rules:
            names = [
                name
                for name, cell in cells.items()
                if cell["type"] == rule.kind and name.startswith(rule.prefix)
            ]
            if not names and not rule.may_be_absent:
                raise FloorplanError(
                    f"the floorplan places {rule.kind} cells of {rule.prefix}, but there is none"
                )
            for name, site in zip(sorted(names, key=_by_number), rule.sites, strict=False):
                cells[name]["attributes"]["BEL"] = site
                placed += 1
        return placed


def _by_number(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


__all__ = ["MULTIPLIER", "RAM", "Floorplan", "FloorplanError", "Rule"]
