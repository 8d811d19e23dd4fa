"""What is written for a chip, and real Yosys on a design of a few lines."""

import collections

import pytest
from small_library import LIBERTY

from tosaic.boards.silicon.design import Design
from tosaic.boards.silicon.liberty import read_liberty
from tosaic.boards.silicon.memories import MemoryFigures
from tosaic.boards.silicon.report import area_of, clock_of
from tosaic.boards.silicon.synthesis import CellMapping, Sources, simulated, synthesize
from tosaic.boards.silicon.timing import NetlistTiming
from tosaic.hw.memory.macros import MemoryShape

SHAPE = MemoryShape(words=64, bits=32, lanes=4)
TOP = f"""
module tosaic (input wire clk, input wire [5:0] a, input wire go, output wire [31:0] q, output reg parity);
  {SHAPE.name} memory (
    .clk(clk), .read_enable(go), .read_address(a), .read_data(q),
    .write_enable({{4{{parity}}}}), .write_address(a), .write_data({{q[0], q[31:1]}})
  );
  tosaic_unit unit (.a(parity), .b(go), .y(next));
  wire next;
  initial parity = 1;
  always @(posedge clk) parity <= next;
endmodule
"""
UNIT = "module tosaic_unit (input wire a, input wire b, output wire y);\n  assign y = ~(a & b);\nendmodule\n"


@pytest.mark.nightly
@pytest.mark.xdist_group("yosys")
def test_a_design_of_a_few_lines(tmp_path):
    liberty = tmp_path / "few.lib"
    liberty.write_text(LIBERTY)
    library = read_liberty(liberty)
    sources = Sources("tiny", {"tosaic": TOP, "tosaic_unit": UNIT}, (SHAPE,))
    mapping = CellMapping(liberty, library, 10.0)
    steps = []
    netlist = synthesize(sources, mapping, tmp_path, lambda what, done, total: steps.append(what))
    kinds = collections.Counter(each.kind for each in netlist.instances)
    # ABC may strengthen an output by a buffer.
    buffers = kinds.pop("buf", 0)
    assert kinds == {"dff": 1, "nand": 1, SHAPE.name: 1}
    design = Design(netlist, library, MemoryFigures(), sources.memories)
    area = area_of(design)
    assert (area.cells_um2, area.memory_bits) == ({"top": 23.0 + 4.0 * buffers}, 2048)
    # From the memory to itself, 2.5 + 0.1, or through a buffer of 0.3 and its load.
    assert 2.6 <= clock_of(NetlistTiming(design)).period_ns < 2.6 + 0.32 * (buffers > 0) + 1e-6
    text = simulated(sources, library, tmp_path).read_text()
    # The counts of a run are found by the names of nets.
    assert all(name in text and "$" not in name for _, name, _ in netlist.names)
    assert "nand" not in text and f"module {SHAPE.name} (" in text
    assert "create_clock -name clk -period 10 [get_ports clk]" in (tmp_path / "tosaic.sdc").read_text()
    assert not (tmp_path / "cells.lib").exists()
    # The same once more is taken as it is there.
    steps.clear()
    synthesize(sources, mapping, tmp_path, lambda what, done, total: steps.append(what))
    assert steps == ["netlist"]


def test_wrapper_of_a_memory():
    text = SHAPE.verilog()
    assert "module tosaic_memory_64x32_4 (" in text
    assert "input [5:0] read_address" in text and "input [3:0] write_enable" in text
    assert "may return X" in text
