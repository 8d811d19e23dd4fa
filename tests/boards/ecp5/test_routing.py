"""What the router is told: its settings, and the clock that it is asked for."""

import dataclasses
import json

import pytest

from tosaic.boards.catalogue import BOARDS
from tosaic.boards.ecp5.floorplan import Floorplan
from tosaic.boards.ecp5.routing import BY_WIRE_LENGTH, SETTINGS, ask_for, set_router
from tosaic.boards.flow import build_project
from tosaic.boards.project import Project

COUNTER = """\
module top (input wire clk, output wire led);
  reg [11:0] count = 0;
  always @(posedge clk) count <= count + 1;
  assign led = count[11];
endmodule
"""
CONSTRAINTS = 'LOCATE COMP "clk" SITE "G2";\nLOCATE COMP "led" SITE "B2";\n'


@pytest.mark.parametrize(("by_timing", "settings"), [(True, SETTINGS), (False, BY_WIRE_LENGTH)])
def test_settings_are_those_of_the_design(by_timing, settings):
    design = {"modules": {"top": {"settings": {"seed": "1"}}, "other": {}}}
    set_router(design, "top", by_timing)
    assert design["modules"] == {"top": {"settings": {"seed": "1"} | settings}, "other": {}}


def test_the_clock_is_that_of_most_registers():
    register = {"type": "TRELLIS_FF", "connections": {"CLK": [3]}}
    cells = {"a": register, "b": register, "c": {"type": "TRELLIS_FF", "connections": {"CLK": [4]}}}
    cells["d"] = {"type": "LUT4", "connections": {"Z": [4]}}
    names = {"unit.clk": [3], "slow": [4], "core.clk": [3], "both": [3, 4]}
    netnames = {name: {"bits": bits} for name, bits in names.items()}
    design = {"modules": {"top": {"cells": cells, "netnames": netnames}}}
    assert ask_for(design, "top", 68.5e6) == 'FREQUENCY NET "core.clk" 68.5 MHZ;\n'


@pytest.mark.nightly
@pytest.mark.xdist_group("yosys")
def test_nextpnr_takes_the_clock_that_is_asked_for(tmp_path):
    """And what it has to reach is the board's, all the same."""
    board = dataclasses.replace(BOARDS["ulx3s-85f"], floorplan=Floorplan((), asked_hz=60e6))
    project = Project(board, "top", {"top": COUNTER}, {"top.lpf": CONSTRAINTS})
    built = build_project(project, tmp_path, tmp_path / "cache", lambda what, detail: None)
    (clock,) = json.loads((tmp_path / "timing.json").read_text())["fmax"].values()
    assert clock["constraint"] == pytest.approx(60, rel=1e-3)
    assert built.usage.fmax_hz is not None
    assert built.usage.slack_ns == pytest.approx(1e9 / board.clock_hz - 1e9 / built.usage.fmax_hz)
