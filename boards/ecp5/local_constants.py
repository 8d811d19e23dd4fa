"""Constants that multiplier blocks take come from beside them.

nextpnr brings the constants of a block's control inputs (signed, source, enable, reset) from one place of the part to
all blocks, over wires that others need. A LUT without inputs beside the blocks spares them.
"""

import re
from typing import Any

from .multipliers import KIND
from .wires import Cells, Wires, site_of

_CONTROL = re.compile(r"SIGNED[AB]|SOURCE[AB]|CE\d|RST\d")
"""Inputs whose constants are wires; nextpnr makes those of factors at the block."""
_GROUP_COLUMNS = 9
"""Columns of four blocks, which share a driver."""


def place_constants(design: dict[str, Any], top: str) -> int:
    """Change module `top` of a design, Yosys' JSON, whose multipliers have places; how many LUTs it got."""
    module = design["modules"][top]
    cells: Cells = module["cells"]
    free = Wires(cells).next_net()
    nets = dict[tuple[int, int, str], int]()
    for cell in list(cells.values()):
        site = site_of(cell) if cell["type"] == KIND else None
        if site is None:
            continue
        column, row = site
        for port, bits in cell["connections"].items():
            if bits in (["0"], ["1"]) and _CONTROL.fullmatch(port):
                key = row, column // _GROUP_COLUMNS, bits[0]
                if key not in nets:
                    nets[key] = free
                    cells[f"constant_{key[2]}_{row}_{key[1]}"] = _constant(bits[0], free)
                    free += 1
                cell["connections"][port] = [nets[key]]
    return len(nets)


def _constant(bit: str, net: int) -> dict[str, Any]:
    inputs = "ABCD"
    return {
        "hide_name": 0,
        "type": "LUT4",
        "parameters": {"INIT": bit * 16},
        "attributes": {},
        "port_directions": dict.fromkeys(inputs, "input") | {"Z": "output"},
        "connections": {name: ["0"] for name in inputs} | {"Z": [net]},
    }


__all__ = ["place_constants"]
