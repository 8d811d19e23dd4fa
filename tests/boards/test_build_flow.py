"""`tosaic build`'s steps on designs of a few cells, its report, its cache."""

import dataclasses
import json
from pathlib import Path

import pytest

from tosaic.boards.board import Family
from tosaic.boards.catalogue import BOARDS
from tosaic.boards.ecp5.floorplan import RAM, Floorplan, Rule
from tosaic.boards.ecp5.routing import SETTINGS
from tosaic.boards.flow import build_project
from tosaic.boards.project import Project
from tosaic.boards.report import Usage, parse_stat, usage_of_cells, usage_table, with_timing
from tosaic.boards.tools import _ENTRIES, ToolError, run_tool

IMITATED = {
    "yosys": "yosys",
    "nextpnr-ecp5": "nextpnr",
    "ecppack": "ecppack",
    "nextpnr-ice40": "nextpnr",
    "icepack": "icepack",
    "nextpnr-himbaechel-gowin": "nextpnr",
    "gowin_pack": "gowin_pack",
}
"""The functions of imitated_tools.py by the tools."""


def imitate(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setattr("tosaic.boards.tools._TICK_SECONDS", 0.01)
    for tool, entry in IMITATED.items():
        package, *_ = _ENTRIES[tool]
        monkeypatch.setitem(_ENTRIES, tool, (package, "imitated_tools", entry))


@pytest.fixture(
    params=["imitated", pytest.param("real", marks=[pytest.mark.nightly, pytest.mark.xdist_group("yosys")])]
)
def tools(request, monkeypatch):
    """The real tools take a minute for their first start on a machine: one process of the nightly run does it."""
    if request.param == "imitated":
        imitate(monkeypatch)


COUNTER = """\
module top (input wire clk, output wire led);
  reg [19:0] count = 0;
  always @(posedge clk) count <= count + 1;
  assign led = count[19];
endmodule
"""
CONSTRAINTS = {
    "icebreaker": ("top.pcf", "set_io clk 35\nset_io led 11\nset_frequency clk 12.0\n"),
    "tang-nano-20k": ("top.cst", 'IO_LOC "clk" 4;\nIO_LOC "led" 15;\n'),
    "ulx3s-85f": (
        "top.lpf",
        'LOCATE COMP "clk" SITE "G2";\nLOCATE COMP "led" SITE "B2";\nFREQUENCY PORT "clk" 25000000.0 HZ;\n',
    ),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_counter_becomes_a_bitstream_once(name, tools, tmp_path):
    file, text = CONSTRAINTS[name]
    board = dataclasses.replace(BOARDS[name], floorplan=None)
    steps = ["synthesis", "place-and-route", "pack"]
    project = Project(board, "top", {"top": COUNTER}, {file: text})
    told: list[tuple[str, str]] = []
    first = tmp_path / "first"
    first.mkdir()
    built = build_project(
        project, first, tmp_path / "cache", lambda what, detail: told.append((what, detail))
    )
    assert built.fits and built.bitstream is not None
    assert built.usage.ff == 20
    assert built.usage.fmax_hz is not None and built.usage.fmax_hz > 12e6
    assert built.usage.slack_ns is not None and built.usage.slack_ns > 0
    assert list(dict.fromkeys(what for what, _ in told)) == steps
    assert all(detail != "from the cache" for _, detail in told)

    told.clear()
    second = tmp_path / "second"
    second.mkdir()
    again = build_project(
        project, second, tmp_path / "cache", lambda what, detail: told.append((what, detail))
    )
    assert told == [(what, "from the cache") for what in steps]
    assert again.usage == built.usage
    assert again.bitstream is not None
    assert again.bitstream.read_bytes() == built.bitstream.read_bytes()


@pytest.mark.parametrize(("parts", "logic"), [((), "None"), (("block_ram",), "scratchpad -set abc9.D 5000")])
def test_logic_may_be_slower_where_the_board_says_so(parts, logic, monkeypatch, tmp_path):
    imitate(monkeypatch)
    board = dataclasses.replace(BOARDS["ulx3s-85f"].with_parts(*parts), floorplan=None)
    file, text = CONSTRAINTS["ulx3s-85f"]
    project = Project(board, "top", {"top": COUNTER}, {file: text})
    build_project(project, tmp_path, tmp_path / "cache", lambda what, detail: None)
    assert logic in (tmp_path / "synthesis.log").read_text().splitlines()


def test_what_does_not_fit_is_not_placed(tools, tmp_path):
    small = dataclasses.replace(
        BOARDS["icebreaker"], capacity=dataclasses.replace(BOARDS["icebreaker"].capacity, ff=19)
    )
    project = Project(small, "top", {"top": COUNTER}, {"top.pcf": ""})
    built = build_project(project, tmp_path, tmp_path / "cache", lambda what, detail: None)
    assert (built.fits, built.bitstream) == (False, None)


def test_a_tool_that_fails_is_one_line(tools, tmp_path):
    with pytest.raises(ToolError) as caught:
        run_tool("yosys", ("-p", "synth_nothing"), tmp_path, tmp_path / "log.log", lambda detail: None)
    assert str(caught.value).startswith("yosys failed: ERROR: No such command: synth_nothing")
    assert str(caught.value).endswith("(all it said is in log.log)")


def test_what_a_tool_has_not_written_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr("tosaic.boards.flow.run_tool", lambda *arguments: None)
    project = Project(BOARDS["icebreaker"], "top", {"top": COUNTER}, {"top.pcf": ""})
    with pytest.raises(
        ToolError, match=r"^yosys has not written top\.json; what it said is in synthesis\.log$"
    ):
        build_project(project, tmp_path, tmp_path / "cache", lambda what, detail: None)


def test_blocks_with_a_place_and_the_router_s_settings_reach_nextpnr(tmp_path, monkeypatch):
    told, plan = [], Floorplan((Rule(RAM, "word", ("X120/Y82/EBR3",)),))
    board = dataclasses.replace(BOARDS["ulx3s-85f"], floorplan=plan)
    imitate(monkeypatch)
    text = COUNTER.replace("reg [19:0]", "reg [17:0] word; reg [19:0]")
    project = Project(board, "top", {"top": text}, dict([CONSTRAINTS["ulx3s-85f"]]))
    built = build_project(
        project, tmp_path, tmp_path / "cache", lambda what, detail: told.append((what, detail)), seed=7
    )
    assert ("floorplan", "1 blocks, 0 copies of drivers") in told and built.usage.ram_kbit == 18
    design = json.loads((tmp_path / "netlist.json").read_text())["modules"]["top"]
    assert design["cells"]["word"]["attributes"] == {"BEL": "X120/Y82/EBR3"}
    assert design["settings"] == SETTINGS
    assert (tmp_path / "top.config").read_text() == "seed 7\n"
    nowhere = dataclasses.replace(board, floorplan=Floorplan((Rule(RAM, "sums", ("X4/Y22/EBR0",)),)))
    with pytest.raises(ToolError, match="^the floorplan places DP16KD cells of sums, but there is none$"):
        build_project(
            dataclasses.replace(project, board=nowhere),
            tmp_path,
            tmp_path / "cache",
            lambda what, detail: None,
        )


def test_usage_of_each_family():
    ecp5 = {"LUT4": 10, "CCU2C": 3, "TRELLIS_DPR16X4": 2, "TRELLIS_FF": 7, "MULT18X18D": 1, "DP16KD": 2}
    assert usage_of_cells(ecp5, Family.ECP5) == Usage(28, 7, 1, 36)
    ice40 = {"SB_LUT4": 10, "SB_CARRY": 3, "SB_DFFESR": 4, "SB_DFF": 1, "SB_MAC16": 2, "SB_RAM40_4K": 1}
    assert usage_of_cells(ice40, Family.ICE40) == Usage(10, 5, 2, 4)
    gowin = {
        "LUT1": 2,
        "LUT4": 3,
        "ALU": 4,
        "RAM16SDP4": 1,
        "MUX2_LUT5": 7,
        "DFFRE": 5,
        "DFF": 1,
        "MULT18X18": 2,
    }
    gowin |= {"SP": 1, "SPX9": 1, "SDPX9B": 1, "DPX9B": 1}
    assert usage_of_cells(gowin, Family.GOWIN) == Usage(17, 6, 2, 72)
    xilinx = {"LUT6": 5, "LUT2": 1, "RAM32M": 1, "FDRE": 3, "DSP48E1": 2, "RAMB36E1": 1, "RAMB18E1": 1}
    assert usage_of_cells(xilinx, Family.XILINX7) == Usage(10, 3, 2, 54)
    intel = {
        "MISTRAL_ALUT2": 3,
        "MISTRAL_ALUT6": 2,
        "MISTRAL_ALUT_ARITH": 5,
        "MISTRAL_MLAB": 4,
        "MISTRAL_FF": 7,
    }
    intel |= {"MISTRAL_MUL18X18": 3, "MISTRAL_MUL9X9": 4, "MISTRAL_M10K": 2, "MISTRAL_NOT": 9}
    # Two products of 18 bits, or three of 9, in a block.
    assert usage_of_cells(intel, Family.CYCLONE5) == Usage(16, 7, 3, 20)


def test_the_worst_clock_counts():
    report = '{"fmax": {"a": {"achieved": 60.0, "constraint": 50.0}, "b": {"achieved": 100.0, "constraint": 125.0}}}'
    timed = with_timing(Usage(1, 1, 1, 1), report)
    assert timed.fmax_hz == 100e6
    assert timed.slack_ns == pytest.approx(-2.0)
    table = usage_table(BOARDS["ulx3s-85f"], timed, routed=True)
    assert table.splitlines()[-1] == "Fmax 100.0 MHz, slack -2.00 ns at 50 MHz"


def test_what_is_used_is_a_bar():
    """What is there at all shows, and what does not fit is marked."""
    table = usage_table(BOARDS["ulx3s-85f"], Usage(41_820, 1, 0, 7488), routed=True)
    assert table.splitlines()[1:] == [
        "LUT            41,820   83,640  █████░░░░░  50%",
        "flip-flops          1   83,640  █░░░░░░░░░   0%",
        "multipliers         0      156  ░░░░░░░░░░   0%",
        "RAM, kbit       7,488    3,744  ██████████ 200%!",
    ]


def test_a_clock_need_not_be_as_fast_as_the_router_was_asked_for():
    """What nextpnr says that it was asked for has a period of whole picoseconds."""
    report = '{"fmax": {"a": {"achieved": 68.0, "constraint": 69.0036}}}'
    timed = with_timing(Usage(1, 1, 1, 1), report, {69.0: 50.0})
    assert (timed.fmax_hz, timed.slack_ns) == (68e6, pytest.approx(20 - 1e3 / 68))


def test_stat_counts():
    text = '{"design": {"num_cells_by_type": {"LUT4": 3, "$scopeinfo": 1}}}'
    assert parse_stat(text) == {"LUT4": 3, "scopeinfo": 1}
