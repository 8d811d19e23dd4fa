"""Blocks go where a floorplan says, and nextpnr takes its names for these places."""

import dataclasses

import pytest

from tosaic.boards.catalogue import BOARDS
from tosaic.boards.ecp5.floorplan import MULTIPLIER, RAM, Floorplan, FloorplanError, Rule
from tosaic.boards.ecp5.plans_85k import lean_on_85k, small_on_85k, wide_on_85k
from tosaic.boards.flow import build_project
from tosaic.boards.project import Project
from tosaic.boards.tools import ToolError

BLOCKS = """\
module top (input wire clk, input wire in, output reg led);
  reg [17:0] words [0:1023];
  reg [9:0] address = 0;
  reg [17:0] word, a, b;
  reg [35:0] product;
  always @(posedge clk) begin
    address <= address + 1;
    words[address] <= {word[16:0], in};
    word <= words[address ^ 10'h155];
    a <= word;
    b <= a;
    product <= a * b;
    led <= ^product;
  end
endmodule
"""
CONSTRAINTS = (
    'LOCATE COMP "clk" SITE "G2";\nLOCATE COMP "led" SITE "B2";\nLOCATE COMP "in" SITE "R1";\n'
    'FREQUENCY PORT "clk" 25000000.0 HZ;\n'
)


def test_names_are_placed_in_the_order_of_their_numbers():
    cells = {
        name: {"type": kind, "attributes": {}}
        for name, kind in {
            "a.words.0.10": RAM,
            "a.words.0.9": RAM,
            "a.words.1.0": RAM,
            "a.product": MULTIPLIER,
            "b.words.0.0": RAM,
        }.items()
    }
    plan = Floorplan((Rule(RAM, "a.", ("X1/Y1/EBR0", "X2/Y1/EBR1")),))
    assert plan.place({"modules": {"top": {"cells": cells}}}, "top") == 2
    assert {name: cell["attributes"].get("BEL") for name, cell in cells.items()} == {
        "a.words.0.10": "X2/Y1/EBR1",
        "a.words.0.9": "X1/Y1/EBR0",
        "a.words.1.0": None,
        "a.product": None,
        "b.words.0.0": None,
    }


def test_errors():
    plan = Floorplan((Rule(RAM, "am.", ("X1/Y1/EBR0",)),))
    with pytest.raises(
        FloorplanError, match=r"^the floorplan places DP16KD cells of am\., but there is none$"
    ):
        plan.place({"modules": {"top": {"cells": {}}}}, "top")
    plan = Floorplan((), for_each_end=("sums_",))
    with pytest.raises(FloorplanError, match=r"^the floorplan copies registers of sums_, but there is none$"):
        plan.place({"modules": {"top": {"cells": {"sums": {}}}}}, "top")
    assert plan.place({"modules": {"top": {"cells": {"sums_1": {"type": "TRELLIS_FF"}}}}}, "top") == 0
    with pytest.raises(ValueError, match=r"^sites may be given out once, not twice: X1/Y1/EBR0$"):
        Floorplan((Rule(RAM, "am.", ("X1/Y1/EBR0",)), Rule(RAM, "wm.", ("X1/Y1/EBR0",))))


def test_places_are_those_of_the_part():
    sites = [site for rule in small_on_85k().rules for site in rule.sites]
    rams = [site for site in sites if "/EBR" in site]
    # What nextpnr calls the first and the last block RAM of a row, and the two beside the gap.
    assert {"X4/Y22/EBR0", "X64/Y46/EBR3", "X69/Y46/EBR0", "X120/Y70/EBR3"} <= set(rams)
    assert len(rams) <= 208 and len(sites) - len(rams) <= 156
    assert {"X58/Y34/MULT18_0", "X69/Y34/MULT18_0", "X106/Y58/MULT18_1"} <= set(sites) - set(rams)


@pytest.mark.parametrize("on_85k", [small_on_85k, lean_on_85k, wide_on_85k])
def test_memory_on_the_chip_has_places_of_its_own(on_85k):
    (rule,) = (rule for rule in on_85k().rules if rule.may_be_absent)
    assert (rule.kind, rule.prefix) == (RAM, "board.external.")
    # 80 KiB in blocks of 2 KiB.
    assert len(rule.sites) >= 40
    assert Floorplan((rule,)).place({"modules": {"top": {"cells": {}}}}, "top") == 0


@pytest.mark.nightly
@pytest.mark.xdist_group("yosys")
def test_nextpnr_places_and_routes_blocks_there(tmp_path):
    plan = Floorplan(
        (Rule(RAM, "word", ("X120/Y82/EBR3",)), Rule(MULTIPLIER, "product", ("X119/Y58/MULT18_5",)))
    )
    board = dataclasses.replace(BOARDS["ulx3s-85f"], floorplan=plan)
    project = Project(board, "top", {"top": BLOCKS}, {"top.lpf": CONSTRAINTS})
    told: list[tuple[str, str]] = []
    built = build_project(
        project, tmp_path, tmp_path / "cache", lambda what, detail: told.append((what, detail))
    )
    assert ("floorplan", "2 blocks, 0 copies of drivers") in told
    assert built.bitstream is not None and built.usage.dsp == 1
    config = (tmp_path / "top.config").read_text()
    assert ".tile_group MIB_R82C120:" in config and ".tile_group MIB_R70C" not in config

    nowhere = dataclasses.replace(board, floorplan=Floorplan((Rule(RAM, "sums", ("X4/Y22/EBR0",)),)))
    with pytest.raises(ToolError, match="^the floorplan places DP16KD cells of sums, but there is none$"):
        build_project(
            Project(nowhere, "top", {"top": BLOCKS}, {"top.lpf": CONSTRAINTS}),
            tmp_path,
            tmp_path / "cache",
            lambda what, detail: None,
        )


@pytest.mark.nightly
@pytest.mark.xdist_group("yosys")
def test_nextpnr_keeps_rows_free_and_nobody_counts_them(tmp_path):
    wide = wide_on_85k()
    usages = []
    # Two rows: without some thousand cells beside them the placer does not end.
    for rows in ((), wide.free_rows[:2]):
        plan = Floorplan((), free_rows=rows, free_columns=wide.free_columns)
        board = dataclasses.replace(BOARDS["ulx3s-85f"], floorplan=plan)
        project = Project(board, "top", {"top": BLOCKS}, {"top.lpf": CONSTRAINTS})
        built = build_project(project, tmp_path, tmp_path / "cache", lambda what, detail: None)
        assert built.bitstream is not None
        usages.append(dataclasses.replace(built.usage, fmax_hz=None, slack_ns=None))
        assert ("kept_free" in (tmp_path / "netlist.json").read_text()) is bool(rows)
    assert usages[0] == usages[1]
