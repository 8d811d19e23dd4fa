"""LUTs by unit and the longest paths of an ECP5 netlist that Yosys wrote: `python bench/netlist_paths.py top.json`.

A netlist takes minutes, its placement a quarter of an hour. This takes seconds, and tells what placement will struggle
with: delays are those of speed grade 6, and every wire counts the same. LUTs are those of boards/report.py.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

LUTS = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}
COUNTED = {**LUTS, "TRELLIS_FF": 1, "MULT18X18D": 1, "DP16KD": 1}
CLOCK_TO_OUTPUT = {"TRELLIS_FF": 0.52, "DP16KD": 5.6, "TRELLIS_DPR16X4": 0.0}
"""Nanoseconds of what a path begins at. LUT RAM is read by its address like a LUT; what was written is there."""
THROUGH = {"LUT4": 0.24, "PFUMX": 0.2, "L6MUX21": 0.2, "TRELLIS_DPR16X4": 0.24, "MULT18X18D": 3.6}
CARRY_IN, CARRY, CARRY_OUT = 0.45, 0.07, 0.44
"""Nanoseconds of a CCU2C: from an operand to the carry or a sum, from carry to carry, from carry to a sum."""
_NO_WIRE = {("LUT4", "PFUMX"), ("PFUMX", "L6MUX21"), ("L6MUX21", "L6MUX21"), ("CCU2C", "CCU2C")}
"""What lies in one slice, or in its neighbours with a wire of its own."""
_CLOCKS = {"CLK", "CLKA", "CLKB", "WCK"}


@dataclasses.dataclass(frozen=True)
class Hop:
    """The output `port` of `cell`, valid `at` ns after the clock."""

    cell: str
    port: str
    at: float


Cell = Mapping[str, Any]
Cells = Mapping[str, Cell]


def cells_of(path: pathlib.Path, top: str = "top") -> Cells:
    """Returns the cells of Yosys' JSON."""
    cells: Cells = json.loads(path.read_text())["modules"][top]["cells"]
    return cells


def units(cells: Cells, depth: int) -> dict[str, collections.Counter[str]]:
    """Cells by kind, and `LUT` in all, of each part of the hierarchy: the first `depth` names of a cell's name."""
    found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for name, cell in cells.items():
        if cell["type"] in COUNTED:
            unit = ".".join(name.split(".")[:-1][:depth])
            found[unit][cell["type"]] += 1
            found[unit]["LUT"] += LUTS.get(cell["type"], 0)
    return dict(found)


class Paths:
    """The netlist with a time for each output. `wire` is what every connection costs, in ns."""

    def __init__(self, cells: Cells, wire: float):
        self._cells, self._wire = cells, wire
        self._drivers = {
            bit: (name, port)
            for name, cell in cells.items()
            for port, bits in cell["connections"].items()
            for bit in bits
            if cell["port_directions"][port] == "output" and not isinstance(bit, str)
        }
        self._from: dict[tuple[str, str], tuple[str, str] | None] = {}
        self._at: dict[tuple[str, str], float] = {}
        for driver in self._drivers.values():
            self._time(driver)

    def ends(self) -> Iterator[tuple[float, str, str]]:
        """(ns, cell, port) of each input at which a path ends, the wire before it included."""
        for name, cell in self._cells.items():
            if self._begins(cell):
                ports = [
                    port for port in self._inputs(cell) if cell["type"] != "TRELLIS_DPR16X4" or port != "RAD"
                ]
                arrivals = [
                    (self._arrival(name, bit), port) for port in ports for bit in cell["connections"][port]
                ]
                if arrivals:
                    yield max(arrivals)[0], name, max(arrivals)[1]

    def path_to(self, name: str, port: str) -> list[Hop]:
        """What leads to an input of a cell, from the register on."""
        bits = [bit for bit in self._cells[name]["connections"][port] if bit in self._drivers]
        place: tuple[str, str] | None = self._drivers[max(bits, key=lambda bit: self._arrival(name, bit))]
        hops = []
        while place is not None:
            hops.append(Hop(*place, self._at[place]))
            place = self._from[place]
        return hops[::-1]

    def _begins(self, cell: Cell) -> bool:
        return cell["type"] in CLOCK_TO_OUTPUT or cell["type"] not in (*THROUGH, "CCU2C")

    def _inputs(self, cell: Cell) -> list[str]:
        return [
            port for port, way in cell["port_directions"].items() if way == "input" and port not in _CLOCKS
        ]

    def _arrival(self, name: str, bit: int | str) -> float:
        driver = self._drivers.get(bit)  # type: ignore[arg-type]
        if driver is None:
            return 0.0
        kinds = self._cells[driver[0]]["type"], self._cells[name]["type"]
        free = kinds in _NO_WIRE and (kinds[0] != "CCU2C" or driver[1] == "COUT")
        return self._at[driver] + (0 if free else self._wire)

    def _time(self, place: tuple[str, str]) -> None:
        """Sets the time of an output, after those of all it depends on."""
        stack = [place]
        while stack:
            here = stack[-1]
            waits = [before for before, _, _ in self._before(here) if before not in self._at]
            if waits:
                stack += waits
                continue
            stack.pop()
            if here in self._at:
                continue
            cell = self._cells[here[0]]
            self._at[here], self._from[here] = CLOCK_TO_OUTPUT.get(cell["type"], 0.0), None
            for before, bit, delay in self._before(here):
                at = self._arrival(here[0], bit) + delay
                if at > self._at[here]:
                    self._at[here], self._from[here] = at, before

    def _before(self, place: tuple[str, str]) -> Iterator[tuple[tuple[str, str], int, float]]:
        """The outputs that an output depends on in the same cycle: (output, bit, delay of the cell)."""
        cell, output = self._cells[place[0]], place[1]
        kind = cell["type"]
        if self._begins(cell) and kind != "TRELLIS_DPR16X4":
            return
        for port in self._inputs(cell) if kind != "TRELLIS_DPR16X4" else ["RAD"]:
            delay = THROUGH.get(kind, CARRY_IN)
            if kind == "CCU2C" and port == "CIN":
                delay = CARRY if output == "COUT" else CARRY_OUT
            elif kind == "CCU2C" and output == "S0" and port.endswith("1"):
                continue
            for bit in cell["connections"][port]:
                if bit in self._drivers:
                    yield self._drivers[bit], bit, delay


def worst(paths: Paths, depth: int) -> list[tuple[float, str, str, list[Hop]]]:
    """(ns, cell, port, hops) of the longest path between each pair of units, the longest first."""
    found: dict[tuple[str, str], tuple[float, str, str, list[Hop]]] = {}
    for at, name, port in sorted(paths.ends(), reverse=True)[:20_000]:
        if at <= 0:
            break
        hops = paths.path_to(name, port)
        pair = tuple(".".join(cell.split(".")[:depth]) for cell in (hops[0].cell, name))
        found.setdefault(pair, (at, name, port, hops))  # type: ignore[arg-type]
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("netlist", type=pathlib.Path)
    parser.add_argument("--top", default="top")
    parser.add_argument("--wire", type=float, default=0.9, help="ns of a connection")
    parser.add_argument("--depth", type=int, default=3, help="names of the hierarchy that make a unit")
    parser.add_argument("--paths", type=int, default=20)
    parser.add_argument("--hops", action="store_true", help="every cell of a path")
    chosen = parser.parse_args()
    cells = cells_of(chosen.netlist, chosen.top)
    kinds = ("LUT", "LUT4", "CCU2C", "TRELLIS_DPR16X4", "TRELLIS_FF", "MULT18X18D", "DP16KD")
    print(f"{'':60}" + "".join(f"{kind[-9:]:>10}" for kind in kinds))
    found = units(cells, chosen.depth)
    for unit, counts in sorted(found.items(), key=lambda item: -item[1]["LUT"]):
        print(f"{unit[-60:]:60}" + "".join(f"{counts[kind]:>10}" for kind in kinds))
    total = sum(found.values(), collections.Counter())
    print(f"{'all':60}" + "".join(f"{total[kind]:>10}" for kind in kinds))
    for at, name, port, hops in worst(Paths(cells, chosen.wire), chosen.depth + 1)[: chosen.paths]:
        print(f"{at:6.1f} ns, {len(hops)} cells: {hops[0].cell}\n          -> {name} {port}")
        for hop in hops if chosen.hops else ():
            print(f"          {hop.at:6.1f} {cells[hop.cell]['type']:12} {hop.cell} {hop.port}")


if __name__ == "__main__":
    main()
