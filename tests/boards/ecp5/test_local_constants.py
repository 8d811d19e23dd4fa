"""Blocks have their constants from a LUT beside them, and the same constants as before."""

import copy

from tosaic.boards.ecp5.local_constants import place_constants
from tosaic.boards.ecp5.multipliers import KIND

CONTROL = {
    "SIGNEDA": ["1"],
    "SIGNEDB": ["1"],
    "SOURCEA": ["0"],
    "SOURCEB": ["0"],
    "CE0": ["1"],
    "RST0": ["0"],
}


def block(site: str | None) -> dict:
    connections = CONTROL | {"A0": ["0"], "A1": [3], "B0": ["1"], "CLK0": [4], "P0": [5]}
    return {
        "type": KIND,
        "attributes": {} if site is None else {"BEL": site},
        "parameters": {},
        "connections": copy.deepcopy(connections),
        "port_directions": dict.fromkeys(connections, "input") | {"P0": "output"},
    }


def design_of(sites: list[str | None]) -> dict:
    return {"modules": {"top": {"cells": {f"block_{i}": block(site) for i, site in enumerate(sites)}}}}


def constant_of(cells: dict, net: int) -> str:
    (driver,) = [
        cell for cell in cells.values() if cell["type"] == "LUT4" and cell["connections"]["Z"] == [net]
    ]
    assert all(driver["connections"][name] == ["0"] for name in "ABCD")
    (bit,) = set(driver["parameters"]["INIT"])
    return bit


def test_each_group_has_its_own():
    """Four blocks in nine columns of a row share two LUTs; the next columns, or another row, have others."""
    design = design_of(["X4/Y10/MULT18_0", "X5/Y10/MULT18_1", "X13/Y10/MULT18_0", "X4/Y34/MULT18_0"])
    assert place_constants(design, "top") == 6
    cells = design["modules"]["top"]["cells"]
    drivers = []
    for number in range(4):
        wires = cells[f"block_{number}"]["connections"]
        for port, (value,) in CONTROL.items():
            assert constant_of(cells, wires[port][0]) == value
        drivers.append({wires[port][0] for port in CONTROL})
        assert (wires["A0"], wires["A1"], wires["B0"], wires["CLK0"]) == (["0"], [3], ["1"], [4])
    assert drivers[0] == drivers[1]
    assert len(set().union(*drivers)) == 6
    assert min(net for group in drivers for net in group) > 5


def test_what_has_no_place_stays():
    design = design_of([None])
    before = copy.deepcopy(design)
    assert place_constants(design, "top") == 0
    assert design == before
