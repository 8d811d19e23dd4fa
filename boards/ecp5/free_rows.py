"""Rows of a part without logic, whose wires serve the rows beside them.

nextpnr's placer fills seven tenths of a place before it takes the next one, and has no setting for it. A design that
takes a third of a part is then a lump in the middle, where wires run out while the rest of the part has them to spare.
LUTs without a wire, one on each place of some rows, leave the placer no choice but to spread: all wires are longer, and
fewer of them want to be in one place.
"""

from collections.abc import Iterable
from typing import Any

_SLICES = "ABCD"
_LUTS_OF_SLICE = 2
_INPUTS = ("A", "B", "C", "D")


def keep_free(design: dict[str, Any], top: str, rows: Iterable[int], columns: Iterable[int]) -> int:
    """Fill the tiles of `rows` and `columns` in module `top` of a design, Yosys' JSON, with LUTs that do nothing; how
    many these are. All of these tiles must be of logic, in nextpnr's numbers.
    """
    cells: dict[str, dict[str, Any]] = design["modules"][top]["cells"]
    before, columns = len(cells), tuple(columns)
    for row in rows:
        for column in columns:
            for letter in _SLICES:
                for place in range(_LUTS_OF_SLICE):
                    site = f"X{column}/Y{row}/SLICE{letter}.K{place}"
                    cells[f"kept_free_{column}_{row}_{letter}{place}"] = _idle_lut(site)
    return len(cells) - before


def _idle_lut(site: str) -> dict[str, Any]:
    return {
        "hide_name": 1,
        "type": "LUT4",
        "parameters": {"INIT": "0" * 16},
        "attributes": {"BEL": site},
        "port_directions": dict.fromkeys(_INPUTS, "input") | {"Z": "output"},
        "connections": {},
    }


__all__ = ["keep_free"]
