"""What drives what in a module of a netlist, Yosys' JSON, and where nextpnr is told to put a cell."""

import collections
import re
from typing import Any

Cells = dict[str, dict[str, Any]]
End = tuple[str, str, int]
"""Cell, port, and place in the port."""
REGISTER = "TRELLIS_FF"
"""The kind of a flip-flop's cell."""
_SITE = re.compile(r"X(\d+)/Y(\d+)/")


def site_of(cell: dict[str, Any]) -> tuple[int, int] | None:
    """Column and row of a cell that has a place; None if the placer chooses it."""
    site = _SITE.match(cell["attributes"].get("BEL", ""))
    return (int(site[1]), int(site[2])) if site else None


class Wires:
    """What drives each net of a module, and what the net drives."""

    def __init__(self, cells: Cells):
        self.driver: dict[int, tuple[str, str]] = {}
        self.ends = collections.defaultdict[int, list[End]](list)
        for name, cell in cells.items():
            self.add(name, cell)

    def add(self, name: str, cell: dict[str, Any]) -> None:
        """A cell is there, too."""
        for port, bits in cell["connections"].items():
            for place, bit in enumerate(bits):
                if not isinstance(bit, int):
                    continue  # a constant
                if cell["port_directions"][port] == "output":
                    self.driver[bit] = name, port
                else:
                    self.ends[bit].append((name, port, place))

    def next_net(self) -> int:
        """A number that no net has."""
        return 1 + max((bit for nets in (self.driver, self.ends) for bit in nets), default=0)


__all__ = ["REGISTER", "Cells", "End", "Wires", "site_of"]
