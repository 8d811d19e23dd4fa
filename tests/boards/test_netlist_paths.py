"""Times of a small netlist, added up by hand."""

import importlib.util
import json
import pathlib

import pytest

_SPEC = importlib.util.spec_from_file_location(
    "netlist_paths", pathlib.Path(__file__).parents[2] / "bench/netlist_paths.py"
)
assert _SPEC is not None and _SPEC.loader is not None
netlist_paths = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(netlist_paths)


def cell(kind, inputs, outputs):
    return {
        "type": kind,
        "connections": {**inputs, **outputs},
        "port_directions": dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output"),
    }


NETLIST = {
    "top.a.register": cell("TRELLIS_FF", {"CLK": [1], "DI": [9]}, {"Q": [2]}),
    "top.a.gate": cell("LUT4", {"A": [2], "B": ["0"]}, {"Z": [3]}),
    "top.a.mux": cell("PFUMX", {"ALUT": [3]}, {"Z": [4]}),
    "top.b.low": cell("CCU2C", {"CIN": ["0"], "A0": [4], "A1": [2]}, {"S0": [5], "COUT": [6]}),
    "top.b.high": cell("CCU2C", {"CIN": [6], "A0": [2]}, {"S0": [7], "COUT": [8]}),
    "top.b.register": cell("TRELLIS_FF", {"CLK": [1], "DI": [7]}, {"Q": [9]}),
    "top.b.ram": cell("TRELLIS_DPR16X4", {"WCK": [1], "DI": [9], "RAD": [9]}, {"DO": [10]}),
    "top.c.block": cell("DP16KD", {"CLKA": [1], "ADA": [10]}, {"DOA": [11]}),
}


def test_luts_by_unit():
    found = netlist_paths.units(NETLIST, 2)
    assert {unit: counts["LUT"] for unit, counts in found.items()} == {"top.a": 1, "top.b": 10, "top.c": 0}
    assert found["top.b"] == {"CCU2C": 2, "TRELLIS_FF": 1, "TRELLIS_DPR16X4": 1, "LUT": 10}


def test_a_wire_costs_but_not_to_the_next_cell_of_a_chain():
    paths = netlist_paths.Paths(NETLIST, 1.0)
    ends = {(name, port): at for at, name, port in paths.ends()}
    # 0.52 of the register, 1 + 0.24 to the gate's output, 0.2 of PFUMX, 1 + 0.45 to the carry, 0.44 to the sum, 1.
    assert ends["top.b.register", "DI"] == pytest.approx(0.52 + 1.24 + 0.2 + 1.45 + 0.44 + 1)
    # From the register through LUT RAM, by its address, to the block.
    assert ends["top.c.block", "ADA"] == pytest.approx(0.52 + 1.24 + 1)
    assert ends["top.b.ram", "DI"] == pytest.approx(0.52 + 1)


def test_a_path_from_its_register_on():
    hops = netlist_paths.Paths(NETLIST, 1.0).path_to("top.b.register", "DI")
    assert [(hop.cell, hop.port) for hop in hops] == [
        ("top.a.register", "Q"),
        ("top.a.gate", "Z"),
        ("top.a.mux", "Z"),
        ("top.b.low", "COUT"),
        ("top.b.high", "S0"),
    ]


def test_the_longest_path_between_each_pair_of_units():
    paths = netlist_paths.worst(netlist_paths.Paths(NETLIST, 1.0), 2)
    assert [(hops[0].cell, name, port) for _, name, port, hops in paths] == [
        ("top.a.register", "top.b.register", "DI"),
        ("top.b.register", "top.c.block", "ADA"),
        ("top.b.register", "top.b.ram", "DI"),
        ("top.b.register", "top.a.register", "DI"),
    ]


def test_cells_of_a_file(tmp_path):
    file = tmp_path / "top.json"
    file.write_text(json.dumps({"modules": {"top": {"cells": NETLIST}}}))
    assert netlist_paths.cells_of(file) == NETLIST
