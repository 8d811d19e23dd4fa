"""Where a design's block RAMs and multipliers lie on its part.

These blocks lie in a few rows across the device, and nextpnr's placer takes whichever are free when their turn comes: a
lane's multipliers 60 columns from the lane, wires longer than the logic between them. With the blocks at places given
here, the placer puts the logic around them, in half the time.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence

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
    """Not every design of the board has such cells."""


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


_MACHINE = "board.accelerator."
_LANES = f"{_MACHINE}vector.lanes."
_BLOCK_ROWS = (10, 22, 34, 46, 58, 70, 82)
"""Of multipliers and block RAMs."""
_LOGIC_ROWS, _LOGIC_COLUMNS = range(2, 94), range(4, 122)
"""But for the rows of blocks; without those at the part's sides."""
_RIGHT = 28
"""Of the 52 blocks of a row: beyond the gap."""


def small_on_85k() -> Floorplan:
    """Configuration `small` on an LFE5U-85F or LFE5UM5G-85F: 52 block RAMs in each of rows 22, 46, 70 and 82, 52
    multipliers in each of rows 10, 34 and 58. ARRAY and its memories lie left, VECTOR's lanes right, external memory
    above. The processing elements of a column of the array pass 32-bit sums from one to the next and lie together.
    Around row 58 ARRAY's address generator and fetch need the wires.
    """
    m10, m34, m58 = (_multipliers(row) for row in (10, 34, 58))
    r22, r46, r70, r82 = (_rams(row) for row in (22, 46, 70, 82))
    lanes = [
        row[_RIGHT + 8 * i :][:8]
        for row, places in ((m58, (0, 1, 2)), (m34, (0, 1, 2)), (m10, (1, 2)))
        for i in places
    ]
    near = [(r46, 0), (r46, 1), (r46, 2), (r22, 0), (r22, 1), (r46, 3), (r22, 2), (r22, 3)]
    memories = [row[_RIGHT + 6 * place :][:6] for row, place in near]
    rules = [
        *_array_rules(),
        *_lane_rules(lanes, memories),
        Rule(RAM, f"{_MACHINE}load.decoder.", r82[20:22]),
        Rule(RAM, f"{_MACHINE}control_port.", r82[22:30]),
        Rule(RAM, f"{_MACHINE}vector.streams.offsets.", r70[50:]),
        Rule(RAM, "board.bridge.", r82[30:34]),
        Rule(RAM, "board.external.", r70[_RIGHT:50] + r82[34:], may_be_absent=True),
    ]
    return Floorplan(tuple(rules))


def lean_on_85k() -> Floorplan:
    """`small` with half the lanes, of 34 bits, on an LFE5U-85F or LFE5UM5G-85F: a lane has five multipliers and four
    block RAMs. They lie in the middle rows beyond the gap. Before them lies what VECTOR's issue takes from and leads
    to: its program, the offsets of its streams, the array's way out. Weight memory, which answers into registers, is at
    the part's sides (decision 0043).
    """
    m34, m58 = _multipliers(34), _multipliers(58)
    r22, r46, r70, r82 = _rams(22), _rams(46), _rams(70), _rams(82)
    lanes = [row[_RIGHT + 8 * place :][:5] for row in (m34, m58) for place in (0, 1)]
    memories = [r46[_RIGHT + 4 * place :][:4] for place in (0, 2, 1, 3)]
    rules = [
        *_element_rules(),
        *_lane_rules(lanes, memories),
        Rule(RAM, f"{_MACHINE}array.fetch.", r46[:8]),
        Rule(RAM, f"{_MACHINE}array.pe_array.partial_sums.", r22[10:18]),
        Rule(RAM, f"{_MACHINE}array.drain.", r22[20:28]),
        Rule(RAM, f"{_MACHINE}wm.", r22[:10] + r22[38:] + r46[44:]),
        Rule(RAM, f"{_MACHINE}am.", r46[8:22] + r70[:30] + r82[:20]),
        Rule(RAM, f"{_MACHINE}vector.program_.", r46[24:_RIGHT] + r22[28:30]),
        Rule(RAM, f"{_MACHINE}vector.streams.offsets.", r46[22:24]),
        Rule(RAM, f"{_MACHINE}control_port.", r22[30:33]),
        Rule(RAM, f"{_MACHINE}store.", r82[20:23]),
        Rule(RAM, "board.bridge.", r22[33:35]),
        Rule(RAM, "board.external.", r82[23:46] + r70[30:], may_be_absent=True),
    ]
    for_each_end = (f"{_MACHINE}array.drain.vectors.r_rdy_", f"{_MACHINE}vector.loops.idle_")
    return Floorplan(tuple(rules), passing_on=_LANES, for_each_end=for_each_end)


def wide_on_85k() -> Floorplan:
    """An array of 6 x 16 whose lanes serve four columns each, of 34 bits, on an LFE5UM5G-85F. A column of the array has
    six multipliers, with a block for its weights and one for its partial sums beside them. The four columns of a lane
    share two blocks of delay lines: they lie together, and their blocks in their middle. So the array is in four parts
    with wires of their own, and not all around one place. The lanes lie above right and apart from each other, for
    their logic fills what is between them; activation memory lies below right, the even words above the odd ones.
    Each third row has no logic, for where all of it wants to be there are not enough wires.
    """
    m10, m34, m58 = (_multipliers(row) for row in (10, 34, 58))
    r22, r46, r70, r82 = (_rams(row) for row in (22, 46, 70, 82))
    above, middle, below = (m10, r22), (m34, r46), (m58, r70)
    parts = [
        [(above, place) for place in range(4)],
        [(middle, place) for place in range(4)],
        [(middle, 4), (middle, 5), (below, 4), (below, 5)],
        [(below, place) for place in range(4)],
    ]
    blocks_of = [
        [(row[0][6 * place :][:6], row[1][6 * place :][:6]) for row, place in part] for part in parts
    ]
    columns = [part[number] for number in range(4) for part in blocks_of]
    delays = [r22[10:12], r46[10:12], r46[27:29], r70[10:12]]
    lanes = [m10[34:39], m10[44:49], m34[38:43], m34[46:51]]
    memories = [r22[30:36], r22[42:48], r22[36:42], r46[44:50]]
    left_over = [block for _, blocks in blocks_of[3] for block in blocks[3:] if block not in delays[3]]
    rules = [
        *(
            Rule(MULTIPLIER, f"{_MACHINE}array.pe_array.row_{row}.pe_{column}.", (site,))
            for column, (sites, _) in enumerate(columns)
            for row, site in enumerate(sites)
        ),
        *_lane_rules(lanes, memories),
        Rule(RAM, f"{_MACHINE}wm.", tuple(blocks[1] for _, blocks in columns)),
        Rule(
            RAM,
            f"{_MACHINE}array.pe_array.partial_sums.",
            tuple(blocks[2] for part in blocks_of for _, blocks in part),
        ),
        *(
            Rule(RAM, f"{_MACHINE}array.fetch.delay_line.{group}.0.{part}", (block,))
            for part, blocks in enumerate(delays)
            for group, block in zip(("group_1", "groups"), blocks, strict=True)
        ),
        Rule(RAM, f"{_MACHINE}am.bank0_even.", r70[36:]),
        Rule(RAM, f"{_MACHINE}am.bank0_odd.", r82[36:]),
        Rule(RAM, "board.external.", (*r82[:36], *left_over, *r70[33:35]), may_be_absent=True),
    ]
    return Floorplan(
        tuple(rules), by_timing=False, free_rows=_each_third_row_of_logic(), free_columns=_LOGIC_COLUMNS
    )


def _each_third_row_of_logic() -> tuple[int, ...]:
    return tuple(row for row in _LOGIC_ROWS if row % 3 == 0 and row not in _BLOCK_ROWS)


def _element_rules() -> list[Rule]:
    """The processing elements of an array of 8 x 8."""
    m10, m34, m58 = (_multipliers(row) for row in (10, 34, 58))
    columns = [m34[2:10], m34[10:18], m34[18:26], m58[18:26], m10[:8], m10[8:16], m10[16:24], m10[24:32]]
    return [
        Rule(MULTIPLIER, f"{_MACHINE}array.pe_array.row_{row}.pe_{column}.", (site,))
        for column, sites in enumerate(columns)
        for row, site in enumerate(sites)
    ]


def _array_rules() -> list[Rule]:
    """ARRAY of 8 x 8, its fetch, and the memories it reads."""
    r22, r46, r70, r82 = (_rams(row) for row in (22, 46, 70, 82))
    return [
        *_element_rules(),
        Rule(RAM, f"{_MACHINE}wm.", r22[:_RIGHT] + r46[24:_RIGHT]),
        Rule(RAM, f"{_MACHINE}array.fetch.", r46[:8]),
        Rule(RAM, f"{_MACHINE}am.", r46[8:24] + r70[:_RIGHT] + r82[:20]),
    ]


def _lane_rules(multipliers: Sequence[tuple[str, ...]], memories: Sequence[tuple[str, ...]]) -> list[Rule]:
    return [
        Rule(kind, f"{_LANES}lane_{i}.", sites)
        for kind, of_lanes in ((MULTIPLIER, multipliers), (RAM, memories))
        for i, sites in enumerate(of_lanes)
    ]


__all__ = [
    "MULTIPLIER",
    "RAM",
    "Floorplan",
    "FloorplanError",
    "Rule",
    "lean_on_85k",
    "small_on_85k",
    "wide_on_85k",
]
