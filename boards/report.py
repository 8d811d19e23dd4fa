"""What a design takes of a part, and how fast it is."""

import dataclasses
import json
import math
import re
from collections.abc import Mapping

from .board import Board, Family

_RAM_KBIT = {
    "DP16KD": 18.0,
    "PDPW16KD": 18.0,
    "SB_RAM40": 4.0,
    "SB_SPRAM256KA": 256.0,
    "RAMB36": 36.0,
    "RAMB18": 18.0,
    "URAM288": 288.0,
    "MISTRAL_M10K": 10.0,
    "SP": 18.0,
    "SDP": 18.0,
    "DPB": 18.0,
    "DPX9": 18.0,
    "pROM": 18.0,
}
"""Size of RAM blocks by the beginning of their cell's name."""
_LUTS = {
    Family.ECP5: {"LUT4": 1.0, "CCU2C": 2.0, "TRELLIS_DPR16X4": 6.0},
    Family.ICE40: {"SB_LUT4": 1.0},
    Family.GOWIN: {"LUT1": 1.0, "LUT2": 1.0, "LUT3": 1.0, "LUT4": 1.0, "ALU": 1.0, "RAM16SDP4": 8.0},
}
"""LUT4s a cell takes, as nextpnr counts: a distributed RAM of ECP5 has four for its bits and two for its write port,
one of Gowin the whole of its tile."""
_MISTRAL_LUTS = {f"MISTRAL_ALUT{inputs}": 1 for inputs in range(2, 6)} | {
    "MISTRAL_ALUT6": 2,
    "MISTRAL_ALUT_ARITH": 1,
    "MISTRAL_MLAB": 1,
}
"""LUTs of Cyclone V, two to a module, by the cell's name: one of six inputs takes a module, and a block of 20 bits of
distributed RAM takes ten."""
_DSPS = {
    "MULT18X18": 1,
    "SB_MAC16": 1,
    "DSP48": 1,
    "MISTRAL_MUL27X27": 1,
    "MISTRAL_MUL18X18": 2,
    "MISTRAL_MUL9X9": 3,
}
"""Multipliers by the beginning of their cell's name: how many a block has."""
_FFS = ("TRELLIS_FF", "SB_DFF", "DFF", "FDRE", "FDSE", "FDCE", "FDPE", "MISTRAL_FF")


_BAR_COLUMNS = 10


@dataclasses.dataclass(frozen=True)
class Usage:
    """LUTs (four inputs on ECP5, iCE40 and Gowin, six on Xilinx), flip-flops, multiplier blocks, block RAM.

    `fmax_hz` and `slack_ns` are None where nothing was routed."""

    lut: int
    ff: int
    dsp: int
    ram_kbit: int
    fmax_hz: float | None = None
    slack_ns: float | None = None

    def fits(self, board: Board) -> bool:
        """Whether the part has as much."""
        room = board.capacity
        return (
            self.lut <= room.lut
            and self.ff <= room.ff
            and self.dsp <= room.dsp
            and self.ram_kbit <= room.ram_kbit
        )


def usage_of_cells(cells: Mapping[str, int], family: Family) -> Usage:
    """Returns the usage from the number of cells of each type."""
    if family in _LUTS:
        lut = sum(_LUTS[family].get(name, 0.0) * count for name, count in cells.items())
        if family is Family.ICE40:
            # A carry shares its cell with the LUT of the sum; the others are counted by nextpnr.
            lut = max(lut, cells.get("SB_CARRY", 0))
    elif family is Family.CYCLONE5:
        lut = sum(_MISTRAL_LUTS.get(name, 0) * count for name, count in cells.items())
    else:
        lut = sum(_xilinx_luts(name) * count for name, count in cells.items())
    return Usage(
        lut=round(lut),
        ff=sum(count for name, count in cells.items() if name.startswith(_FFS)),
        dsp=math.ceil(
            sum(
                count / share
                for name, count in cells.items()
                for begin, share in _DSPS.items()
                if name.startswith(begin)
            )
        ),
        ram_kbit=round(
            sum(
                size * count
                for name, count in cells.items()
                for begin, size in _RAM_KBIT.items()
                if name.startswith(begin)
            )
        ),
    )


def _xilinx_luts(name: str) -> float:
    if re.fullmatch(r"LUT[1-6]", name):
        return 1.0
    # Distributed RAM: LUTs by the cell's width.
    sizes = {"RAM32M16": 8.0, "RAM32M": 4.0, "RAM64M8": 8.0, "RAM64M": 4.0, "RAM64X1D": 2.0, "RAM128X1D": 4.0}
    return sizes.get(name, 1.0 if name.startswith("SRL") else 0.0)


def parse_stat(text: str) -> dict[str, int]:
    """Cell counts of `stat -json`, of the whole design."""
    page = json.loads(text)
    cells = page["design"]["num_cells_by_type"]
    return {name.removeprefix("$"): int(count) for name, count in cells.items()}


def with_timing(usage: Usage, report: str, needed_mhz: Mapping[float, float] = {}) -> Usage:
    """Returns `usage` with the worst clock of nextpnr's JSON report.

    `needed_mhz`: what a clock has to reach, by what nextpnr was asked for, where that is another one."""
    clocks = [
        (clock["achieved"], _needed(clock["constraint"], needed_mhz))
        for clock in json.loads(report)["fmax"].values()
    ]
    if not clocks:
        return usage
    achieved, needed = min(clocks, key=lambda clock: clock[0] / clock[1])
    return dataclasses.replace(usage, fmax_hz=achieved * 1e6, slack_ns=1e3 / needed - 1e3 / achieved)


def _needed(asked: float, needed_mhz: Mapping[float, float]) -> float:
    """nextpnr has periods in whole picoseconds, and so not quite what it was asked for."""
    return next((own for other, own in needed_mhz.items() if math.isclose(asked, other, rel_tol=1e-3)), asked)


def fit_bar(used: int, there: int) -> str:
    """What is used of what there is, as a bar and in percent; what does not fit fills the bar and is marked."""
    share = used / there if there else float(bool(used))
    full = min(math.ceil(share * _BAR_COLUMNS), _BAR_COLUMNS)
    return f"{'█' * full}{'░' * (_BAR_COLUMNS - full)} {share:>4.0%}{'!' if share > 1 else ''}"


def usage_table(board: Board, usage: Usage, *, routed: bool) -> str:
    """Lines for people."""
    room = board.capacity
    rows = [
        ("LUT", usage.lut, room.lut),
        ("flip-flops", usage.ff, room.ff),
        ("multipliers", usage.dsp, room.dsp),
        ("RAM, kbit", usage.ram_kbit, room.ram_kbit),
    ]
    lines = [f"{'':12} {'used':>8} {'of':>8}"]
    lines += [f"{name:12} {used:>8,} {there:>8,}  {fit_bar(used, there)}" for name, used, there in rows]
    if usage.fmax_hz is not None and usage.slack_ns is not None:
        lines.append(
            f"Fmax {usage.fmax_hz / 1e6:.1f} MHz, slack {usage.slack_ns:+.2f} ns at {board.clock_hz / 1e6:g} MHz"
        )
    elif not routed:
        lines.append("an estimate after synthesis; the vendor's tools place and route")
    return "\n".join(lines)
