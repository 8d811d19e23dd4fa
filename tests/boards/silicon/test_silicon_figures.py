"""Area, clock and energy of netlists that are small enough to add up by hand."""

import dataclasses
import re

import pytest
from small_library import LIBERTY

from tosaic.boards.silicon.design import Design, Tree, tree
from tosaic.boards.silicon.energy import Activity, RunEnergy
from tosaic.boards.silicon.functions import with_functions
from tosaic.boards.silicon.liberty import LibertyError, read_liberty
from tosaic.boards.silicon.memories import MemoryFigures
from tosaic.boards.silicon.netlist import FlatNetlist
from tosaic.boards.silicon.report import area_of, clock_of
from tosaic.boards.silicon.timing import NetlistTiming
from tosaic.hw.memory.macros import MemoryShape

MEMORY = MemoryShape(words=64, bits=32, lanes=4)
SAID = MemoryFigures(
    um2_per_bit=2.0, read_pj_per_bit=1.0, write_pj_per_bit=3.0, idle_pj_per_bit=0.5, clock_to_output_ns=4.0
)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("liberty") / "few.lib"
    path.write_text(LIBERTY)
    return read_liberty(path)


def cell(kind, **pins):
    """A cell of Yosys' JSON; a pin is a bit or a list of bits."""
    return {"type": kind, "connections": {k: v if isinstance(v, list) else [v] for k, v in pins.items()}}


def module(ports, cells, **nets):
    """A module of Yosys' JSON: `ports` are (direction, bits) by name."""
    described = {name: {"direction": way, "bits": bits} for name, (way, bits) in ports.items()}
    names = {name: bits for name, (_, bits) in ports.items()} | nets
    return {
        "attributes": {},
        "ports": described,
        "cells": cells,
        "netnames": {name: {"bits": bits} for name, bits in names.items()},
    }


def design_of(library, modules, shapes=()):
    return Design(FlatNetlist.of_yosys(modules, "top"), library, SAID, shapes)


def ring(**more):
    """A flip-flop whose output comes back through a NAND with an input and an inverter in a unit of its own."""
    unit = module({"a": ("input", [2]), "y": ("output", [3])}, {"not": cell("inv", A=2, Y=3)})
    core = module(
        {"clk": ("input", [2]), "go": ("input", [3]), "q": ("output", [4])},
        {
            "state": cell("dff", CK=2, D=6, Q=4),
            "and": cell("nand", A=4, B=3, Y=5),
            "turn": cell("unit", a=5, y=6),
        },
        n=[5],
        d=[6],
    )
    top = module(
        {"clk": ("input", [2]), "go": ("input", [3]), "q": ("output", [4])},
        {"accelerator": cell("core", clk=2, go=3, q=4)},
    )
    return {"top": top, "core": core, "unit": unit} | more


def test_least_period_of_a_ring(library):
    timing = NetlistTiming(design_of(library, ring()))
    # Rising D: Q rises 0.5 + load 0.002, the NAND falls 0.2 + 0.002, the inverter rises 0.2 + 0.002, setup 0.1: 1.006.
    # Falling D: 0.6 + 0.002, 0.4 + 0.002, 0.1 + 0.002, setup 0.2: 1.306.
    clock = clock_of(timing)
    assert clock.period_ns == pytest.approx(1.306)
    start, end, cells = clock.paths[0]
    assert (start, end.unit, cells, end.place) == ("top", "top", 3, "q[0].D")
    assert [(hop.kind, hop.place) for hop in timing.path(end)] == [
        ("dff", "q[0]"),
        ("nand", "accelerator.n[0]"),
        ("inv", "accelerator.d[0]"),
    ]


def test_area_and_energy_of_a_ring(library):
    design = design_of(library, ring())
    area = area_of(design)
    assert area.cells_um2 == {"top": 23.0, "turn": 2.0}
    assert (area.cells, area.registers, area.gate_um2) == (3, 1, 3.0)
    changes = {((), "q"): {0: 10}, (("accelerator",), "n"): {0: 6}, (("accelerator",), "d"): {0: 4}}
    energy = RunEnergy(design, Activity(100, changes, {}))
    # Each cycle: both edges in the flip-flop (0.06) and its clock pin at 2 V (0.004 * 4).
    assert energy.total.clock == pytest.approx(100 * (0.06 + 0.016))
    # Each change: the mean of the cell's edges, and half of C V^2.
    assert energy.units["turn"].logic == pytest.approx(4 * (0.02 + 0.002 * 2))
    assert energy.units["top"].logic == pytest.approx(10 * (0.05 + 0.002 * 2) + 6 * (0.02 + 0.002 * 2))
    assert energy.total.leakage_nw == 9.0
    # 9 nW for 100 cycles at 1 MHz: 0.9 pJ.
    whole = energy.total.clock + energy.total.logic + 0.9
    assert energy.total.of(100, 1e6) == pytest.approx(whole)
    # The input `go` has no name in the counts.
    assert energy.unseen == 1


def test_nets_that_a_run_on_the_rtl_does_not_name(library):
    """A NAND of two inputs that know nothing of each other: 1 and 1 in a quarter of the cycles, and in the next one
    again in 0.45 * 0.4 of all, so it falls in 7 of 100 and rises as often. What follows does the same."""
    design = design_of(library, ring())
    activity = Activity(
        100, {((), "q"): {0: 10}, ((), "go"): {0: 20}}, {((), "q"): {0: 50}, ((), "go"): {0: 50}}
    )
    energy = RunEnergy(design, activity, is_rtl=True)
    assert energy.units["turn"].logic == pytest.approx(14 * (0.02 + 0.002 * 2))
    assert energy.units["top"].logic == pytest.approx(10 * (0.05 + 0.002 * 2) + 14 * (0.02 + 0.002 * 2))
    assert energy.unseen == 2


def test_a_register_that_nobody_counted(library):
    """It does what its input does, and the NAND with an input that is 1 does the same."""
    design = design_of(library, ring())
    known = (("accelerator",), "d"), ((), "go")
    activity = Activity(100, {known[0]: {0: 4}, known[1]: {0: 0}}, {known[0]: {0: 50}, known[1]: {0: 100}})
    energy = RunEnergy(design, activity, is_rtl=True)
    assert energy.units["turn"].logic == pytest.approx(4 * (0.02 + 0.002 * 2))
    assert energy.units["top"].logic == pytest.approx(4 * (0.05 + 0.002 * 2) + 4 * (0.02 + 0.002 * 2))
    assert energy.unseen == 2


def test_a_memory_is_stated(library):
    pins = {"clk": 2, "read_enable": 3, "write_enable": [3, 3, 3, 5], "read_address": [6] * 6}
    pins |= {"write_address": [6] * 6, "write_data": [6] * 32, "read_data": list(range(10, 42))}
    ports = {"clk": ("input", [2]), "r": ("input", [3]), "w": ("input", [5]), "x": ("input", [6])}
    top = module(
        {**ports, "y": ("output", [50])},
        {"am": cell(MEMORY.name, **pins), "not": cell("inv", A=10, Y=50)},
        out=list(range(10, 42)),
    )
    box = {**module({}, {}), "attributes": {"blackbox": 1}}
    design = design_of(library, {"top": top, MEMORY.name: box}, (MEMORY,))
    area = area_of(design)
    assert (area.memories, area.memory_bits, area.memories_um2) == ({MEMORY.name: 1}, 2048, 4096.0)
    # The memory's output falls at 4.0, then the inverter: 0.2 rising, without load.
    assert clock_of(NetlistTiming(design)).period_ns == pytest.approx(4.2)
    energy = RunEnergy(design, Activity(10, {}, {((), "r"): {0: 4}, ((), "w"): {0: 6}}))
    # 4 words read; 3 lanes written in 4 cycles and one in 6; 6 cycles without a read, 4 without a write.
    expected = 4 * 32 * 1.0 + (3 * 4 + 6) * 8 * 3.0 + (6 + 4) * 32 * 0.5
    assert energy.total.memory == pytest.approx(expected)
    assert [(use.reads, use.bits_written) for use in energy.memories] == [(4, 144)]


@pytest.mark.parametrize(
    "loads, expected", [(8, Tree(0, 0, 0)), (9, Tree(1, 2, 2)), (64, Tree(1, 8, 8)), (65, Tree(2, 11, 2))]
)
def test_tree_of_buffers(loads, expected):
    assert tree(loads, 8) == expected


def test_a_large_net_has_a_tree_of_buffers(library):
    cells = {f"i{number}": cell("inv", A=3, Y=10 + number) for number in range(20)}
    top = module({"clk": ("input", [2]), "a": ("input", [3])}, cells, y=list(range(10, 30)))
    design = design_of(library, {"top": top})
    assert design.tree(0).buffers == 0 and design.tree(1) == Tree(1, 3, 3)
    assert area_of(design).buffers == 3
    # Three buffers of 0.002 pF, not 20 inputs.
    assert design.driver_load_pf(1) == pytest.approx(0.006)


def test_constants_and_nets_that_lead_through_a_module(library):
    through = module({"a": ("input", [2]), "b": ("output", [2]), "one": ("output", ["1"])}, {})
    top = module(
        {"clk": ("input", [2]), "a": ("input", [3]), "y": ("output", [6])},
        {"t": cell("through", a=3, b=4, one=5), "and": cell("nand", A=4, B=5, Y=6)},
        b=[4],
        one=[5],
    )
    netlist = FlatNetlist.of_yosys({"top": top, "through": through}, "top")
    (gate,) = netlist.instances
    assert gate.pins == {"A": netlist.inputs["a"], "B": (None,), "Y": netlist.outputs["y"]}


def test_logic_in_a_loop_is_refused(library):
    top = module({"clk": ("input", [2])}, {"u": cell("inv", A=3, Y=4), "v": cell("inv", A=4, Y=3)}, n=[3, 4])
    with pytest.raises(
        LibertyError, match=r"^logic goes in a loop through [uv]: such a netlist has no latest path$"
    ):
        NetlistTiming(design_of(library, {"top": top}))


def test_a_cell_that_the_library_has_not(library):
    top = module({"clk": ("input", [2])}, {"u": cell("magic", A=2)})
    with pytest.raises(LibertyError, match="^the netlist has a cell magic, which few_cells has not$"):
        design_of(library, {"top": top})


def test_level_shifters_are_not_for_logic(library):
    assert library.cells["shifter"].special and library.buffer(0.03).name == "buf"


@pytest.mark.parametrize("text", ["", "library (x) { cell (a) {", "module a; endmodule", 'library ("x") { }'])
def test_what_is_no_liberty_file(tmp_path, text):
    path = tmp_path / "no.lib"
    path.write_text(text)
    with pytest.raises(LibertyError, match=r"no\.lib is not a Liberty file with cells \(library"):
        read_liberty(path)


def test_cells_become_their_functions(library):
    netlist = """module top(a, clk, y);
  input a;
  wire \\n.0 ;
  nand u1 (
    .A(a),
    .B(1'h1),
    .Y(\\n.0 )
  );
  dff \\q_reg[0]  (
    .CK(clk),
    .D(\\n.0 ),
    .Q(y[0])
  );
  other u2 (
    .A(a)
  );
endmodule
"""
    text = " ".join(with_functions(netlist, library).split())
    assert "assign \\n.0 = ~(a & 1'h1 );" in text
    assert re.search(r"reg (\w+); always @\(posedge clk\) \1 <= \\n\.0 ; assign y\[0\] = \1 ;", text)
    assert "other u2 ( .A(a) );" in text


@pytest.mark.parametrize(
    "function, expected",
    [
        ("A B + C'", "assign y = ((A & B ) | ~C );"),
        ("(A^B)' * !C", "assign y = (~(A ^ B ) & ~C );"),
        ("A | B & C ^ 1", "assign y = (A | ((B & C ) ^ 1'b1));"),
    ],
)
def test_functions_in_the_words_of_liberty(library, function, expected):
    cells = {"gate": dataclasses.replace(library.cells["inv"], name="gate", function={"Y": function})}
    netlist = "  gate u (\n    .A(A),\n    .B(B),\n    .C(C),\n    .Y(y)\n  );\n"
    text = with_functions(netlist, dataclasses.replace(library, cells=cells))
    assert " ".join(text.split()) == " ".join(expected.replace("(", "( ").split()).replace("( ", "(")
