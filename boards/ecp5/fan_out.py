"""Copies of drivers whose wires go all over a part, one for each neighbourhood of what they drive.

A signal that enables 500 registers is a wire as long as the part: 10 ns of a cycle, whatever the logic before it takes.
Yosys has one driver for it, and nextpnr makes no copies. Where a floorplan places blocks, it is known before placement
about where all other cells will lie: between the blocks that they are connected with. What a driver drives is parted by
that into neighbourhoods, each of which gets a copy of the LUT or register; and what drives many copies is copied, too.

Where the floorplan says so, a register with fewer ends is copied, too, if they lie far from each other and it only
passes on what another register or a block RAM has: its copies cost no LUT, and what comes to it has the time of a whole
cycle to go to all of them. And what drives only blocks, whose places are known, is copied where these lie far apart.
A floorplan can name registers that two units wait for: each end has its own one, beside it.
"""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from .neighbourhoods import neighbourhoods, places
from .wires import REGISTER, Cells, Wires

MOST_ENDS = 112
"""What one driver drives at most."""
MOST_SPAN = 10.0
"""Columns or rows between the ends of one register that only passes on what another one has, where they count."""
MOST_BLOCK_SPAN = 48.0
"""Columns or rows between the blocks that one driver drives, if it drives nothing else."""
_PASSED_ON = (REGISTER, "DP16KD")
_ALWAYS = "1 "
"""CEMUX of a register without an enable, as Yosys writes it."""
_COPIED = {"LUT4": "Z", REGISTER: "Q"}
"""Kinds of drivers, each with its output."""


def copy_drivers(
    design: dict[str, Any],
    top: str,
    most_ends: int = MOST_ENDS,
    passing_on: str | None = None,
    most_span: float = MOST_SPAN,
    most_block_span: float = MOST_BLOCK_SPAN,
    for_each_end: tuple[str, ...] = (),
) -> int:
    """Change module `top` of a design, Yosys' JSON, some of whose cells have places; how many copies it got.

    `passing_on`: registers that only pass on what another one or a block RAM has, and whose names begin so, have no
    ends further than `most_span` columns or rows from each other. What drives only cells with places has none further
    than `most_block_span`. Each end of a register whose name begins with one of `for_each_end` has its own copy.
    """
    module = design["modules"][top]
    cells: Cells = module["cells"]
    wires = Wires(cells)
    at = places(cells, wires)
    outside = {bit for port in module["ports"].values() for bit in port["bits"]}
    free = wires.next_net()
    before = len(cells)

    def give_copies(net: int, parts: list[np.ndarray]) -> None:
        """The driver of `net` keeps the ends of the first part; each other one gets a copy."""
        nonlocal free
        name, port = wires.driver[net]
        ends = wires.ends[net]
        for part in parts[1:]:
            twin, twin_name = copy.deepcopy(cells[name]), f"{name}_copy{len(cells)}"
            twin["connections"][port] = [free]
            for index in part:
                end, where, place = ends[index]
                cells[end]["connections"][where][place] = free
            at[twin_name] = np.mean([at[ends[index][0]] for index in part], axis=0)
            cells[twin_name] = twin
            wires.add(twin_name, twin)
            wires.ends[free] = [ends[index] for index in part]
            free += 1
        wires.ends[net] = [ends[index] for index in parts[0]]

    def places_of(net: int) -> np.ndarray:
        return np.array([at[end] for end, _, _ in wires.ends[net]])

    for net in list(_of_blocks(cells, wires, outside)):
        give_copies(net, neighbourhoods(places_of(net), most_ends, most_block_span))
    for net in list(_named(cells, wires, outside, for_each_end)):
        give_copies(net, [np.array([index]) for index in range(len(wires.ends[net]))])
    if passing_on is not None:
        for net in list(_passed_on(cells, wires, outside, passing_on)):
            give_copies(net, neighbourhoods(places_of(net), most_ends, most_span))
    while wide := list(_wide(cells, wires, outside, most_ends)):
        for net in wide:
            give_copies(net, neighbourhoods(places_of(net), most_ends))
    return len(cells) - before


def _wide(cells: Cells, wires: Wires, outside: set[int], most_ends: int) -> Iterator[int]:
    """Nets with too many ends, whose drivers can be copied."""
    for net, (name, port) in wires.driver.items():
        if len(wires.ends[net]) > most_ends and net not in outside:
            if _COPIED.get(cells[name]["type"]) == port:
                yield net


def _of_blocks(cells: Cells, wires: Wires, outside: set[int]) -> Iterator[int]:
    """Nets that go to cells with places alone, and whose drivers can be copied."""
    for net, (name, port) in wires.driver.items():
        ends = wires.ends[net]
        if ends and net not in outside and _COPIED.get(cells[name]["type"]) == port:
            if all("BEL" in cells[end]["attributes"] for end, _, _ in ends):
                yield net


def _named(cells: Cells, wires: Wires, outside: set[int], prefixes: tuple[str, ...]) -> Iterator[int]:
    """Nets of registers whose names begin with one of these."""
    for net, (name, _) in wires.driver.items():
        if cells[name]["type"] == REGISTER and net not in outside and name.startswith(prefixes):
            yield net


def _passed_on(cells: Cells, wires: Wires, outside: set[int], prefix: str) -> Iterator[int]:
    """Nets of registers of this name that take, in every cycle, what another register or a block RAM has."""
    for net, (name, _) in wires.driver.items():
        cell = cells[name]
        if cell["type"] != REGISTER or net in outside or not wires.ends[net] or not name.startswith(prefix):
            continue
        always = cell["parameters"].get("CEMUX") == _ALWAYS
        if always and _driver_type(cells, wires, cell, "DI") in _PASSED_ON:
            yield net


def _driver_type(cells: Cells, wires: Wires, cell: dict[str, Any], port: str) -> str | None:
    """Returns the type of the cell that drives an input of one bit; None for a constant or a port."""
    driver = wires.driver.get(cell["connections"][port][0])
    return cells[driver[0]]["type"] if driver else None


__all__ = ["MOST_BLOCK_SPAN", "MOST_ENDS", "MOST_SPAN", "copy_drivers"]
