"""Where a design's block RAMs and multipliers lie on its part.

These blocks lie in a few rows across the device, and nextpnr's placer takes whichever are free when their turn comes: a
lane's multipliers 60 columns from the lane, wires longer than the logic between them. With the blocks at places given
here, the placer puts the logic around them, in half the time.
"""

import dataclasses
import re
from collections.abc import Iterable

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


@dataclasses.dataclass(frozen=True)
class Floorplan:
    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        sites = [site for rule in self.rules for site in rule.sites]
        twice = sorted({site for site in sites if sites.count(site) > 1})
        if twice:
            raise ValueError(f"sites may be given out once, not twice: {', '.join(twice)}")

    def place(self, design: dict, top: str) -> int:
        """Give each cell of module `top` of a design, Yosys' JSON, that a rule places the attribute BEL; how many
        these are.

        FloorplanError where a rule finds no cell: the design's names have changed.
        """
        cells = design["modules"][top]["cells"]
        placed = 0
        for rule in self.rules:
            names = [
                name
                for name, cell in cells.items()
                if cell["type"] == rule.kind and name.startswith(rule.prefix)
            ]
            if not names:
                raise FloorplanError(
                    f"the floorplan places {rule.kind} cells of {rule.prefix}, but there is none"
                )
            for name, site in zip(sorted(names, key=_by_number), rule.sites, strict=False):
                cells[name]["attributes"]["BEL"] = site
                placed += 1
        return placed


def _by_number(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _columns(offsets: Iterable[int]) -> tuple[int, ...]:
    """Blocks come in groups of four, every nine columns; a column of other things lies before the eighth."""
    return tuple(
        4 + 9 * group + offset + (2 if group >= 7 else 0) for group in range(13) for offset in offsets
    )


def _rams(row: int) -> tuple[str, ...]:
    return tuple(f"X{x}/Y{row}/EBR{i % 4}" for i, x in enumerate(_columns((0, 2, 4, 6))))


def _multipliers(row: int) -> tuple[str, ...]:
    numbers = (0, 1, 4, 5)
    return tuple(f"X{x}/Y{row}/MULT18_{numbers[i % 4]}" for i, x in enumerate(_columns(numbers)))


def small_on_85k(*, on_chip_memory: bool) -> Floorplan:
    """Configuration `small` on an LFE5U-85F or LFE5UM5G-85F: 52 block RAMs in each of rows 22, 46, 70 and 82, 52
    multipliers in each of rows 10, 34 and 58. ARRAY and its memories lie left, VECTOR's lanes right, external memory
    above. The processing elements of a column of the array pass 32-bit sums from one to the next and lie together.
    Around row 58 ARRAY's address generator and fetch need the wires.

    `on_chip_memory`: whether external memory is made of block RAM.
    """
    machine = "board.accelerator."
    m10, m34, m58 = (_multipliers(row) for row in (10, 34, 58))
    r22, r46, r70, r82 = (_rams(row) for row in (22, 46, 70, 82))
    right = 28  # of 52: beyond the gap
    columns = [m34[2:10], m34[10:18], m34[18:26], m58[18:26], m10[:8], m10[8:16], m10[16:24], m10[24:32]]
    lanes = [
        row[right + 8 * i :][:8]
        for row, places in ((m58, (0, 1, 2)), (m34, (0, 1, 2)), (m10, (1, 2)))
        for i in places
    ]
    near = [(r46, 0), (r46, 1), (r46, 2), (r22, 0), (r22, 1), (r46, 3), (r22, 2), (r22, 3)]
    memories = [row[right + 6 * place :][:6] for row, place in near]
    rules = [
        Rule(MULTIPLIER, f"{machine}array.pe_array.row_{row}.pe_{column}.", (site,))
        for column, sites in enumerate(columns)
        for row, site in enumerate(sites)
    ]
    rules += [Rule(MULTIPLIER, f"{machine}vector.lanes.lane_{i}.", sites) for i, sites in enumerate(lanes)]
    rules += [Rule(RAM, f"{machine}vector.lanes.lane_{i}.", sites) for i, sites in enumerate(memories)]
    rules += [
        Rule(RAM, f"{machine}wm.", r22[:right] + r46[24:right]),
        Rule(RAM, f"{machine}array.fetch.", r46[:8]),
        Rule(RAM, f"{machine}am.", r46[8:24] + r70[:right] + r82[:20]),
        Rule(RAM, f"{machine}load.decoder.", r82[20:22]),
        Rule(RAM, f"{machine}control_port.", r82[22:30]),
        Rule(RAM, f"{machine}vector.streams.offsets.", r70[50:]),
        Rule(RAM, "board.bridge.", r82[30:34]),
    ]
    if on_chip_memory:
        rules.append(Rule(RAM, "board.external.", r70[right:50] + r82[34:]))
    return Floorplan(tuple(rules))


__all__ = ["MULTIPLIER", "RAM", "Floorplan", "FloorplanError", "Rule", "small_on_85k"]
