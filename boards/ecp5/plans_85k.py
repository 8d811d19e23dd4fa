"""Floorplans of designs for the ECP5 parts of 84k LUTs, LFE5U-85F and LFE5UM5G-85F."""

from collections.abc import Iterable, Sequence

from .floorplan import MULTIPLIER, RAM, Floorplan, Rule


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
"""Rows of multipliers and block RAMs."""
_LOGIC_ROWS, _LOGIC_COLUMNS = range(2, 94), range(4, 122)
"""But for the rows of blocks; without those at the part's sides."""
_RIGHT = 28
"""The first of the 52 blocks of a row beyond the gap."""


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


def lean_on_85k(asked_hz: float | None = None) -> Floorplan:
    """`small` with half the lanes, of 34 bits, on an LFE5U-85F or LFE5UM5G-85F: a lane has five multipliers and four
    block RAMs. They lie in the middle rows beyond the gap, with room between lanes, whose logic lacks wires side by
    side. Before them lies what VECTOR's issue takes from and leads to: its program, the offsets of its streams, the
    array's way out. Weight memory, which answers into registers, is at the part's sides (decision 0043).
    """
    m34, m58 = _multipliers(34), _multipliers(58)
    r22, r46, r70, r82 = _rams(22), _rams(46), _rams(70), _rams(82)
    lanes = [row[_RIGHT + 14 * place :][:5] for row in (m34, m58) for place in (0, 1)]
    memories = [r46[_RIGHT + 6 * place :][:4] for place in (0, 2, 1, 3)]
    rules = [
        *_element_rules(),
        *_lane_rules(lanes, memories),
        Rule(RAM, f"{_MACHINE}array.fetch.", r46[:8]),
        Rule(RAM, f"{_MACHINE}array.pe_array.partial_sums.", r22[10:18]),
        Rule(RAM, f"{_MACHINE}array.drain.", r22[20:28]),
        Rule(RAM, f"{_MACHINE}wm.", r22[:10] + r22[38:] + r82[44:]),
        Rule(RAM, f"{_MACHINE}am.", r46[8:22] + r70[:30] + r82[:20]),
        Rule(RAM, f"{_MACHINE}vector.program_.", r46[24:_RIGHT] + r22[28:30]),
        Rule(RAM, f"{_MACHINE}vector.streams.offsets.", r46[22:24]),
        Rule(RAM, f"{_MACHINE}control_port.", r22[30:33]),
        Rule(RAM, f"{_MACHINE}store.", r82[20:23]),
        Rule(RAM, "board.bridge.", r22[33:35]),
        Rule(RAM, "board.external.", r82[23:44] + r70[30:], may_be_absent=True),
    ]
    for_each_end = (f"{_MACHINE}array.drain.vectors.r_rdy_", f"{_MACHINE}vector.loops.idle_")
    return Floorplan(tuple(rules), passing_on=_LANES, for_each_end=for_each_end, asked_hz=asked_hz)


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


__all__ = ["lean_on_85k", "small_on_85k", "wide_on_85k"]
